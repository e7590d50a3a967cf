"""What a schema cannot say: whether an entry's own check, code, patterns and needle make sense.

Each function returns findings and raises nothing for a fault of the file. The judging modules are
asked where an answer has to be judged, so that loading and running can never disagree.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_benchrig.core.answers import expected_passes_own_check, judge_answer
from pytest_benchrig.core.context_text import judge_context
from pytest_benchrig.core.findings import Finding, JsonPath, did_you_mean, listed, shown
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.matching import PatternTimeout, compile_problem, fullmatch, search
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Scenario,
    ToolTurn,
    ToolUseSpec,
)
from pytest_benchrig.core.tool_calls import arguments_problem, schema_of

BUILT_IN_CHECKS = ("final_answer", "exact_or_contains", "regex", "numeric")
_PLAIN_PATTERN = re.compile(r"[\w \-,:;'\"%&=<>!/@]*")
_SELF_EVIDENT = re.compile(r"[A-Za-z]+|[0-9]{1,18}")
_MARKER = re.compile(r"final\s+answer", re.IGNORECASE)
_BETWEEN = " \t:=*_#`|–—-"
_ASSERTS_BRACKET = re.compile(r"\bassert\s*\(")
_PLACEHOLDER = re.compile(r"[<\[({][^<>\[\](){}]*[>\])}][.\s]*|\.{3}|…|")


def entry_findings(scenario: Scenario, entry: Mapping[str, JsonValue]) -> list[Finding]:
    """Everything that is wrong with an entry which its schema accepts."""
    spec = scenario.spec
    try:
        if isinstance(spec, AnswerSpec):
            return [*answer_findings(spec, ()), *prompt_findings(spec, scenario.prompt)]
        if isinstance(spec, CodingSpec):
            return list(coding_findings(spec, scenario.prompt))
        if isinstance(spec, ContextSpec):
            return list(context_findings(spec, entry))
        if isinstance(spec, ToolUseSpec):
            return list(tool_findings(spec))
    except PatternTimeout as timeout:
        return [Finding((), f"a pattern backtracks without end: {timeout}", "make it simpler")]
    return []


def answer_findings(spec: AnswerSpec, where: JsonPath) -> Iterator[Finding]:
    """Patterns that do not compile or match nothing at all, and an answer its check refuses."""
    broken = False
    if spec.check_type in ("final_answer", "regex"):
        for index, pattern in enumerate(spec.accepted_patterns):
            problem = pattern_problem(pattern, searched=spec.check_type == "regex")
            if problem:
                broken = True
                yield Finding((*where, "accepted_patterns", index), problem)
    least, most = spec.min_words, spec.max_words
    if least is not None and most is not None and least > most:
        broken = True
        yield Finding((*where, "min_words"), f"{least} is more than max_words ({most})")
    if broken or not spec.expected_answer or spec.check_type not in BUILT_IN_CHECKS:
        return
    if _passes_of_itself(spec):
        return
    problem = expected_passes_own_check(spec)
    if not problem and spec.check_type == "regex" and not _is_digest(spec):
        plain = dataclasses.replace(spec, required_patterns=(), max_words=None, min_words=None)
        problem = judge_answer(plain, spec.expected_answer).detail
    if problem:
        problem = problem.removeprefix("its own check rejects it: ")
        yield Finding((*where, "expected_answer"), f"its own check rejects it: {problem}")


def _passes_of_itself(spec: AnswerSpec) -> bool:
    """A single plain word or number that stands among the patterns needs no judge."""
    if spec.required_patterns or spec.max_words is not None or spec.min_words is not None:
        return False
    if not _SELF_EVIDENT.fullmatch(spec.expected_answer):
        return False
    if spec.check_type == "numeric":
        return spec.expected_answer.isdigit()
    return spec.check_type == "exact_or_contains" or spec.expected_answer in spec.accepted_patterns


def _is_digest(spec: AnswerSpec) -> bool:
    """The expected answer of a regex may shorten what the pattern spells out, in its order."""
    words = [re.escape(word) for word in re.findall(r"\w+", spec.expected_answer)]
    in_order = r"\b" + r"\b.*?\b".join(words) + r"\b"
    return bool(words) and any(
        re.search(in_order, pattern, re.IGNORECASE | re.DOTALL)
        for pattern in spec.accepted_patterns
    )


def pattern_problem(pattern: str, *, searched: bool) -> str:
    """Why a pattern cannot be used, "" if it can; compiled as the judge compiles it."""
    if _PLAIN_PATTERN.fullmatch(pattern):
        return ""
    problem = compile_problem(pattern)
    if problem:
        return f"is not a regular expression: {problem}"
    try:
        if searched and search(pattern, "") is not None:
            return "matches an empty answer, so it would accept every reply"
        if not searched and fullmatch(pattern, ""):
            return "matches an empty answer"
    except PatternTimeout:
        return "takes too long even on an empty answer"
    return ""


def prompt_findings(spec: AnswerSpec, prompt: str) -> Iterator[Finding]:
    """A prompt that holds its own expected answer line: an echo of it would pass."""
    if spec.check_type not in BUILT_IN_CHECKS or not _MARKER.search(prompt):
        return
    probe = spec if spec.check_type == "final_answer" else _as_final_answer(spec)
    lines = prompt.splitlines()
    for index, line in enumerate(lines):
        for match in _MARKER.finditer(line):
            rest = line[match.end() :].strip(_BETWEEN)
            following = next((text for text in lines[index + 1 :] if text.strip()), "")
            value = rest or following.strip()
            if _PLACEHOLDER.fullmatch(value):
                continue
            if judge_answer(probe, f"Final answer: {value}").passed:
                message = f"contains its own expected answer line: {shown(line.strip())}"
                yield Finding(("prompt",), message, "a model could pass by repeating the prompt")
                return


def _as_final_answer(spec: AnswerSpec) -> AnswerSpec:
    values = [spec.expected_answer] if spec.expected_answer else []
    if spec.check_type == "exact_or_contains":
        values += spec.accepted_patterns
    return AnswerSpec(
        "final_answer",
        expected_answer=spec.expected_answer,
        accepted_patterns=tuple(re.escape(value) for value in values),
        evaluator=spec.evaluator,
    )


def coding_findings(spec: CodingSpec, prompt: str) -> Iterator[Finding]:
    """Python that does not parse, and a solution that the prompt gives away."""
    for index, assertion in enumerate(spec.test_assertions):
        problem = python_problem(assertion)
        if problem:
            yield Finding(("test_assertions", index), f"{shown(assertion)} {problem}")
    reference = spec.reference_solution
    problem = python_problem(reference)
    if problem:
        yield Finding(("reference_solution",), problem)
    if reference.strip() and reference.strip() in prompt:
        yield Finding(("prompt",), "contains the reference solution")


def python_problem(source: str) -> str:
    """Why a text cannot be run as Python statements, "" if it can."""
    try:
        compile(source, "<scenario>", "exec", dont_inherit=True)
        maybe_tuple = _ASSERTS_BRACKET.search(source) is not None
        tree = ast.parse(source) if maybe_tuple else None
    except SyntaxError as problem:
        line = f" (line {problem.lineno} of it)" if "\n" in source and problem.lineno else ""
        return f"does not parse: {problem.msg}{line}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as problem:
        return f"does not parse: {problem or type(problem).__name__}"
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
            return "asserts a tuple, which is always true: write it without the parentheses"
    return ""


def context_findings(spec: ContextSpec, entry: Mapping[str, JsonValue]) -> Iterator[Finding]:
    """A needle or text without the expected value, and a question that gives it away."""
    own = entry.get("options", {}).get("num_ctx")
    if own is not None and own != spec.context_size:
        message = f"expected {spec.context_size}, the window of the entry, got {shown(own)}"
        yield Finding(("options", "num_ctx"), message, "leave it out: the window sets it")
    if not spec.expected:
        return
    if spec.needle and not _retrieved(spec, spec.needle):
        message = f"does not contain the expected value {shown(spec.expected)} on its own"
        yield Finding(("needle",), message)
    if spec.prompt_text and not _retrieved(spec, spec.prompt_text):
        message = f"{shown(spec.prompt_file)} does not contain {shown(spec.expected)} on its own"
        yield Finding(("expected",), message)
    asked = spec.query or spec.instruction
    name = next((n for n in ("instruction", "query", "prompt") if n in entry), "instruction")
    if _retrieved(spec, asked):
        yield Finding((name,), f"gives away the expected value {shown(spec.expected)}")


def _retrieved(spec: ContextSpec, text: str) -> bool:
    return judge_context(spec, text).passed is True


def tool_findings(spec: ToolUseSpec) -> Iterator[Finding]:
    """Tools with broken schemas, and turns that no reply could pass."""
    names: list[str] = []
    for index, tool in enumerate(spec.tools):
        function = tool["function"]
        if function["name"] in names:
            message = f"two tools are called {shown(function['name'])}"
            yield Finding(("tools", index, "function", "name"), message)
        names.append(function["name"])
        problem = _schema_problem(json.dumps(function.get("parameters", {}), sort_keys=True))
        if problem:
            yield Finding(("tools", index, "function", "parameters"), problem)
            return
    for index, turn in enumerate(spec.turns):
        yield from _turn_findings(spec, turn, names, ("turns", index))


def _turn_findings(
    spec: ToolUseSpec, turn: ToolTurn, names: list[str], where: JsonPath
) -> Iterator[Finding]:
    expect = (*where, "expect")
    if turn.tool is None:
        if turn.args:
            message = "a turn without a call has no arguments"
            yield Finding((*expect, "args"), message, "name the tool, or leave args out")
        if turn.tool_result is not None:
            yield Finding((*where, "tool_result"), "a turn without a call has no result")
        if turn.answer is not None:
            yield from answer_findings(turn.answer, (*expect, "answer"))
        return
    if turn.answer is not None:
        message = "belongs to a turn without a call"
        yield Finding((*expect, "answer"), message, 'set "tool" to null, or leave the answer out')
    if turn.tool not in names:
        message = f"expected one of the tools {listed(names)}, got {shown(turn.tool)}"
        yield Finding((*expect, "tool"), message, did_you_mean(turn.tool, names))
        return
    parameters = schema_of(spec.tools, turn.tool)
    problem = arguments_problem(json.dumps(turn.args), turn.args, parameters)
    if problem:
        yield Finding((*expect, "args"), f"its own check rejects them: {problem}")


@functools.lru_cache(maxsize=1024)
def _schema_problem(parameters: str) -> str:
    """Why a tool's parameters are no JSON Schema, "" if they are one."""
    import jsonschema

    schema: Any = json.loads(parameters)
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as problem:
        where = ".".join(map(str, problem.absolute_path))
        return f"is not a JSON Schema: {where + ': ' if where else ''}{problem.message}"
    return ""
