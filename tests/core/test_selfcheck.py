"""The self-check: sound scenarios have no wrong case, unsound ones have one that shows why."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.code_blocks import extract_code
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.core.selfcheck import (
    SelfcheckCase,
    fenced,
    selfcheck_cases,
    verdict_of_case,
    with_empty_bodies,
)
from tests.core.test_files import ANSWER, CODING, FILE, SPEED, TOOLS, WINDOW, changed, only


def wrong(scenario: Scenario) -> list[SelfcheckCase]:
    return [
        case
        for case in selfcheck_cases(scenario)
        if (verdict_of_case(scenario, case).passed is True) != case.must_pass
    ]


def reasons(scenario: Scenario) -> set[str]:
    return {case.why for case in selfcheck_cases(scenario)}


@pytest.mark.parametrize(
    "entry",
    [
        changed(ANSWER, near_misses=["6", "Final answer: -5"]),
        changed(ANSWER, check_type="numeric", accepted_patterns=None),
        changed(ANSWER, check_type="exact_or_contains", expected_answer="Paris",
                accepted_patterns=None, near_misses=["Lyon"]),
        changed(ANSWER, check_type="regex", expected_answer="box 1 pears box 2 plums",
                accepted_patterns=["box 1 (?:has )?pears box 2 (?:has )?plums"]),
        WINDOW,
        changed(FILE, expected="1931"),
        TOOLS,
        changed(TOOLS, turns=[*TOOLS["turns"], {"expect": {"tool": None, "answer": "rain"}}],
                near_misses=["It is dry."]),
    ],
)  # fmt: skip
def test_a_sound_scenario_has_no_wrong_case(entry: dict[str, Any]) -> None:
    scenario = only([entry])
    cases = selfcheck_cases(scenario)
    assert any(case.must_pass for case in cases)
    assert sum(not case.must_pass for case in cases) >= 3
    assert wrong(scenario) == []


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (changed(ANSWER, accepted_patterns=["5\\d*"]), "a near miss of the expected answer"),
        (changed(ANSWER, accepted_patterns=["-?5"]), "a near miss of the expected answer"),
        (changed(ANSWER, near_misses=["five"]), "a near miss of the entry"),
        (
            changed(ANSWER, check_type="exact_or_contains", prompt="Is it 5 or 6?"),
            "the prompt itself",
        ),
        (
            changed(ANSWER, check_type="regex", expected_answer="pear tree",
                    accepted_patterns=["the pear is (?:a|the) tree"]),
            "the expected answer in the requested form",
        ),
        (changed(WINDOW, near_misses=["It is 3916."]), "a near miss of the entry"),
    ],
)  # fmt: skip
def test_an_unsound_scenario_is_found_out(entry: dict[str, Any], why: str) -> None:
    assert why in {case.why for case in wrong(only([entry]))}


def test_a_summary_is_judged_as_a_whole() -> None:
    entry = {
        "id": "summary",
        "prompt": "Summarise: the mill has ninety rooms and two floors.",
        "check_type": "exact_or_contains",
        "expected_answer": "The mill has 90 rooms on 2 floors.",
        "accepted_patterns": ["90"],
        "required_patterns": ["90", "2"],
        "max_words": 10,
        "near_misses": ["The mill, as everybody in the village knows well, has 90 rooms on 2."],
    }
    scenario = only([entry])
    assert wrong(scenario) == []
    assert any("91" in case.reply and "90" not in case.reply for case in selfcheck_cases(scenario))


def test_facts_that_the_expected_answer_lacks_are_added() -> None:
    entry = changed(ANSWER, required_patterns=["because"])
    scenario = only([entry])
    assert wrong(scenario) == []
    assert selfcheck_cases(scenario)[0].reply == "because\nFinal answer: 5"


def test_speed_and_timing_only_steps_judge_nothing() -> None:
    assert selfcheck_cases(only([SPEED])) == ()
    assert selfcheck_cases(only([FILE])) == ()


def _code(reply: str) -> str:
    return extract_code(reply, cut_off=False).code.rstrip()


class TestCode:
    def test_the_reference_must_pass_and_its_hollow_form_fail(self) -> None:
        solution = "def inc(n):\n    return n + 1\n"
        scenario = only(
            [changed(CODING, reference_solution=solution, near_misses=["def inc: ..."])]
        )
        cases = {case.why: case for case in selfcheck_cases(scenario)}
        assert cases["the reference solution"].must_pass
        assert _code(cases["the reference solution"].reply) == solution.rstrip()
        hollow = cases["the reference solution with empty bodies"]
        assert not hollow.must_pass
        assert "def inc(n):\n    pass" in hollow.reply
        assert not cases["an empty reply"].must_pass
        assert not cases["the prompt itself"].must_pass
        assert cases["a near miss of the entry"].reply == "```python\ndef inc: ...\n```\n"

    def test_without_a_reference_only_failures_are_known(self) -> None:
        assert reasons(only([CODING])) == {"an empty reply", "the prompt itself"}

    def test_every_kind_of_function_is_emptied(self) -> None:
        code = (
            "class A:\n"
            "    def f(self):\n        return 1\n"
            "async def g():\n    return 2\n"
            "def outer():\n    def inner():\n        return 3\n    return inner\n"
            "h = lambda x: x\n"
        )
        empty = with_empty_bodies(code)
        assert "return" not in empty
        space: dict[str, Any] = {}
        exec(empty, space)
        assert (space["A"]().f(), space["outer"](), space["h"](1)) == (None, None, None)

    def test_a_fence_inside_the_code_does_not_end_the_reply(self) -> None:
        code = 'text = """\n```\n"""'
        assert fenced(code) == f"````python\n{code}\n````\n"


class TestToolUse:
    def test_every_way_to_spoil_a_call_is_tried(self) -> None:
        turn = {"expect": {"tool": "get_weather", "args": {"town": "Oslo", "days": 2}}}
        scenario = only([changed(TOOLS, turns=[turn])])
        assert wrong(scenario) == []
        assert {
            "turn 1: the call as plain text",
            "turn 1: the call made twice",
            "turn 1: malformed arguments",
            "turn 1: another tool",
            "turn 1: an extra argument",
            "turn 1: argument days is 3",
            'turn 1: argument days is "2"',
            "turn 1: argument days is null",
            'turn 1: argument town is "oSLO"',
            "turn 1: argument town is missing",
        } <= reasons(scenario)

    def test_a_call_where_none_is_planned(self) -> None:
        scenario = only([changed(TOOLS, turns=[{"expect": {"tool": None, "answer": "rain"}}])])
        assert wrong(scenario) == []
        assert "turn 1: a call where none is planned" in reasons(scenario)
