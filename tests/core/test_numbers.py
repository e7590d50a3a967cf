"""The number tokenizer: exact values, and what is no number."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core import numbers
from pytest_benchrig.core.number_words import last_number_in_words, number_of_words
from pytest_benchrig.core.numbers import (
    big_int,
    last_number,
    list_markers,
    parse_number,
    tokens,
)
from pytest_benchrig.core.text import normalise

PIECES = (
    *("at ", "of ", " and", " ", "\n", ". ", ".", ", ", ",", "(", ")", "-", "$", "€ ", "x_", "m2"),
    *("1", "20", "025", "1,025", "1/6", "16.7", " 000", ":20", "/6", " 1/2", ".5", "_1"),
    *("%", " %", "e3", " x 10^3", " X 10^2", " × 10", " E5", "^2"),
)


def read(text: str) -> list[str]:
    return [n.text for n in tokens(normalise(text)) if n.is_number]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("none", []),
        ("42", ["42"]),
        ("-42 +42", ["-42", "42"]),
        ("x=-5, y = -6, (-7)", ["-5", "-6", "-7"]),
        ("10-5 = 5", ["10", "5", "5"]),
        ("10 - 5", ["10", "5"]),
        ("a-5", ["5"]),
        ("x = - 5", ["-5"]),
        ("--5", ["5"]),
        ("±5", []),
        ("-$5 −€6 €-7 £8", ["-5", "-6", "-7", "8"]),
        ("USD5 PLN 6 US7", ["5", "6", "7"]),
        ("1,025 1 025 12,345,678", ["1025", "1025", "12345678"]),
        ("1,025.50 1 025,50", ["1025.50", "1025,50"]),
        ("3,14 3,1 13,14", ["3,14", "3,1", "13,14"]),
        ("0,125 3,1415 1234,567", []),
        ("1,2,3 and 10,20,30", ["1", "2", "3", "10", "20", "30"]),
        ("(3, 4)", ["3", "4"]),
        ("2019 300", ["2019", "300"]),
        ("12 34 56", ["12", "34", "56"]),
        (".5 -.5 v.5 ...5", ["0.5", "-0.5", "5", "5"]),
        ("42. 42, 42; 42!", ["42", "42", "42", "42"]),
        ("1.2e3 1E-3 1e+3", ["1.2e3", "1e-3", "1e3"]),
        ("1.2 × 10^3 1.2x10^-3 1.2·10³ 3 * 10**2", ["1.2e3", "1.2e-3", "1.2e3", "3e2"]),
        ("10^3 2^10 10⁻³", ["10^3", "2^10", "10^-3"]),
        ("6 × 10 6 x 7", ["6", "10", "6", "7"]),
        ("1/6 1 / 6 -1/6 1/10^6", ["1/6", "1/6", "-1/6", "1/10^6"]),
        ("7/15/1410", ["7", "15", "1410"]),
        ("2 1/2 cups. 3 4/3", ["2 1/2", "3", "4/3"]),
        ("15.07.1410", ["15", "07", "1410"]),
        ("1.2.3 192.168.1.1 1.234.567", []),
        ("2031-07-04", ["2031", "07", "04"]),
        ("11:20", ["11", "20"]),
        ("1_000 x_1 _42_ a_2_b", ["42"]),
        ("cm2 m^2 H2O B42 x^-2 42km 42m²", ["42", "42"]),
        ("0x42", ["0"]),
        ("答案是42。", ["42"]),
        ("５０％ ½ 2½", ["50", "1/2", "2 1/2"]),
        ("3-5 3–5 –5", ["3", "5", "3", "5", "5"]),
    ],
)
def test_numbers_in_text(text: str, numbers: list[str]) -> None:
    assert read(text) == numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", Fraction(42)),
        (" -42 ", Fraction(-42)),
        ("- 42", Fraction(-42)),
        ("+42.50", Fraction(85, 2)),
        ("3,14", Fraction(157, 50)),
        ("1,025", Fraction(1025)),
        ("1 025", Fraction(1025)),
        (".5", Fraction(1, 2)),
        ("42.", Fraction(42)),
        ("1/6", Fraction(1, 6)),
        ("-1 / 6", Fraction(-1, 6)),
        ("2 1/2", Fraction(5, 2)),
        ("-2 1/2", Fraction(-5, 2)),
        ("1.2e3", Fraction(1200)),
        ("1.2 × 10^3", Fraction(1200)),
        ("1.2e-3", Fraction(3, 2500)),
        ("1/1e3", Fraction(1, 1000)),
        ("007", Fraction(7)),
        ("0,5/2", Fraction(1, 4)),
    ],
)
def test_a_text_that_is_a_number(text: str, value: Fraction) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "-", "+", "1_000", "1__0", "1/0", "1/", "/2", "1//2", "1.2.3", "1,2,3"),
        *("0x10", "nan", "inf", "infinity", "1e", "e3", "1e3.5", "--1", "+-1", "1 2", "42 km"),
        *("$42", "€42", "50%", "x42", "42x", "٤٢", "one", "1e99999999999", "42..", "10^3^2"),
    ],
)
def test_a_text_that_is_no_number(text: str) -> None:
    assert parse_number(text) is None


def test_long_integers_are_exact_on_every_python() -> None:
    assert big_int("1" + "0" * 20_000) == 10**20_000
    assert parse_number("9" * 10_001) == 10**10_001 - 1


def test_list_markers_count_on_from_one() -> None:
    text = "1. six\n2. seven\n   3) eight\n42. no marker\n- 5\n**4.** nine\n12. no"
    assert [text[i] for i in sorted(list_markers(text))] == ["1", "2", "3", "4"]
    assert last_number("It is 42:\n1. six\n2. seven").text == "42"  # type: ignore[union-attr]
    assert last_number("1. six\n2. -7").text == "-7"  # type: ignore[union-attr]
    assert last_number("1/0 and cm2") is None


@given(st.integers())
def test_every_integer_is_read_back(value: int) -> None:
    for text in (str(value), f"{value:,}", f"{value:,}".replace(",", " ")):
        assert parse_number(text) == value
        assert [n.value for n in tokens(f"so {text}.")] == [value]
        assert last_number(f"7 and then {text} km") is not None


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9, places=3))
def test_every_decimal_is_read_back(value: Decimal) -> None:
    assert parse_number(f"{value:f}") == Fraction(value)
    assert parse_number(f"{value:e}") == Fraction(value)


@given(st.integers(-999, 10**6), st.integers(1, 10**6))
def test_every_fraction_is_read_back(top: int, bottom: int) -> None:
    for text in (f"{top}/{bottom}", f"{top} / {bottom}"):
        assert parse_number(text) == Fraction(top, bottom)
        assert [n.value for n in tokens(f"so {text}, yes")] == [Fraction(top, bottom)]


@given(st.text("0123456789.,-+/eE ^_x×$%()\n", max_size=30))
def test_tokens_lie_in_order_and_end_with_digits(text: str) -> None:
    position = 0
    for number in tokens(text):
        assert position <= number.start < number.end <= len(text)
        assert any(c.isdigit() for c in text[number.start : number.end])
        position = number.end
    covered = list(tokens(text))
    for index, char in enumerate(text):
        if char.isdigit():
            assert any(n.start <= index < n.end for n in covered)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_short_way_through_plain_words_reads_what_the_long_way_reads(text: str) -> None:
    short = list(tokens(text))
    integers = list(tokens(text, easy=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "_EASY", re.compile("(?!)"))
        long = list(tokens(text))
    assert short == long
    assert [n for n in long if n in integers] == integers
    assert all(n.text == text[n.start : n.end] for n in long if n not in integers)


@given(st.text("0123456789.,-+/eE ^_", max_size=20))
def test_a_parsed_text_is_its_only_token(text: str) -> None:
    value = parse_number(text)
    if value is not None:
        assert isinstance(value, Fraction)
        assert parse_number(f" {text}\n") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero", 0),
        ("nineteen", 19),
        ("twenty", 20),
        ("twenty-one", 21),
        ("twenty one", 21),
        ("one hundred", 100),
        ("one hundred and one", 101),
        ("nine hundred ninety-nine", 999),
        ("twelve hundred", 1200),
        ("two thousand and five", 2005),
        ("one hundred thousand", 100_000),
        ("three million four hundred thousand", 3_400_000),
        ("one-hundred-and-five", 105),
        ("forty-two.", 42),
    ],
)
def test_number_words(text: str, value: int) -> None:
    assert number_of_words(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "and", "and five", "five and", "one and two", "one two", "twenty ten", "ten twenty"),
        *("thousand million", "one thousand two million", "zero hundred", "one hundred and"),
        *("Forty", "FORTY", "forty-Two", "fourty", "a hundred", "minus five", "five apples"),
        *("one hundred zero", "two thousand zero", "twenty zero", "one hundred two hundred"),
    ],
)
def test_other_words_are_no_number(text: str) -> None:
    assert number_of_words(text) is None


@given(st.integers(0, 999_999_999))
def test_every_spelt_integer_is_read_back(value: int) -> None:
    assert number_of_words(spell(value)) == value


def spell(value: int) -> str:
    """Independent spelling, by division from the top."""
    small = [
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
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    if value < 20:
        return small[value]
    if value < 100:
        return tens[value // 10 - 2] + (f"-{small[value % 10]}" if value % 10 else "")
    for size, word in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = value % size
            tail = "" if not rest else (" and " if rest < 100 else " ") + spell(rest)
            return f"{spell(value // size)} {word}{tail}"
    raise AssertionError(value)


def test_the_last_number_in_words_of_a_text() -> None:
    assert last_number_in_words("six rows, so forty-two seats") == "forty-two"
    assert last_number_in_words("one hundred and five of them") == "one hundred and five"
    assert last_number_in_words("Someone and anyone") is None
