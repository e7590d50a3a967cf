"""The check types: what a reply must look like, and what each takes to be its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from pytest_benchrig.core.final_answer import marked_values, wanted_values
from pytest_benchrig.core.html_tags import without_tags
from pytest_benchrig.core.latex import boxes, simplify_latex
from pytest_benchrig.core.matching import Haystack, fullmatch, search
from pytest_benchrig.core.number_words import last_number_in_words
from pytest_benchrig.core.numbers import Number, last_number, parse_number, tokens
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.text import normalise

REGEX_WINDOW = 300
"""How many characters of the collapsed end of a reply ``regex`` looks at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        passed: The check's own decision.
        extracted: The answer it took out of the reply, for the record.
        detail: Why it failed, for a reader.
        rule: The rule that decided.
        candidate: What an evaluator compares with the expected answer; ``None`` where there is
            no answer to compare, so that the evaluator has no say.
    """

    passed: bool
    extracted: str = ""
    detail: str = ""
    rule: str = ""
    candidate: str | None = None


Check: TypeAlias = Callable[[AnswerSpec, str], Finding]
"""Judges a reply without its trace, in the normal form of :func:`text.normalise`.

Raises:
    PatternTimeout: A pattern of the scenario backtracked without end.
"""


def final_answer(spec: AnswerSpec, answer: str) -> Finding:
    """The marked value must fully match an accepted pattern."""
    rule = "final_answer: the value after the last Final answer marker fully matches a pattern"
    values = marked_values(answer)
    if not values:
        return Finding(
            False,
            detail="no answer: the reply has no line with the marker 'Final answer:'",
            rule="final_answer: no marker means no answer",
        )
    clean = values[-1]
    for pattern in wanted_values(spec):
        if any(fullmatch(pattern, value) for value in values):
            return Finding(True, clean, rule=rule, candidate=clean)
    return Finding(
        False,
        clean,
        detail=f"the marked answer {clean!r} does not fully match an accepted pattern"
        f" (expected {spec.expected_answer!r})",
        rule=rule,
        candidate=clean,
    )


def exact_or_contains(spec: AnswerSpec, answer: str) -> Finding:
    """The expected answer, or one of the patterns, occurs in the reply."""
    plain = simplify_latex(answer)
    haystack = Haystack(plain)
    rule = "exact_or_contains: the expected answer or an accepted pattern occurs in the answer"
    whole = plain.strip()
    for pattern in dict.fromkeys((spec.expected_answer, *spec.accepted_patterns)):
        if haystack.contains(pattern):
            return Finding(True, pattern, rule=rule, candidate=whole)
    return Finding(
        False,
        detail=f"{spec.expected_answer!r} does not occur in the answer"
        + (
            f", nor does any of {len(spec.accepted_patterns)} accepted patterns"
            if spec.accepted_patterns
            else ""
        ),
        rule=rule,
        candidate=whole,
    )


def regex(spec: AnswerSpec, answer: str) -> Finding:
    """An accepted pattern matches in the last 300 characters of the collapsed reply."""
    rule = "regex: an accepted pattern matches in the last 300 characters of the collapsed answer"
    plain = without_tags(simplify_latex(answer), " ")
    patterns = spec.accepted_patterns or (re.escape(collapse(spec.expected_answer)),)
    for collapsed in (collapse_between, collapse, collapse_all):
        end = _end(plain, collapsed)
        for pattern in patterns:
            match = search(pattern, end)
            if match:
                return Finding(True, match[0], rule=rule, candidate=plain.strip())
    return Finding(
        False,
        detail="no accepted pattern matches the end of the answer"
        f" (expected {spec.expected_answer!r})",
        rule=rule,
        candidate=plain.strip(),
    )


def numeric(spec: AnswerSpec, answer: str) -> Finding:
    """The last boxed number, else the last number, equals the expected answer exactly."""
    rule = "numeric: the number in the last box that holds one equals the expected answer"
    number = _boxed_number(answer)
    if number is None:
        rule = "numeric: the last number in the answer equals the expected answer"
        number = last_number(simplify_latex(answer))
    if number is None:
        words = last_number_in_words(answer) if spec.evaluator == "numeric_text" else None
        return Finding(False, words or "", "there is no number in the answer", rule, words)
    expected = expected_number(spec)
    if expected is not None and number.value == expected:
        return Finding(True, number.text, rule=rule, candidate=number.text)
    return Finding(
        False,
        number.text,
        detail=f"the number is {number.text}, expected {spec.expected_answer.strip()}",
        rule=rule,
        candidate=number.text,
    )


BUILT_IN: Mapping[str, Check] = {
    "final_answer": final_answer,
    "exact_or_contains": exact_or_contains,
    "regex": regex,
    "numeric": numeric,
}
"""The check types by name; other plugins may add theirs through the hook."""


def expected_number(spec: AnswerSpec) -> Fraction | None:
    """The exact value of the expected answer of a ``numeric`` check, ``None`` if it has none.

    ``42 km`` and ``50 %`` count as 42 and 50, as they do in a reply.
    """
    return _expected_number(spec.expected_answer)


@lru_cache(maxsize=1024)
def _expected_number(expected: str) -> Fraction | None:
    text = simplify_latex(normalise(expected))
    value = parse_number(text)
    if value is not None:
        return value
    number = last_number(text)
    return None if number is None else number.value


def _boxed_number(answer: str) -> Number | None:
    for content in reversed(boxes(answer)):
        number = last_number(simplify_latex(content))
        if number is not None:
            return number
    return None


_LONGEST_CUT = 50
"""So much of the beginning of a cut text may read differently than in the whole."""


def _end(text: str, collapsed: Callable[[str], str]) -> str:
    """The last characters of the collapsed text, made from no more text than they need."""
    size = REGEX_WINDOW + REGEX_WINDOW // 2
    while size < len(text):
        space = text.find(" ", len(text) - size)
        end = collapsed(text[space:]) if space >= 0 else ""
        if len(end) >= REGEX_WINDOW + _LONGEST_CUT:
            return end[-REGEX_WINDOW:]
        size *= 2
    return collapsed(text)[-REGEX_WINDOW:]


def collapse(text: str) -> str:
    """Markdown, bullets, punctuation and line breaks as single spaces.

    What belongs to a number stays, in one spelling: its sign, decimals, exponent, fraction and
    percent sign. A minus that vanished would make a wrong answer right.
    """
    parts: list[str] = []
    position = 0
    for number in tokens(text, easy=False):
        parts += (_words(text[position : number.start]), number.text)
        position = number.end
        percent = _PERCENT.match(text, position)
        if percent:
            parts.append("%")
            position = percent.end()
    parts.append(_words(text[position:]))
    return " ".join("".join(parts).split())


def collapse_between(text: str) -> str:
    """As :func:`collapse`, but what stands inside words and numbers stays as written."""
    return " ".join(_OUTER.sub(" ", text.replace("_", " ")).split())


def collapse_all(text: str) -> str:
    """As :func:`collapse`, to the letter: of all marks only the minus sign of a number stays."""
    return " ".join(_UNSIGNED.sub(" ", text.replace("_", " ")).split())


def _words(text: str) -> str:
    return _MARKS.sub(" ", text.replace("_", " "))


_MARKS = re.compile(r"[^\w\s]+")
_UNSIGNED = re.compile(r"[^\w\s](?<!(?<![^\W_])-(?=\d))")
_PERCENT = re.compile(r" ?%")
_LETTER = r"[^\W\d_\u2e80-\U0010ffff]"
_JOINED = (
    rf"(?<={_LETTER})['’\-–](?=[^\W_])"  # within a word
    r"|(?<![^\W_])-(?=\d)|[+±€£$](?=\d)|(?<=\d)[%°€£]"  # a number's sign or unit
    r"|(?<=\d)[.,:/^](?=\d)"  # within a number
)
_OUTER = re.compile(rf"[^\w\s](?<!{_JOINED})")
"""All but words, numbers and what joins their parts. The set stands first: it is found fast."""
