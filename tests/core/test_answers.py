"""Judging replies: stored cases, facts and limits, truncation, evidence, and what else plays in."""

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
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.thinking import ReasoningParser

DATA = Path(__file__).parents[1] / "data" / "cases"
CASES = [
    case
    for name in ("answers", "polish", "context")
    for case in json.loads((DATA / f"{name}.json").read_text("utf-8"))
]

REPLIES: list[dict[str, Any]] = json.loads((DATA / "replies.json").read_text("utf-8"))


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


@pytest.mark.parametrize("check", ["final_answer", "exact_or_contains", "numeric", "regex"])
def test_stored_replies(check: str) -> None:
    cases = [c for c in REPLIES if c["check_type"] == check]
    assert len(cases) > 30
    wrong = [c for c in cases if judge_answer(spec_of(c), c["response"]).passed is not c["correct"]]
    assert wrong == []


def test_required_patterns_must_all_occur() -> None:
    facts = ("1410", "Grunwald")
    spec = AnswerSpec("exact_or_contains", "bitwa", required_patterns=facts)
    assert judge_answer(spec, "Bitwa pod Grunwaldem, 1410.").passed
    verdict = judge_answer(spec, "Bitwa, 14100.")
    assert (verdict.kind, verdict.detail) == ("fail", "the answer lacks '1410', 'Grunwald'")


def test_word_limits_say_how_many_words_there_were() -> None:
    spec = AnswerSpec("exact_or_contains", "one", max_words=3, min_words=2)
    assert judge_answer(spec, "one two three").passed
    assert judge_answer(spec, "one – two - three **").passed
    too_many = judge_answer(spec, "one two three four")
    assert too_many.detail == "the answer has 4 words, at most 3 are allowed"
    too_few = judge_answer(spec, "one")
    assert too_few.detail == "the answer has 1 word, at least 2 are required"


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
