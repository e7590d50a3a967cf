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
    """A reply made ready for :meth:`contains`, each form of it made once and when first needed.

    Args:
        plain: The reply in normal form, LaTeX simplified.
    """

    def __init__(self, plain: str) -> None:
        self._text = plain.lower()
        self._without_emphasis: str | None = None

    def contains(self, pattern: str) -> bool:
        """Whether the reply holds the pattern by the rule of :func:`contains`."""
        find = _finder(pattern)
        return any(find(text) for text in self._forms())

    def _forms(self) -> Iterator[str]:
        yield self._text
        if self._without_emphasis is None:
            self._without_emphasis = _without_emphasis(self._text)
        if self._without_emphasis != self._text:
            yield self._without_emphasis


def _without_emphasis(text: str) -> str:
    for mark in "*_`":
        if mark in text:
            text = _without_mark(text, mark)
    return text


def _without_mark(text: str, mark: str) -> str:
    """Marks of emphasis are not shown; between digits or letters they may be more than that."""
    parts: list[str] = []
    position = 0
    while (start := text.find(mark, position)) >= 0:
        end = start + 1
        while text[end : end + 1] == mark:
            end += 1
        before, after = text[start - 1 : start], text[end : end + 1]
        if mark == "*":
            kept = before.isdigit() and after.isdigit()
        else:
            kept = mark == "_" and before.isalnum() and after.isalnum()
        parts.append(text[position : end if kept else start])
        position = end
    return "".join([*parts, text[position:]])


@lru_cache(maxsize=4096)
def _finder(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a text in lower case holds the pattern."""
    needle = simplify_latex(normalise(pattern)).lower()
    if _DIGIT.search(needle):
        return _number_finder(needle.strip())
    wanted = needle if needle.strip() else None

    def find(text: str) -> bool:
        return wanted is not None and wanted in text

    return find


def _number_finder(pattern: str) -> Callable[[str], bool]:
    """A function that finds a pattern with digits; it looks closely at likely lines only."""
    needle, wanted = _canonical(pattern)
    # The last of equals: a text may write 0.5 as .5.
    longest = max(reversed(re.findall("[0-9]+", needle)), key=len)
    spellings = {longest, *(_grouped(longest, gap) for gap in " ,")}

    def next_likely(text: str, position: int) -> int:
        places = [p for s in spellings if (p := text.find(s, position)) >= 0]
        return min(places, default=-1)

    def find(text: str) -> bool:
        if "\n" in needle:
            return _holds(*_canonical(text), needle, wanted)
        position = 0
        while (likely := next_likely(text, position)) >= 0:
            start = text.rfind("\n", 0, likely) + 1
            end = text.find("\n", likely)
            position = len(text) if end < 0 else end
            if _holds(*_canonical(text[start:position]), needle, wanted):
                return True
        return False

    return find


def _grouped(digits: str, gap: str) -> str:
    """Digits in groups of three, as a thousands separator splits them."""
    head = len(digits) % 3
    groups = [digits[i : i + 3] for i in range(head, len(digits), 3)]
    return gap.join([digits[:head], *groups] if head else groups)


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
    return contains(number, text)


def contains(pattern: str, text: str) -> bool:
    """Whether the text holds the pattern, by the rule of ``exact_or_contains``.

    A pattern with a digit matches as whole numbers (:func:`whole_number_in`), any other as plain
    text; case does not matter, and LaTeX is simplified in both. An empty pattern is nowhere.
    """
    return Haystack(simplify_latex(normalise(text))).contains(pattern)


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


def fullmatch(pattern: str, text: str) -> bool:
    """Whether ``re.fullmatch`` finds the whole text, case-insensitive and bounded in time.

    Raises:
        PatternTimeout: It took longer than :data:`PATTERN_SECONDS`.
    """
    literal = _literal(pattern)
    if literal is not None and text.isascii():
        return text.lower() == literal
    return _bounded(pattern, text, "fullmatch") is not None


@lru_cache(maxsize=4096)
def _literal(pattern: str) -> str | None:
    """A pattern of ASCII letters, digits and the like in lower case; ``None`` for any other.

    Most patterns are such, and to compile one takes longer than to judge a reply without it.
    """
    if not pattern.isascii() or _META.search(pattern):
        return None
    return normalise(pattern).lower()


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
