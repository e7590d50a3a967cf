"""Judging a reply: normal form, evaluator, check type, facts and length, and truncation.

The order: the reply is brought into normal form; the check type takes its answer out of it; the
evaluator compares that with the expected answer where both are numbers, and then it decides;
otherwise the check type does. Required patterns and word limits come on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from pytest_benchrig.core.answer_checks import BUILT_IN, Check, Finding, expected_number
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.latex import simplify_latex
from pytest_benchrig.core.matching import Haystack, PatternTimeout, compile_problem
from pytest_benchrig.core.near_misses import expected_reply, near_misses_of
from pytest_benchrig.core.numbers import parse_number
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.text import count_words, normalise
from pytest_benchrig.core.verdict import Verdict

__all__ = [
    "BUILT_IN",
    "Check",
    "Finding",
    "PatternTimeout",
    "expected_passes_own_check",
    "expected_reply",
    "judge_answer",
    "near_misses_of",
]

EXCERPT_CHARACTERS = 400
"""How much of the end of an answer a record keeps beside the reply."""


def judge_answer(
    spec: AnswerSpec,
    answer: str,
    *,
    truncated_thinking: bool = False,
    truncated: bool = False,
    budget: str = "",
    tokens_used: int | None = None,
    extra_checks: Mapping[str, Check] | None = None,
) -> Verdict:
    """Judge an answer, which never includes the trace.

    Args:
        spec: How it is judged.
        answer: The reply without its trace, as received.
        truncated_thinking: The reply stops inside its trace: there is no answer.
        truncated: The reply was cut off at its budget.
        budget: The effective budget as text, such as ``512 x 12 = 6144``.
        tokens_used: Completion tokens of the reply.
        extra_checks: Further check types by name.

    Raises:
        PatternTimeout: A pattern of the scenario backtracked without end.
        KeyError: Nobody registered the check type.
    """
    finding = _no_answer() if truncated_thinking else _decide(spec, answer, extra_checks or {})
    fields: dict[str, JsonValue] = {
        "correct": finding.passed,
        "expected_answer": spec.expected_answer,
        "extracted_answer": finding.extracted,
        "answer_excerpt": "" if truncated_thinking else answer[-EXCERPT_CHARACTERS:],
    }
    if finding.passed:
        return Verdict("pass", "", finding.rule, fields)
    if truncated:
        detail = f"{truncation_text(tokens_used, budget)}; {finding.detail}"
        return Verdict("truncated", detail, finding.rule, fields)
    return Verdict("fail", finding.detail, finding.rule, fields)


def truncation_text(tokens_used: int | None, budget: str) -> str:
    """``TRUNCATED`` with the tokens used and the effective budget."""
    used = "an unknown number of" if tokens_used is None else str(tokens_used)
    of = f" of {budget}" if budget else ""
    return f"TRUNCATED after {used} tokens{of}"


def _no_answer() -> Finding:
    return Finding(
        False,
        detail="the reply stops inside its thinking, so there is no answer",
        rule="thinking: an unclosed <think> leaves no answer",
    )


def _decide(spec: AnswerSpec, answer: str, extra_checks: Mapping[str, Check]) -> Finding:
    text = normalise(answer)
    check = extra_checks.get(spec.check_type) or BUILT_IN[spec.check_type]
    finding = _evaluated(spec, check(spec, text))
    if not finding.passed:
        return finding
    problem = _limits(spec, text) or _missing_facts(spec, text)
    if problem:
        rule, detail = problem
        return replace(finding, passed=False, rule=rule, detail=detail)
    return finding


def _evaluated(spec: AnswerSpec, finding: Finding) -> Finding:
    """Let the evaluator decide where both sides are numbers."""
    if spec.evaluator is None or finding.candidate is None:
        return finding
    words = spec.evaluator == "numeric_text"
    found = parse_number(finding.candidate, words=words)
    expected = None if found is None else _expected_value(spec.expected_answer, words)
    if found is None or expected is None:
        return finding
    equal = found == expected
    shown = finding.candidate.strip()
    return replace(
        finding,
        passed=equal,
        extracted=finding.extracted or shown,
        rule=f"evaluator {spec.evaluator}: both are numbers and are compared exactly",
        detail="" if equal else f"the number {shown} is not {spec.expected_answer.strip()}",
    )


@lru_cache(maxsize=1024)
def _expected_value(expected: str, words: bool) -> Fraction | None:
    return parse_number(simplify_latex(normalise(expected)), words=words)


def _limits(spec: AnswerSpec, text: str) -> tuple[str, str] | None:
    if spec.max_words is None and spec.min_words is None:
        return None
    words = count_words(text)
    said = "1 word" if words == 1 else f"{words} words"
    if spec.max_words is not None and words > spec.max_words:
        return "max_words", f"the answer has {said}, at most {spec.max_words} are allowed"
    if spec.min_words is not None and words < spec.min_words:
        return "min_words", f"the answer has {said}, at least {spec.min_words} are required"
    return None


def _missing_facts(spec: AnswerSpec, text: str) -> tuple[str, str] | None:
    if not spec.required_patterns:
        return None
    haystack = Haystack(simplify_latex(text))
    missing = [p for p in spec.required_patterns if not haystack.contains(p)]
    if not missing:
        return None
    facts = ", ".join(map(repr, missing))
    return "required_patterns: all must occur in the answer", f"the answer lacks {facts}"


def expected_passes_own_check(spec: AnswerSpec) -> str:
    """Why the scenario's own check would reject its expected answer, "" if it passes.

    Facts and word limits ask for a whole text, which the expected answer is not; they are left
    out. The expected answer of ``regex`` is what a reader sees and may be shorter than the
    reply; there only the patterns are checked for being patterns.
    """
    if spec.check_type not in BUILT_IN:
        return ""
    if spec.check_type in ("final_answer", "regex"):
        for pattern in spec.accepted_patterns:
            problem = compile_problem(pattern)
            if problem:
                return f"the pattern {pattern!r} is no regular expression: {problem}"
    if spec.check_type == "regex":
        return "" if spec.accepted_patterns or spec.expected_answer.strip() else _NOTHING
    if spec.check_type == "numeric" and expected_number(spec) is None and not _is_words(spec):
        return f"the expected answer {spec.expected_answer!r} is no number"
    if not spec.expected_answer.strip() and not any(map(str.strip, spec.accepted_patterns)):
        return _NOTHING
    plain = replace(spec, required_patterns=(), max_words=None, min_words=None)
    try:
        verdict = judge_answer(plain, expected_reply(plain))
    except PatternTimeout as timeout:
        return str(timeout)
    return "" if verdict.passed else f"its own check rejects it: {verdict.detail}"


_NOTHING = "there is neither an expected answer nor an accepted pattern"


def _is_words(spec: AnswerSpec) -> bool:
    if spec.evaluator != "numeric_text":
        return False
    return parse_number(spec.expected_answer, words=True) is not None
