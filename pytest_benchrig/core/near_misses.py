"""Replies that look right and are wrong, made from the expected answer of a scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pytest_benchrig.core.answer_checks import collapse
from pytest_benchrig.core.latex import simplify_latex
from pytest_benchrig.core.matching import (
    PatternTimeout,
    compile_problem,
    contains,
    fullmatch,
    search,
)
from pytest_benchrig.core.numbers import parse_number
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.text import count_words, normalise

_DIGITS = re.compile(r"[0-9]+")
_FLAGS = re.compile(r"^\(\?[aiLmsux]+\)")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MOST_WORDS = 10
_ANY_WORDS = re.compile(
    r"(?<!\\)(?:\.|\\[wSD]|\[(?:\^[^\]]*|[^\]]*(?:[A-Za-z]-[A-Za-z]|\\w)[^\]]*)\])"
    r"(?:[*+]|\{\d*,\d*\})[?+]?"
)
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


def expected_reply(spec: AnswerSpec) -> str:
    """The expected answer in the form that the check asks for."""
    return in_form(spec, _expected_value(spec))


def in_form(spec: AnswerSpec, value: str) -> str:
    """A value as a reply of the requested form; facts that must occur stand before it."""
    lead = [*spec.required_patterns]
    marked = f"Final answer: {value}" if spec.check_type == "final_answer" else value
    lacking = (spec.min_words or 0) - count_words("\n".join([*lead, marked]))
    if lacking > 0:
        lead.append(" ".join(["so"] * lacking))
    return "\n".join([*lead, marked])


def _expected_value(spec: AnswerSpec) -> str:
    """The expected answer; for ``regex`` a pattern that is plain text, where it says more."""
    value = spec.expected_answer.strip()
    shown = spec.check_type == "regex" and not _found_at_the_end(spec, value)
    if shown or not value:
        literals = (_FLAGS.sub("", p) for p in spec.accepted_patterns)
        return next((p for p in literals if not _META.search(p)), value)
    return value


def _found_at_the_end(spec: AnswerSpec, value: str) -> bool:
    return any(search(p, collapse(value)) for p in spec.accepted_patterns)


def near_misses_of(spec: AnswerSpec) -> tuple[str, ...]:
    """Replies in the requested form that must fail.

    Numbers off by one, the sign flipped, digits added in front and behind; two words swapped.
    What the scenario lists as another right answer is left out: a value equal to it, and a swap
    that a pattern spells out.
    """
    value = _expected_value(spec)
    right = {_key(v) for v in (spec.expected_answer, *_listed(spec))}
    found = [*_wrong_numbers(spec, value), *_wrong_numbers(spec, _in_digits(spec, value))]
    misses = [w for w in found if _key(w) not in right and not _allowed(spec, w)]
    if spec.check_type != "numeric":
        misses += [w for w in _swapped(value) if not _spelt_out(spec, w)]
    bare = spec
    if spec.check_type == "exact_or_contains":
        answers = (spec.expected_answer, *spec.accepted_patterns)
        facts = [f for f in spec.required_patterns if not any(contains(a, f) for a in answers)]
        bare = replace(spec, required_patterns=tuple(facts))
    return tuple(dict.fromkeys(in_form(bare, w) for w in misses))


def _in_digits(spec: AnswerSpec, value: str) -> str:
    """The number that a value names in words, where the evaluator takes it in digits too."""
    if spec.evaluator != "numeric_text" or _DIGITS.search(value):
        return ""
    number = parse_number(value, words=True)
    return "" if number is None else str(number)


def _listed(spec: AnswerSpec) -> list[str]:
    """The accepted patterns that are plain values."""
    if spec.check_type == "exact_or_contains":
        return list(spec.accepted_patterns)
    found = []
    for pattern in spec.accepted_patterns:
        plain = _FLAGS.sub("", pattern).replace("\\", "")
        if not _META.sub("", plain.replace(".", "")) or not _META.search(plain.replace(".", "")):
            found.append(plain)
    return found


def _key(text: str) -> object:
    plain = simplify_latex(normalise(text)).strip().lower()
    value = parse_number(plain)
    return plain if value is None else value


def _wrong_numbers(spec: AnswerSpec, value: str) -> Iterator[str]:
    """Each number of the value made wrong in each way, one at a time.

    ``regex`` looks at the end of a reply only: there just the numbers that a pattern names.
    """
    for match in _DIGITS.finditer(value):
        start, end, digits = match.start(), match.end(), match[0]
        if spec.check_type == "regex" and not any(digits in p for p in spec.accepted_patterns):
            continue
        number = int(digits) if len(digits) < 4000 else None
        made = [digits + "0", digits + "7", "1" + digits]
        if number is not None:
            made.append(str(number + 1).zfill(len(digits)))
            if number > 0:
                made.append(str(number - 1).zfill(len(digits)))
        for wrong in made:
            yield value[:start] + wrong + value[end:]
        if _may_be_signed(value, start):
            signed = start > 0 and value[start - 1] in "-\u2212"
            yield (
                value[: start - 1] + value[start:]
                if signed
                else value[:start] + "-" + value[start:]
            )


def _may_be_signed(value: str, start: int) -> bool:
    """Whether a minus before these digits changes the value: not in dates, clocks and decimals."""
    before = value[:start].rstrip("-\u2212")
    last = before[-1:]
    return not (last.isalnum() or last in (".", ",", ":", "/", "^", "_")) or (
        last == "" and not before
    )


def _swapped(value: str) -> Iterator[str]:
    """The value with two of its words in each other's place: any two, neighbours in long texts."""
    words = list(_WORD.finditer(value))
    for index, left in enumerate(words):
        others = words[index + 1 :] if len(words) <= _MOST_WORDS else words[index + 1 : index + 2]
        for right in others:
            if left[0].lower() != right[0].lower():
                between = value[left.end() : right.start()]
                yield (value[: left.start()] + right[0] + between + left[0] + value[right.end() :])


def _spelt_out(spec: AnswerSpec, value: str) -> bool:
    """Whether the scenario means the words in this order too.

    It does where a pattern spells them out; one that takes any words between others does not.
    """
    if spec.check_type == "exact_or_contains":
        return _allowed(spec, value)
    try:
        if spec.check_type == "regex":
            return any(search(_tight(p), collapse(value)) for p in spec.accepted_patterns)
        return any(fullmatch(_tight(p), value) for p in spec.accepted_patterns)
    except PatternTimeout:
        return True


def _tight(pattern: str) -> str:
    """The pattern without places that take any words."""
    tight = _ANY_WORDS.sub(r"[^\\w]*", pattern)
    return pattern if compile_problem(tight) else tight


def _allowed(spec: AnswerSpec, value: str) -> bool:
    """Whether a pattern of plain text takes this value.

    What a regular expression takes is not meant by that, so that a loose one is found out.
    """
    if spec.check_type != "exact_or_contains":
        return False
    others = [p for p in spec.accepted_patterns if _key(p) != _key(spec.expected_answer)]
    return any(contains(p, value) for p in others)
