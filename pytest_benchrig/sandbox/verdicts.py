"""From a reply to a verdict: take the code out, run it, name the result."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pytest_benchrig.core.verdict import Verdict
from pytest_benchrig.sandbox.result import SandboxResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_benchrig.core.generation import JsonValue
    from pytest_benchrig.core.scenario import CodingSpec
    from pytest_benchrig.sandbox.runner import SandboxRunner

EXCERPT_CHARS = 2_000


def judge_code(
    spec: CodingSpec, answer: str, *, cut_off: bool, budget: str, runner: SandboxRunner
) -> Verdict:
    """The verdict on one reply.

    Args:
        spec: The assertions and limits.
        answer: The answer, without any trace.
        cut_off: Whether the reply stopped at the token limit.
        budget: The effective ``num_predict`` in words.
        runner: Where code is run.

    Raises:
        SandboxUnavailableError: No containment of the wanted level works here.
    """
    from pytest_benchrig.core.code_blocks import extract_code

    wanted = wanted_names(spec.test_assertions, spec.entry_points)
    found = extract_code(answer, cut_off=cut_off, budget=budget, wanted=wanted)
    total = len(spec.test_assertions)
    fields: dict[str, JsonValue] = {
        "passed_tests": 0,
        "total_tests": total,
        "pass_ratio": 0.0,
        "response_excerpt": excerpt(answer),
    }
    if found.kind == "truncated":
        detail = found.found
        fields.update(truncated=True, sandbox_error=detail)
        return Verdict("truncated", f"TRUNCATED: {detail}", "coding: no complete block", fields)
    if found.kind == "no_code":
        detail = f"no Python code in the reply: {found.found}".rstrip(": ")
        fields.update(sandbox_error=detail)
        return Verdict("no_code", detail, "coding: the reply must contain Python", fields)
    result = runner.run(
        found.code,
        spec.test_assertions,
        entry_points=spec.entry_points,
        timeout=spec.execution_timeout,
    )
    return verdict_of(result, found.code, answer)


def verdict_of(result: SandboxResult, code: str, answer: str) -> Verdict:
    """The verdict that a result of the sandbox amounts to."""
    fields: dict[str, JsonValue] = {
        "passed_tests": result.passed_tests,
        "total_tests": result.total_tests,
        "pass_ratio": result.pass_ratio,
        "sandbox_isolation": result.isolation,
        "assurance": result.assurance,
        "execution_time_sec": result.execution_time_sec,
        "extracted_code": code,
    }
    if not result.passed:
        fields.update(sandbox_error=result.error, response_excerpt=excerpt(answer))
    detail = result.detail
    if not result.passed:
        share = f"{result.passed_tests}/{result.total_tests}"
        detail = detail if result.verdict == "fail" else f"{result.verdict} ({share}): {detail}"
    return Verdict(
        result.verdict, detail, f"coding: {result.total_tests} assertions, judged outside", fields
    )


def excerpt(text: str) -> str:
    """The beginning and the end of a reply."""
    if len(text) <= EXCERPT_CHARS:
        return text
    half = EXCERPT_CHARS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def wanted_names(assertions: Sequence[str], entry_points: Sequence[str]) -> tuple[str, ...]:
    """The names that assertions read and do not bind themselves; builtins are no wish."""
    import builtins

    names: dict[str, None] = dict.fromkeys(entry_points)
    bound: set[str] = set()
    for text in assertions:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    names.setdefault(node.id)
                else:
                    bound.add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.ExceptHandler):
                bound.add(node.name or "")
    return tuple(
        name
        for name in names
        if name in entry_points or (name not in bound and not hasattr(builtins, name))
    )
