"""What a schema cannot say: each rule with an entry that breaks it and one that does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.answers import expected_passes_own_check
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.validation import _passes_of_itself
from tests.core.test_files import ANSWER, CODING, FILE, TOOL, TOOLS, WINDOW, changed, load, only


def problems(entry: dict[str, Any]) -> list[str]:
    loaded = load([entry])
    assert bool(loaded.scenarios) == (not loaded.problems)
    return [str(p).split(f'entry "{p.entry_id}": ', 1)[1] for p in loaded.problems]


class TestAnswers:
    def test_an_expected_answer_that_its_own_check_rejects(self) -> None:
        (text,) = problems(changed(ANSWER, expected_answer="6"))
        assert text.startswith('field "expected_answer": its own check rejects it: ')
        (text,) = problems(
            {"id": "n", "prompt": "x", "check_type": "numeric", "expected_answer": "many"}
        )
        assert 'field "expected_answer"' in text

    def test_the_expected_answer_of_a_regex_must_match_or_shorten_a_pattern(self) -> None:
        entry = changed(ANSWER, check_type="regex", expected_answer="box 1 oranges")
        assert problems(changed(entry, accepted_patterns=["box 1 (?:holds )?oranges"])) == []
        assert problems(changed(entry, accepted_patterns=["(?i)box 1: .* oranges$"])) == []
        assert problems(changed(entry, accepted_patterns=["box 1 holds apples"])) != []

    @pytest.mark.parametrize("check_type", ["final_answer", "regex"])
    def test_a_pattern_that_does_not_compile(self, check_type: str) -> None:
        entry = changed(ANSWER, check_type=check_type, accepted_patterns=["5", "(5"])
        (text,) = problems(entry)
        assert text.startswith('field "accepted_patterns[1]": is not a regular expression: ')

    def test_patterns_of_exact_or_contains_are_plain_text(self) -> None:
        entry = changed(ANSWER, check_type="exact_or_contains", accepted_patterns=["f(x", "5"])
        assert problems(entry) == []

    def test_a_pattern_that_accepts_silence(self) -> None:
        entry = changed(ANSWER, check_type="regex", accepted_patterns=["5|.*"])
        assert problems(entry) == [
            'field "accepted_patterns[0]": matches an empty answer, so it would accept every reply'
        ]

    def test_a_pattern_that_backtracks_without_end(self) -> None:
        entry = changed(
            ANSWER,
            check_type="regex",
            expected_answer="a" * 40 + "b",
            accepted_patterns=["(a|aa)+$"],
        )
        (text,) = problems(entry)
        assert "backtracks" in text or "rejects" in text

    def test_word_limits_that_leave_no_room(self) -> None:
        entry = changed(ANSWER, min_words=9, max_words=3)
        assert problems(entry) == ['field "min_words": 9 is more than max_words (3)']

    @pytest.mark.parametrize(
        "prompt",
        [
            "2 + 3? For example:\nFinal answer: 5",
            "2 + 3? Write **Final answer:** 5 at the end.".replace(" at the end.", ""),
            "2 + 3?\n## Final Answer\n\n5\n",
            "2 + 3? final answer = five",
        ],
    )
    def test_a_prompt_that_holds_its_own_answer_line(self, prompt: str) -> None:
        (text,) = problems(changed(ANSWER, prompt=prompt))
        assert text.startswith('field "prompt": contains its own expected answer line')

    @pytest.mark.parametrize(
        "prompt",
        [
            "2 + 3? End with one line: Final answer: <answer>",
            "Is it 5 or 6? End with exactly one line in the form `Final answer: <answer>`.",
            "2 + 3? The final answer matters.\nFor example: Final answer: 17",
            "5 rows of 1? Final answer: ...",
            "2 + 3? Zakończ jednym wierszem w postaci: Final answer: <odpowiedź>",
        ],
    )
    def test_a_prompt_that_only_shows_the_form(self, prompt: str) -> None:
        assert problems(changed(ANSWER, prompt=prompt)) == []

    def test_an_answer_line_counts_for_every_check_type(self) -> None:
        entry = changed(ANSWER, check_type="numeric", prompt="2 + 3? Final answer: 5")
        assert "its own expected answer line" in problems(entry)[0]

    @given(
        st.sampled_from(["final_answer", "exact_or_contains", "numeric"]),
        st.from_regex(r"[A-Za-z]{1,9}|[0-9]{1,12}", fullmatch=True),
        st.sampled_from([None, "numeric", "numeric_text"]),
    )
    def test_what_is_taken_as_evident_is_what_the_judge_says(
        self, check_type: Any, answer: str, evaluator: Any
    ) -> None:
        spec = AnswerSpec(check_type, answer, (answer,), evaluator)
        if _passes_of_itself(spec):
            assert expected_passes_own_check(spec) == ""


class TestCode:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("assert (", "does not parse: '(' was never closed"),
            ("assert inc(1) = 2", "does not parse: "),
            ("x = 1\nassert x ==", "(line 2 of it)"),
            ("return 1", "does not parse: 'return' outside function"),
            ("await inc(1)", "does not parse: "),
            ("x = '\0'", "does not parse: "),
            ("assert (inc(1) == 2, 'one')", "asserts a tuple, which is always true"),
        ],
    )
    def test_an_assertion_that_cannot_be_used(self, source: str, message: str) -> None:
        (text,) = problems(changed(CODING, test_assertions=["assert inc(1) == 2", source]))
        assert text.startswith('field "test_assertions[1]": ')
        assert message in text

    @pytest.mark.parametrize(
        "source",
        [
            "assert inc(1) == 2",
            "assert (inc(1) == 2)",
            "assert (inc(1), inc(2)) == (2, 3)",
            "xs = [3, 1]\nsort_in_place(xs)\nassert xs == [1, 3]",
            "import asyncio\nassert asyncio.run(fetch()) == 1",
            "try:\n    inc('a')\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError",
            "import re\nassert re.match('\\d', inc_text())",
        ],
    )
    def test_any_statements_may_stand_in_an_assertion(self, source: str) -> None:
        assert problems(changed(CODING, test_assertions=[source])) == []

    def test_a_reference_solution_that_does_not_parse(self) -> None:
        (text,) = problems(changed(CODING, reference_solution="def inc(n) return n + 1"))
        assert text.startswith('field "reference_solution": does not parse')

    def test_a_prompt_that_gives_the_solution_away(self) -> None:
        solution = "def inc(n):\n    return n + 1"
        entry = changed(CODING, prompt=f"Write this:\n{solution}\n", reference_solution=solution)
        assert problems(entry) == ['field "prompt": contains the reference solution']


class TestContext:
    def test_a_needle_without_the_expected_value(self) -> None:
        (text,) = problems(changed(WINDOW, needle="The locker opens with 39160."))
        assert text == 'field "needle": does not contain the expected value "3916" on its own'

    def test_a_question_that_gives_the_value_away(self) -> None:
        (text,) = problems(changed(WINDOW, instruction="Is it 3916?"))
        assert text == 'field "instruction": gives away the expected value "3916"'

    def test_a_text_file_without_the_expected_value(self) -> None:
        (text,) = problems(changed(FILE, expected="1932"))
        assert text == 'field "expected": "doc.txt" does not contain "1932" on its own'

    def test_a_second_opinion_on_the_window(self) -> None:
        (text,) = problems(changed(WINDOW, options={"num_ctx": 4096}))
        assert text.startswith('field "options.num_ctx": expected 512, the window of the entry')
        assert problems(changed(WINDOW, options={"num_ctx": 512})) == []


class TestToolUse:
    @pytest.mark.parametrize(
        ("turn", "message"),
        [
            (
                {"expect": {"tool": "get_wether", "args": {"town": "Oslo"}}},
                'turns[0].expect.tool": expected one of the tools "get_weather", got "get_wether"; '
                'did you mean "get_weather"?',
            ),
            (
                {"expect": {"tool": "get_weather", "args": {"town": 7}}},
                'turns[0].expect.args": its own check rejects them: ',
            ),
            (
                {"expect": {"tool": "get_weather", "args": {"town": "Oslo", "days": "2"}}},
                'turns[0].expect.args": its own check rejects them: ',
            ),
            ({"expect": {"tool": "get_weather"}}, "its own check rejects them: "),
            (
                {"expect": {"tool": None, "args": {"town": "Oslo"}}},
                'turns[0].expect.args": a turn without a call has no arguments',
            ),
            (
                {"expect": {"tool": None}, "tool_result": {"rain": True}},
                'turns[0].tool_result": a turn without a call has no result',
            ),
            (
                {"expect": {"tool": "get_weather", "args": {"town": "Oslo"}, "answer": "rain"}},
                'turns[0].expect.answer": belongs to a turn without a call',
            ),
            (
                {
                    "expect": {
                        "tool": None,
                        "answer": {"check_type": "regex", "accepted_patterns": ["("]},
                    }
                },
                'turns[0].expect.answer.accepted_patterns[0]": is not a regular expression',
            ),
            (
                {"expect": {"tool": None, "answer": {"chek_type": "regex"}}},
                'turns[0].expect.answer.chek_type": unknown field; did you mean "check_type"?',
            ),
        ],
    )
    def test_a_turn_that_no_reply_could_pass(self, turn: dict[str, Any], message: str) -> None:
        (text,) = problems(changed(TOOLS, turns=[turn]))
        assert message in text

    def test_two_tools_of_one_name(self) -> None:
        (text,) = problems(changed(TOOLS, tools=[TOOL, TOOL]))
        assert text == 'field "tools[1].function.name": two tools are called "get_weather"'

    def test_parameters_that_are_no_schema(self) -> None:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "strin"}}}
        (text,) = problems(changed(TOOLS, tools=[tool]))
        assert text.startswith('field "tools[0].function.parameters": is not a JSON Schema: type: ')

    def test_a_turn_without_a_call_and_without_an_answer(self) -> None:
        assert only([changed(TOOLS, turns=[{"expect": {"tool": None}}])]).kind == "tool_use"
