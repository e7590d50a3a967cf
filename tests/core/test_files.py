"""Scenario files: what they may say, what they become, and how each fault is reported."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.files import (
    LoadedFile,
    PromptProblem,
    parse_file,
    scenario_digest,
)
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Scenario,
    SpeedSpec,
    ToolUseSpec,
)

SPEED = {"id": "quick", "kind": "speed", "prompt": "Count to three."}
ANSWER = {
    "id": "sum",
    "prompt": "What is two plus three? End with one line: Final answer: <answer>",
    "check_type": "final_answer",
    "expected_answer": "5",
    "accepted_patterns": ["5", "five"],
}
CODING = {"id": "inc", "prompt": "Write inc.", "test_assertions": ["assert inc(1) == 2"]}
WINDOW = {
    "context_size": 512,
    "instruction": "Which number opens the locker?",
    "needle": "The locker opens with 3916.",
    "expected": "3916",
}
FILE = {"id": "doc", "context_tokens": 2048, "prompt_file": "doc.txt", "query": "Which year?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["town"],
            "additionalProperties": False,
        },
    },
}
TOOLS: dict[str, Any] = {
    "id": "weather",
    "prompt": "What is the weather in Oslo?",
    "tools": [TOOL],
    "turns": [{"expect": {"tool": "get_weather", "args": {"town": "Oslo"}}}],
}
PROMPTS = {"doc.txt": "The bridge was built in 1931.", "empty.txt": ""}


def read_prompt(name: str) -> str | PromptProblem:
    return PROMPTS.get(name, PromptProblem(f"{name} does not exist", "write it"))


def load(content: object, path: str = "scenarios/mine.json", **options: Any) -> LoadedFile:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    return parse_file(text, path, read_prompt=read_prompt, **options)


def only(content: object, path: str = "scenarios/mine.json", **options: Any) -> Scenario:
    loaded = load(content, path, **options)
    assert [str(p) for p in loaded.problems] == []
    (scenario,) = loaded.scenarios
    return scenario


def problem(content: object, path: str = "scenarios/mine.json", **options: Any) -> str:
    loaded = load(content, path, **options)
    (found,) = loaded.problems
    return str(found)


def changed(entry: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The entry with other fields; ``None`` takes a field out."""
    return {k: v for k, v in {**entry, **fields}.items() if v is not None}


class TestWhatAnEntryBecomes:
    def test_an_answer(self) -> None:
        entry = changed(
            ANSWER,
            name="A sum",
            system="Be brief.",
            options={"temperature": 0.1, "num_predict": 64, "stop": "\n\n", "think": False},
            tags=["core"],
            timeout=30,
            min_pass_rate=0.5,
            near_misses=["6"],
            evaluator="numeric",
        )
        scenario = only([entry], "scenarios/reasoning.json")
        assert (scenario.id, scenario.suite, scenario.kind) == ("sum", "reasoning", "answer")
        assert scenario.spec == AnswerSpec("final_answer", "5", ("5", "five"), "numeric")
        assert (scenario.name, scenario.system, scenario.tags) == ("A sum", "Be brief.", ("core",))
        assert (scenario.timeout, scenario.min_pass_rate) == (30, 0.5)
        assert scenario.near_misses == ("6",)
        sampling = scenario.sampling
        assert (sampling.temperature, sampling.num_predict, sampling.think) == (0.1, 64, False)
        assert sampling.stop == ("\n\n",)
        assert sampling.seed is None
        assert (scenario.path, scenario.line) == ("scenarios/reasoning.json", 2)

    def test_code(self) -> None:
        entry = changed(
            CODING,
            entry_points=["inc"],
            reference_solution="def inc(n): return n + 1",
            execution_timeout=3,
        )
        assert only([entry]).spec == CodingSpec(
            ("assert inc(1) == 2",), ("inc",), "def inc(n): return n + 1", 3
        )
        assert only([CODING]).spec == CodingSpec(("assert inc(1) == 2",), (), "", 10.0)

    def test_speed_has_nothing_more(self) -> None:
        assert only([SPEED]).spec == SpeedSpec()
        assert only([changed(SPEED, kind=None)]).kind == "speed"

    def test_a_context_window_without_an_id_is_called_by_its_size(self) -> None:
        scenario = only([WINDOW], "context_scaling.json")
        assert (scenario.id, scenario.suite, scenario.kind) == ("ctx_512", "context", "context")
        assert scenario.spec == ContextSpec(
            512,
            0.75,
            "The locker opens with 3916.",
            0.5,
            "Which number opens the locker?",
            "3916",
        )

    def test_a_window_may_be_called_context_tokens_and_its_question_prompt(self) -> None:
        entry = changed(WINDOW, context_size=None, context_tokens=1024, instruction=None)
        scenario = only([changed(entry, prompt="Which number?")])
        assert scenario.id == "ctx_1024"
        assert isinstance(scenario.spec, ContextSpec)
        assert (scenario.spec.context_size, scenario.spec.instruction) == (1024, "Which number?")
        assert scenario.prompt == ""

    def test_a_text_from_a_file(self) -> None:
        spec = only([changed(FILE, expected="1931")]).spec
        assert spec == ContextSpec(
            2048,
            prompt_file="doc.txt",
            prompt_text="The bridge was built in 1931.",
            query="Which year?",
            expected="1931",
        )
        assert only([FILE]).kind == "context"

    def test_tool_use(self) -> None:
        entry = changed(
            TOOLS,
            category="selection",
            turns=[
                {"expect": {"tool": "get_weather", "args": {"town": "Oslo"}}, "tool_result": {}},
                {"expect": {"tool": None, "answer": "rain"}},
                {"expect": {"tool": None, "answer": {"check_type": "numeric",
                                                     "expected_answer": "7"}}},
            ],
        )  # fmt: skip
        spec = only([entry]).spec
        assert isinstance(spec, ToolUseSpec)
        assert spec.category == "selection"
        assert [turn.tool for turn in spec.turns] == ["get_weather", None, None]
        assert spec.turns[0].tool_result == {}
        assert spec.turns[1].answer == AnswerSpec("exact_or_contains", "rain")
        assert spec.turns[2].answer == AnswerSpec("numeric", "7")

    def test_an_unknown_evaluator_collects_and_is_kept_for_the_log(self) -> None:
        spec = only([changed(ANSWER, evaluator="fuzzy")]).spec
        assert isinstance(spec, AnswerSpec)
        assert (spec.evaluator, spec.unknown_evaluator) == (None, "fuzzy")

    def test_whole_numbers_may_be_written_as_floats(self) -> None:
        scenario = only([changed(SPEED, options={"num_predict": 512.0, "seed": 7})])
        assert repr(scenario.sampling.num_predict) == "512"

    def test_a_check_type_of_a_plugin(self) -> None:
        entry = changed(ANSWER, check_type="palindrome", accepted_patterns=None)
        spec = only([entry], check_types=["palindrome"]).spec
        assert isinstance(spec, AnswerSpec)
        assert str(spec.check_type) == "palindrome"
        assert "did you mean" not in problem([entry])


class TestSuiteAndDefaults:
    @pytest.mark.parametrize(
        ("content", "path", "suite"),
        [
            ([SPEED], "scenarios/mine.json", "mine"),
            ([SPEED], "C:\\work\\scenarios\\mine.json", "mine"),
            ([SPEED], "context_scaling.json", "context"),
            ({"scenarios": [SPEED]}, "mine.json", "mine"),
            ({"suite": "sql", "scenarios": [SPEED]}, "mine.json", "sql"),
            ({"suite": "sql", "scenarios": [{**SPEED, "suite": "own"}]}, "mine.json", "own"),
        ],
    )
    def test_entry_then_file_then_file_name(self, content: object, path: str, suite: str) -> None:
        assert only(content, path).suite == suite

    def test_the_entry_wins_options_merge_and_tags_add(self) -> None:
        content = {
            "defaults": {
                "options": {"temperature": 0.1, "num_predict": 512},
                "tags": ["core"],
                "timeout": 60,
                "system": "Be brief.",
            },
            "scenarios": [
                {**SPEED, "options": {"num_predict": 64}, "tags": ["smoke"], "timeout": 5}
            ],
        }
        scenario = only(content)
        assert (scenario.sampling.temperature, scenario.sampling.num_predict) == (0.1, 64)
        assert (scenario.tags, scenario.timeout) == (("core", "smoke"), 5)
        assert scenario.system == "Be brief."

    def test_defaults_of_one_kind_leave_the_others_alone(self) -> None:
        content = {
            "defaults": {"check_type": "numeric", "max_words": 20, "fill_ratio": 0.5},
            "scenarios": [
                {"id": "a", "prompt": "1 + 1?", "expected_answer": "2"},
                SPEED,
                CODING,
                WINDOW,
                FILE,
            ],
        }
        loaded = load(content)
        assert loaded.problems == ()
        kinds = [s.kind for s in loaded.scenarios]
        assert kinds == ["answer", "speed", "coding", "context", "context"]
        window = loaded.scenarios[3].spec
        assert isinstance(window, ContextSpec)
        assert window.fill_ratio == 0.5

    def test_a_kind_in_the_defaults_is_for_entries_that_do_not_tell(self) -> None:
        content = {"defaults": {"kind": "speed"}, "scenarios": [changed(SPEED, kind=None), CODING]}
        assert [s.kind for s in load(content, "coding.json").scenarios] == ["speed", "coding"]

    def test_a_fault_in_the_defaults_is_told_once_and_loads_nothing(self) -> None:
        content = {"defaults": {"tiemout": 3}, "scenarios": [SPEED, CODING]}
        assert problem(content) == (
            'scenarios/mine.json:3: field "defaults.tiemout": unknown field; '
            'did you mean "timeout"?'
        )
        assert load(content).scenarios == ()

    def test_the_schema_key_is_for_editors(self) -> None:
        assert only({"$schema": "scenarios.schema.json", "scenarios": [SPEED]}).id == "quick"


class TestFaults:
    """One line each: file, line, entry, field, what was expected, what to do."""

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            (changed(SPEED, prompt=7), '"prompt": expected a text (string), got the number 7'),
            (changed(SPEED, prompt=" \n"), 'field "prompt": expected a text that is not blank'),
            (changed(SPEED, prompt=None), 'field "prompt": is missing'),
            (changed(SPEED, id=None), 'field "id": is missing'),
            (changed(SPEED, id="Sum 1"), 'field "id": expected lower-case letters, digits'),
            (changed(SPEED, id="sum\n"), 'field "id": expected lower-case letters, digits'),
            (changed(SPEED, promt="x"), 'field "promt": unknown field; did you mean "prompt"?'),
            (changed(SPEED, minPassRate=1), '; did you mean "min_pass_rate"?'),
            (changed(SPEED, kind="spead"), '"spead"; did you mean "speed"?'),
            (changed(SPEED, needle="x"), 'belongs to kind "context", and this entry is kind speed'),
            (changed(SPEED, timeout=0), 'field "timeout": expected a number above 0, got 0'),
            (changed(SPEED, timeout=-1.5), 'field "timeout": expected a number above 0, got -1.5'),
            (changed(SPEED, timeout=True), 'field "timeout": expected a number, got true'),
            (changed(SPEED, execution_timeout=-1), "expected a number above 0, got -1"),
            (changed(SPEED, min_pass_rate=1.01), "expected at most 1, got 1.01"),
            (changed(SPEED, min_pass_rate=-0.1), "expected at least 0, got -0.1"),
            (changed(SPEED, tags="core"), 'field "tags": expected a list, got the text "core"'),
            (changed(SPEED, tags=["a", "a"]), '"a" stands in the list twice'),
            (changed(SPEED, tags=["skip"]), '"skip" is the name of an existing mark'),
            (changed(SPEED, tags=["mine_too"]), '"mine_too" is the name of an existing mark'),
            (changed(SPEED, tags=["not"]), '"not" is a word of -m expressions'),
            (changed(SPEED, suite="xfail"), '"xfail" is the name of an existing mark'),
            (changed(SPEED, suite="all"), '"all" means the bundled suites'),
            (changed(SPEED, suite="my suite"), 'field "suite": expected letters, digits'),
            (changed(SPEED, suite=3), 'field "suite": expected a text (string)'),
            (changed(SPEED, options={"temprature": 1}), 'did you mean "temperature"?'),
            (changed(SPEED, options={"mirostat": 1}), "can be given with --benchrig-option"),
            (changed(SPEED, options={"num_predict": 0}), "expected at least 1, got 0"),
            (changed(SPEED, options={"num_predict": 1.5}), "expected a whole number"),
            (changed(SPEED, options={"top_p": 1.1}), "expected at most 1, got 1.1"),
            (changed(SPEED, options={"think": "yes"}), 'field "options.think": expected true'),
            (changed(SPEED, options={"stop": ["a", ""]}), 'field "options.stop[1]"'),
            (changed(SPEED, options=[]), 'field "options": expected an object'),
            (changed(ANSWER, check_type="regexp"), 'did you mean "regex"?'),
            (changed(ANSWER, check_type=None), 'field "check_type": is missing'),
            (changed(ANSWER, chek_type="regex", check_type=None), 'did you mean "check_type"?'),
            (
                changed(ANSWER, expected_answer=None, accepted_patterns=None),
                "needs expected_answer, accepted_patterns or both",
            ),
            (
                {"id": "n", "prompt": "x", "check_type": "numeric"},
                'field "expected_answer": is missing',
            ),
            (changed(ANSWER, test_assertions=["assert 1"]), "fields of more than one kind"),
            (changed(ANSWER, evaluator=1), 'field "evaluator": expected a text'),
            (changed(ANSWER, max_words=0), "expected at least 1, got 0"),
            (changed(CODING, test_assertions=[]), "expected at least one element"),
            (changed(CODING, test_assertions=["x", 1]), 'field "test_assertions[1]"'),
            (changed(CODING, entry_points=["a b"]), "expected a Python name"),
            (changed(WINDOW, context_tokens=9), "expected exactly one of context_size and"),
            (changed(WINDOW, context_size=None), "expected exactly one of context_size and"),
            (changed(WINDOW, context_size=512.5), "expected a whole number"),
            (changed(WINDOW, fill_ratio=0), "expected a number above 0, got 0"),
            (changed(WINDOW, fill_ratio=1.2), "expected at most 1, got 1.2"),
            (changed(WINDOW, needle_depth=-0.1), "expected at least 0, got -0.1"),
            (changed(WINDOW, instruction=None), "expected exactly one of instruction and prompt"),
            (changed(WINDOW, needle=None), 'field "needle": is missing'),
            (changed(WINDOW, prompt_file="doc.txt"), "fields of both forms of a context entry"),
            (changed(FILE, query=None), "expected exactly one of query and prompt"),
            (changed(FILE, prompt_file="gone.txt"), "gone.txt does not exist; write it"),
            (changed(TOOLS, tools=[]), "expected at least one element"),
            (changed(TOOLS, turns=[{"expect": {}}]), 'field "turns[0].expect.tool": is missing'),
            (changed(TOOLS, turns=[{}]), 'field "turns[0].expect": is missing'),
        ],
    )  # fmt: skip
    def test_of_one_field(self, entry: dict[str, Any], message: str) -> None:
        loaded = load([entry], existing_marks=["mine_too"])
        assert loaded.scenarios == ()
        texts = [str(p) for p in loaded.problems]
        assert any(message in text for text in texts), texts
        assert all(text.startswith("scenarios/mine.json:") for text in texts)
        assert not any("\n" in text for text in texts)

    def test_an_entry_that_says_nothing_of_its_judging(self) -> None:
        entry = {"id": "a", "prompt": "Why?"}
        assert "nothing says how a reply of suite reasoning is judged" in problem(
            [entry], "reasoning.json"
        )
        assert only([entry], "mine.json").kind == "speed"

    def test_every_fault_of_an_entry_with_the_line_of_its_field(self) -> None:
        text = """[
  {"id": "good", "kind": "speed", "prompt": "x"},
  {
    "id": "bad",
    "promt": "x",
    "prompt": "y",
    "options": {
      "seed": -1
    },
    "kind": "speed"
  }
]"""
        loaded = load(text)
        assert [s.id for s in loaded.scenarios] == ["good"]
        assert [str(p) for p in loaded.problems] == [
            'scenarios/mine.json:5: entry "bad": field "promt": unknown field; '
            'did you mean "prompt"?',
            'scenarios/mine.json:8: entry "bad": field "options.seed": expected at least 0, got -1',
        ]
        assert {p.index for p in loaded.problems} == {1}

    def test_a_second_entry_of_an_id(self) -> None:
        loaded = load([SPEED, CODING, SPEED])
        assert [s.id for s in loaded.scenarios] == ["quick", "inc"]
        (found,) = loaded.problems
        assert (found.line, found.entry_id, found.field, found.index) == (15, "quick", "id", 2)
        assert "in line 2" in found.message

    def test_a_key_that_stands_in_an_object_twice(self) -> None:
        text = '[{"id": "a", "kind": "speed",\n "prompt": "x",\n "prompt": "y"}]'
        assert problem(text) == (
            'scenarios/mine.json:3: entry "a": field "prompt": stands in the same object twice; '
            "keep one of the two"
        )
        nested = '[{"id": "a", "prompt": "x", "options": {"seed": 1,\n"seed": 2}}]'
        assert ':2: entry "a": field "options.seed": stands' in problem(nested)
        assert 'field "suite": stands in the file twice' in problem(
            '{"suite": "a", "suite": "b", "scenarios": []}'
        )

    def test_an_entry_that_is_no_object(self) -> None:
        loaded = load([SPEED, 7, None])
        assert [str(p) for p in loaded.problems] == [
            f"scenarios/mine.json:{line}: entry number {number}: expected an object with the "
            f"fields of an entry, got {got}"
            for line, number, got in ((7, 2, "7"), (8, 3, "null"))
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "1: not valid JSON: expected a value (line 1, column 1)"),
            ("[{", "1: not valid JSON: expected a member name"),
            ('[\n {"id": "a",}\n]', '2: not valid JSON: a comma before "}" is not allowed'),
            ('[{"id": ["a",]}]', '1: not valid JSON: a comma before "]" is not allowed'),
            ('[{"id" "a"}]', '1: not valid JSON: expected ":" after the member name'),
            ('[{"id": "a" "prompt": "b"}]', '1: not valid JSON: expected "," or the end of'),
            ('[{"id": "a}]', "1: not valid JSON: a text that is not closed"),
            ('[{"prompt": "a\nb"}]', "1: not valid JSON: a control character in a text; write"),
            (r'[{"prompt": "\d+"}]', "1: not valid JSON: a backslash that starts no escape"),
            (r'[{"prompt": "\u12"}]', "without four hexadecimal digits"),
            ('[{"id": "a"},\n]', '1: not valid JSON: a comma before "]" is not allowed'),
            ('[{"id": "a"}\n{"id": "b"}]', '2: not valid JSON: expected "," or "]" (line 2, col'),
            ('[{"id": "a"}] x', "1: not valid JSON: expected the end of the file (line 1, col"),
            ('[{"id": "a"', "1: not valid JSON: "),
            ("[{'id': 'a'}]", "1: not valid JSON: expected a member name"),
            ('{"scenarios" []}', '1: not valid JSON: expected ":" after the member name'),
            ("{scenarios: []}", "1: not valid JSON: expected a member name in double quotes"),
            ('[\n{"timeout": NaN}]', "2: not valid JSON: NaN is not JSON"),
            ('[{"timeout": -Infinity}]', "1: not valid JSON: -Infinity is not JSON"),
            ('[{"timeout": 1e999}]', "1: not valid JSON: 1e999 is too large for a number"),
            (f'[{{"timeout": {"9" * 5000}}}]', "a number of too many digits (line 1, column 14)"),
            ("[" * 100_000, "nested too deeply"),
            ("42", '1: expected an array of entries, or an object with "scenarios", got 42'),
            ("null", "1: expected an array of entries"),
            ("{}", '1: field "scenarios": is missing'),
            ('{"scenarios": {}}', '1: field "scenarios": expected an array of entries, got {}'),
            ('{"scenaros": [], "scenarios": []}', 'did you mean "scenarios"?'),
            ('{"suite": "skip", "scenarios": []}', '"skip" is the name of an existing mark'),
            ('{"suite": 3, "scenarios": []}', 'field "suite": expected a text'),
            ('{"defaults": 3, "scenarios": []}', 'field "defaults": expected an object'),
            ('{"defaults": {"id": "a"}, "scenarios": []}', 'field "defaults.id": unknown field'),
        ],
    )
    def test_of_the_whole_file(self, text: str, message: str) -> None:
        loaded = load(text)
        assert loaded.scenarios == ()
        assert message in str(loaded.problems[0])

    def test_half_a_surrogate_pair(self) -> None:
        assert "half of a surrogate pair" in problem(
            '[{"id": "a", "kind": "speed", "prompt": "\\ud83d"}]'
        )
        assert only('[{"id": "a", "kind": "speed", "prompt": "\\ud83d\\ude00"}]').prompt == "😀"

    def test_a_file_name_that_is_no_suite(self) -> None:
        assert 'the file\'s name gives it; set "suite"' in problem([SPEED], "my notes.json")
        assert "existing mark" in problem([SPEED], "timeout.json")
        assert only([{**SPEED, "suite": "notes"}], "my notes.json").suite == "notes"

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self) -> None:
        text = problem('[{"id": "a\\u001b[31m", "kind": "speed", "prompt": "x"}]')
        assert "\x1b" not in text
        assert "\\x1b" in text or "\\u001b" in text


def test_an_empty_list_is_no_fault() -> None:
    assert load([]) == LoadedFile((), ())
    assert load({"scenarios": []}) == LoadedFile((), ())


class TestDigest:
    @pytest.mark.parametrize("entry", [SPEED, ANSWER, CODING, WINDOW, FILE, TOOLS])
    def test_of_what_defines_a_scenario(self, entry: dict[str, Any]) -> None:
        digest = scenario_digest(only([entry]))
        assert len(digest) == 64
        assert digest == scenario_digest(only([entry]))
        renamed = only([{**entry, "name": "n", "tags": ["t"], "timeout": 9, "near_misses": ["x"]}])
        assert scenario_digest(renamed) == digest
        moved = only("\n\n" + json.dumps([entry]))
        assert scenario_digest(moved) == digest

    @pytest.mark.parametrize(
        ("entry", "fields"),
        [
            (ANSWER, {"accepted_patterns": ["5"]}),
            (ANSWER, {"options": {"seed": 1}}),
            (ANSWER, {"system": "Be brief."}),
            (ANSWER, {"id": "other"}),
            (ANSWER, {"suite": "other"}),
            (ANSWER, {"evaluator": "numeric"}),
            (CODING, {"test_assertions": ["assert inc(1) == 2", "assert inc(2) == 3"]}),
            (WINDOW, {"needle_depth": 0.25}),
            (WINDOW, {"fill_ratio": 0.5}),
            (TOOLS, {"turns": [{"expect": {"tool": "get_weather", "args": {"town": "Bergen"}}}]}),
        ],
    )
    def test_changes_with_it(self, entry: dict[str, Any], fields: dict[str, Any]) -> None:
        assert scenario_digest(only([entry])) != scenario_digest(only([{**entry, **fields}]))

    def test_does_not_change_with_the_reference_solution(self) -> None:
        with_reference = {**CODING, "reference_solution": "def inc(n): return n + 1"}
        assert scenario_digest(only([CODING])) == scenario_digest(only([with_reference]))

    def test_is_the_same_in_every_version(self) -> None:
        digest = "23f8480850c85308fe21e34d20b4bce1a6ef72e542e0d66a2ba8677bb0702b46"
        assert scenario_digest(only([SPEED])) == digest


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from([*ANSWER, *WINDOW, *TOOLS, "kind", "options", "x"]), inner),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_no_json_breaks_the_loader(value: object) -> None:
    loaded = load(value)
    for found in loaded.problems:
        assert found.line >= 1
        assert str(found)


@given(st.text(alphabet='[]{}",:0123456789truefalsnN \n\\e-.', max_size=60))
def test_no_text_breaks_the_loader(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert load(text).scenarios == ()
        assert load(text).problems != ()
    else:
        load(text)


def test_the_cost_of_an_entry_does_not_grow_with_the_file() -> None:
    def seconds(size: int) -> float:
        text = json.dumps([{**ANSWER, "id": f"sum{i}"} for i in range(size)], indent=1)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            assert len(load(text).scenarios) == size
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(2000) < 40 * seconds(200)


def test_a_misspelt_prompt_does_not_make_an_entry_one_of_another_kind() -> None:
    loaded = load([{"id": "hello_speed", "promt": "x"}])
    assert [str(p) for p in loaded.problems] == [
        'scenarios/mine.json:4: entry "hello_speed": field "promt": unknown field; did you mean '
        '"prompt"?'
    ]
