"""Near misses: they look like the expected answer and must fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.answers import expected_reply, judge_answer, near_misses_of
from pytest_benchrig.core.scenario import AnswerSpec


def values(spec: AnswerSpec) -> set[str]:
    return {miss.removeprefix("Final answer: ") for miss in near_misses_of(spec)}


def test_a_number_is_made_wrong_in_every_way() -> None:
    spec = AnswerSpec("final_answer", "42", ("42",))
    assert values(spec) == {"41", "43", "420", "427", "142", "-42"}
    assert all(m.startswith("Final answer: ") for m in near_misses_of(spec))


def test_the_sign_is_flipped_both_ways() -> None:
    assert "5" in values(AnswerSpec("numeric", "-5"))
    assert "-5" in values(AnswerSpec("numeric", "5"))
    assert "-0" not in values(AnswerSpec("numeric", "0"))


def test_each_number_of_a_value_is_made_wrong() -> None:
    assert {"0/6", "2/6", "1/5", "1/7", "-1/6", "11/6", "1/16"} <= values(
        AnswerSpec("exact_or_contains", "1/6")
    )
    assert "11:-20" not in values(AnswerSpec("final_answer", "11:20", ("11:20",)))


def test_any_two_words_are_swapped() -> None:
    spec = AnswerSpec("final_answer", "red, green: blue", ("red, green: blue",))
    assert values(spec) == {"green, red: blue", "red, blue: green", "blue, green: red"}
    many = AnswerSpec("final_answer", "a b c d e f g h i j k", ("a b c d e f g h i j k",))
    assert len(values(many)) == 10


def test_words_are_swapped_beside_numbers_too() -> None:
    spec = AnswerSpec("exact_or_contains", "Box 1: pears, box 2: plums")
    assert "Box 1: plums, box 2: pears" in values(spec)
    assert "km 42 in" not in values(AnswerSpec("numeric", "42 km in"))


@pytest.mark.parametrize(
    ("pattern", "expected", "found_out"),
    [
        (".*pears.*plums.*", "A has pears and B has plums", True),
        (r"\w+ and \w+", "pears and plums", True),
        ("[^,]+, box 2", "box one, box 2", True),
        ("[a-z]+ has pears", "Anna has pears", False),
        ("pears and plums", "pears and plums", False),
        ("(?:pears|plums) and (?:pears|plums)", "pears and plums", False),
        ("pears[ ,]+(?:and )?plums", "pears and plums", False),
    ],
)
def test_a_pattern_that_takes_any_words_is_found_out(
    pattern: str, expected: str, found_out: bool
) -> None:
    spec = AnswerSpec("final_answer", expected, (pattern,))
    assert judge_answer(spec, expected_reply(spec)).passed
    assert bool([m for m in near_misses_of(spec) if judge_answer(spec, m).passed]) is found_out


def test_a_number_in_words_is_made_wrong_in_digits() -> None:
    spec = AnswerSpec("final_answer", "forty-two", ("forty-two",), evaluator="numeric_text")
    assert values(spec) == {"41", "43", "420", "427", "142", "-42"}
    assert values(AnswerSpec("final_answer", "forty-two", ("forty-two",))) == set()


def test_what_the_scenario_accepts_is_no_miss() -> None:
    assert "43" not in values(AnswerSpec("final_answer", "42", ("42", "43")))
    assert "5/30" not in values(AnswerSpec("exact_or_contains", "5/3", ("5/30",)))
    orders = ("a and b", "b and a", "and a b", "a b and")
    assert values(AnswerSpec("final_answer", "a and b", orders)) == set()
    assert values(AnswerSpec("final_answer", "ala ma", ("ala ma|ma ala",))) == set()


def test_facts_and_length_are_kept_without_giving_the_answer_away() -> None:
    spec = AnswerSpec(
        "exact_or_contains", "1410", required_patterns=("Grunwald", "w 1410"), min_words=5
    )
    assert judge_answer(spec, expected_reply(spec)).passed
    assert "Grunwald\nso so so\n1411" in near_misses_of(spec)
    assert [m for m in near_misses_of(spec) if judge_answer(spec, m).passed] == []


def test_only_numbers_that_decide_are_made_wrong() -> None:
    spec = AnswerSpec("exact_or_contains", "Box 1: 42", ("42",))
    assert "Box 2: 42" not in near_misses_of(spec)
    assert "Box 1: 43" in near_misses_of(spec)
    spec = AnswerSpec("regex", "Step 2: answer 7", ("answer 7",))
    assert "Step 3: answer 7" not in near_misses_of(spec)
    assert "Step 2: answer 8" in near_misses_of(spec)


def test_a_pattern_that_takes_any_number_is_found_out() -> None:
    spec = AnswerSpec("final_answer", "42", (r"\d+",))
    assert [m for m in near_misses_of(spec) if judge_answer(spec, m).passed]


@pytest.mark.parametrize(
    "spec",
    [
        AnswerSpec("final_answer", "42", ("42",)),
        AnswerSpec("final_answer", "88", (r"€? ?88(?: ?(?:€|eur|euros?))?",)),
        AnswerSpec("final_answer", "11:20", (r"11[:.]20(?: ?a\.?m)?",)),
        AnswerSpec("final_answer", "dobrzy lekarze", ("dobrzy lekarze",)),
        AnswerSpec("exact_or_contains", "1/6", ("1/6", "5/30")),
        AnswerSpec("exact_or_contains", "114.6", ("114.6", "114.60")),
        AnswerSpec("exact_or_contains", "2031-07-04"),
        AnswerSpec("exact_or_contains", "3,14"),
        AnswerSpec("numeric", "9007199254740993"),
        AnswerSpec("numeric", "-2.5"),
        AnswerSpec("exact_or_contains", "42", evaluator="numeric_text"),
        AnswerSpec("exact_or_contains", "1410", required_patterns=("Grunwald",)),
    ],
)
def test_near_misses_fail(spec: AnswerSpec) -> None:
    misses = near_misses_of(spec)
    assert misses
    assert [m for m in misses if judge_answer(spec, m).passed] == []


@given(st.integers(), st.sampled_from(["final_answer", "exact_or_contains", "numeric"]))
def test_near_misses_of_any_integer_fail(value: int, check: str) -> None:
    spec = AnswerSpec(check, str(value), (str(value),))  # type: ignore[arg-type]
    assert [m for m in near_misses_of(spec) if judge_answer(spec, m).passed] == []


@given(st.decimals(-1000, 1000, allow_nan=False, places=2))
def test_near_misses_of_any_decimal_fail(value: object) -> None:
    spec = AnswerSpec("numeric", str(value))
    assert [m for m in near_misses_of(spec) if judge_answer(spec, m).passed] == []
