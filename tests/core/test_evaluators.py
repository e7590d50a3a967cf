"""The evaluators: two numbers are compared exactly, anything else is left to the check."""

from __future__ import annotations

import pytest

from tests.core.test_answer_checks import contains, numeric
from tests.core.test_final_answer import final


@pytest.mark.parametrize(
    ("expected", "reply", "right"),
    [
        ("42", "42.0", True),
        ("42", "+42", True),
        ("42", " 42\n", True),
        ("42", "84/2", True),
        ("42", "4.2e1", True),
        ("42", "042", True),
        ("1/2", "0.5", True),
        ("0.5", "$\\frac{1}{2}$", True),
        ("-0", "0", True),
        ("1000", "1_000", False),
        ("42", "43", False),
        ("42", "-42", False),
        ("42", "42/0", False),
        ("42", "The answer is 42.", True),
        ("42.0", "The answer is 42.", False),
        ("5", "-5", False),
        ("42", "nan", False),
        ("42", "inf", False),
        ("red", "red", True),
        ("42", "forty-two", False),
        ("42", "", False),
    ],
)
def test_the_evaluator_numeric(expected: str, reply: str, right: bool) -> None:
    assert contains(expected, reply, evaluator="numeric") is right


@pytest.mark.parametrize(
    ("expected", "reply", "right"),
    [
        ("0", "zero", True),
        ("12", "twelve", True),
        ("90", "ninety", True),
        ("99", "ninety-nine", True),
        ("105", "one hundred and five", True),
        ("105", "one hundred five", True),
        ("1100", "one thousand one hundred", True),
        ("2000005", "two million and five", True),
        ("1234567", "one million two hundred thirty-four thousand five hundred sixty-seven", True),
        ("forty-two", "42.0", True),
        ("forty-two", "forty two", True),
        ("42", "Forty-two", False),
        ("42", "FORTY-TWO", False),
        ("42", "forty-three", False),
        ("42", "about forty-two", False),
        ("3", "one two", False),
        ("31", "twenty eleven", False),
        ("5", "and five", False),
        ("42", "42", True),
        ("1/2", "0.5", True),
    ],
)
def test_the_evaluator_numeric_text(expected: str, reply: str, right: bool) -> None:
    assert contains(expected, reply, evaluator="numeric_text") is right


def test_the_evaluator_reads_the_marked_value_and_still_needs_the_marker() -> None:
    assert final("Final answer: 42.0", evaluator="numeric")
    assert final("Final answer: forty-two", evaluator="numeric_text")
    assert final("Final answer: 84/2", evaluator="numeric")
    assert not final("42", evaluator="numeric")
    assert not final("Final answer: 43", r"\d+", evaluator="numeric")
    assert final("Final answer: about 42", "about 42", evaluator="numeric")


def test_the_evaluator_reads_the_number_of_numeric() -> None:
    assert numeric("There are 42 seats", "forty-two", "numeric_text")
    assert numeric("There are forty-two seats", "42", "numeric_text")
    assert not numeric("There are forty-two seats", "42", "numeric")
