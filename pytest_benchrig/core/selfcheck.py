"""The self-check: replies whose verdict is known before any model is asked.

A scenario is sound when its expected answer passes in the requested form and everything that only
looks like it fails. Pure: code is run by whoever holds a sandbox.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.context_text import build_file_prompt, build_window_prompt, judge_context
from pytest_benchrig.core.generation import JsonValue, ToolCall
from pytest_benchrig.core.near_misses import expected_reply, in_form, near_misses_of
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Scenario,
    SpeedSpec,
    ToolTurn,
    ToolUseSpec,
)
from pytest_benchrig.core.tool_calls import judge_conversation, judge_turn
from pytest_benchrig.core.verdict import Verdict

_LARGEST_BUILT = 8192
_MARKER = re.compile(r"final\s+answer", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SelfcheckCase:
    """One reply with the verdict it must get.

    Attributes:
        reply: What a model would have said; for code with its fence.
        must_pass: The verdict.
        why: What the reply is, for the message.
        calls: For tool use, the structured calls of each planned turn.
        answers: For tool use, the answer text of each planned turn.
    """

    reply: str
    must_pass: bool
    why: str
    calls: tuple[tuple[ToolCall, ...], ...] = ()
    answers: tuple[str, ...] = ()


def selfcheck_cases(scenario: Scenario) -> tuple[SelfcheckCase, ...]:
    """Every case of a scenario; none for what judges nothing (speed, timing-only context)."""
    return tuple(dict.fromkeys(_cases(scenario)))


def verdict_of_case(scenario: Scenario, case: SelfcheckCase) -> Verdict:
    """Judge a case as a model's reply would be judged; not for kind ``coding``.

    Raises:
        TypeError: The kind runs code or judges nothing.
    """
    spec = scenario.spec
    if isinstance(spec, AnswerSpec):
        return judge_answer(spec, case.reply)
    if isinstance(spec, ContextSpec):
        return judge_context(spec, case.reply)
    if isinstance(spec, ToolUseSpec):
        turns = []
        for turn, answer, calls in zip(spec.turns, case.answers, case.calls, strict=True):
            turns.append(judge_turn(turn, spec.tools, answer, calls))
            if not turns[-1].passed:
                break
        return judge_conversation(spec, turns)
    raise TypeError(f"a reply of kind {scenario.kind} is not judged here")


def _cases(scenario: Scenario) -> Iterator[SelfcheckCase]:
    spec = scenario.spec
    if isinstance(spec, AnswerSpec):
        yield from _answer_cases(spec, scenario)
    elif isinstance(spec, CodingSpec):
        yield from _coding_cases(spec, scenario)
    elif isinstance(spec, ContextSpec):
        yield from _context_cases(spec, scenario)
    elif isinstance(spec, ToolUseSpec):
        yield from _tool_cases(spec, scenario)
    elif not isinstance(spec, SpeedSpec):
        raise TypeError(f"unknown kind {scenario.kind}")


def _answer_cases(spec: AnswerSpec, scenario: Scenario) -> Iterator[SelfcheckCase]:
    form = _form_of(spec)
    yield SelfcheckCase(expected_reply(form), True, "the expected answer in the requested form")
    yield SelfcheckCase("", False, "an empty reply")
    yield SelfcheckCase(scenario.prompt, False, "the prompt itself")
    for miss in near_misses_of(form):
        yield SelfcheckCase(miss, False, "a near miss of the expected answer")
    for miss in scenario.near_misses:
        yield SelfcheckCase(_as_reply(form, miss), False, "a near miss of the entry")


def _form_of(spec: AnswerSpec) -> AnswerSpec:
    """How a reply is built: facts are added only where the expected answer lacks them.

    A summary that holds its facts must be changed as a whole; beside a second copy of the facts a
    wrong one would not be noticed.
    """
    alone = dataclasses.replace(spec, required_patterns=())
    return alone if judge_answer(spec, expected_reply(alone)).passed else spec


def _as_reply(spec: AnswerSpec, answer: str) -> str:
    """A near miss of the entry: a whole reply, or a value where the check asks for a marker."""
    if spec.check_type == "final_answer" and not _MARKER.search(answer):
        return in_form(spec, answer)
    return answer


def fenced(code: str) -> str:
    """Code as a reply shows it."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}python\n{code.rstrip()}\n{fence}\n"


def _coding_cases(spec: CodingSpec, scenario: Scenario) -> Iterator[SelfcheckCase]:
    yield SelfcheckCase("", False, "an empty reply")
    yield SelfcheckCase(scenario.prompt, False, "the prompt itself")
    if spec.reference_solution:
        reply = fenced(spec.reference_solution)
        yield SelfcheckCase(reply, True, "the reference solution")
        hollow = fenced(with_empty_bodies(spec.reference_solution))
        yield SelfcheckCase(hollow, False, "the reference solution with empty bodies")
    for miss in scenario.near_misses:
        reply = miss if "```" in miss or "~~~" in miss else fenced(miss)
        yield SelfcheckCase(reply, False, "a near miss of the entry")


class _Hollow(ast.NodeTransformer):
    def _empty(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return node

    visit_FunctionDef = _empty  # noqa: N815 - the names that ast looks for
    visit_AsyncFunctionDef = _empty  # noqa: N815
    # A lambda has no body to empty; its value becomes None.

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = ast.Constant(None)
        return node


def with_empty_bodies(code: str) -> str:
    """The code with every function reduced to ``pass``."""
    tree = _Hollow().visit(ast.parse(code))
    return ast.unparse(ast.fix_missing_locations(tree))


def _context_cases(spec: ContextSpec, scenario: Scenario) -> Iterator[SelfcheckCase]:
    if not spec.expected:
        return
    build = build_window_prompt if spec.needle else build_file_prompt
    prompt = build(scenario.id, _affordable(spec)).text
    yield SelfcheckCase(prompt, True, "the built prompt, which hides the expected value")
    yield SelfcheckCase(spec.expected, True, "the expected value")
    yield SelfcheckCase("", False, "an empty reply")
    yield SelfcheckCase(spec.instruction or spec.query, False, "the question itself")
    if spec.needle:
        rest = prompt.replace(spec.needle, "", 1)
        yield SelfcheckCase(rest, False, "the built prompt without its needle")
    for miss in near_misses_of(AnswerSpec("exact_or_contains", expected_answer=spec.expected)):
        yield SelfcheckCase(miss, False, "a near miss of the expected value")
    for miss in scenario.near_misses:
        yield SelfcheckCase(miss, False, "a near miss of the entry")


def _affordable(spec: ContextSpec) -> ContextSpec:
    """The same step in a window that is built in no time: needle and filler stay the same."""
    if not spec.needle or spec.context_size <= _LARGEST_BUILT:
        return spec
    return dataclasses.replace(spec, context_size=_LARGEST_BUILT)


def _tool_cases(spec: ToolUseSpec, scenario: Scenario) -> Iterator[SelfcheckCase]:
    planned = tuple(_planned_calls(turn) for turn in spec.turns)
    answers = tuple(_planned_answer(turn) for turn in spec.turns)
    yield SelfcheckCase("", True, "the planned calls and answers", planned, answers)
    nothing = tuple(() for _ in spec.turns)
    yield SelfcheckCase("", False, "no call and no answer", nothing, ("",) * len(spec.turns))
    echo = (scenario.prompt,) * len(spec.turns)
    yield SelfcheckCase(scenario.prompt, False, "the prompt itself", nothing, echo)
    for index, turn in enumerate(spec.turns):
        for why, calls, answer in _mutations(spec, turn, planned[index], answers[index]):
            yield SelfcheckCase(
                answer,
                False,
                f"turn {index + 1}: {why}",
                (*planned[:index], calls, *planned[index + 1 :]),
                (*answers[:index], answer, *answers[index + 1 :]),
            )
        for miss in scenario.near_misses if turn.tool is None else ():
            yield SelfcheckCase(
                miss,
                False,
                f"turn {index + 1}: a near miss of the entry",
                planned,
                (*answers[:index], miss, *answers[index + 1 :]),
            )


def _planned_calls(turn: ToolTurn) -> tuple[ToolCall, ...]:
    if turn.tool is None:
        return ()
    return (ToolCall(turn.tool, json.dumps(dict(turn.args), ensure_ascii=False), "call_1"),)


def _planned_answer(turn: ToolTurn) -> str:
    if turn.tool is not None:
        return ""
    return "Done." if turn.answer is None else expected_reply(turn.answer)


Mutation = tuple[str, tuple[ToolCall, ...], str]


def _mutations(
    spec: ToolUseSpec, turn: ToolTurn, calls: tuple[ToolCall, ...], answer: str
) -> Iterator[Mutation]:
    """What a model might do instead of the planned turn."""
    names = [str(tool["function"]["name"]) for tool in spec.tools]
    if turn.tool is None:
        yield "a call where none is planned", (ToolCall(names[0], "{}"),), answer
        if turn.answer is not None:
            yield "no answer", (), ""
            for miss in near_misses_of(turn.answer):
                yield "a near miss of the answer", (), miss
        return
    call = calls[0]
    yield "the call as plain text", (), json.dumps({"name": call.name, "arguments": call.arguments})
    yield "the call made twice", (call, call), ""
    yield "malformed arguments", (ToolCall(call.name, call.arguments[:-1] or "{"),), ""
    for other in [*(name for name in names if name != call.name), "no_such_tool"][:2]:
        yield "another tool", (ToolCall(other, call.arguments),), ""
    for why, arguments in _changed_arguments(turn.args):
        text = json.dumps(arguments, ensure_ascii=False)
        yield why, (ToolCall(call.name, text),), ""


def _changed_arguments(args: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The arguments with one thing wrong: missing, extra, changed, of another type."""
    plain = dict(args)
    yield "an extra argument", {**plain, "unplanned": 1}
    for path in _leaves(plain, ()):
        value = _at(plain, path)
        name = ".".join(map(str, path))
        for changed in _other_values(value):
            yield f"argument {name} is {json.dumps(changed)}", _replaced(plain, path, changed)
    for key in plain:
        yield f"argument {key} is missing", {k: v for k, v in plain.items() if k != key}


def _leaves(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    inner: Sequence[tuple[str | int, JsonValue]] = ()
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    if not inner and path:
        yield path
    for key, part in inner:
        yield from _leaves(part, (*path, key))


def _at(value: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    for key in path:
        value = value[key]
    return value


def _replaced(value: JsonValue, path: tuple[str | int, ...], new: JsonValue) -> JsonValue:
    changed = copy.deepcopy(value)
    _at(changed, path[:-1])[path[-1]] = new
    return changed


def _other_values(value: JsonValue) -> tuple[JsonValue, ...]:
    if isinstance(value, bool):
        return (not value, str(value).lower(), None)
    if isinstance(value, int | float):
        return (value + 1, str(value), None)
    if isinstance(value, str):
        return (value + "x", value.swapcase() if value.swapcase() != value else value + " ", None)
    return ("",)
