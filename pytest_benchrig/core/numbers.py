"""The one tokenizer of numbers: exact, without floats, the same on every version of Python.

It reads text in the normal form of :mod:`pytest_benchrig.core.text`, LaTeX simplified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pytest_benchrig.core.number_words import number_of_words
from pytest_benchrig.core.text import follows_operand, is_letter

LARGEST_EXPONENT = 20_000
"""Powers of ten beyond this are not written out; what needs one is no number."""

_CHUNK = 4000
_RUN = re.compile(r"[0-9]+(?:[.,_][0-9]+)*")
_BEFORE, _AFTER = r"(?:(?<=[A-Za-z] )|(?<=[0-9]:))", r":| [A-WYZa-wyz(]|[,;!?)] ?[A-Za-z]"
_EASY = re.compile(
    rf"{_BEFORE}(?:[0-9]+(?:\.[0-9]+|/[0-9]+)?|[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+)"
    rf"(?={_AFTER}| ?%|\.?(?:\s*\Z|\n))"
)
"""A number between plain words, which nothing around it changes; most are such."""
_EASY_INTEGER = re.compile(rf"{_BEFORE}[0-9]+(?={_AFTER}|\.?(?:\s*\Z|\n))")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]{1,2}")
_LIST = re.compile(r"[0-9]+(?:,[0-9]+){2,}")
_DATE = re.compile(r"(?:0?[1-9]|[12][0-9]|3[01])\.(?:0?[1-9]|1[0-2])\.(?:[0-9]{4}|[0-9]{2})")
_SPACE_GROUPS = re.compile(r"(?: [0-9]{3}(?![0-9_]))+(?:[.,][0-9]+)?(?![.,]?[0-9])")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_EXPONENT = re.compile(
    r"[eE](?P<e>[-+]?[0-9]+)(?![0-9A-Za-z])"
    r"| ?[×xX*·⋅∙] ?10 ?"
    r"(?:(?:\^|\*\*) ?(?P<open>[({]?) ?(?P<power>[-+]?[0-9]+) ?[)}]?|(?P<high>[⁺⁻]?[⁰¹²³⁴-⁹]+))"
)
_POWER = re.compile(
    r"(?:\^|\*\*)(?P<open>[({]?)(?P<power>[-+]?[0-9]+)[)}]?|(?P<high>[⁺⁻]?[⁰¹²³⁴-⁹]+)"
)
_GOING_ON = frozenset(" eE×xX*·⋅∙^/⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻0123456789")
_BAR = re.compile(r" {0,2}/ {0,2}(?=[0-9.])")
_MIXED = re.compile(r" (?P<top>[0-9]{1,4})/(?P<bottom>[0-9]{1,4})(?![0-9/]|[.,][0-9])")
_CURRENCIES = "€£¥₹₽₩₺₴$¢"
_CURRENCY_WORD = re.compile(
    r"(?<![^\W\d_])(?:USD|EUR|GBP|PLN|CHF|JPY|CZK|SEK|NOK|DKK|CAD|AUD|INR|CNY|RMB|US|Rs)\Z"
)
_LIST_MARKER = re.compile(
    r"(?m)^[ \t>]*(?:#{1,6}[ \t]+|[-*+•][ \t]+)?[*_(]{0,4}(?P<n>[0-9]{1,3})(?P<stop>[.)]{1,2})"
    r"[*_]{0,3}[ \t]+(?=\S)"
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or something made of digits that is none.

    Attributes:
        start: Offset of the first character, sign and the currency behind it included.
        end: Offset behind the last character.
        text: The number in one spelling: no thousands separators, no plus, no spaces, ``e`` for
            powers of ten; decimals, decimal comma and fraction as written.
        is_number: False for ``1_000``, ``1.2.3``, ``±5`` and the digits of ``cm2`` or ``x_1``.
    """

    start: int
    end: int
    text: str
    is_number: bool = True

    @property
    def value(self) -> Fraction | None:
        """The exact value; ``None`` for what is no number, a zero denominator included."""
        return _value(self.text) if self.is_number else None


def tokens(
    text: str, start: int = 0, end: int | None = None, *, easy: bool = True
) -> Iterator[Number]:
    """Everything in the text that is made of digits, in order.

    Args:
        text: In normal form, LaTeX simplified.
        start: Where to begin.
        end: Where to stop, the end of the text by default.
        easy: Whether integers between plain words are given too; they read as they stand.
    """
    end = len(text) if end is None else end
    position = start
    while True:
        match = _RUN.search(text, position, end)
        if match is None:
            return
        if not easy and _EASY_INTEGER.match(text, match.start(), end):
            position = match.end()
            continue
        found = _read(text, match, end)
        yield from found
        position = max(found[-1].end, match.end())


def _read(text: str, match: re.Match[str], end: int) -> list[Number]:
    run, start, stop = match[0], match.start(), match.end()
    easy = _EASY.match(text, start, end)
    if easy:
        return [Number(start, easy.end(), easy[0].replace(",", ""))]
    if _sticks(text, start, stop):
        return [Number(start, stop, run, is_number=False)]
    if "_" in run:
        return [Number(start, stop, run, is_number=False)]
    whole = run.isdigit()
    if not whole and (
        _DATE.fullmatch(run) or (_LIST.fullmatch(run) and not _GROUPED.fullmatch(run))
    ):
        return _apart(text, start, stop)
    spelt = run if whole else _spelling(run)
    if text[start - 1 : start] == "." and start > 0 and spelt is not None:
        before = text[start - 2 : start - 1]
        if "." not in run and not (before.isalnum() or before in (".", ")", "]")):
            start, spelt = start - 1, "0." + spelt if spelt.isdigit() else None
    if whole and len(run) <= 3 and run[0] != "0" and text[stop : stop + 1] == " ":
        groups = _SPACE_GROUPS.match(text, stop, end)
        if groups and _spelling(run + groups[0].replace(" ", "")) is not None:
            stop = groups.end()
            spelt = _spelling(run + groups[0].replace(" ", ""))
    if spelt is None:
        first = _with_sign(text, start)[0]
        return [Number(first, stop, text[first:stop], is_number=False)]
    return _finish(text, start, stop, spelt, end)


def _finish(text: str, start: int, stop: int, spelt: str, end: int) -> list[Number]:
    """Add exponent, fraction, mixed number and sign to a plain number."""
    if not _goes_on(text, stop):
        return [_signed_number(text, start, stop, spelt)]
    bare = spelt
    spelt, stop = _raised(text, stop, end, spelt)
    chain = _chain(text, stop, end)
    if len(chain) > 1:
        return [_signed_number(text, start, stop, spelt), *chain]
    if chain:
        spelt, stop = f"{spelt}/{chain[0].text}", chain[0].end
    elif spelt == bare and spelt.isdigit():
        mixed = _MIXED.match(text, stop, end)
        if mixed and int(mixed["top"]) < int(mixed["bottom"]):
            spelt, stop = f"{spelt} {mixed['top']}/{mixed['bottom']}", mixed.end()
    return [_signed_number(text, start, stop, spelt)]


def _goes_on(text: str, stop: int) -> bool:
    """Whether what follows may belong to the number; for most it is plain text."""
    first = text[stop : stop + 1]
    if first == " ":
        first = text[stop + 1 : stop + 2]
    return first in _GOING_ON


def _raised(text: str, stop: int, end: int, spelt: str) -> tuple[str, int]:
    """The number with the exponent or power that follows it, and where that ends."""
    exponent = _EXPONENT.match(text, stop, end)
    if exponent:
        digits = exponent["e"] or exponent["power"] or exponent["high"].translate(_SUPERSCRIPTS)
        return f"{spelt}e{digits.removeprefix('+')}", exponent.end()
    power = _POWER.match(text, stop, end)
    if power:
        digits = power["power"] or power["high"].translate(_SUPERSCRIPTS)
        return f"{spelt}^{digits.removeprefix('+')}", power.end()
    return spelt, stop


def _signed_number(text: str, start: int, stop: int, spelt: str) -> Number:
    start, sign = _with_sign(text, start)
    return Number(start, stop, sign.replace("+", "") + spelt, is_number=sign != "±")


def _chain(text: str, stop: int, end: int) -> list[Number]:
    """Numbers that follow, each behind a fraction bar: one makes a fraction, more a date."""
    found: list[Number] = []
    while True:
        bar = _BAR.match(text, stop, end)
        run = _RUN.match(text, bar.end(), end) if bar else None
        spelt = _spelling(run[0]) if run else None
        if run is None or spelt is None:
            return found
        spelt, stop = _raised(text, run.end(), end, spelt)
        found.append(Number(run.start(), stop, spelt))


def _apart(text: str, start: int, stop: int) -> list[Number]:
    parts = [
        Number(m.start(), m.end(), m[0]) for m in re.compile(r"[0-9]+").finditer(text, start, stop)
    ]
    first = parts[0]
    return [_signed_number(text, first.start, first.end, first.text), *parts[1:]]


def _spelling(run: str) -> str | None:
    """A run without thousands separators; ``None`` where the run is no number."""
    if _PLAIN.fullmatch(run) or _DECIMAL_COMMA.fullmatch(run):
        return run
    if _GROUPED.fullmatch(run):
        return run.replace(",", "")
    return None


def _sticks(text: str, start: int, stop: int) -> bool:
    """Whether the digits belong to a word, an index or the exponent of a unit."""
    after = text[stop : stop + 2]
    if len(after) == 2 and after[0] == "_" and after[1].isalnum():
        return True
    if start == 0:
        return False
    before = text[start - 1]
    if before == "^" or (before in "-+" and text[start - 2 : start - 1] == "^"):
        return True
    if before == "_":
        return text[start - 2 : start - 1].isalnum()
    return is_letter(before) and _CURRENCY_WORD.search(text[max(0, start - 4) : start]) is None


def _with_sign(text: str, start: int) -> tuple[int, str]:
    """Where the number begins with its sign, and the sign: ``-``, ``+``, ``±`` or none."""
    position = start
    if position and text[position - 1] in _CURRENCIES:
        position -= 1
    elif position > 1 and text[position - 1] == " " and text[position - 2] in _CURRENCIES:
        position -= 2
    if position == 0:
        return start, ""
    sign = text[position - 1]
    if sign == "±":
        return position - 1, sign
    if sign in "-+":
        before = text[position - 2 : position - 1]
        if before in ("-", "+") or (before and _operand_before(text, position - 1)):
            return start, ""
        return position - 1, sign
    if sign == " " and text[position - 2 : position - 1] == "-":
        before = text[: position - 2][-3:].rstrip(" ")[-1:]
        if before and before in "=≈:(":
            return position - 2, "-"
    return start, ""


def _operand_before(text: str, position: int) -> bool:
    """Whether the sign at ``position`` joins two things rather than belonging to the number."""
    return text[position - 1] != " " and follows_operand(text, position)


def _value(text: str) -> Fraction | None:
    negative = text.startswith("-")
    value = _magnitude(text.removeprefix("-"))
    return -value if negative and value is not None else value


def _magnitude(text: str) -> Fraction | None:
    whole, space, rest = text.partition(" ")
    if space:
        part = _magnitude(rest)
        return None if part is None else _exact(whole) + part
    top, bar, bottom = text.partition("/")
    if bar:
        above, below = _magnitude(top), _magnitude(bottom)
        return above / below if above is not None and below else None
    base, caret, power = text.partition("^")
    if caret:
        return _power(_exact(base), power)
    mantissa, e, exponent = text.partition("e")
    if not e:
        return _exact(mantissa)
    scale = _power(Fraction(10), exponent)
    return None if scale is None else _exact(mantissa) * scale


def _power(base: Fraction, exponent: str) -> Fraction | None:
    if len(exponent) > 7:
        return None
    size = int(exponent)
    digits = len(str(base.numerator)) if base.numerator < 10**_CHUNK else _CHUNK
    if abs(size) * digits > LARGEST_EXPONENT * 2 or (base == 0 and size < 0):
        return None
    return base**size


def _exact(text: str) -> Fraction:
    whole, _, decimals = text.replace(",", ".").partition(".")
    digits = big_int((whole or "0") + decimals)
    return Fraction(digits, 10 ** len(decimals)) if decimals else Fraction(digits)


def big_int(digits: str) -> int:
    """An integer of any length; Python itself refuses long ones."""
    if len(digits) <= _CHUNK:
        return int(digits)
    half = len(digits) // 2
    power: int = 10**half
    return big_int(digits[:-half]) * power + big_int(digits[-half:])


def parse_number(text: str, *, words: bool = False) -> Fraction | None:
    """The value of a text that is a number and nothing else, ``None`` if it is not.

    Signs, thousands separators, decimal point or comma, exponents and fractions; a full stop
    at the end of it is allowed. With ``words``, English number words too.
    """
    text = text.strip()
    if words:
        named = number_of_words(text)
        if named is not None:
            return Fraction(named)
    bare = text.removesuffix(".") if text[-2:-1].isdigit() else text
    if bare[:2] in ("- ", "+ "):
        bare = bare[0] + bare[2:].lstrip(" ")
    if not bare or bare[0] not in "+-.0123456789" or any(c in _CURRENCIES for c in bare):
        return None
    found = next(tokens(bare), None)
    if found is None or (found.start, found.end) != (0, len(bare)):
        return None
    return found.value


def list_markers(text: str) -> frozenset[int]:
    """Offsets of digits that only number the entries of a list: 1, 2, 3 at the start of lines.

    A list begins with 0 or 1 and counts on; any other number at the start of a line is a number.
    """
    found: set[int] = set()
    seen: set[int] = set()
    for match in _LIST_MARKER.finditer(text):
        number = int(match["n"])
        if number <= 1 or number - 1 in seen:
            seen.add(number)
            found.add(match.start("n"))
    return frozenset(found)


def last_number(text: str) -> Number | None:
    """The last number of the text with a value; list markers are none."""
    markers: frozenset[int] | None = None
    stop = len(text)
    while stop > 0:
        start = text.rfind("\n", 0, stop) + 1
        marker = _LIST_MARKER.match(text, start, stop)
        if marker and markers is None:
            markers = list_markers(text)
        first = marker.start("n") if marker and marker.start("n") in (markers or ()) else -1
        for number in reversed(list(tokens(text, start, stop))):
            if not number.start <= first < number.end and number.value is not None:
                return number
        stop = start - 1
    return None
