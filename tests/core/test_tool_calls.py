"""Tool use: exact tools, exact JSON types, planned conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import ToolCall
from pytest_benchrig.core.scenario import AnswerSpec, ToolTurn, ToolUseSpec
from pytest_benchrig.core.thinking import ReasoningParser
from pytest_benchrig.core.tool_calls import (
    MalformedArguments,
    arguments_problem,
    judge_conversation,
    judge_stored,
    judge_turn,
    parse_arguments,
    result_text,
)

CASES = json.loads((Path(__file__).parents[1] / "data/cases/toolcalls.json").read_text("utf-8"))


def spec_of(case: dict[str, Any]) -> ToolUseSpec:
    turns = []
    for turn in case["turns"]:
        call, quiet = turn["expect"].get("call"), turn["expect"].get("no_call")
        turns.append(
            ToolTurn(call["name"], call["arguments"], tool_result=turn.get("tool_result"))
            if call
            else ToolTurn(None, answer=AnswerSpec(**quiet))
        )
    return ToolUseSpec(tuple(case["tools"]), tuple(turns))


def calls_of(message: dict[str, Any]) -> list[ToolCall]:
    calls = []
    for call in message.get("tool_calls") or []:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append(ToolCall(call["function"]["name"], text, call.get("id", "")))
    return calls


def play(case: dict[str, Any]) -> tuple[bool, list[dict[str, Any]]]:
    spec, verdicts, error = spec_of(case), [], ""
    for turn, message in zip(spec.turns, case["responses"], strict=False):
        if "error" in message:
            error = message["error"]["message"]
            break
        answer = ReasoningParser().split(message.get("content") or "").answer
        verdicts.append(judge_turn(turn, spec.tools, answer, calls_of(message)))
        if not verdicts[-1].passed:
            break
    verdict = judge_conversation(spec, verdicts, error=error)
    return verdict.passed is True, list(verdict.fields["turns"])


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c["expect"]["unsupported"]], ids=lambda c: str(c["id"])
)
def test_shared_cases(case: dict[str, Any]) -> None:
    passed, turns = play(case)

    expected = case["expect"]
    assert passed is expected["passed"]
    calls = [t for t in turns if t["expected_tool"] is not None]
    quiet = [t for t in turns if t["expected_tool"] is None]
    counted = {
        "tool_selected_ok": [sum(t["tool_ok"] for t in calls), len(calls)],
        "args_ok": [sum(t["args_ok"] for t in calls), len(calls)],
        "structured_call": [sum(t["structured"] for t in calls), len(calls)],
        "abstained_ok": [sum(t["passed"] for t in quiet), len(quiet)],
        "false_call": [sum(t["called"] for t in quiet), len(quiet)],
    }
    for name, value in counted.items():
        if expected[name] is not None:
            assert value == expected[name], name
    assert sum(not t["reached"] for t in turns) == expected["skipped_turns"]
    assert sum(bool(t["error"]) for t in turns) == expected["errors"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_arguments(text: str, expected: dict[str, object]) -> None:
    assert parse_arguments(text) == expected


@pytest.mark.parametrize(
    "text",
    ["null", "[]", '"x"', "1", "{", '{"a": 1,}', '{"a": NaN}', '{"a": Infinity}', "{'a': 1}",
     '{"a": 1, "a": 1}', '{"b": {"a": 1, "a": 2}}', '{"a": 1}{"a": 1}', "[" * 100_000],
)  # fmt: skip
def test_malformed_arguments(text: str) -> None:
    with pytest.raises(MalformedArguments):
        parse_arguments(text)


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "number"},
        "i": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "number"}},
        "o": {"type": "object", "properties": {"n": {"type": "number"}}},
        "u": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("given_text", "expected", "right"),
    [
        ('{"n": 1}', {"n": 1.0}, True),
        ('{"n": 1.0}', {"n": 1}, True),
        ('{"n": 12.50}', {"n": 12.5}, True),
        ('{"n": 12.5000001}', {"n": 12.5}, False),
        ('{"n": "1"}', {"n": 1}, False),
        ('{"n": true}', {"n": 1}, False),
        ('{"i": 1.0}', {"i": 1}, False),
        ('{"i": 1}', {"i": 1}, True),
        ('{"s": "a"}', {"s": "a"}, True),
        ('{"s": "A"}', {"s": "a"}, False),
        ('{"s": "a "}', {"s": "a"}, False),
        ('{"l": [1, 2.0]}', {"l": [1.0, 2]}, True),
        ('{"l": [2, 1]}', {"l": [1, 2]}, False),
        ('{"o": {"n": 1}}', {"o": {"n": 1.0}}, True),
        ('{"u": 1}', {"u": 1.0}, True),
        ('{"any": 1}', {"any": 1.0}, False),
        ('{"any": null}', {"any": None}, True),
        ('{"s": "a", "i": 1}', {"i": 1, "s": "a"}, True),
        ('{"s": "a", "i": 1}', {"s": "a"}, False),
        ("{}", {"s": "a"}, False),
    ],
)
def test_types_are_exact_but_number_is_one_type(
    given_text: str, expected: dict[str, object], right: bool
) -> None:
    assert (arguments_problem(given_text, expected, SCHEMA) == "") is right


def test_two_calls_where_one_is_expected_fail() -> None:
    call = ToolCall("f", "{}")

    verdict = judge_turn(ToolTurn("f"), (), "", [call, call])

    assert not verdict.passed
    assert not verdict.tool_ok
    assert verdict.structured


def test_a_stored_conversation_is_judged_again() -> None:
    spec = ToolUseSpec((), (ToolTurn("f", {"a": 1}), ToolTurn(None, answer=None)))
    turns = [
        judge_turn(spec.turns[0], (), "", [ToolCall("f", '{"a": 1}')]),
        judge_turn(spec.turns[1], (), "Done.", []),
    ]
    stored = judge_conversation(spec, turns)

    assert stored.passed is True
    assert judge_stored(spec, stored.fields["turns"]) == stored


def test_a_tools_result_is_text_or_json() -> None:
    assert result_text("late") == "late"
    assert result_text({"stan": "późno"}) == '{"stan": "późno"}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_arguments_equal_themselves(arguments: dict[str, object]) -> None:
    assert arguments_problem(json.dumps(arguments), arguments, {}) == ""
