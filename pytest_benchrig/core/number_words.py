"""English number words as exact integers."""

from __future__ import annotations

import re

_UNITS = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_SCALES = {"thousand": 1000, "million": 1_000_000}
_KNOWN = frozenset({*_UNITS, *_TENS, *_SCALES, "hundred", "and"})

_LONGEST = 24
"""Words of the longest number that is looked for in running text."""


def number_of_words(text: str) -> int | None:
    """The integer that the whole text names, ``None`` if it names none.

    Lower case only; ``forty-two``, ``forty two``, ``one hundred and five``, ``two million``.
    A full stop at the end is allowed.
    """
    words = text.strip().removesuffix(".").replace("-", " ").split()
    if not words or not all(word in _KNOWN for word in words):
        return None
    total, largest, part = 0, 10**9, []
    for index, word in enumerate(words):
        scale = _SCALES.get(word)
        if scale is None:
            part.append(word)
            continue
        value = _below_thousands(part) if part else (1 if index == 0 else None)
        if value is None or value == 0 or scale >= largest:
            return None
        total, largest, part = total + value * scale, scale, []
    if not part:
        return total
    if total and part[0] == "and":
        part = part[1:]
    rest = _below_thousands(part)
    if rest is None or (total and rest == 0) or rest >= largest:
        return None
    return total + rest


def _below_thousands(words: list[str]) -> int | None:
    if words.count("hundred") > 1 or not words:
        return None
    if "hundred" not in words:
        return _below_hundred(words)
    place = words.index("hundred")
    hundreds = _below_hundred(words[:place]) if place else 1
    if not hundreds:
        return None
    rest = words[place + 1 :]
    if not rest:
        return hundreds * 100
    if rest[0] == "and":
        rest = rest[1:]
    low = _below_hundred(rest)
    return None if not low else hundreds * 100 + low


def _below_hundred(words: list[str]) -> int | None:
    if len(words) == 1:
        word = words[0]
        return _UNITS.get(word, _TENS.get(word))
    if len(words) == 2 and words[0] in _TENS and 1 <= _UNITS.get(words[1], 0) <= 9:
        return _TENS[words[0]] + _UNITS[words[1]]
    return None


def last_number_in_words(text: str) -> str | None:
    """The last stretch of number words in the text that names a number, as written."""
    runs: list[list[tuple[int, int]]] = []
    for match in re.finditer(r"(?<![\w])[A-Za-z]+(?:-[A-Za-z]+)*(?![\w])", text):
        if not all(word in _KNOWN for word in match[0].split("-")):
            continue
        if runs and not text[runs[-1][-1][1] : match.start()].strip(" "):
            runs[-1].append(match.span())
        else:
            runs.append([match.span()])
    for run in (r[-_LONGEST:] for r in reversed(runs)):
        for first in range(len(run)):
            for last in range(len(run), first, -1):
                stretch = text[run[first][0] : run[last - 1][1]]
                if number_of_words(stretch) is not None:
                    return stretch
    return None
