"""The normal form in which text is judged."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.text import count_words, normalise


def test_normal_form() -> None:
    assert normalise("a\r\nb\rc") == "a\nb\nc"
    assert normalise("\ufeffa\u200bb") == "ab"
    assert normalise("a\u00a0b\u2009c  d") == "a b c  d"
    assert normalise("−5 and –5 and 3–5") == "-5 and -5 and 3–5"
    assert normalise("４２％") == "42%"
    assert normalise("2½") == "2 1/2"
    assert normalise("10²") == "10²"
    assert normalise("Ａ") == "Ａ"
    assert count_words("raz – dwa, trzy.") == 3


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\u2028b\u2029c", "a\nb\nc"),
        ("a\u1680b\u3000c\u2007d", "a b c d"),
        ("ksia\u0328z\u0307ka", "książka"),
        ("1⁄6 ½ 2¾ ↉", "1/6 1/2 2 3/4 0/3"),
        ("− 5", "-5"),
        ("3 − 5", "3 - 5"),
        ("3–5", "3–5"),
        ("（３，４）", "(3,4)"),
        ("４２．５％", "42.5%"),
        ("𝟒𝟐", "42"),
        ("“q” – ’s …", "“q” – ’s …"),
        ("x₁ ① ⅻ", "x₁ ① ⅻ"),
    ],
)
def test_signs_spaces_and_digits(text: str, plain: str) -> None:
    assert normalise(text) == plain


@given(st.text(max_size=30))
def test_normal_form_is_one_form(text: str) -> None:
    plain = normalise(text)
    assert normalise(plain) == plain
    assert unicodedata.is_normalized("NFC", plain)


@given(st.text(st.characters(max_codepoint=0x17F, exclude_characters="\r\xa0\xad¼½¾"), max_size=30))
def test_letters_as_keyboards_send_them_stay(text: str) -> None:
    assert normalise(text) == text
