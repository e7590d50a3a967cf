"""Which token counts of a server cannot be true."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_benchrig.core.assemble import with_thinking_tokens
from pytest_benchrig.core.counts import believed, hidden_thinking, most_shown
from pytest_benchrig.core.generation import (
    Arrival,
    EngineTimings,
    Generation,
    Message,
    Request,
    Sampling,
    TimingMarks,
    ToolCall,
    Usage,
)
from pytest_benchrig.core.thinking import ReasoningParser
from pytest_benchrig.core.timing import timings_of
from tests.core import run_support

MS = 1_000_000
REQUEST = Request("m", (Message("user", "Count to ten."),), marker="x")


def reply(usage: Usage, *, tokens: tuple[int | None, ...] = (), **changes: Any) -> Generation:
    """Twenty words in twenty events, 10 ms apart, the first after 100 ms."""
    counts = tokens or (None,) * 20
    arrivals = tuple(Arrival((100 + 10 * i) * MS, "answer", n) for i, n in enumerate(counts))
    values: dict[str, Any] = {"text": "word " * 20, "finish_reason": "length", **changes}
    return Generation(marks=TimingMarks(0, 400 * MS, arrivals), usage=usage, **values)


@pytest.mark.parametrize(
    ("field", "count", "said"),
    [
        ("completion_tokens", 10**30, "no number of tokens"),
        ("completion_tokens", 10**400, "bits is no number of tokens"),
        ("completion_tokens", -3, "-3 is no number of tokens"),
        ("completion_tokens", 5000, "cannot be more than 184 tokens (100 characters in 20"),
        ("completion_tokens", 0, "0 tokens cannot hold 100 characters"),
        ("prompt_tokens", 10**30, "no number of tokens"),
        ("prompt_tokens", 10**7, "but 13 bytes were sent"),
        ("prompt_tokens", 0, "0 for a prompt that is not empty"),
        ("prompt_tokens", -1, "-1 is no number"),
        ("cached_prompt_tokens", 51, "51 is more than the prompt's 50"),
        ("cached_prompt_tokens", -51, "-51 is no number"),
        ("thinking_tokens", 21, "21 is more than the 20 of the whole reply"),
        ("thinking_tokens", -1, "-1 is no number"),
    ],
)
def test_what_cannot_be_true_is_refused_with_the_reason(field: str, count: int, said: str) -> None:
    good = {"prompt_tokens": 50, "completion_tokens": 20, "cached_prompt_tokens": 0}
    generation = believed(reply(Usage(**{**good, field: count})), REQUEST)
    assert getattr(generation.usage, field) is None
    assert generation.flags == ("usage_refused",)
    assert said in " ".join(generation.notes)
    assert believed(generation, REQUEST) is generation


@pytest.mark.parametrize("count", [10**30, 10**400, -3, 0, 5000])
def test_a_refused_count_is_estimated_and_no_absurd_rate(count: int) -> None:
    timings = timings_of(reply(Usage(50, count, 0)), REQUEST)
    assert (timings.completion_tokens, timings.usage_estimated) == (20, True)
    assert {"usage_refused", "usage_estimated"} <= set(timings.flags)
    assert timings.eval_tok_per_sec == pytest.approx(100.0)
    assert "is refused" in timings.unmeasured["itl_p50_ms"]


@pytest.mark.parametrize("count", [10**30, 10**7, 0])
def test_a_refused_prompt_makes_no_prefill(count: int) -> None:
    timings = timings_of(reply(Usage(count, 20, 0)), REQUEST)
    assert timings.prompt_tokens_actual is None
    assert timings.prefill_eff_tok_per_sec is None
    for name in ("prompt_tokens_actual", "prefill_eff_tok_per_sec"):
        assert "the prompt's tokens is refused" in timings.unmeasured[name]


def test_more_cached_than_sent_is_an_unknown_cache() -> None:
    unmarked = Request("m", REQUEST.messages)
    timings = timings_of(reply(Usage(50, 20, 51)), unmarked)
    assert (timings.cached_prompt_tokens, timings.cache_mode) == (None, "unverified")
    assert "is refused" in timings.unmeasured["cached_prompt_tokens"]


@pytest.mark.parametrize(
    "generation",
    [
        reply(Usage(50, 20, 0)),
        reply(Usage(50, 21, 50)),
        reply(Usage(9_000, 20, 0)),  # a long system prompt of the server's own
        reply(Usage(50, 60, 0), text="ł🙂" * 10),  # characters of several tokens
        reply(Usage(50, 90, 0), text="", tool_calls=(ToolCall("f", "{}"),)),
        reply(Usage(50, 5_020, 0, 5_000)),  # thinking that is counted and not shown
        reply(Usage(None, None, None)),
        reply(Usage(0, 20, 0), tokens=(1,) * 20),
    ],
)
def test_what_can_be_true_is_believed(generation: Generation) -> None:
    request = None if generation.usage.prompt_tokens == 0 else REQUEST
    assert believed(generation, request) is generation


def test_options_that_add_to_the_prompt_leave_only_the_ceiling() -> None:
    more = Request("m", REQUEST.messages, Sampling(extra={"images": ["..."]}))
    generation = reply(Usage(100_000, 20, 0))
    assert believed(generation, more) is generation
    assert believed(generation, REQUEST).usage.prompt_tokens is None


def test_hidden_thinking_is_no_part_of_the_rate_nor_of_the_prefill() -> None:
    generation = reply(Usage(50, 5_020, 0, 5_000))
    assert hidden_thinking(generation) == 5_000
    timings = timings_of(generation, REQUEST)
    assert timings.completion_tokens == 5_020
    assert timings.eval_tok_per_sec == pytest.approx(100.0)
    assert timings.itl_p50_ms == pytest.approx(10.0)
    assert timings.prefill_eff_tok_per_sec is None
    assert "thought unseen" in timings.unmeasured["prefill_eff_tok_per_sec"]
    assert not timings.usage_estimated


def test_a_blank_tail_is_counted_and_in_no_rate() -> None:
    plain = reply(Usage(50, 420, 0))
    blank = dataclasses.replace(plain, marks=dataclasses.replace(plain.marks, blank_tail=400))
    timings = timings_of(blank, REQUEST)
    assert timings.completion_tokens == 420
    assert timings.eval_tok_per_sec == pytest.approx(100.0)
    assert timings.flags == ()
    assert "usage_refused" in timings_of(plain, REQUEST).flags


def test_hidden_thinking_has_its_share() -> None:
    record = run_support.reply("t", completion_tokens=20)
    split = ReasoningParser().split("answer", "")
    thought = with_thinking_tokens(record.replace(thinking_tokens=15), split)
    assert (thought.thinking_tokens, thought.thinking_share) == (15, 0.75)
    assert with_thinking_tokens(record, split).thinking_share == 0.0


def test_a_trace_that_is_shown_is_part_of_the_rate() -> None:
    generation = reply(Usage(50, 20, 0, 12), thinking="word " * 12, text="word " * 8)
    assert hidden_thinking(generation) == 0
    assert timings_of(generation, REQUEST).eval_tok_per_sec == pytest.approx(100.0)


@pytest.mark.parametrize("completion", [20, None])
def test_events_that_count_more_than_the_reply_count_nothing(completion: int | None) -> None:
    generation = reply(Usage(50, completion, 0), tokens=(1,) * 10 + (999_990,) * 10)
    checked = believed(generation, REQUEST)
    assert {a.tokens for a in checked.marks.arrivals} == {None}
    assert checked.usage.completion_tokens == completion
    assert "each event's tokens is refused" in checked.notes[0]
    assert timings_of(generation, REQUEST).eval_tok_per_sec == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (EngineTimings(decode_tokens=10**30, decode_intervals=10**30, decode_sec=1.0), "cannot"),
        (EngineTimings(prompt_tokens=10**30, prompt_sec=1.0), "of the prompt"),
        (EngineTimings(decode_tok_per_sec=1e12), "none of a model"),
        (EngineTimings(prompt_tokens=10_000, prompt_sec=1e-9), "was read in 1e-09 s"),
    ],
)
def test_an_engines_absurd_figures_are_refused(engine: EngineTimings, said: str) -> None:
    timings = timings_of(reply(Usage(50, 20, 0), engine_timings=engine), REQUEST)
    assert timings.engine_eval_tok_per_sec is None
    assert timings.prompt_tok_per_sec is None
    assert "engine_refused" in timings.flags
    assert said in timings.unmeasured["engine_eval_tok_per_sec"]


def test_bytes_that_are_no_text_have_a_bound_too() -> None:
    assert most_shown(reply(Usage(), text="\ud800")) > 0
