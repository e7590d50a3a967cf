"""``exact_or_contains``, ``regex`` and ``numeric``: every sentence of the rules as an example."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.scenario import AnswerSpec


def contains(expected: str, reply: str, *patterns: str, **more: Any) -> bool:
    spec = AnswerSpec("exact_or_contains", expected, patterns, **more)
    return judge_answer(spec, reply).passed is True


def test_any_accepted_pattern_is_enough() -> None:
    assert contains("1/6", "It is 5/30.", "1/6", "5/30")
    assert contains("Canberra", "canberra, of course")
    assert not contains("Canberra", "Sydney", "Melbourne")
    assert not contains("", "anything")


def regex(reply: str, *patterns: str) -> bool:
    return judge_answer(AnswerSpec("regex", "x", patterns), reply).passed is True


@pytest.mark.parametrize(
    ("reply", "pattern"),
    [
        ("So: **yes**, it is.", "yes it is"),
        ("- red\n- green\n- blue", "red green blue"),
        ("1. red\n2. green", "red 2 green"),
        ("`red` / _green_", "red green"),
        ("It is -5.", r"is -5\b"),
        ("It is 3.5!", r"is 3\.5$"),
        ("It is \\frac{1}{6}", "is 1/6"),
        ("It is 1,025.", "is 1025"),
        ("forty-two", "forty two"),
        ("forty-two", "forty-two"),
        ("don't", "don't"),
        ("at 11:20", "11:20"),
        ("at 11:20", "11 20"),
        ("Up 50 %", "up 50%"),
        ("ODPOWIEDŹ: ŻÓŁĆ", "odpowiedź żółć"),
        ("yes " + "x" * 296, "yes"),
    ],
)
def test_regex_sees_the_collapsed_end(reply: str, pattern: str) -> None:
    assert regex(reply, pattern)


@pytest.mark.parametrize(
    ("reply", "pattern"),
    [
        ("It is -5.", r"is 5\b"),
        ("It is 3.5.", r"is 3\b(?! 5)(?!\.)"),
        ("yes " + "x" * 297, "yes"),
        ("yes\n" + "no " * 100, "yes"),
        ("", "x"),
    ],
)
def test_regex_sees_nothing_else(reply: str, pattern: str) -> None:
    assert not regex(reply, pattern)


def numeric(reply: str, expected: str = "42", evaluator: Any = None) -> bool:
    spec = AnswerSpec("numeric", expected, evaluator=evaluator)
    return judge_answer(spec, reply).passed is True


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("41, no, 42", "42"),
        ("\\boxed{42} after 43 steps", "42"),
        ("\\boxed{41} then \\boxed{42}. See 7.", "42"),
        ("\\boxed{42} and \\boxed{\\text{done}}", "42"),
        ("\\boxed{x = 42}", "42"),
        ("\\boxed{42\\text{ km}^2}", "42"),
        ("\\boxed{\\frac{1}{6}}", "1/6"),
        ("\\boxed{-\\frac{1}{6}}", "-1/6"),
        ("\\boxed{1{,}025}", "1025"),
        ("\\boxed{\\dfrac{3}{6}}", "1/2"),
        ("0.5", "1/2"),
        ("50 %", "50"),
        ("50%", "50"),
        ("$42.00", "42"),
        ("42 €", "42"),
        ("PLN42", "42"),
        ("42 km", "42"),
        ("42km", "42"),
        ("42 m2", "42"),
        ("42 m^2", "42"),
        ("42 m²", "42"),
        ("42 cm³ of CO2", "42"),
        ("1,234.5", "2469/2"),
        ("3,14", "3.14"),
        ("3,5", "3.5"),
        ("3,141", "3141"),
        ("1 234 567", "1234567"),
        ("1.2e3", "1200"),
        ("1.2 × 10^3", "1200"),
        ("1.2 \\times 10^{3}", "1200"),
        ("1.2 × 10³", "1200"),
        ("1.2·10^-3", "0.0012"),
        ("1. Rows: 6\n2. Seats: 7", "7"),
        ("It is 42:\n1. six\n2. seven", "42"),
        ("The total is\n42. Done", "42"),
        ("42.", "42"),
        ("(42)", "42"),
        ("**42**", "42"),
        ("_42_", "42"),
        ("`42`", "42"),
        ("x=-5", "-5"),
        ("x = -5", "-5"),
        ("x = - 5", "-5"),
        ("it fell to –5", "-5"),
        ("it fell to ‑5", "-5"),
        ("-$5", "-5"),
        ("−€5", "-5"),
        ("- 5", "5"),
        ("7 - 5", "5"),
        ("40-44", "44"),
        ("40–44", "44"),
        ("8 − 5", "5"),
        ("2\\frac{1}{2}", "5/2"),
        ("2½", "2.5"),
        ("1/6", "1/6"),
        ("1 / 6", "2/12"),
        ("0.1", "1/10"),
        ("1e400", "1" + "0" * 400),
        ("9" * 5000, "9" * 5000),
        ("４２", "42"),
        ("答案是42。", "42"),
        ("1_000 is 42, or 1_000", "42"),
        ("v1.2.3 has 42 bugs, not v1.2.3", "42"),
    ],
)
def test_the_number_of_a_reply(reply: str, expected: str) -> None:
    assert numeric(reply, expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("42, I mean 43", "42"),
        ("\\boxed{41} or 42", "42"),
        ("forty-two", "42"),
        ("", "42"),
        ("1_000", "1000"),
        ("-42", "42"),
        ("9" * 5000, "9" * 4999 + "8"),
        ("0.30000000000000004", "0.3"),
        ("1/3", "0.3333333333333333"),
        ("cm2", "2"),
        ("10²", "102"),
        ("±42", "42"),
    ],
)
def test_numbers_that_differ(reply: str, expected: str) -> None:
    assert not numeric(reply, expected)
