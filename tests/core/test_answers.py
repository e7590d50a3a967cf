"""Judging replies: the shared cases, and every sentence of the rules as an example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.answers import (
    Finding,
    PatternTimeout,
    expected_passes_own_check,
    expected_reply,
    judge_answer,
)
from pytest_benchrig.core.final_answer import marked_values
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.text import count_words, normalise
from pytest_benchrig.core.thinking import ReasoningParser

DATA = Path(__file__).parents[1] / "data" / "cases"
CASES = [
    case
    for name in ("answers", "polish", "context")
    for case in json.loads((DATA / f"{name}.json").read_text("utf-8"))
]


def spec_of(case: dict[str, Any]) -> AnswerSpec:
    word = case.get("evaluator")
    return AnswerSpec(
        case["check_type"],
        case["expected_answer"],
        tuple(case.get("accepted_patterns") or ()),
        evaluator=word if word in ("numeric", "numeric_text") else None,
    )


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_stored_cases(case: dict[str, Any]) -> None:
    split = ReasoningParser().split(case["response"], case.get("reasoning_content") or "")
    verdict = judge_answer(
        spec_of(case),
        split.answer,
        truncated_thinking=split.truncated_thinking,
        truncated=case["finish_reason"] == "length",
    )
    found = {
        "correct": verdict.passed,
        "has_think_tags": split.has_think_tags,
        "truncated_thinking": split.truncated_thinking,
        "truncated": case["finish_reason"] == "length",
        "extracted": verdict.fields["extracted_answer"],
    }
    stated = {k: v for k, v in case["expect"].items() if k != "event"}
    assert {k: found[k] for k in stated} == stated
    assert expected_passes_own_check(spec_of(case)) == ""


def final(answer: str, *patterns: str, expected: str = "42", **more: Any) -> bool:
    spec = AnswerSpec("final_answer", expected, patterns or (expected,), **more)
    return judge_answer(spec, answer).passed is True


@pytest.mark.parametrize(
    "reply",
    [
        "Final answer: 42",
        "FINAL ANSWER: 42",
        "final answer:42",
        "Final Answer 42",
        "Final answer - 42",
        "Final answer – 42",
        "Final answer — 42",
        "Final answer—42",
        "Final answer = 42",
        "Final answer is 42",
        "Final answer is: 42",
        "**Final answer is:** 42",
        "**Final Answer**: 42",
        "**Final Answer:** **42**",
        "**Final answer: 42**",
        "*Final answer:* 42",
        "__Final answer:__ 42",
        "_Final answer: 42_",
        "***Final answer:*** 42",
        "`Final answer: 42`",
        "**Final** answer: 42",
        "# Final answer: 42",
        "###### Final answer: 42",
        "## **Final answer:** 42",
        "## Final answer ##\n42",
        "> Final answer: 42",
        "> **Final answer:** 42",
        "| Final answer | 42 |",
        "| **Final answer** | **42** |",
        "| Final answer |\n|---|\n| 42 |",
        "<b>Final answer:</b> 42",
        "<strong>Final answer</strong>: <em>42</em>",
        "<p>Final answer: 42</p>",
        "<h3>Final answer</h3>\n42",
        "Final answer:<br>42",
        "Final&nbsp;answer: 42",
        "* Final answer: 42",
        "• Final answer: 42",
        "1) Final answer: 42",
        "  Final answer: 42",
        "\tFinal answer:\t42\t",
        "✅ Final answer: 42",
        "Final answer: 42 ✅",
        "Final answer: 42🎉🎉",
        "Final answer: **42** 🎉",
        "So my final answer: 42",
        "Therefore, the final answer is: 42",
        "The **final answer**: 42",
        "Here it is: Final answer 42",
        "Final answer:\n42",
        "Final answer:\n\n\n42",
        "Final answer\n42",
        "Final answer\n------------\n42",
        "**Final answer**\n\n**42**",
        "Final answer:\n- 42",
        "Final answer:\n> 42",
        "Final answer:\n1. 42",
        "Final answer:\n```text\n42\n```",
        "Final answer:\n~~~\n42\n~~~",
        "Final answer:\n\\[\n\\boxed{42}\n\\]",
        "Final answer:\n$$42$$",
        "Final answer:\n| 42 |",
        "Final answer: $42$",
        "Final answer: \\(42\\)",
        "Final answer: \\[42\\]",
        "Final answer: $$42$$",
        "Final answer: \\boxed{42}",
        "Final answer: $\\boxed{\\boxed{42}}$",
        "Final answer: $\\boxed{\\text{42}}$",
        "Final answer: $\\mathbf{42}$",
        "Final answer: $\\boxed{42}$.",
        "\\boxed{\\text{Final answer: } 42}",
        "$\\boxed{\\text{Final answer: 42}}$",
        "\\textbf{Final answer:} 42",
        "\\[\n\\boxed{\\text{Final answer: } 42}\n\\]",
        "Final answer: 42.",
        "Final answer: 42 .",
        'Final answer: "42"',
        'Final answer: "42".',
        'Final answer: "42."',
        "Final answer: “42”",
        "Final answer: „42”",
        "Final answer: «42»",
        "Final answer: '42'",
        '"Final answer: 42"',
        "Final answer: `42`",
        "Final answer: [42](https://example.org)",
        "Final answer: ４２",
        "Final answer：42",
        "Final\u00a0answer:\u202f42",
        "\ufeffFinal answer: 42",
        "Final\u200b answer: 4\u200b2",
        "Final answer: 42\r\n",
        "Six rows.\r\nFinal answer: 42\r\nDone.",
        "Final answer: 41\nFinal answer: 42",
        "Final answer: 42\nI hope this final answer is useful.",
        "Final answer: 42\nThe final answer follows from the rows.",
        "Final answer: 42\nFinal answer is above.",
        "Final answer: 42\nFinal answer given as required.",
        "Final answer: 42\nFinal answer check: 6 * 7 = 42",
        "Final answer: 42\nFinal answer's unit is chairs.",
        "Final answer -- 42",
        "(Final answer: 42)",
        "Final answer: 42\n\nFinal answer:",
        "Final answer: 42\nLet me check it: 6 times 7 is 41.",
        "Final answer: **42**  \nBye.",
        "## Final answer\n\nFinal answer: 42",
        "Answer: 41\nFinal answer: 42",
    ],
)
def test_a_marked_answer_passes(reply: str) -> None:
    assert final(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "42",
        "The answer is 42.",
        "Answer: 42",
        "\\boxed{42}",
        "$\\boxed{42}$",
        "The final answer is 42.",
        "Final answers: 42",
        "Finalanswer: 42",
        "Semi-final answer: 42",
        "Final: 42",
        "I hope this final answer is useful",
        "My final answer follows. It is 42",
        "Final answer: 41",
        "Final answer: -42",
        "Final answer: −42",
        "Final answer: - 42",
        "Final answer -42",
        "Final answer - -42",
        "Final answer:\n-42",
        "Final answer:\n- -42",
        "Final answer: $-42$",
        "Final answer: \\boxed{-42}",
        "Final answer: –42",
        "Final answer: (42)",
        "Final answer: 42!",
        "Final answer: 42..",
        "Final answer: 4 2",
        "Final answer: 4.2",
        "Final answer: 042",
        "Final answer: x = 42",
        "Final answer: 42 km",
        "Final answer: 42%",
        "Final answer: 42, 43",
        "Final answer: 42 or 43",
        "Final answer: forty-two",
        "Final answer: 420",
        "Final answer: 142",
        "Final answer:",
        "Final answer: 42\nFinal answer: 41",
        "Final answer: 42\nFinal answer is 41",
        "Final answer: 42\n**Final answer** 41",
        "Final answer:\nI do not know.\n42",
        "Final answer: \\boxed{42",
        "Final answer: <answer>",
        "42\nFinal answer: none",
        "Final answer: 10²",
    ],
)
def test_anything_else_fails(reply: str) -> None:
    assert not final(reply)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Final answer: -42", "-42"),
        ("Final answer: −42", "-42"),
        ("Final answer: –42", "-42"),
        ("Final answer -42", "-42"),
        ("Final answer - -42", "-42"),
        ("Final answer:\n-42", "-42"),
        ("Final answer: − 42", "-42"),
        ("Final answer: $-\\frac{1}{6}$", "-1/6"),
        ("Final answer: \\boxed{\\dfrac{1}{6}}", "1/6"),
        ("Final answer: \\tfrac{1}{6}", "1/6"),
        ("Final answer: \\frac16", "1/6"),
        ("Final answer: \\frac 1 6", "1/6"),
        ("Final answer: $\\boxed{\\frac{1}{6}}$", "1/6"),
        ("Final answer: ⅙", "1/6"),
        ("Final answer: 1,234,567", "1234567"),
        ("Final answer: 1 234 567", "1234567"),
        ("Final answer: 1\u00a0234\u00a0567", "1234567"),
        ("Final answer: 1\u2009234\u2009567", "1234567"),
        ("Final answer: 1\u202f234", "1234"),
        ("Final answer: 1{,}234", "1234"),
        ("Final answer: $1{,}234{,}567$", "1234567"),
        ("Final answer: 1\\,234", "1234"),
        ("Final answer: $1,234", "1234"),
        ("Final answer: \\$1,234", "1234"),
        ("Final answer: 1,234.50", "1234.50"),
        ("Final answer: -1,234", "-1234"),
        ("Final answer: 1.234", "1.234"),
        ("Final answer: 1,23", "1,23"),
        ("Final answer: 12,34,567", "12,34,567"),
        ("Final answer: 1,2345", "1,2345"),
        ("Final answer: (3, 4)", r"\(3, 4\)"),
        ("Final answer: $(3, -4)$", r"\(3, -4\)"),
        ("Final answer: \\left(3, 4\\right)", r"\(3, 4\)"),
        ("Final answer: 50\\%", "50%"),
        ("Final answer: $50\\%$.", "50%"),
        ("Final answer: 42\\text{ kg}", "42 kg"),
        ("Final answer: 42\\,\\text{kg}", "42 kg"),
        ("Final answer: 42\\ \\mathrm{kg}", "42 kg"),
        ("Final answer: 30^\\circ", "30°"),
        ("Final answer: 30°", "30°"),
        ("Final answer: ♔", "♔"),
        ("Final answer: 11:20", "11:20"),
        ("Final answer: Ala is a knave.", "ala is a knave"),
        ("Final answer: **Ala** is a *knave*", "ala is a knave"),
        ("Final answer: snake_case_name", "snake_case_name"),
        ("Final answer: `snake_case`", "snake_case"),
        ("Final answer: 2*3", r"2\*3"),
        ("Final answer: książkę", "książkę"),
        ("Final answer: KSIĄŻKĘ", "książkę"),
        ("Final answer: ksia\u0328z\u0307ke\u0328", "książkę"),
        ("Final answer: książkę", "ksia\u0328z\u0307ke\u0328"),
        ("Final answer: a  b", "a  b"),
        ("Final answer: don't", "don't"),
        ("Final answer: A. B. C.", r"A\. B\. C"),
        ("Final answer: etc.", r"etc\."),
        ("Final answer: 1,234", "1,234"),
        ("Final answer: 2½", "2 1/2"),
        ("Final answer: $2\\frac{1}{2}$", "2 1/2"),
    ],
)
def test_values_are_read_as_a_reader_sees_them(reply: str, expected: str) -> None:
    assert final(reply, expected, expected=expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Final answer: a  b", "a b"),
        ("Final answer: ksiazke", "książkę"),
        ("Final answer: 1.234", "1234"),
        ("Final answer: 1,23", "123"),
        ("Final answer: 12,34,567", "1234567"),
        ("Final answer: 1/6", "-1/6"),
        ("Final answer: -1/6", "1/6"),
        ("Final answer: 11/60", "1/6"),
        ("Final answer: 3, 4", r"\(3, 4\)"),
        ("Final answer: etc..", r"etc"),
    ],
)
def test_values_that_differ(reply: str, expected: str) -> None:
    assert not final(reply, expected, expected=expected)


def test_the_extracted_value_is_what_was_left_after_cleaning() -> None:
    assert marked_values("Final answer: **$1,025.$**")[-1] == "1025"
    assert marked_values("Nothing here") == ()


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


def test_required_patterns_must_all_occur() -> None:
    facts = ("1410", "Grunwald")
    assert contains("bitwa", "Bitwa pod Grunwaldem, 1410.", required_patterns=facts)
    spec = AnswerSpec("exact_or_contains", "bitwa", required_patterns=facts)
    verdict = judge_answer(spec, "Bitwa, 14100.")
    assert (verdict.kind, verdict.detail) == ("fail", "the answer lacks '1410', 'Grunwald'")


def test_word_limits_say_how_many_words_there_were() -> None:
    spec = AnswerSpec("exact_or_contains", "one", max_words=3, min_words=2)
    assert judge_answer(spec, "one two three").passed
    assert judge_answer(spec, "one – two - three **").passed
    too_many = judge_answer(spec, "one two three four")
    assert too_many.detail == "the answer has 4 words, at most 3 are allowed"
    too_few = judge_answer(spec, "one")
    assert too_few.detail == "the answer has 1 words, at least 2 are required"


def test_a_truncated_reply_with_a_complete_marked_answer_is_right() -> None:
    spec = AnswerSpec("final_answer", "42", ("42",))
    done = judge_answer(spec, "Final answer: 42\nLet me", truncated=True, budget="512")
    assert (done.kind, done.detail) == ("pass", "")


def test_a_truncated_failure_says_so_first() -> None:
    spec = AnswerSpec("final_answer", "42", ("42",))
    verdict = judge_answer(
        spec, "Six times", truncated=True, budget="512 x 12 = 6144", tokens_used=6144
    )
    assert verdict.kind == "truncated"
    assert verdict.detail == (
        "TRUNCATED after 6144 tokens of 512 x 12 = 6144; no answer: the reply has no line with"
        " the marker 'Final answer:'"
    )


def test_a_reply_cut_off_in_its_thinking_has_no_answer() -> None:
    spec = AnswerSpec("exact_or_contains", "42")
    verdict = judge_answer(spec, "42", truncated_thinking=True)
    assert (verdict.kind, verdict.fields["extracted_answer"]) == ("fail", "")
    assert verdict.detail == "the reply stops inside its thinking, so there is no answer"


def test_the_evidence_of_a_verdict() -> None:
    verdict = judge_answer(AnswerSpec("numeric", "42"), "x" * 500 + " 41")
    assert dict(verdict.fields) == {
        "correct": False,
        "expected_answer": "42",
        "extracted_answer": "41",
        "answer_excerpt": "x" * 397 + " 41",
    }
    assert verdict.rule == "numeric: the last number in the answer equals the expected answer"
    assert verdict.detail == "the number is 41, expected 42"


def test_a_hopeless_pattern_is_stopped_and_named() -> None:
    spec = AnswerSpec("final_answer", "x", (r"(x|xx)+y",))
    with pytest.raises(PatternTimeout, match="backtracks without end") as caught:
        judge_answer(spec, "Final answer: " + "x" * 60)
    assert caught.value.pattern == r"(x|xx)+y"


@pytest.mark.parametrize(
    "unit",
    ["*", "_", "`", "Final answer: ", "1,", "1/", "42 × 10^", "\\boxed{", "one hundred and ", "- "],
)
def test_a_reply_made_to_be_slow_is_judged(unit: str) -> None:
    reply = f"Final answer: {unit * (20_000 // len(unit))}"
    for check in ("final_answer", "exact_or_contains", "regex", "numeric"):
        spec = AnswerSpec(check, "43", ("43",), evaluator="numeric_text")
        assert judge_answer(spec, reply).kind == "fail"


def test_other_plugins_may_add_check_types() -> None:
    def palindrome(spec: AnswerSpec, answer: str) -> Finding:
        return Finding(answer == answer[::-1], answer, "not the same backwards", "palindrome")

    spec = AnswerSpec("palindrome", "")  # type: ignore[arg-type]
    checks = {"palindrome": palindrome}
    assert judge_answer(spec, "level", extra_checks=checks).passed
    assert judge_answer(spec, "levels", extra_checks=checks).detail == "not the same backwards"


def test_an_expected_answer_is_held_against_its_own_check() -> None:
    def problem(*args: Any, **more: Any) -> str:
        return expected_passes_own_check(AnswerSpec(*args, **more))

    assert problem("final_answer", "42", ("42",)) == ""
    assert problem("final_answer", "42", ("43",)).startswith("its own check rejects it: ")
    assert problem("final_answer", "42", ("(",)).startswith("the pattern '(' is no regular")
    assert problem("numeric", "red") == "the expected answer 'red' is no number"
    assert problem("numeric", "forty-two", evaluator="numeric_text") == ""
    assert problem("exact_or_contains", "") == (
        "there is neither an expected answer nor an accepted pattern"
    )
    assert problem("exact_or_contains", "a", max_words=0, required_patterns=("b",)) == ""


def test_the_expected_reply_has_the_requested_form() -> None:
    assert expected_reply(AnswerSpec("final_answer", "42", ("42",))) == "Final answer: 42"
    assert expected_reply(AnswerSpec("numeric", " 42 ")) == "42"
    assert expected_reply(AnswerSpec("regex", "a", ("(?i)a then b",))) == "a then b"


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
