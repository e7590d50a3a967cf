"""Judging tool use: one planned turn at a time, with exact JSON types.

The evidence of a turn is a plain JSON object, so that a stored run can be judged again and every
rate can be counted from the records alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pytest_benchrig.core.generation import JsonValue, ToolCall
from pytest_benchrig.core.scenario import ToolTurn, ToolUseSpec
from pytest_benchrig.core.verdict import Verdict

_COMBINERS = ("anyOf", "oneOf", "allOf")


class MalformedArguments(ValueError):  # noqa: N818 - a finding about a reply
    """Arguments that are not one strict JSON object."""


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """What one planned turn came to.

    Attributes:
        expected_tool: The planned tool, ``None`` for a turn without a call.
        reached: Whether the turn was asked at all.
        called: Whether the reply had a structured call.
        structured: The same, for a turn that plans one.
        tool_ok: Exactly one call, of the planned tool.
        args_ok: That call's arguments are valid and equal to the planned ones.
        passed: The turn as a whole.
        detail: Why not.
        calls: The calls as they came.
        answer: The answer text.
        error: The infrastructure's fault, if one stood in for the reply.
    """

    expected_tool: str | None
    reached: bool = True
    called: bool = False
    structured: bool = False
    tool_ok: bool = False
    args_ok: bool = False
    passed: bool = False
    detail: str = ""
    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    error: str = ""

    def to_json(self, index: int) -> dict[str, JsonValue]:
        """The evidence of this turn."""
        return {
            "index": index,
            "expected_tool": self.expected_tool,
            "reached": self.reached,
            "called": self.called,
            "structured": self.structured,
            "tool_ok": self.tool_ok,
            "args_ok": self.args_ok,
            "passed": self.passed,
            "detail": self.detail,
            "calls": [{"name": c.name, "arguments": c.arguments, "id": c.id} for c in self.calls],
            "answer": self.answer,
            "error": self.error,
        }


def parse_arguments(text: str) -> dict[str, JsonValue]:
    """The arguments of a call; an empty string means none. Fractions stay exact decimals.

    Raises:
        MalformedArguments: Not one JSON object, a duplicate key, NaN or infinity.
    """
    if not text.strip():
        return {}

    def pairs(found: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        result = dict(found)
        if len(result) != len(found):
            names = [key for key, _ in found]
            twice = sorted({n for n in names if names.count(n) > 1})
            raise MalformedArguments(f"the key {', '.join(map(repr, twice))} occurs twice")
        return result

    def constant(word: str) -> JsonValue:
        raise MalformedArguments(f"{word} is not JSON")

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_constant=constant, parse_float=Decimal
        )
    except MalformedArguments:
        raise
    except (ValueError, RecursionError) as problem:
        raise MalformedArguments(f"the arguments are not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise MalformedArguments(f"the arguments are {_type_name(value)}, not an object")
    return value


def judge_turn(
    turn: ToolTurn,
    tools: Sequence[Mapping[str, JsonValue]],
    answer: str,
    calls: Sequence[ToolCall],
) -> TurnVerdict:
    """Judge one reply against its planned turn.

    Args:
        turn: What was planned.
        tools: The tools that were offered.
        answer: The answer text, without a trace.
        calls: The structured calls of the reply; JSON in the text is none.
    """
    made = tuple(calls)
    if turn.tool is None:
        return _judge_quiet(turn, answer, made)
    seen = TurnVerdict(
        turn.tool, called=bool(made), structured=bool(made), calls=made, answer=answer
    )
    if not made:
        return _with(seen, detail=f"no structured call; {turn.tool} was expected")
    if len(made) > 1:
        names = ", ".join(c.name for c in made)
        return _with(seen, detail=f"{len(made)} calls where one was expected: {names}")
    call = made[0]
    if call.name != turn.tool:
        return _with(seen, detail=f"called {call.name!r}, expected {turn.tool!r}")
    problem = arguments_problem(call.arguments, turn.args, schema_of(tools, turn.tool))
    return _with(seen, tool_ok=True, args_ok=not problem, passed=not problem, detail=problem)


def _judge_quiet(turn: ToolTurn, answer: str, made: tuple[ToolCall, ...]) -> TurnVerdict:
    from pytest_benchrig.core.answers import judge_answer

    seen = TurnVerdict(None, called=bool(made), calls=made, answer=answer)
    if made:
        return _with(seen, detail=f"called {made[0].name!r} where no call was expected")
    if turn.answer is None:
        passed, detail = bool(answer.strip()), "" if answer.strip() else "neither call nor answer"
    else:
        verdict = judge_answer(turn.answer, answer)
        passed, detail = verdict.passed is True, verdict.detail
    return _with(seen, passed=passed, detail="" if passed else detail)


def _with(seen: TurnVerdict, **changes: Any) -> TurnVerdict:
    import dataclasses

    return dataclasses.replace(seen, **changes)


def schema_of(tools: Sequence[Mapping[str, JsonValue]], name: str) -> Mapping[str, JsonValue]:
    """The JSON Schema of a tool's arguments, empty where it has none."""
    for tool in tools:
        function = tool.get("function", {})
        if function.get("name") == name:
            schema = function.get("parameters") or {}
            return schema if isinstance(schema, Mapping) else {}
    return {}


def arguments_problem(
    text: str, expected: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> str:
    """Why the arguments are wrong, "" if they are right."""
    try:
        given = parse_arguments(text)
    except MalformedArguments as problem:
        return str(problem)
    missing = sorted(set(expected) - set(given))
    if missing:
        return f"missing argument {', '.join(missing)}"
    extra = sorted(set(given) - set(expected))
    if extra:
        return f"extra argument {', '.join(extra)}"
    invalid = _invalid(given, schema)
    if invalid:
        return invalid
    return _Comparison(schema).difference(given, dict(expected), [schema], "")


def _invalid(given: dict[str, JsonValue], schema: Mapping[str, JsonValue]) -> str:
    if not schema:
        return ""
    import jsonschema

    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    plain = json.loads(json.dumps(given, default=float))
    errors = sorted(validator(schema).iter_errors(plain), key=lambda e: list(map(str, e.path)))
    if not errors:
        return ""
    where = ".".join(map(str, errors[0].path)) or "arguments"
    return f"{where} breaks the schema: {errors[0].message}"


class _Comparison:
    """Given against expected arguments, and what a tool's schema says about each of them."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        self._root = schema

    def difference(
        self,
        given: JsonValue,
        expected: JsonValue,
        schemas: list[Mapping[str, JsonValue]],
        where: str,
    ) -> str:
        """The first difference, "" if equal: exact types, except that ``number`` is one type."""
        place = where or "arguments"
        if isinstance(expected, dict) and isinstance(given, dict):
            if set(given) != set(expected):
                return f"{place}: keys {sorted(given)} instead of {sorted(expected)}"
            for key, value in expected.items():
                path = f"{where}.{key}" if where else key
                problem = self.difference(given[key], value, self._property(schemas, key), path)
                if problem:
                    return problem
            return ""
        if isinstance(expected, list) and isinstance(given, list):
            if len(given) != len(expected):
                return f"{place}: {len(given)} items instead of {len(expected)}"
            for index, value in enumerate(expected):
                inner = self._item(schemas, index)
                problem = self.difference(given[index], value, inner, f"{where}[{index}]")
                if problem:
                    return problem
            return ""
        if _is_number(given) and _is_number(expected):
            return _number_difference(given, expected, schemas, place)
        if type(given) is not type(expected):
            return (
                f"{place}: {_type_name(given)} {given!r} instead of"
                f" {_type_name(expected)} {expected!r}"
            )
        return "" if given == expected else f"{place}: {given!r} instead of {expected!r}"

    def _property(
        self, schemas: list[Mapping[str, JsonValue]], key: str
    ) -> list[Mapping[str, JsonValue]]:
        found = []
        for schema in self._branches(schemas):
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if isinstance(inner, Mapping):
                found.append(inner)
        return self._branches(found)

    def _item(
        self, schemas: list[Mapping[str, JsonValue]], index: int
    ) -> list[Mapping[str, JsonValue]]:
        found = []
        for schema in self._branches(schemas):
            prefix = schema.get("prefixItems", ())
            inner = prefix[index] if index < len(prefix) else schema.get("items")
            if isinstance(inner, Mapping):
                found.append(inner)
        return self._branches(found)

    def _branches(self, schemas: list[Mapping[str, JsonValue]]) -> list[Mapping[str, JsonValue]]:
        """The schemas with all that they combine or refer to, each once."""
        found: list[Mapping[str, JsonValue]] = []
        waiting: list[JsonValue] = list(schemas)
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or any(schema is seen for seen in found):
                continue
            found.append(schema)
            for word in _COMBINERS:
                waiting += schema.get(word, ())
            if isinstance(name := schema.get("$ref"), str):
                waiting.append(self._named(name))
        return found

    def _named(self, reference: str) -> JsonValue:
        """What a reference within the schema leads to; others say nothing about types."""
        if not reference.startswith("#"):
            return None
        place: JsonValue = self._root
        for part in reference[1:].strip("/").split("/") if reference.strip("#/") else ():
            step = part.replace("~1", "/").replace("~0", "~")
            place = place.get(step) if isinstance(place, Mapping) else None
        return place


def _number_difference(
    given: JsonValue, expected: JsonValue, schemas: list[Mapping[str, JsonValue]], place: str
) -> str:
    same_type = isinstance(given, int) == isinstance(expected, int)
    if not same_type and not any(_says_number(s) for s in schemas):
        return f"{place}: {_type_name(given)} {given} instead of {_type_name(expected)} {expected}"
    equal = _exact(given) == _exact(expected)
    return "" if equal else f"{place}: {given} instead of {expected}"


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _exact(value: int | float | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def _says_number(schema: Mapping[str, JsonValue]) -> bool:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return "number" in kinds


def _type_name(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float | Decimal):
        return "number"
    names: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def judge_conversation(
    spec: ToolUseSpec, turns: Sequence[TurnVerdict], *, error: str = ""
) -> Verdict:
    """The task: every planned turn must pass; turns that were not reached stay failed evidence.

    Args:
        spec: The planned conversation.
        turns: The turns that were judged, in order.
        error: A fault that stood in for the next turn's reply.
    """
    evidence = list(turns)
    if error and len(evidence) < len(spec.turns):
        planned = spec.turns[len(evidence)]
        evidence.append(TurnVerdict(planned.tool, detail="the request failed", error=error))
    for planned in spec.turns[len(evidence) :]:
        evidence.append(TurnVerdict(planned.tool, reached=False, detail="not reached"))
    passed = bool(evidence) and all(t.passed for t in evidence)
    first_bad = next((i for i, t in enumerate(evidence) if not t.passed), None)
    detail = "" if first_bad is None else f"turn {first_bad + 1}: {evidence[first_bad].detail}"
    return Verdict(
        "pass" if passed else "fail",
        detail,
        rule="tool use: every planned turn must pass",
        fields={"turns": [turn.to_json(i) for i, turn in enumerate(evidence)]},
    )


def judge_stored(spec: ToolUseSpec, stored: Sequence[Mapping[str, JsonValue]]) -> Verdict:
    """Judge a stored conversation again from its evidence."""
    turns: list[TurnVerdict] = []
    for planned, evidence in zip(spec.turns, stored, strict=False):
        if not evidence.get("reached") or evidence.get("error"):
            break
        calls = [ToolCall(c["name"], c["arguments"], c.get("id", "")) for c in evidence["calls"]]
        turns.append(judge_turn(planned, spec.tools, evidence["answer"], calls))
        if not turns[-1].passed:
            break
    return judge_conversation(spec, turns)


def result_text(result: JsonValue) -> str:
    """What the plugin answers in a tool's place: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
