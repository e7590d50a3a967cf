"""From marks to figures, with exact values."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.timing import Timings, timings_of

MS = 1_000_000
START = 7_000_000_000


def stream(
    *at_ms: float,
    kinds: str = "",
    tokens: tuple[int | None, ...] = (),
    usage: Usage | None = None,
    tail_ms: float = 0.0,
    **changes: Any,
) -> Generation:
    """A reply whose tokens arrived so many ms after the start."""
    names = {"t": "thinking", "a": "answer", "c": "tool_call"}
    arrivals = tuple(
        Arrival(
            START + int(at * MS),
            names[kinds[i] if kinds else "a"],  # type: ignore[arg-type]
            tokens[i] if tokens else None,
        )
        for i, at in enumerate(at_ms)
    )
    end = START + int(((at_ms[-1] if at_ms else 0) + tail_ms) * MS)
    marks = changes.pop("marks", TimingMarks(START, end, arrivals))
    values: dict[str, Any] = {"text": "x" * len(at_ms), "finish_reason": "length", **changes}
    return Generation(marks=marks, usage=usage or Usage(100, len(at_ms), 0), **values)


def steady(n: int, itl: float = 10.0, first: float = 100.0) -> list[float]:
    return [first + i * itl for i in range(n)]


def test_a_plain_stream() -> None:
    timings = timings_of(stream(*steady(11), tail_ms=300))
    assert timings.ttft_sec == 0.1
    assert timings.answer_ttft_sec == 0.1
    assert timings.think_time_sec == 0.0
    assert timings.eval_tok_per_sec == pytest.approx(100.0)
    assert timings.eval_tok_sec_floored is False
    assert timings.decode_provenance == "client"
    assert timings.prefill_eff_tok_per_sec == pytest.approx(1000.0)
    assert timings.total_time_sec == 0.5
    assert (timings.itl_p50_ms, timings.itl_max_ms) == (10.0, 10.0)
    assert timings.flags == ()


@pytest.mark.parametrize(
    ("arrivals", "n", "tokens", "finish", "rate"),
    [
        # each chunk a token: n - 1
        (steady(15), 15, (), "length", 100.0),
        # five a chunk: n - n/c
        ([100.0 + 50 * i for i in range(20)], 100, (), "length", 100.0),
        # counted per chunk: exact, whatever the sizes
        ([100.0, 150.0, 170.0], 9, (3, 5, 1), "length", 6 / 0.07),
        # only the first counted
        ([100.0, 150.0, 170.0], 9, (3, None, None), "length", 6 / 0.07),
        # the end token is counted and never arrives
        (steady(13), 14, (), "stop", 100.0),
        # the same at a length limit is a character of two tokens
        (steady(13), 14, (), "length", 14 * 12 / 13 / 0.12),
        # five events in each segment
        ([100.0] * 5 + [150.0] * 5 + [200.0] * 5, 15, (), "length", 100.0),
    ],
)
def test_decode_rate(
    arrivals: list[float], n: int, tokens: tuple[int | None, ...], finish: str, rate: float
) -> None:
    generation = stream(*arrivals, tokens=tokens, usage=Usage(9, n, 0), finish_reason=finish)
    assert timings_of(generation).eval_tok_per_sec == pytest.approx(rate)


@pytest.mark.parametrize(
    ("window_ms", "rate", "floored"),
    [(0.5, 1000.0, True), (1.0, 1000.0, True), (1.4, 1 / 0.0014, True), (1.5, 1 / 0.0015, False)],
)
def test_a_window_too_short_to_measure(window_ms: float, rate: float, floored: bool) -> None:
    timings = timings_of(stream(100.0, 100.0 + window_ms))
    assert timings.eval_tok_per_sec == pytest.approx(rate)
    assert timings.eval_tok_sec_floored is floored


@pytest.mark.parametrize(
    ("generation", "why"),
    [
        (stream(100.0), "one token"),
        (stream(100.0, usage=Usage(9, 8, 0)), "one chunk"),
        (stream(100.0, 100.0, 100.0), "no token was counted after the first chunk"),
        (stream(), "no token arrived"),
        (dataclasses.replace(stream(), text="all at once"), "not streamed"),
    ],
)
def test_no_decode_rate_is_said_not_zero(generation: Generation, why: str) -> None:
    timings = timings_of(generation)
    assert timings.eval_tok_per_sec is None
    assert timings.eval_tok_sec_floored is None
    assert timings.decode_provenance == "unavailable"
    assert why in timings.unmeasured["eval_tok_per_sec"]


def test_one_token_in_a_microsecond_is_no_rate_of_the_engine() -> None:
    engine = EngineTimings(decode_tokens=1, decode_intervals=0, decode_sec=1e-6)
    timings = timings_of(stream(100.0, engine_timings=engine))
    assert timings.engine_eval_tok_per_sec is None
    assert timings.eval_tok_per_sec is None


def test_thinking_then_answer() -> None:
    timings = timings_of(stream(100.0, 110.0, 160.0, 170.0, kinds="ttaa"))
    assert timings.ttft_sec == 0.1
    assert timings.answer_ttft_sec == 0.16
    assert timings.think_time_sec == pytest.approx(0.06)


def test_a_reply_that_never_left_thinking() -> None:
    timings = timings_of(stream(100.0, 110.0, 160.0, kinds="ttt"))
    assert timings.ttft_sec == 0.1
    assert timings.answer_ttft_sec is None
    assert timings.think_time_sec == pytest.approx(0.06)
    assert "never_answered" in timings.flags
    assert "never left thinking" in timings.unmeasured["answer_ttft_sec"]


def test_a_tool_call_is_a_first_token_but_no_answer() -> None:
    calls = (ToolCall("f", "{}"),)
    timings = timings_of(stream(100.0, 110.0, 120.0, kinds="ccc", tool_calls=calls))
    assert timings.ttft_sec == 0.1
    assert timings.answer_ttft_sec is None
    assert "never_answered" not in timings.flags


def test_swallowed_tokens_of_a_tool_call_make_no_rate() -> None:
    timings = timings_of(stream(*steady(13), kinds="c" * 13, usage=Usage(181, 25, 163)))
    assert timings.eval_tok_per_sec is None
    assert "tool calls" in timings.unmeasured["eval_tok_per_sec"]


def test_an_estimate_cannot_tell_swallowed_tokens_of_a_tool_call() -> None:
    calls = (ToolCall("f", '{"a": 1}'),)
    timings = timings_of(
        stream(*steady(4), kinds="c" * 4, usage=Usage(None, None, None), tool_calls=calls)
    )
    assert timings.usage_estimated
    assert timings.eval_tok_per_sec is None
    assert "tool calls" in timings.unmeasured["eval_tok_per_sec"]


@pytest.mark.parametrize(
    ("usage", "marker", "mode", "prefill"),
    [
        (Usage(100, 11, 0), "", "cold", 1000.0),
        (Usage(100, 11, 60), "", "prefix_cached", 400.0),
        (Usage(100, 11, 99), "", "warm", None),
        (Usage(100, 11, 100), "", "warm", None),
        (Usage(100, 11, None), "", "unverified", None),
        (Usage(100, 11, None), "marker", "cold", 1000.0),
        (Usage(None, 11, None), "marker", "cold", None),
    ],
)
def test_only_the_uncached_part_of_a_prompt_counts(
    usage: Usage, marker: str, mode: str, prefill: float | None
) -> None:
    request = Request("m", (Message("user", "x"),), marker=marker)
    timings = timings_of(stream(*steady(11), usage=usage), request)
    assert timings.cache_mode == mode
    if prefill is None:
        assert timings.prefill_eff_tok_per_sec is None
        assert timings.unmeasured["prefill_eff_tok_per_sec"]
    else:
        assert timings.prefill_eff_tok_per_sec == pytest.approx(prefill)
    assert ("cache_unknown" in timings.flags) is (mode == "unverified")


def engine(**changes: Any) -> EngineTimings:
    values: dict[str, Any] = {
        "prompt_tokens": 100,
        "prompt_sec": 0.08,
        "decode_tokens": 11,
        "decode_intervals": 10,
        "decode_sec": 0.1,
    }
    return EngineTimings(**{**values, **changes})


def test_the_engines_own_figures_stand_beside_ours() -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(ttft_sec=0.09)))
    assert timings.prompt_tok_per_sec == pytest.approx(1250.0)
    assert timings.prefill_provenance == "engine"
    assert timings.engine_eval_tok_per_sec == pytest.approx(100.0)
    assert timings.engine_ttft_sec == 0.09
    assert timings.decode_provenance == "client"


@pytest.mark.parametrize(
    ("seconds", "flagged"), [(0.1, False), (0.109, False), (0.112, True), (0.089, True)]
)
def test_a_disagreement_with_the_engine_is_flagged(seconds: float, flagged: bool) -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(decode_sec=seconds)))
    assert ("engine_disagrees" in timings.flags) is flagged


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_sec": 0.0},
        {"decode_sec": 0.0},
        {"decode_sec": 0.49, "total_sec": 0.49},
        {"decode_sec": 0.5, "total_sec": 0.49},
        {"decode_sec": 0.08},
        {"refused": "a look-alike"},
    ],
)
def test_figures_that_no_engine_measured_are_refused(changes: dict[str, Any]) -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(**changes)))
    assert "engine_refused" in timings.flags
    assert timings.prompt_tok_per_sec is None
    assert timings.engine_eval_tok_per_sec is None
    assert "refused" in timings.unmeasured["prompt_tok_per_sec"]
    assert timings.eval_tok_per_sec == pytest.approx(100.0)


def test_the_cached_prompt_of_an_engine_is_no_rate() -> None:
    timings = timings_of(
        stream(*steady(11), usage=Usage(37, 11, 36), engine_timings=engine(prompt_tokens=1))
    )
    assert timings.prompt_tok_per_sec is None
    assert timings.prefill_provenance == "unavailable"


def test_a_reload_inside_a_request_is_flagged_and_makes_no_prefill() -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(load_sec=0.547)))
    assert timings.load_time_sec == 0.547
    assert "reloaded" in timings.flags
    assert timings.prefill_eff_tok_per_sec is None


def test_queueing_is_what_the_total_leaves_unexplained() -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(load_sec=0.01, total_sec=1.46)))
    assert timings.queue_sec == pytest.approx(1.27)
    assert "queued" in timings.flags
    assert timings.prefill_eff_tok_per_sec is None


def test_a_cut_prompt_makes_no_prefill() -> None:
    timings = timings_of(stream(*steady(11), engine_timings=engine(), flags=("prompt_truncated",)))
    assert timings.prefill_eff_tok_per_sec is None
    assert timings.prompt_tok_per_sec is None


def test_latencies_by_percentile() -> None:
    at = [100.0]
    for gap in range(1, 101):
        at.append(at[-1] + gap)
    timings = timings_of(stream(*at))
    assert timings.itl_p50_ms == pytest.approx(50.5)
    assert timings.itl_p95_ms == pytest.approx(95.05)
    assert timings.itl_p99_ms == pytest.approx(99.01)
    assert timings.itl_max_ms == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("generation", "why"),
    [
        (stream(*steady(20), usage=Usage(9, 100, 0)), "100 tokens came in 20 chunks"),
        (stream(*[100.0 + 50 * (i // 5) for i in range(50)]), "one segment"),
        (stream(*steady(20), usage=Usage(9, None, 0)), "did not count"),
        (stream(*steady(2)), "too few"),
    ],
)
def test_no_latencies_where_tokens_do_not_arrive_one_by_one(
    generation: Generation, why: str
) -> None:
    timings = timings_of(generation)
    assert timings.itl_p50_ms is None
    assert why in timings.unmeasured["itl_p50_ms"]


def test_a_merged_read_is_flagged() -> None:
    at = steady(101)
    at[50] = at[51]
    marks = TimingMarks(
        START,
        START + 2_000 * MS,
        tuple(Arrival(START + int(a * MS), "answer") for a in at),
        coalesced=True,
    )
    timings = timings_of(stream(*at, marks=marks))
    assert "coalesced" in timings.flags
    assert timings.itl_p50_ms == 10.0


def test_drift_is_the_last_quarter_against_the_first() -> None:
    at = steady(21)
    slower = at[:15] + [at[14] + 20.0 * (i + 1) for i in range(10)]
    drift = timings_of(stream(*slower)).decode_drift_pct
    assert drift == pytest.approx(-50.0)
    assert timings_of(stream(*steady(40))).decode_drift_pct == pytest.approx(0.0)
    assert timings_of(stream(*steady(10))).decode_drift_pct is None


def test_an_estimate_never_takes_packed_chunks_for_tokens() -> None:
    one_each = stream(*steady(20), text="word " * 20, usage=Usage())
    packed = stream(*steady(20), text="five words in each chunk " * 20, usage=Usage())
    assert timings_of(one_each).completion_tokens == 20
    assert timings_of(packed).completion_tokens == 125
    assert timings_of(packed).usage_estimated


def test_a_budget_that_was_not_used_up_is_flagged() -> None:
    request = Request("m", (), Sampling(num_predict=64), ignore_eos=True)
    assert "short_budget" in timings_of(stream(*steady(11)), request).flags
    used = timings_of(stream(*steady(64)), request)
    assert "short_budget" not in used.flags


def test_every_figure_is_a_field_of_the_record() -> None:
    known = {f.name for f in dataclasses.fields(Record)}
    assert {f.name for f in dataclasses.fields(Timings)} <= known


@given(
    st.lists(st.floats(0.0, 5_000.0), max_size=30).map(sorted),
    st.one_of(st.none(), st.integers(0, 200)),
    st.one_of(st.none(), st.integers(0, 200)),
    st.sampled_from(["stop", "length", "", "tool_calls"]),
    st.data(),
)
def test_whatever_arrives_a_figure_is_sound_or_absent_with_a_reason(
    at: list[float], n: int | None, cached: int | None, finish: str, data: st.DataObject
) -> None:
    kinds = "".join(data.draw(st.sampled_from("tac")) for _ in at)
    timings = timings_of(
        stream(*at, kinds=kinds, usage=Usage(100, n, cached), finish_reason=finish)
    )
    for f in dataclasses.fields(timings):
        value = getattr(timings, f.name)
        if f.name in timings.unmeasured:
            assert value is None
            assert timings.unmeasured[f.name]
        elif f.name.endswith(("_per_sec", "_sec", "_ms")):
            assert value is not None, f.name
            assert value >= 0.0
