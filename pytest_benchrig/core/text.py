"""The one normal form of text before it is judged: replies, expected answers and patterns."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
_INVISIBLE = (
    0xAD,
    0x34F,
    0x180E,
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0x20E3,
    0xFE0E,
    0xFE0F,
    0xFEFF,
)
_WIDE_SIGNS = (
    *range(0xFF01, 0xFF21),
    *range(0xFF3B, 0xFF41),
    *range(0xFF5B, 0xFF5F),
    *range(0xFFE0, 0xFFE7),
    *range(0xFE50, 0xFE6C),
    *range(0x1D7CE, 0x1D800),
)
_HYPHENS = (0x2010, 0x2011, 0x2212)
_BARS = (0x2044, 0x2215)
_VULGAR_FRACTIONS = frozenset("¼½¾↉").union(map(chr, range(0x2150, 0x215F)))
_VULGAR = re.compile(rf"([0-9]?)([{''.join(_VULGAR_FRACTIONS)}])")
_SPACE_CHARACTERS = frozenset(map(chr, _SPACES))
_UNUSUAL = re.compile("[\u00a0\u00ad\u00bc-\u00be\u0300-\U0010ffff]")
"""All that normal form changes; accented letters as most keyboards send them are below it."""
_SPACED_MINUS = re.compile("\u2212 +(?=[0-9])")
_TIGHT_EN_DASH = re.compile("\u2013(?=[0-9])")
_ENDS_AN_OPERAND = frozenset(")]%°")


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    """What each character becomes that has one form wherever it stands."""
    found = dict.fromkeys(_SPACES, " ")
    found.update(dict.fromkeys(_INVISIBLE, ""))
    found.update(dict.fromkeys(_HYPHENS, "-"))
    found.update(dict.fromkeys(_BARS, "/"))
    found.update({0x2028: "\n", 0x2029: "\n"})
    table = {chr(code): plain for code, plain in found.items()}
    for code in _WIDE_SIGNS:
        plain = unicodedata.normalize("NFKC", chr(code))
        if plain.isascii() or len(plain) == 1:
            table[chr(code)] = plain
    return table


def normalise(text: str) -> str:
    """Bring text into the form in which it is judged.

    Unicode NFC for words; NFKC for digits and signs (full-width digits, U+2212 becomes the
    ASCII minus, vulgar fractions); every kind of space becomes a space, runs of them stay;
    line ends become LF; zero-width characters and BOM go. An en dash right before a digit is a
    minus where nothing stands before it that could be subtracted from. Superscripts stay, since
    10² is not 102.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() or not _UNUSUAL.search(text):
        return text
    text = unicodedata.normalize("NFC", text)
    # Few characters differ, and each is replaced faster than all are looked at one by one.
    table = _table()
    present = set(text)
    changed = present & table.keys()
    if "\u2212" in present or "\u2013" in present:
        text = _minus_signs(text, changed)
    if not present.isdisjoint(_VULGAR_FRACTIONS):
        text = _VULGAR.sub(_spelt_out, text)
    for char in changed:
        text = text.replace(char, table[char])
    return text


def _spelt_out(match: re.Match[str]) -> str:
    fraction = unicodedata.normalize("NFKC", match[2]).replace("\u2044", "/")
    return f"{match[1]} {fraction}" if match[1] else fraction


def _minus_signs(text: str, changed: set[str]) -> str:
    """Spaced minus signs and en dashes that are signs of a number become tight minus signs."""
    for space in changed & _SPACE_CHARACTERS:
        text = text.replace(space, " ")

    def unary(match: re.Match[str]) -> str:
        return "-" if not follows_operand(text, match.start()) else match[0]

    text = _SPACED_MINUS.sub(unary, text)
    return _TIGHT_EN_DASH.sub(unary, text)


def follows_operand(text: str, position: int) -> bool:
    """Whether what stands before ``position`` on its line can be subtracted from."""
    index = position - 1
    while index >= 0 and text[index] == " ":
        index -= 1
    if index < 0:
        return False
    before = text[index]
    if before in _ENDS_AN_OPERAND or before in "0123456789":
        return True
    return index == position - 1 and is_letter(before)


def is_letter(char: str) -> bool:
    """A letter of a script that puts spaces between words, so that it sticks to a number."""
    return char.isalpha() and ord(char) < 0x2E80


def count_words(text: str) -> int:
    """Words of a text: what stands between white space and holds a letter or a digit."""
    return sum(1 for word in text.split() if any(map(str.isalnum, word)))
