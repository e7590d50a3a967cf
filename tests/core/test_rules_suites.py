"""Context, Polish and tool use: replies as models write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.context_text import judge_context
from pytest_benchrig.core.generation import ToolCall
from pytest_benchrig.core.scenario import AnswerSpec, ContextSpec, ToolTurn, ToolUseSpec
from pytest_benchrig.core.thinking import ReasoningParser
from pytest_benchrig.core.tool_calls import judge_conversation, judge_turn

split = ReasoningParser().split
STEP = ContextSpec(
    512, needle="The locker opens with 3916.", instruction="Which number?", expected="3916"
)


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("3916", True),
        ("3 916", True),
        ("3\u202f916", True),
        ("#3916", True),
        ("３９１６", True),
        ("The number is “3916”.", True),
        ("```\n3916\n```", True),
        ("| locker | 3916 |", True),
        ("<think>3917?</think>3916", True),
        ("Is it 3917? No, 3916.", True),
        ("3916!", True),
        ("39 16", False),
        ("3-9-1-6", False),
        ("03916", False),
        ("3916.0", False),
        ("3916.5", False),
        ("0.3916", False),
        ("−3916", False),
        ("3916/2", False),
        ("3916e2", False),
        ("A3916", False),
        ("6193", False),
        ("39163916", False),
        ("13,916", False),
        ("three nine one six", False),
        ("<think>3916</think>", False),
        ("<think>3916</think>I cannot say.", False),
        ("<think>It is 3916", False),
        ("It is 3916.\n</think>\nDone.", False),
        ("3916\n<think>let me check", False),
    ],
)
def test_retrieved(reply: str, right: bool) -> None:
    found = split(reply)
    verdict = judge_context(STEP, found.answer, truncated_thinking=found.truncated_thinking)
    assert verdict.fields["retrieved"] is right


def test_a_number_that_the_server_kept_as_trace_is_not_retrieved() -> None:
    assert judge_context(STEP, split("I cannot say.", "3916").answer).passed is False
    assert judge_context(STEP, split("", "3916").answer).passed is False
    assert judge_context(STEP, split("3916", "3917").answer).passed is True


@pytest.mark.parametrize(
    ("value", "pattern", "right"),
    [
        ("dobrzy lekarze", "dobrzy lekarze", True),
        ("DOBRZY LEKARZE", "dobrzy lekarze", True),
        ("dobrzy\u00a0lekarze", "dobrzy lekarze", True),
        ("„dobrzy lekarze”.", "dobrzy lekarze", True),
        ("*dobrzy lekarze*", "dobrzy lekarze", True),
        ("ksia\u0328z\u0307ce", "książce", True),
        ("książ\u00adce", "książce", True),
        ("KSIĄŻCE!".removesuffix("!"), "ksia\u0328z\u0307ce", True),
        ("przyjacio\u0301łmi", "przyjaciółmi", True),
        ("pięć tygodni 🇵🇱", "pięć tygodni", True),
        ("3,5 kg", "3,5 kg", True),
        ("1 250 zł", "1250 zł", True),
        ("dobry lekarze", "dobrzy lekarze", False),
        ("lekarze dobrzy", "dobrzy lekarze", False),
        ("dobrzy  lekarze", "dobrzy lekarze", False),
        ("dobrzylekarze", "dobrzy lekarze", False),
        ("dobrzy lekarze!", "dobrzy lekarze", False),
        ("książcę", "książce", False),
        ("ksiazce", "książce", False),
        ("ksia\u0328zce", "książce", False),
        ("przyjaciolmi", "przyjaciółmi", False),
        ("przyjaciołmi", "przyjaciółmi", False),
        ("3.5 kg", "3,5 kg", False),
        ("książce (miejscownik)", "książce", False),
        ("o książce", "książce", False),
    ],
)
def test_polish(value: str, pattern: str, right: bool) -> None:
    spec = AnswerSpec("final_answer", pattern, (pattern,))
    assert (judge_answer(spec, f"Odpowiedź.\n\nFinal answer: {value}").passed is True) is right


TOOLS: tuple[dict[str, Any], ...] = tuple(
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in (
        (
            "book",
            {
                "type": "object",
                "$defs": {"money": {"type": "number"}},
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "price": {"type": "number"},
                    "tip": {"$ref": "#/$defs/money"},
                    "class": {"type": "string", "enum": ["first", "second"]},
                    "guests": {"type": "array", "items": {"type": "string"}},
                    "grid": {"type": "array", "items": {"type": "array"}},
                    "pay": {
                        "type": "object",
                        "properties": {"sum": {"type": "number"}, "on": {"type": "boolean"}},
                        "additionalProperties": False,
                    },
                },
                "additionalProperties": False,
            },
        ),
        ("stop", {"type": "object", "properties": {}, "additionalProperties": False}),
    )
)


@pytest.mark.parametrize(
    ("expected", "arguments", "right"),
    [
        ({"city": "Łódź"}, '{"city": "Łódź"}', True),
        ({"city": "Łódź"}, '{"city": "\\u0141\\u00f3d\\u017a"}', True),
        ({"city": "Łódź"}, '{"city": "Lodz"}', False),
        ({"city": "Łódź"}, '{"city": "Ło\u0301dz\u0301"}', False),
        ({"city": "Oslo"}, '{"city": "oslo"}', False),
        ({"city": "Oslo"}, '{"city": " Oslo"}', False),
        ({"city": "Oslo"}, '{"city": ["Oslo"]}', False),
        ({"city": "Oslo"}, '"{\\"city\\": \\"Oslo\\"}"', False),
        ({"city": "Oslo"}, '[{"city": "Oslo"}]', False),
        ({"city": "Oslo"}, '{"city": "Oslo"} ', True),
        ({"city": "Oslo"}, '{"city": "Oslo",}', False),
        ({"city": "Oslo"}, '```json\n{"city": "Oslo"}\n```', False),
        ({"city": "Oslo"}, '{"city": "Oslo", "city": "Oslo"}', False),
        ({"city": "Oslo"}, '{"city": "Oslo", "days": 1}', False),
        ({"city": "Oslo"}, '{"city": "Oslo", "unknown": 1}', False),
        ({"city": "Oslo", "days": 3}, '{"days": 3, "city": "Oslo"}', True),
        ({"city": "Oslo", "days": 3}, '{"city": "Oslo"}', False),
        ({"days": 3}, '{"days": 3}', True),
        ({"days": 3}, '{"days": 3.0}', False),
        ({"days": 3}, '{"days": 3e0}', False),
        ({"days": 3}, '{"days": "3"}', False),
        ({"days": 1}, '{"days": true}', False),
        ({"days": 0}, '{"days": false}', False),
        ({"days": 0}, '{"days": null}', False),
        ({"days": 3}, '{"days": 03}', False),
        ({"days": 3}, '{"days": +3}', False),
        ({"price": 12.5}, '{"price": 12.50}', True),
        ({"price": 12.0}, '{"price": 12}', True),
        ({"price": 12}, '{"price": 1.2e1}', True),
        ({"price": 0.1}, '{"price": 0.1000000000000000055}', False),
        ({"price": 12.5}, '{"price": "12.5"}', False),
        ({"price": 1}, '{"price": true}', False),
        ({"tip": 5.0}, '{"tip": 5}', True),
        ({"tip": 5}, '{"tip": 5.0}', True),
        ({"class": "first"}, '{"class": "first"}', True),
        ({"class": "first"}, '{"class": "First"}', False),
        ({"class": "first"}, '{"class": "second"}', False),
        ({"guests": ["Ola", "Jan"]}, '{"guests": ["Ola", "Jan"]}', True),
        ({"guests": ["Ola", "Jan"]}, '{"guests": ["Jan", "Ola"]}', False),
        ({"guests": ["Ola", "Jan"]}, '{"guests": "[\\"Ola\\", \\"Jan\\"]"}', False),
        ({"guests": ["Ola"]}, '{"guests": "Ola"}', False),
        ({"guests": []}, '{"guests": []}', True),
        ({"guests": []}, "{}", False),
        ({"guests": []}, '{"guests": null}', False),
        ({"grid": [[1, 2], [3, 4]]}, '{"grid": [[1, 2], [3, 4]]}', True),
        ({"grid": [[1, 2], [3, 4]]}, '{"grid": [[1, 2], [3, 4.0]]}', False),
        ({"grid": [[1, 2], [3, 4]]}, '{"grid": [1, 2, 3, 4]}', False),
        ({"pay": {"sum": 5, "on": True}}, '{"pay": {"on": true, "sum": 5.0}}', True),
        ({"pay": {"sum": 5, "on": True}}, '{"pay": {"on": 1, "sum": 5}}', False),
        ({"pay": {"sum": 5, "on": True}}, '{"pay": {"on": true, "sum": 5, "x": 1}}', False),
        ({"pay": {"sum": 5}}, '{"sum": 5}', False),
        ({"pay": {"sum": 5}}, '{"pay": "{\\"sum\\": 5}"}', False),
        ({"pay": {"sum": 5}}, '{"pay": {"sum": 5, "sum": 5}}', False),
    ],
)
def test_arguments(expected: dict[str, Any], arguments: str, right: bool) -> None:
    verdict = judge_turn(ToolTurn("book", expected), TOOLS, "", [ToolCall("book", arguments)])
    assert (verdict.tool_ok, verdict.args_ok, verdict.passed) == (True, right, right)


@pytest.mark.parametrize("arguments", ["", " ", "{}", " {} "])
def test_no_arguments(arguments: str) -> None:
    assert judge_turn(ToolTurn("stop"), TOOLS, "", [ToolCall("stop", arguments)]).passed
    assert not judge_turn(
        ToolTurn("book", {"days": 3}), TOOLS, "", [ToolCall("book", arguments)]
    ).passed


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        ([], ""),
        ([], '{"name": "stop", "arguments": {}}'),
        ([], '<tool_call>{"name": "stop", "arguments": {}}</tool_call>'),
        ([], "stop()"),
        ([ToolCall("Stop", "{}")], ""),
        ([ToolCall("stop ", "{}")], ""),
        ([ToolCall("functions.stop", "{}")], ""),
        ([ToolCall("book", "{}")], ""),
        ([ToolCall("", "{}")], ""),
        ([ToolCall("stop", "{}"), ToolCall("stop", "{}")], ""),
        ([ToolCall("stop", "{}"), ToolCall("book", "{}")], ""),
        ([ToolCall("book", "{}"), ToolCall("stop", "{}")], ""),
    ],
)
def test_anything_but_the_one_planned_call(calls: list[ToolCall], answer: str) -> None:
    verdict = judge_turn(ToolTurn("stop"), TOOLS, answer, calls)
    assert (verdict.passed, verdict.tool_ok, verdict.args_ok) == (False, False, False)
    assert verdict.structured is bool(calls)


@pytest.mark.parametrize(
    ("answer", "calls", "right"),
    [
        ("42", [], True),
        ("It is **42**.", [], True),
        ("<think>easy</think>42", [], True),
        ("<think>42</think>", [], False),
        ("<think>42</think>Sorry, I cannot help.", [], False),
        ("<think>42", [], False),
        ("142", [], False),
        ("", [], False),
        ("I'm sorry, I can't help with that.", [], False),
        ("42", [ToolCall("stop", "{}")], False),
    ],
)
def test_a_turn_without_a_call(answer: str, calls: list[ToolCall], right: bool) -> None:
    turn = ToolTurn(None, answer=AnswerSpec("exact_or_contains", "42"))
    found = split(answer)
    said = "" if found.truncated_thinking else found.answer
    verdict = judge_turn(turn, TOOLS, said, calls)
    assert (verdict.passed, verdict.called) == (right, bool(calls))


def test_the_first_wrong_turn_leaves_the_rest_as_failed_evidence() -> None:
    quiet = ToolTurn(None, answer=AnswerSpec("exact_or_contains", "42"))
    spec = ToolUseSpec(TOOLS, (ToolTurn("book", {"days": 3}), ToolTurn("stop"), quiet))
    calls = [ToolCall("book", json.dumps({"days": "3"}))]
    verdict = judge_conversation(spec, [judge_turn(spec.turns[0], TOOLS, "", calls)])

    assert verdict.kind == "fail"
    assert verdict.detail.startswith("turn 1: ")
    rows = [(t["reached"], t["structured"], t["passed"]) for t in verdict.fields["turns"]]
    assert rows == [(True, True, False), (False, False, False), (False, False, False)]
