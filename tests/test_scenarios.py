"""The bundled scenarios: every expected answer is found again by other means."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.context_text import build_file_prompt, build_window_prompt
from pytest_benchrig.core.files import LoadedFile
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Scenario,
    ToolUseSpec,
)
from pytest_benchrig.core.selfcheck import selfcheck_cases, verdict_of_case
from pytest_benchrig.scenario_io import load_file

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.result import SandboxResult
    from pytest_benchrig.sandbox.runner import SandboxRunner

ROOT = Path(__file__).parents[1]
FILES = ("speed", "coding", "reasoning", "context_scaling", "polish", "tool_use")
WRONG = ROOT / "tests" / "data" / "scenarios" / "wrong_solutions.json"
CORE = {
    "speed": {"speed_decode", "speed_sustained"},
    "coding": {
        "code_flatten_dict", "code_merge_intervals", "code_balanced_brackets", "code_lru_cache",
        "code_reverse_words", "code_add", "code_is_even", "code_reverse_string",
    },
    "context": {"ctx_512", "ctx_1024", "ctx_2048", "ctx_4096", "ctx_8192", "ctx_file_logbook"},
    "tool_use": set(),
}  # fmt: skip
PREFIXES = {
    "speed": "speed_",
    "coding": "code_",
    "reasoning": "reasoning_",
    "context": "ctx_",
    "polish": "pl_",
    "tool_use": "tool_",
}
LOADED: dict[str, LoadedFile] = {
    name: load_file(ROOT / "scenarios" / f"{name}.json", ROOT) for name in FILES
}
ALL = [scenario for name in FILES for scenario in LOADED[name].scenarios]
BY_ID = {scenario.id: scenario for scenario in ALL}


def of_kind(kind: str) -> list[Scenario]:
    return [s for s in ALL if s.kind == kind]


def answer_of(scenario_id: str) -> AnswerSpec:
    spec = BY_ID[scenario_id].spec
    assert isinstance(spec, AnswerSpec)
    return spec


def passes(scenario_id: str, reply: str) -> bool:
    return judge_answer(answer_of(scenario_id), reply).passed is True


def ids(scenario: Scenario) -> str:
    return scenario.id


class TestTheFiles:
    @pytest.mark.parametrize("name", FILES)
    def test_load_without_a_problem(self, name: str) -> None:
        assert [str(p) for p in LOADED[name].problems] == []
        suite = "context" if name == "context_scaling" else name
        assert {s.suite for s in LOADED[name].scenarios} == {suite}
        assert all(s.id.startswith(PREFIXES[suite]) for s in LOADED[name].scenarios)

    def test_no_id_stands_in_two_files(self) -> None:
        counts = Counter((s.suite, s.id) for s in ALL)
        assert [pair for pair, count in counts.items() if count > 1] == []

    def test_have_the_promised_number_of_entries(self) -> None:
        counts = Counter(s.suite for s in ALL)
        assert counts["reasoning"] == 12
        assert counts["polish"] >= 24
        assert counts["tool_use"] == 18
        assert counts["coding"] >= 5 + 3 + 8
        assert counts["context"] == 6

    @pytest.mark.parametrize("suite", CORE)
    def test_core_marks_what_comparisons_rest_on(self, suite: str) -> None:
        assert {s.id for s in ALL if s.suite == suite and "core" in s.tags} == CORE[suite]

    def test_all_twelve_reasoning_entries_and_six_polish_ones_are_core(self) -> None:
        counts = Counter(s.suite for s in ALL if "core" in s.tags)
        assert (counts["reasoning"], counts["polish"]) == (12, 6)

    def test_smoke_is_small(self) -> None:
        smoke = {s.id for s in ALL if "smoke" in s.tags}
        assert smoke == {
            "speed_smoke", "code_add", "code_is_even", "code_reverse_string", "code_square",
            "ctx_512",
        }  # fmt: skip

    def test_temperature_and_budget(self) -> None:
        for scenario in ALL:
            wanted = 0.0 if scenario.kind == "speed" else 0.1
            assert scenario.sampling.temperature == wanted, scenario.id
        budgets = {s.id: s.sampling.num_predict for s in ALL}
        assert (budgets["speed_decode"], budgets["speed_sustained"]) == (256, 512)
        assert budgets["code_reverse_words"] == 256
        assert {budgets[s.id] for s in of_kind("coding")} == {256, 512}
        assert {budgets[s.id] for s in ALL if s.suite == "reasoning"} == {1024}

    @pytest.mark.parametrize(
        "scenario", [s for s in ALL if s.kind not in ("coding", "speed")], ids=ids
    )
    def test_pass_their_self_check(self, scenario: Scenario) -> None:
        cases = selfcheck_cases(scenario)
        assert any(case.must_pass for case in cases)
        wrong = [
            (case.why, case.reply)
            for case in cases
            if (verdict_of_case(scenario, case).passed is True) != case.must_pass
        ]
        assert wrong == []


def flavours(value: str) -> Iterator[str]:
    """How models write one and the same final answer."""
    yield f"So we are done.\n\nFinal answer: {value}"
    yield f"**Final answer:** **{value}**"
    yield f"### Final Answer\n\n{value}."
    yield f"Final answer: \\boxed{{{value}}}"


class TestReasoning:
    def test_discount_and_tax(self) -> None:
        price = Fraction(150) * (1 - Fraction(20, 100)) * (1 + Fraction(8, 100)) - 15
        assert price == Fraction("114.6") == Fraction(answer_of("reasoning_discount_tax")
                                                      .expected_answer)  # fmt: skip
        for reply in ("It is $114.60 in all.", "**114.6 dollars**", "He pays 114.6.",
                      "\\boxed{114.60}"):  # fmt: skip
            assert passes("reasoning_discount_tax", reply)
        for reply in ("1114.60", "114.06", "114.600001", "-114.6", "about 115"):
            assert not passes("reasoning_discount_tax", reply)

    def test_boxes(self) -> None:
        labels = ("apples", "oranges", "apples and oranges")
        solutions = [
            contents
            for contents in itertools.permutations(labels)
            if all(c != label for c, label in zip(contents, labels, strict=True))
            and "apples" in contents[2]  # what was taken out of box 3
        ]
        assert solutions == [("oranges", "apples and oranges", "apples")]
        for contents in itertools.permutations(labels):
            right = contents == solutions[0]
            boxes = [f"Box {n}: {c.title()}" for n, c in enumerate(contents, 1)]
            holds = [f"box {n} contains only the {c}" for n, c in enumerate(contents, 1)]
            labelled = [f"Box {n} (labelled “{label}”) holds {c}"
                        for n, (label, c) in enumerate(zip(labels, contents, strict=True), 1)
                        ]  # fmt: skip
            for reply in (
                ", ".join(boxes),
                "Conclusion:\n" + "\n".join(boxes),
                "\n".join(f"- **{box}**" for box in boxes),
                "\n".join(f"* {box}." for box in boxes) + "\n\nI hope this helps!",
                "Therefore " + ", ".join(holds[:2]) + ", and " + holds[2] + ".",
                "; ".join(labelled),
            ):
                assert passes("reasoning_boxes", reply) is right, reply
        assert not passes("reasoning_boxes", "Box 1 is not oranges, box 2 apples, box 3 apples")
        assert not passes("reasoning_boxes", "Box 1: oranges, box 2: apples and oranges")

    def test_set_theory_and_probability(self) -> None:
        students = range(30)
        french = set(range(18))
        spanish = set(range(18 - 8, 18 - 8 + 15))
        assert (len(french), len(spanish), len(french & spanish)) == (18, 15, 8)
        neither = [s for s in students if s not in french | spanish]
        assert Fraction(len(neither), 30) == Fraction(1, 6)
        for reply in ("5 students; the probability is 1/6.", "$\\frac{1}{6}$", "1 / 6"):
            assert passes("reasoning_set_probability", reply)
        for reply in ("5/30", "11/60", "1/60", "about 17 %", "1/5"):
            assert not passes("reasoning_set_probability", reply)

    def test_trains(self) -> None:
        minutes = 0
        while True:
            first = Fraction(80 * minutes, 60)
            second = 320 - Fraction(100 * max(0, minutes - 60), 60)
            if first >= second:
                break
            minutes += 1
        assert first == second
        assert f"{9 + minutes // 60}:{minutes % 60:02}" == "11:20"
        self.accepts("reasoning_trains", "11:20", "11:20 am", "at 11:20")

    def test_knights_and_knaves(self) -> None:
        worlds = []
        for a, b, c in itertools.product((True, False), repeat=3):
            says_a = not (a or b or c)
            says_b = (a, b, c).count(False) == 1
            says_c = b
            if (a, b, c) == (says_a, says_b, says_c):
                worlds.append((a, b, c))
        assert worlds == [(False, True, True)]
        words = {True: "knight", False: "knave"}
        for world in itertools.product((True, False), repeat=3):
            right = world == worlds[0]
            x, y, z = (words[w] for w in world)
            for value in (f"{x}, {y}, {z}", f"{x} {y} {z}", f"A: {x}, B: {y}, C: {z}",
                          f"A is a {x}, B is a {y}, and C is a {z}"):  # fmt: skip
                assert passes("reasoning_knights", f"Final answer: {value}") is right, value
        self.accepts(
            "reasoning_knights", "knave, knight, knight", "A is a knave, B and C are knights"
        )

    def test_four_digit_numbers(self) -> None:
        count = sum(n % 5 == 0 and len(set(str(n))) == 4 for n in range(1000, 10000))
        self.accepts("reasoning_distinct_digits", str(count))
        assert count == 952

    def test_recurrence(self) -> None:
        value = 3
        for _ in range(9):
            value = 2 * value - 1
        assert value == 2**10 + 1
        self.accepts("reasoning_recurrence", str(value), "1,025")

    def test_chained_percentages(self) -> None:
        value = Fraction(80)
        for percent in (25, -20, 10):
            value += value * Fraction(percent, 100)
        assert value == 88
        self.accepts("reasoning_percentages", "88", "88.00", "€88", "88 euros")

    def test_letters(self) -> None:
        assert "strawberry raspberry blueberry".count("r") == 8
        self.accepts("reasoning_count_r_berries", "8", "8 times")
        assert "strawberry".count("r") == 3
        self.accepts("reasoning_count_r", "3", "three")

    def test_bat_and_ball(self) -> None:
        solutions = [ball for ball in range(111) if ball + (ball + 100) == 110]
        assert solutions == [5]
        self.accepts("reasoning_bat_ball", "5", "5 cents", "$0.05", "five cents")

    def test_multiples(self) -> None:
        count = sum(n % 3 == 0 or n % 5 == 0 for n in range(1, 101))
        assert count == 47
        self.accepts("reasoning_multiples", str(count))

    def accepts(self, scenario_id: str, *values: str) -> None:
        for value in values:
            for reply in flavours(value) if value[0].isdigit() else [f"Final answer: {value}"]:
                assert passes(scenario_id, reply), reply
            assert not passes(scenario_id, f"It is {value}.")
        for miss in BY_ID[scenario_id].near_misses:
            assert not passes(scenario_id, f"Final answer: {miss}"), miss

    def test_nine_ask_for_the_final_answer_line_at_their_end(self) -> None:
        marked = [s for s in ALL if s.suite == "reasoning"
                  and answer_of(s.id).check_type == "final_answer"]  # fmt: skip
        assert len(marked) == 9
        for scenario in marked:
            assert scenario.prompt.endswith(
                "End with exactly one line in the form `Final answer: <answer>`."
            )
        others = {s.id: answer_of(s.id).check_type for s in ALL if s.suite == "reasoning"}
        assert others["reasoning_discount_tax"] == others["reasoning_set_probability"]
        assert others["reasoning_discount_tax"] == "exact_or_contains"
        assert others["reasoning_boxes"] == "regex"
        assert ".*" not in answer_of("reasoning_boxes").accepted_patterns[0]


def without_marks(text: str) -> str:
    """The text in ASCII letters, as one types it without a Polish keyboard."""
    plain = unicodedata.normalize("NFD", text.replace("ł", "l").replace("Ł", "L"))
    return "".join(c for c in plain if not unicodedata.combining(c))


POLISH = [s for s in ALL if s.suite == "polish"]


class TestPolish:
    @pytest.mark.parametrize("scenario", POLISH, ids=ids)
    def test_no_accepted_pattern_occurs_in_its_own_prompt(self, scenario: Scenario) -> None:
        spec = answer_of(scenario.id)
        assert spec.accepted_patterns
        for pattern in spec.accepted_patterns:
            found = pattern if spec.check_type == "final_answer" else re.escape(pattern)
            assert not re.search(found, scenario.prompt, re.IGNORECASE)

    @pytest.mark.parametrize("scenario", POLISH, ids=ids)
    def test_near_misses_are_rejected(self, scenario: Scenario) -> None:
        spec = answer_of(scenario.id)
        assert len(scenario.near_misses) >= 3
        form = "Final answer: {}" if spec.check_type == "final_answer" else "{}"
        assert passes(scenario.id, form.format(spec.expected_answer))
        assert passes(scenario.id, form.format(unicodedata.normalize("NFD", spec.expected_answer)))
        assert passes(scenario.id, f"Odpowiedź:\n\n{form.format(spec.expected_answer)}")
        for miss in scenario.near_misses:
            assert not passes(scenario.id, form.format(miss)), miss

    @pytest.mark.parametrize("scenario", POLISH, ids=ids)
    def test_missing_diacritics_are_wrong(self, scenario: Scenario) -> None:
        spec = answer_of(scenario.id)
        plain = without_marks(spec.expected_answer)
        if spec.check_type == "final_answer" and plain != spec.expected_answer:
            assert not passes(scenario.id, f"Final answer: {plain}")

    @pytest.mark.parametrize("scenario", POLISH, ids=ids)
    def test_the_instruction_stands_at_the_end(self, scenario: Scenario) -> None:
        spec = answer_of(scenario.id)
        if spec.check_type == "final_answer":
            assert scenario.prompt.endswith("w postaci: Final answer: <odpowiedź>")
        else:
            assert spec.max_words is not None
            assert f"w najwyżej {spec.max_words} słowach" in scenario.prompt
            assert len(spec.required_patterns) >= 4

    def test_every_case_and_every_kind_of_task_is_there(self) -> None:
        cases = ("mianownik", "dopelniacz", "celownik", "biernik", "narzednik", "miejscownik",
                 "wolacz")  # fmt: skip
        for case in cases:
            assert {f"pl_{case}_lp", f"pl_{case}_lm"} <= BY_ID.keys()
        kinds = Counter(s.id.split("_")[1] for s in POLISH)
        for kind in (
            "liczebnik",
            "aspekt",
            "skladnia",
            "idiom",
            "kultura",
            "streszczenie",
            "znaki",
        ):
            assert kinds[kind] >= 2, kind
        assert kinds["znaki"] >= 2

    def test_a_summary_over_the_limit_fails_for_that_reason(self) -> None:
        scenario = BY_ID["pl_streszczenie_serwer"]
        verdict = judge_answer(answer_of(scenario.id), scenario.near_misses[2])
        assert (verdict.kind, verdict.rule) == ("fail", "max_words")


class TestContext:
    def test_five_steps_hide_five_codes(self) -> None:
        steps = [s.spec for s in of_kind("context") if isinstance(s.spec, ContextSpec)]
        windows = [spec for spec in steps if spec.needle]
        assert [spec.context_size for spec in windows] == [512, 1024, 2048, 4096, 8192]
        codes = [spec.expected for spec in windows]
        assert len(set(codes)) == 5
        for spec in windows:
            assert re.findall(r"\d+", spec.needle) == [spec.expected]
            assert not any(code in spec.instruction for code in codes)

    @pytest.mark.parametrize("scenario", of_kind("context"), ids=ids)
    def test_the_built_prompt_hides_its_code_once(self, scenario: Scenario) -> None:
        spec = scenario.spec
        assert isinstance(spec, ContextSpec)
        build = build_window_prompt if spec.needle else build_file_prompt
        built = build(scenario.id, spec)
        assert built.text.count(spec.expected) == 1
        assert built.notes == ()
        assert len(built.text) < 4 * spec.context_size

    def test_the_logbook_is_a_file_of_its_own(self) -> None:
        spec = BY_ID["ctx_file_logbook"].spec
        assert isinstance(spec, ContextSpec)
        assert (ROOT / "scenarios" / spec.prompt_file).is_file()
        skagen = next(p for p in spec.prompt_text.split("\n\n") if "Skagen" in p)
        assert re.findall(r"(\d+) litres of diesel", skagen) == [spec.expected]


class TestToolUse:
    def test_three_of_each_kind(self) -> None:
        specs = [s.spec for s in of_kind("tool_use") if isinstance(s.spec, ToolUseSpec)]
        assert Counter(spec.category for spec in specs) == {
            "tool_selection": 3, "arguments": 3, "no_call": 3, "two_step": 3, "polish": 3,
            "retrieval": 3,
        }  # fmt: skip
        for spec in specs:
            calls = [turn for turn in spec.turns if turn.tool is not None]
            assert bool(calls) != (spec.category == "no_call") or spec.category == "polish"
            assert len(calls) >= 2 or spec.category != "two_step"

    def test_later_arguments_come_from_earlier_results(self) -> None:
        for scenario in of_kind("tool_use"):
            spec = scenario.spec
            assert isinstance(spec, ToolUseSpec)
            for before, turn in itertools.pairwise(spec.turns):
                assert before.tool_result is not None, scenario.id
                for value in turn.args.values():
                    if isinstance(value, str) and value not in scenario.prompt:
                        seen = json.dumps(before.tool_result)
                        assert value in seen or value in json.dumps(spec.tools), scenario.id

    @pytest.mark.parametrize(
        ("scenario_id", "compute"),
        [
            ("tool_quiet_arithmetic", lambda: str(17 + 26)),
            ("tool_quiet_given", lambda: str(14 - 9)),
            ("tool_quiet_capital", lambda: "Lisbon"),
            ("tool_polish_quiet", lambda: "7"),
        ],
    )
    def test_answers_without_a_call(self, scenario_id: str, compute: Callable[[], str]) -> None:
        spec = BY_ID[scenario_id].spec
        assert isinstance(spec, ToolUseSpec)
        (turn,) = spec.turns
        assert turn.answer is not None
        assert judge_answer(turn.answer, f"It is {compute()}.").passed
        assert not judge_answer(turn.answer, "I cannot help with that.").passed


CODING = of_kind("coding")
SOLUTIONS: dict[str, list[dict[str, str]]] = json.loads(WRONG.read_text("utf-8"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxRunner]:
    from pytest_benchrig.sandbox.runner import SandboxRunner

    runner = SandboxRunner(level="auto")
    if not runner.available:
        runner.close()
        runner = SandboxRunner(level="process")
    yield runner
    runner.close()


class TestCoding:
    def test_the_named_scenarios_have_their_assertions(self) -> None:
        counts = {s.id: len(s.spec.test_assertions) for s in CODING
                  if isinstance(s.spec, CodingSpec)}  # fmt: skip
        assert counts["code_flatten_dict"] == 4
        assert counts["code_merge_intervals"] == 5
        assert counts["code_balanced_brackets"] == 6
        assert counts["code_lru_cache"] == 2
        assert counts["code_reverse_words"] == 3

    @pytest.mark.parametrize("scenario", CODING, ids=ids)
    def test_the_prompt_gives_the_signature_and_asks_for_one_fence(
        self, scenario: Scenario
    ) -> None:
        spec = scenario.spec
        assert isinstance(spec, CodingSpec)
        assert scenario.prompt.endswith("Answer with only valid Python in one ```python fence.")
        assert "->" in scenario.prompt
        for name in spec.entry_points:
            assert re.search(rf"(?:def|class) {name}\b", scenario.prompt)
        body = spec.reference_solution.strip().splitlines()[-1].strip()
        assert body not in scenario.prompt
        assert not any(a in scenario.prompt for a in spec.test_assertions)

    @pytest.mark.parametrize("scenario", CODING, ids=ids)
    def test_the_reference_passes_and_wrong_solutions_fail(
        self, scenario: Scenario, sandbox: SandboxRunner
    ) -> None:
        spec = scenario.spec
        assert isinstance(spec, CodingSpec)
        total = len(spec.test_assertions)

        def run(code: str) -> SandboxResult:
            return sandbox.run(
                code, spec.test_assertions, entry_points=spec.entry_points, timeout=20
            )

        reference = run(spec.reference_solution)
        assert (reference.verdict, reference.passed_tests) == ("pass", total), reference.error
        assert reference.assurance == "judged"
        assert len(SOLUTIONS[scenario.id]) >= 2
        for wrong in SOLUTIONS[scenario.id]:
            result = run(wrong["code"])
            assert result.verdict == "fail", (wrong["why"], result)
            assert result.passed_tests < total, wrong["why"]

    @pytest.mark.parametrize("scenario", CODING, ids=ids)
    def test_code_passes_its_self_check(self, scenario: Scenario, sandbox: SandboxRunner) -> None:
        from pytest_benchrig.sandbox.verdicts import judge_code

        spec = scenario.spec
        assert isinstance(spec, CodingSpec)
        for case in selfcheck_cases(scenario):
            verdict = judge_code(spec, case.reply, cut_off=False, budget="", runner=sandbox)
            assert (verdict.passed is True) == case.must_pass, (case.why, verdict)
