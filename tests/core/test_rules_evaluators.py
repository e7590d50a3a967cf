"""Evaluators, facts and word limits: what decides beside the check type."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.scenario import AnswerSpec


def judged(check: Any, reply: str, expected: str, *patterns: str, **more: Any) -> bool:
    spec = AnswerSpec(check, expected, patterns, **more)
    return judge_answer(spec, reply).passed is True


@pytest.mark.parametrize(
    ("evaluator", "expected", "reply", "right"),
    [
        ("numeric", "0.5", "½", True),
        ("numeric", "1000", "1e3", True),
        ("numeric", "1000", "1E+3", True),
        ("numeric", "42", "\t+42.000 \n", True),
        ("numeric", "42", "４２．０", True),
        ("numeric", "-0.5", "−1/2", True),
        ("numeric", "1/3", "2/6", True),
        ("numeric", "1/3", "0.333333333333333333", False),
        ("numeric", "9007199254740993", "9007199254740992.0", False),
        ("numeric", "42", "$\\frac{84}{2}$", True),
        ("numeric", "42", "1_000", False),
        ("numeric", "1000", "1_000", False),
        ("numeric", "42", "4_2", False),
        ("numeric", "0", "-0.0", True),
        ("numeric", "5", "−5", False),
        ("numeric", "42", "84/2 = 42", True),
        ("numeric", "42", "forty-two", False),
        ("numeric", "forty-two", "forty-two", True),
        ("numeric", "infinity", "inf", False),
        ("numeric_text", "19", "nineteen", True),
        ("numeric_text", "40", "forty", True),
        ("numeric_text", "forty-two", "42", True),
        ("numeric_text", "forty-two", "forty two", True),
        ("numeric_text", "forty-two", "42.0", True),
        ("numeric_text", "forty-two", "43", False),
        ("numeric_text", "342", "three hundred and forty-two", True),
        ("numeric_text", "342", "three hundred forty-two", True),
        ("numeric_text", "1000000", "one million", True),
        ("numeric_text", "500000", "five hundred thousand", True),
        ("numeric_text", "1001", "one thousand and one", True),
        ("numeric_text", "2025", "two thousand and twenty-five", True),
        ("numeric_text", "1200005", "one million two hundred thousand and five", True),
        ("numeric_text", "42", "forty‑two", True),
        ("numeric_text", "42", "  forty-two\n", True),
        ("numeric_text", "42", "FORTY-TWO", False),
        ("numeric_text", "42", "Forty-Two", False),
        ("numeric_text", "42", "forty-two seats", False),
        ("numeric_text", "42", "four two", False),
        ("numeric_text", "30", "twenty-ten", False),
        ("numeric_text", "42", "42.0", True),
        ("numeric_text", "red", "forty-two", False),
    ],
)
def test_the_whole_answer_of_contains(
    evaluator: Any, expected: str, reply: str, right: bool
) -> None:
    assert judged("exact_or_contains", reply, expected, evaluator=evaluator) is right


def test_two_numbers_decide_against_a_pattern_too() -> None:
    assert not judged("exact_or_contains", "43", "42", "43", evaluator="numeric")
    assert judged("exact_or_contains", "43", "42", "43")
    assert not judged("regex", "43", "42", "4[23]", evaluator="numeric")
    assert judged("regex", "42.0", "42", "the answer is 42", evaluator="numeric")
    assert judged("regex", "the answer is 42", "42", "the answer is 42", evaluator="numeric")


@pytest.mark.parametrize(
    ("evaluator", "reply", "right"),
    [
        ("numeric", "Final answer: 42.00", True),
        ("numeric", "Final answer: **84/2**", True),
        ("numeric", "Final answer: $\\boxed{4.2 \\times 10^{1}}$", True),
        ("numeric", "Final answer: −42", False),
        ("numeric", "Final answer: 42 km", False),
        ("numeric", "Final answer: forty-two", False),
        ("numeric", "42.0", False),
        ("numeric", "It is 42.\nFinal answer:", False),
        ("numeric_text", "Final answer: forty-two", True),
        ("numeric_text", "Final answer: **forty-two**.", True),
        ("numeric_text", '## Final answer\n"forty two"', True),
        ("numeric_text", "Final answer: Forty-two", False),
        ("numeric_text", "forty-two", False),
        ("numeric_text", "Final answer: forty-three", False),
    ],
)
def test_the_marked_value(evaluator: Any, reply: str, right: bool) -> None:
    assert judged("final_answer", reply, "42", "42", evaluator=evaluator) is right


@pytest.mark.parametrize(
    ("evaluator", "expected", "reply", "right"),
    [
        ("numeric", "42", "so 84/2 it is", True),
        ("numeric", "42", "42, not 43", False),
        ("numeric_text", "forty-two", "so 42 it is", True),
        ("numeric_text", "42", "\\boxed{42} seats", True),
        ("numeric_text", "forty-two", "so 43 it is", False),
    ],
)
def test_the_number_of_numeric(evaluator: Any, expected: str, reply: str, right: bool) -> None:
    assert judged("numeric", reply, expected, evaluator=evaluator) is right


@pytest.mark.parametrize(
    ("facts", "reply", "right"),
    [
        (("1410", "Grunwald"), "W 1410 r. pod GRUNWALDEM.", True),
        (("1410",), "W roku 14100.", False),
        (("1 025",), "a total of 1,025", True),
        (("1/6",), "$\\frac{1}{6}$", True),
        (("-5",), "from 5 down", False),
        (("żółw",), "Z\u0307O\u0301łW", True),
        (("90", "2"), "90 rooms on 20 floors", False),
        (("mill",), "the windmill", True),
    ],
)
def test_facts(facts: tuple[str, ...], reply: str, right: bool) -> None:
    spec = AnswerSpec("exact_or_contains", "x", (*facts,), required_patterns=facts)
    assert (judge_answer(spec, reply).passed is True) is right


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("", 0),
        ("raz", 1),
        ("raz dwa", 2),
        ("raz\u00a0dwa\ttrzy\ncztery", 4),
        ("raz – dwa — trzy", 3),
        ("biało-czerwony", 1),
        ("**raz** *dwa*", 2),
        ("- raz\n- dwa", 2),
        ("3,5 % z 1410 r.", 4),
        ("raz 🎉 dwa", 2),
        ("ra\u200bz dwa", 2),
    ],
)
def test_words_are_counted(reply: str, words: int) -> None:
    spec = AnswerSpec("regex", "x", ("(?s).*",), min_words=words + 1)
    said = "1 word" if words == 1 else f"{words} words"
    detail = judge_answer(spec, reply).detail
    assert detail == f"the answer has {said}, at least {words + 1} are required"
    exact = AnswerSpec("regex", "x", ("(?s).*",), min_words=words, max_words=words)
    assert judge_answer(exact, reply).passed
    if words:
        short = AnswerSpec("regex", "x", ("(?s).*",), max_words=words - 1)
        detail = judge_answer(short, reply).detail
        assert detail == f"the answer has {said}, at most {words - 1} are allowed"
