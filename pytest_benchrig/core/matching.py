"""Finding what a pattern asks for: whole numbers, plain text, and bounded regular expressions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from pytest_benchrig.core.latex import simplify_latex
from pytest_benchrig.core.numbers import tokens
from pytest_benchrig.core.text import is_letter, normalise

PATTERN_SECONDS = 1.0
"""How long one pattern may search one reply."""

_DIGIT = re.compile(r"[0-9]")
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")
_EMPHASIS = re.compile(r"[*_`]+")


class PatternTimeout(Exception):  # noqa: N818 - it is what happened, and the public name
    """A regular expression took longer than :data:`PATTERN_SECONDS`.

    Attributes:
        pattern: The pattern as the scenario has it.
    """

    def __init__(self, pattern: str) -> None:
        super().__init__(
            f"the pattern {pattern!r} searched for more than {PATTERN_SECONDS:g} s and was stopped;"
            " it backtracks without end: write it without nested repetition"
        )
        self.pattern = pattern


class Haystack:
    """A reply made ready for :meth:`contains`, each form of it made once and when first needed."""

    def __init__(self, text: str) -> None:
        self._text = simplify_latex(normalise(text)).lower()
        self._without_emphasis: str | None = None

    def contains(self, pattern: str) -> bool:
        """Whether the reply holds the pattern by the rule of :func:`contains`."""
        needle = simplify_latex(normalise(pattern)).lower()
        if not needle.strip():
            return False
        find = _number_finder(needle.strip()) if _DIGIT.search(needle) else None
        return any(find(text) if find else needle in text for text in self._forms())

    def _forms(self) -> Iterator[str]:
        yield self._text
        if self._without_emphasis is None:
            self._without_emphasis = _EMPHASIS.sub(_shown_mark, self._text)
        if self._without_emphasis != self._text:
            yield self._without_emphasis


def _shown_mark(match: re.Match[str]) -> str:
    """A mark of emphasis is not shown; between digits or letters it may be more than that."""
    text, (start, end) = match.string, match.span()
    before, after = text[start - 1 : start], text[end : end + 1]
    if match[0][0] == "*":
        kept = before.isdigit() and after.isdigit()
    else:
        kept = match[0][0] == "_" and before.isalnum() and after.isalnum()
    return match[0] if kept else ""


@lru_cache(maxsize=4096)
def _number_finder(pattern: str) -> Callable[[str], bool]:
    """A function that finds a pattern with digits; it looks closely at likely lines only."""
    needle, wanted = _canonical(pattern)
    # The last of equals: a text may write 0.5 as .5.
    longest = max(reversed(re.findall("[0-9]+", needle)), key=len)
    likely = re.compile("[ ,]?".join(longest) if len(longest) > 3 else longest)

    def find(text: str) -> bool:
        if "\n" in needle:
            return _holds(*_canonical(text), needle, wanted)
        position = 0
        while True:
            match = likely.search(text, position)
            if match is None:
                return False
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            position = len(text) if end < 0 else end
            if _holds(*_canonical(text[start:position]), needle, wanted):
                return True

    return find


class _Place(tuple[int, int, str, bool]):
    """Start, end, spelling and whether it is a number of its own, in canonical text."""

    __slots__ = ()


def _canonical(text: str) -> tuple[str, tuple[_Place, ...]]:
    """The text with each number in its one spelling, and where the numbers stand."""
    parts: list[str] = []
    places: list[_Place] = []
    position = length = 0
    for number in tokens(text):
        before = text[position : number.start]
        parts += (before, number.text)
        length += len(before)
        places.append(_Place((length, length + len(number.text), number.text, number.is_number)))
        length += len(number.text)
        position = number.end
        if text.startswith(" %", position):
            position += 1
    parts.append(text[position:])
    return "".join(parts), tuple(places)


def _holds(text: str, places: tuple[_Place, ...], needle: str, wanted: tuple[_Place, ...]) -> bool:
    """Whether the needle occurs so that each of its numbers is a whole number of the text."""
    ends = [p[1] for p in places]
    start = text.find(needle)
    while start >= 0:
        end = start + len(needle)
        first = bisect_right(ends, start)
        inside = [p for p in places[first : first + len(wanted) + 1] if p[0] < end]
        shifted = [(p[0] - start, p[1] - start, p[2]) for p in inside]
        if shifted == [p[:3] for p in wanted] and not _cut_word(text, start, needle, inside):
            return True
        start = text.find(needle, start + 1)
    return False


def _cut_word(text: str, start: int, needle: str, inside: list[_Place]) -> bool:
    """Whether the occurrence begins with digits that belong to the word before them."""
    return (
        bool(inside)
        and inside[0][0] == start
        and not inside[0][3]
        and start > 0
        and (is_letter(text[start - 1]) or text[start - 1] in "_^±")
    )


def whole_number_in(number: str, text: str) -> bool:
    """Whether a number occurs as a whole: with its sign, decimals, exponent and fraction.

    ``1/6`` is not in ``11/60``, ``5`` not in ``-5``, ``3`` neither in ``1e3`` nor in ``3.5``,
    ``114.6`` not in ``114.60``. Thousands separators and spaces around a fraction bar do not
    hide it. ``number`` may have words around its digits (``11:20 am``, ``2031-07-04``).
    """
    return Haystack(text).contains(number)


def contains(pattern: str, text: str) -> bool:
    """Whether the text holds the pattern, by the rule of ``exact_or_contains``.

    A pattern with a digit matches as whole numbers (:func:`whole_number_in`), any other as plain
    text; case does not matter, and LaTeX is simplified in both. An empty pattern is nowhere.
    """
    return Haystack(text).contains(pattern)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> tuple[Any, bool]:
    """The compiled pattern and whether it needs to be bounded in time.

    Raises:
        re.error: The pattern is no regular expression.
    """
    ready = normalise(pattern.replace("\u2212", r"\-"))
    if not _META.search(ready):
        return re.compile(ready, re.IGNORECASE), False
    import regex

    return regex.compile(ready, regex.IGNORECASE | regex.VERSION0), True


def compile_problem(pattern: str) -> str:
    """Why a pattern is no regular expression, "" if it is one."""
    try:
        re.compile(pattern)
        _compiled(pattern)
    except Exception as problem:
        return str(problem)
    return ""


def fullmatch(pattern: str, text: str) -> re.Match[str] | None:
    """``re.fullmatch``, case-insensitive and bounded in time.

    Raises:
        PatternTimeout: It took longer than :data:`PATTERN_SECONDS`.
    """
    return _bounded(pattern, text, "fullmatch")


def search(pattern: str, text: str) -> re.Match[str] | None:
    """``re.search``, case-insensitive and bounded in time.

    Raises:
        PatternTimeout: It took longer than :data:`PATTERN_SECONDS`.
    """
    return _bounded(pattern, text, "search")


def _bounded(pattern: str, text: str, method: str) -> re.Match[str] | None:
    compiled, bound = _compiled(pattern)
    match: re.Match[str] | None
    if not bound:
        match = getattr(compiled, method)(text)
        return match
    try:
        match = getattr(compiled, method)(text, timeout=PATTERN_SECONDS)
    except TimeoutError:
        raise PatternTimeout(pattern) from None
    return match
