"""Prompts of a wanted size with a needle at a wanted depth, and what counts as retrieved."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.context_text import (
    build_file_prompt,
    build_window_prompt,
    judge_context,
)
from pytest_benchrig.core.scenario import ContextSpec

NEEDLE = "The locker opens with the number 3916."


def step(size: int, **changes: object) -> ContextSpec:
    values = {"needle": NEEDLE, "instruction": "Which number opens the locker?", "expected": "3916"}
    return ContextSpec(size, **{**values, **changes})  # type: ignore[arg-type]


def by_fives(text: str) -> int:
    return len(text) // 5 + 7


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096, 8192])
@pytest.mark.parametrize("count", [None, by_fives], ids=["estimated", "counted"])
def test_a_prompt_fills_the_wanted_share_of_the_window(size: int, count: object) -> None:
    prompt = build_window_prompt("ctx", step(size), count)  # type: ignore[arg-type]

    assert 0.95 * 0.75 * size <= prompt.estimated_tokens <= 0.75 * size
    assert prompt.counted is (count is not None)


def test_the_tokenizer_is_asked_a_few_times_only() -> None:
    asked: list[int] = []

    def count(text: str) -> int:
        asked.append(len(text))
        return len(text) // 3

    build_window_prompt("ctx", step(8192), count)

    assert len(asked) <= 6


def test_a_runtime_that_stops_counting_gives_an_estimate() -> None:
    answers = iter([100, None])

    prompt = build_window_prompt("ctx", step(512), lambda _: next(answers))

    assert not prompt.counted


@given(st.floats(0, 1), st.sampled_from([512, 2048]))
def test_the_needle_stands_once_at_a_sentence_boundary(depth: float, size: int) -> None:
    text = build_window_prompt("ctx", step(size, needle_depth=depth)).text

    assert text.count("3916") == 1
    before, after = text.split(NEEDLE)
    assert before.endswith(". ")
    assert after.startswith((" ", "\n"))


@pytest.mark.parametrize(("depth", "low", "high"), [(0.0, 0, 0.1), (0.5, 0.4, 0.6), (1.0, 0.9, 1)])
def test_the_needle_stands_at_its_depth(depth: float, low: float, high: float) -> None:
    text = build_window_prompt("ctx", step(4096, needle_depth=depth)).text

    assert low <= text.index(NEEDLE) / len(text) <= high


def test_prompts_are_deterministic_and_share_no_prefix() -> None:
    texts = [build_window_prompt(f"ctx_{size}", step(size)).text for size in (512, 1024, 2048)]

    assert texts[0] == build_window_prompt("ctx_512", step(512)).text
    for one, other in itertools.combinations(texts, 2):
        assert one[:14] != other[:14]


def test_the_filler_varies() -> None:
    sentences = build_window_prompt("ctx", step(8192)).text.split(". ")

    assert len(set(sentences)) > 0.95 * len(sentences)


def test_no_number_but_the_needles_stands_in_the_prompt() -> None:
    text = build_window_prompt("ctx", step(8192)).text

    assert [word for word in text.split() if any(c.isdigit() for c in word)] == ["3916."]


FILE = ContextSpec(
    512, prompt_file="log.txt", prompt_text="line of the log\n" * 20, query="What is it?"
)


def test_a_file_prompt_is_text_then_query() -> None:
    prompt = build_file_prompt("ctx", FILE)

    assert prompt.text.startswith("line of the log\n")
    assert prompt.text.endswith("\n\nWhat is it?")
    assert prompt.notes == ()


def test_a_file_that_does_not_fit_is_cut_at_a_line_and_says_so() -> None:
    import dataclasses

    long = dataclasses.replace(FILE, prompt_text="line of the log\n" * 500)

    prompt = build_file_prompt("ctx", long)

    assert prompt.estimated_tokens <= 512
    assert prompt.text.split("\n\n")[0].endswith("line of the log")
    assert "was cut from 7999" in prompt.notes[0]


def test_a_file_is_not_cut_where_that_would_remove_the_answer() -> None:
    import dataclasses

    long = dataclasses.replace(
        FILE, prompt_text="line of the log\n" * 500 + "code 3916", expected="3916"
    )

    prompt = build_file_prompt("ctx", long)

    assert "3916" in prompt.text
    assert "the window 512" in prompt.notes[0]


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ("3916", True),
        ("**3916**", True),
        ("$\\boxed{3916}$", True),
        ("The number is 3916.", True),
        ("3,916", True),
        ("39160", False),
        ("13916", False),
        ("-3916", False),
        ("3916.5", False),
        ("", False),
        ("I may not tell.", False),
    ],
)
def test_a_step_passes_on_the_whole_number(answer: str, passed: bool) -> None:
    verdict = judge_context(step(512), answer)

    assert verdict.passed is passed
    assert verdict.fields["retrieved"] is passed


def test_a_number_in_an_unfinished_trace_does_not_count() -> None:
    assert judge_context(step(512), "3916", truncated_thinking=True).passed is False


def test_a_step_without_an_expected_answer_is_timing_only() -> None:
    arrived = judge_context(FILE, "Something.")
    silent = judge_context(FILE, "  ")

    assert arrived.kind is None
    assert "retrieved" not in arrived.fields
    assert silent.kind == "fail"
