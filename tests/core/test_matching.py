"""Whole numbers, plain text and bounded regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_benchrig.core.matching import (
    PatternTimeout,
    compile_problem,
    contains,
    fullmatch,
    search,
    whole_number_in,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("42", "It is 42."),
        ("42", "(42), “42”, 42%"),
        ("42", "🎉42🎉"),
        ("42", "**42**"),
        ("42", "$42"),
        ("42", "42 km"),
        ("42", "42km"),
        ("42", "+42"),
        ("42", "40-42"),
        ("42", "40–42"),
        ("42", "= 42"),
        ("42", "4\u200b2"),
        ("42", "４２"),
        ("42", "答案是42。"),
        ("42", "42, 43"),
        ("42", "a list:\n- 42"),
        ("-5", "It is -5 now"),
        ("-5", "It is −5 now"),
        ("−5", "It is -5 now"),
        ("-5", "x=-5"),
        ("-5", "-$5"),
        ("5", "10 - 5"),
        ("1/6", "1/6"),
        ("1/6", "(1/6)"),
        ("1/6", "1 / 6"),
        ("1 / 6", "1/6"),
        ("1/6", r"\frac{1}{6}"),
        ("1/6", r"\frac16"),
        ("1/6", "⅙"),
        ("1025", "1,025"),
        ("1025", "1 025"),
        ("1025", "1\u00a0025"),
        ("1025", "1{,}025"),
        ("1025", "1\\,025"),
        ("1,025", "1025"),
        ("114.6", "$114.6."),
        ("3,14", "3,14"),
        ("1e3", "1E3"),
        ("1.2e3", "1.2 × 10^3"),
        ("3", "3. apples"),
        ("11:20", "at 11:20"),
        ("2031-07-04", "on 2031-07-04, yes"),
        ("1410", "15.07.1410"),
        ("1410", "1410 r."),
        ("1410", "w 1410-tym"),
        ("42 km", "about 42 km/h"),
        ("50%", "50 %"),
        ("50 %", "50%"),
        ("50", "50%"),
        ("(3, 4)", "at (3, 4)."),
        ("B42", "room B42"),
        ("v1.2.3", "V1.2.3"),
        ("192.168.1.1", "192.168.1.1"),
        (" 42 ", "42"),
        ("2 + 2 = 4", "2 + 2 = 4."),
    ],
)
def test_a_whole_number_is_found(number: str, text: str) -> None:
    assert whole_number_in(number, text)
    assert contains(number, text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("42", ""),
        ("42", "142"),
        ("42", "420"),
        ("42", "4 2"),
        ("210", "2**10"),
        ("42", "-42"),
        ("42", "−42"),
        ("42", "(-42)"),
        ("42", "-$42"),
        ("42", "±42"),
        ("42", "42.0"),
        ("42", "42.5"),
        ("42", "0.42"),
        ("42", ".42"),
        ("42", "42,5"),
        ("42", "0,42"),
        ("42", "1,042"),
        ("42", "42,000"),
        ("42", "42 000"),
        ("42", "1/42"),
        ("42", "42/7"),
        ("42", "42 / 7"),
        ("42", "42e3"),
        ("42", "42 × 10^3"),
        ("42", "42^2"),
        ("42", "42²"),
        ("42", "42_000"),
        ("42", "B42"),
        ("42", "x_42"),
        ("42", "cm^42"),
        ("42", "1.42.3"),
        ("5", "-5"),
        ("3", "1e3"),
        ("3", "3.5"),
        ("3", "1.2 × 10^3"),
        ("-5", "5"),
        ("-5", "10-5"),
        ("-5", "10 - 5"),
        ("-5", "-50"),
        ("-5", "-5.5"),
        ("1/6", "11/60"),
        ("1/6", "11/6"),
        ("1/6", "1/60"),
        ("1/6", "-1/6"),
        ("1/6", "2 1/6"),
        ("1/6", r"\frac{11}{60}"),
        ("114.6", "1114.60"),
        ("114.6", "114.60"),
        ("114.6", "1114.6"),
        ("3,14", "13,14"),
        ("3,14", "3,141"),
        ("3.14", "3.14159"),
        ("11:20", "111:20"),
        ("11:20", "11:205"),
        ("2031-07-04", "12031-07-04"),
        ("1025", "1.025"),
        ("1025", "11,025"),
        ("1025", "1,0255"),
        ("15.07", "15.07.1410"),
        ("2", "H2O"),
        ("B42", "B421"),
        ("50%", "150%"),
        ("42 km", "142 km"),
        ("(3, 4)", "(3, 45)"),
    ],
)
def test_a_part_of_a_number_is_not_found(number: str, text: str) -> None:
    assert not whole_number_in(number, text)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("Canberra", "It is CANBERRA.", True),
        ("canberra", "Canberra", True),
        ("can", "Canberra", True),
        ("a b", "a  b", False),
        ("a b", "a\u00a0b", True),
        ("a b", "a **b**", True),
        ("x.z", "xyz", False),
        (r"\text{yes}", "yes", True),
        ("żółć", "ŻÓŁĆ", True),
        ("zolc", "żółć", False),
        ("$", "5 $", False),
        ("", "anything", False),
        ("  ", "any  thing", False),
    ],
)
def test_other_patterns_are_plain_text(pattern: str, text: str, found: bool) -> None:
    assert contains(pattern, text) is found


@given(
    st.integers(), st.sampled_from(["", "so ", "(", "is: "]), st.sampled_from(["", ".", ")", " km"])
)
def test_a_number_is_found_in_a_sentence(value: int, before: str, after: str) -> None:
    assert whole_number_in(str(value), f"{before}{value}{after}")
    assert whole_number_in(str(value), f"{before}{value:,}{after}")


@given(st.integers(), st.integers())
def test_another_number_is_not_found(value: int, other: int) -> None:
    assume(value != other)
    assert not whole_number_in(str(value), f"so {other}.")
    assert not whole_number_in(str(value), f"so {other:,}!")


@given(st.integers(0, 10**6), st.text("0123456789", min_size=1, max_size=3))
def test_digits_on_either_side_hide_a_number(value: int, digits: str) -> None:
    assert not whole_number_in(str(value), f"is {value}{digits}.")
    assert not whole_number_in(str(value), f"is {digits}{value}.")


def test_regular_expressions_ignore_case_and_normal_form() -> None:
    assert fullmatch("ab?", "AB")
    assert not fullmatch("ab", "abc")
    assert search("b", "ABC")
    assert fullmatch("−5", "-5")
    assert fullmatch("[+−]5", "-5")
    assert fullmatch("ksia\u0328z\u0307ka", "KSIĄŻKA")
    assert fullmatch("(?i)a|b", "B")


@given(
    st.from_regex(r"[ -~]{0,4}", fullmatch=True).filter(
        lambda p: not set(p) & set(r"\.^$*+?{}[]|()")
    ),
    st.text(st.sampled_from("aAkKsSiI5- \u212a\u017f\u0130\u0131\u2212"), max_size=4),
)
def test_plain_text_matches_as_the_regular_expression_that_it_is(pattern: str, text: str) -> None:
    for candidate in (text, pattern, pattern.swapcase(), pattern + text):
        expected = re.fullmatch(pattern, candidate, re.IGNORECASE) is not None
        assert fullmatch(pattern, candidate) is expected


def test_a_pattern_without_end_is_stopped() -> None:
    for method in (fullmatch, search):
        with pytest.raises(PatternTimeout) as caught:
            method("(a|aa)+b", "a" * 80 + "c" + "b")
        assert caught.value.pattern == "(a|aa)+b"
        assert "'(a|aa)+b'" in str(caught.value)


def test_what_is_no_pattern() -> None:
    assert compile_problem("a(b|c)") == ""
    assert "unterminated subpattern" in compile_problem("a(b")
