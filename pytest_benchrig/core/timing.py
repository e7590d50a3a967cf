"""From marks to figures. Pure: every figure is computed from one Generation, or absent with why.

Definitions are those of the design's section "Measuring". Durations are seconds, rates tokens per
second, inter-token latencies milliseconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_benchrig.core.engine_figures import (
    MIN_WINDOW_SEC,
    decode_rate,
    implausible,
    queue_sec,
    why_no_decode_rate,
)
from pytest_benchrig.core.generation import Arrival, EngineTimings, Generation, Request
from pytest_benchrig.core.stats import percentile

ARTEFACT_WINDOW_SEC = 0.0015
"""A rate from a shorter window is an artefact of the clock."""
DISAGREEMENT = 0.10
"""Relative difference between our decode rate and the engine's that is flagged."""
MAX_BUNCHED_SHARE = 0.05
"""Share of gaps that may be zero (several tokens in one segment) before percentiles mislead."""
MIN_DRIFT_TOKENS = 16
"""Fewest arrivals for a first and a last quarter that can be compared."""
CHARS_PER_TOKEN = 4
"""For an estimate where the server counts nothing."""
PACKED_CHARS = 12
"""Chunks that are longer on average hold several tokens each."""
RELOAD_SEC = 0.2
"""A load inside a request that is longer is a reload; warm engines report up to 0.1 s."""
QUEUE_SEC = 0.1
"""Unexplained time of the engine's total that is longer is queueing."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Every timing field of a record by its name; ``unmeasured`` says why one is ``None``.

    ``flags`` are ``usage_estimated``, ``engine_disagrees``, ``coalesced``, ``never_answered``,
    ``cache_unknown``, ``engine_refused``, ``reloaded``, ``queued``, ``short_budget``.
    """

    ttft_sec: float | None = None
    answer_ttft_sec: float | None = None
    think_time_sec: float | None = None
    prompt_tokens_actual: int | None = None
    completion_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    cache_mode: str | None = None
    thinking_tokens: int | None = None
    load_time_sec: float | None = None
    connect_sec: float | None = None
    queue_sec: float | None = None
    prompt_tok_per_sec: float | None = None
    prefill_provenance: str = "unavailable"
    prefill_eff_tok_per_sec: float | None = None
    eval_tok_per_sec: float | None = None
    eval_tok_sec_floored: bool | None = None
    decode_provenance: str = "unavailable"
    engine_eval_tok_per_sec: float | None = None
    engine_ttft_sec: float | None = None
    decode_drift_pct: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_p99_ms: float | None = None
    itl_max_ms: float | None = None
    total_time_sec: float | None = None
    kernel_stamps: bool | None = None
    usage_estimated: bool = False
    flags: tuple[str, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Sheet:
    """Figures while they are collected."""

    values: dict[str, object] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)

    def missing(self, reason: str, *names: str) -> None:
        for name in names:
            self.why.setdefault(name, reason)


def timings_of(generation: Generation, request: Request | None = None) -> Timings:
    """The figures of one reply.

    Args:
        generation: What came back, with the client's marks.
        request: What was asked; tells a budget that was not used up, and whether a marker kept
            the prompt cache out.
    """
    sheet = _Sheet()
    marks = generation.marks
    sheet.values["total_time_sec"] = (marks.end_ns - marks.start_ns) / 1e9
    sheet.values["kernel_stamps"] = marks.kernel_stamps
    if marks.connect_ns is not None:
        sheet.values["connect_sec"] = marks.connect_ns / 1e9
    else:
        sheet.missing("the connection was kept from the request before", "connect_sec")
    _counts(sheet, generation, request)
    _first_tokens(sheet, generation)
    _engine(sheet, generation.engine_timings)
    _prefill(sheet, generation)
    _decode(sheet, generation)
    _gaps(sheet, generation)
    _budget(sheet, generation, request)
    return Timings(
        **sheet.values,  # type: ignore[arg-type]
        flags=tuple(dict.fromkeys(sheet.flags)),
        unmeasured=sheet.why,
    )


def _counts(sheet: _Sheet, generation: Generation, request: Request | None) -> None:
    usage = generation.usage
    sheet.values["prompt_tokens_actual"] = usage.prompt_tokens
    sheet.values["thinking_tokens"] = usage.thinking_tokens
    if usage.prompt_tokens is None:
        sheet.missing("the server did not count the prompt", "prompt_tokens_actual")
    if usage.completion_tokens is not None:
        sheet.values["completion_tokens"] = usage.completion_tokens
    else:
        sheet.values["completion_tokens"] = _estimate(generation)
        sheet.values["usage_estimated"] = True
        sheet.flags.append("usage_estimated")
    cached = usage.cached_prompt_tokens
    sheet.values["cached_prompt_tokens"] = cached
    if cached is None:
        sheet.missing(
            "the server does not say what it took from its prompt cache", "cached_prompt_tokens"
        )
        kept_out = request is not None and bool(request.marker)
        sheet.values["cache_mode"] = "cold" if kept_out else "unverified"
        if not kept_out:
            sheet.flags.append("cache_unknown")
    elif cached == 0:
        sheet.values["cache_mode"] = "cold"
    elif usage.prompt_tokens is not None and cached >= usage.prompt_tokens - 1:
        sheet.values["cache_mode"] = "warm"
    else:
        sheet.values["cache_mode"] = "prefix_cached"


def _estimate(generation: Generation) -> int:
    """Without a count: the chunks where they are of a token's length, else by characters."""
    characters = len(generation.text) + len(generation.thinking)
    characters += sum(len(c.name) + len(c.arguments) for c in generation.tool_calls)
    chunks = len(generation.marks.arrivals)
    if chunks and characters <= PACKED_CHARS * chunks:
        return chunks
    return math.ceil(characters / CHARS_PER_TOKEN)


def _first_tokens(sheet: _Sheet, generation: Generation) -> None:
    marks = generation.marks
    names = ("ttft_sec", "answer_ttft_sec", "think_time_sec")
    if not marks.arrivals:
        sheet.missing(_why_no_arrivals(generation), *names)
        return
    first = marks.arrivals[0].ns
    sheet.values["ttft_sec"] = (first - marks.start_ns) / 1e9
    answer = marks.first_answer_ns
    thinking = [a.ns for a in marks.arrivals if a.kind == "thinking"]
    if answer is not None:
        sheet.values["answer_ttft_sec"] = (answer - marks.start_ns) / 1e9
        sheet.values["think_time_sec"] = (answer - first) / 1e9
        return
    if thinking:
        if all(a.kind == "thinking" for a in marks.arrivals):
            sheet.values["think_time_sec"] = (thinking[-1] - thinking[0]) / 1e9
            sheet.flags.append("never_answered")
            sheet.missing("the reply never left thinking", "answer_ttft_sec")
            return
        called = next(a.ns for a in marks.arrivals if a.kind == "tool_call")
        sheet.values["think_time_sec"] = (called - first) / 1e9
    else:
        sheet.values["think_time_sec"] = 0.0
    sheet.missing("the reply is a tool call without a text", "answer_ttft_sec")


def _why_no_arrivals(generation: Generation) -> str:
    if generation.text or generation.thinking or generation.tool_calls:
        return "the reply was not streamed"
    return "no token arrived"


def _engine(sheet: _Sheet, engine: EngineTimings | None) -> None:
    names = ("load_time_sec", "queue_sec", "prompt_tok_per_sec", "engine_eval_tok_per_sec")
    if engine is None:
        sheet.missing("the engine gives no timings", *names, "engine_ttft_sec")
        return
    if refused := engine.refused or implausible(engine):
        sheet.flags.append("engine_refused")
        reason = f"the engine's figures are refused: {refused}"
        sheet.missing(reason, *names, "engine_ttft_sec")
        return
    sheet.values["engine_ttft_sec"] = engine.ttft_sec
    if engine.ttft_sec is None:
        sheet.missing("the engine does not give it", "engine_ttft_sec")
    sheet.values["load_time_sec"] = engine.load_sec
    if engine.load_sec is None:
        sheet.missing("the engine does not report loading", "load_time_sec")
    elif engine.load_sec >= RELOAD_SEC:
        sheet.flags.append("reloaded")
    queue = queue_sec(engine)
    sheet.values["queue_sec"] = queue
    if queue is None:
        sheet.missing("the engine does not report queueing", "queue_sec")
    elif queue >= QUEUE_SEC:
        sheet.flags.append("queued")
    rate = decode_rate(engine)
    sheet.values["engine_eval_tok_per_sec"] = rate
    if rate is None:
        sheet.missing(
            why_no_decode_rate(engine),
            "engine_eval_tok_per_sec",
        )


def _prefill(sheet: _Sheet, generation: Generation) -> None:
    usage, engine = generation.usage, generation.engine_timings
    cached = usage.cached_prompt_tokens
    if "prompt_truncated" in generation.flags:
        reason = "the prompt was cut to the window"
        sheet.missing(reason, "prefill_eff_tok_per_sec", "prompt_tok_per_sec")
        return
    if engine is not None and "engine_refused" not in sheet.flags:
        _engine_prefill(sheet, engine)
    ttft = sheet.values.get("ttft_sec")
    name = "prefill_eff_tok_per_sec"
    if usage.prompt_tokens is None:
        sheet.missing("the server did not count the prompt", name)
    elif not isinstance(ttft, float) or ttft <= 0:
        sheet.missing("there is no time to first token", name)
    elif "reloaded" in sheet.flags or "reloaded" in generation.flags:
        sheet.missing("the model was loaded inside the request", name)
    elif "queued" in sheet.flags or "queued" in generation.flags:
        sheet.missing("the request waited in the server's queue", name)
    elif cached is None and sheet.values["cache_mode"] != "cold":
        sheet.missing("the state of the prompt cache is unknown", name)
    else:
        processed = usage.prompt_tokens - (cached or 0)
        if processed <= 1:
            sheet.missing("the whole prompt came from the cache", name)
        else:
            sheet.values[name] = processed / ttft


def _engine_prefill(sheet: _Sheet, engine: EngineTimings) -> None:
    name = "prompt_tok_per_sec"
    tokens, seconds = engine.prompt_tokens, engine.prompt_sec
    if tokens is None or seconds is None:
        sheet.missing("the engine does not count or time the prompt", name)
    elif tokens <= 1:
        sheet.missing("the whole prompt came from the cache", name)
    elif seconds < MIN_WINDOW_SEC / 10:
        sheet.missing("the engine's prompt time is too short to be one", name)
    else:
        sheet.values[name] = tokens / seconds
        sheet.values["prefill_provenance"] = "engine"


def _decode(sheet: _Sheet, generation: Generation) -> None:
    arrivals = generation.marks.arrivals
    names = ("eval_tok_per_sec", "eval_tok_sec_floored")
    engine_rate = sheet.values.get("engine_eval_tok_per_sec")
    if not arrivals:
        sheet.missing(_why_no_arrivals(generation), *names)
        return
    n = generation.usage.completion_tokens
    if n is None:
        n = _estimate(generation)
    if n < 2 or len(arrivals) < 2:
        sheet.missing(
            "one token has no decode rate" if n < 2 else "all tokens came in one chunk", *names
        )
        return
    if any(a.kind == "tool_call" and a.tokens is None for a in arrivals) and (
        generation.usage.completion_tokens is None or not one_by_one(len(arrivals), n)
    ):
        sheet.missing("the server swallows tokens of tool calls", *names)
        return
    gaps = _decoded_after_first(arrivals, n, generation.finish_reason)
    if gaps <= 0:
        sheet.missing("no token was counted after the first chunk", *names)
        return
    window = (arrivals[-1].ns - arrivals[0].ns) / 1e9
    floored = window < ARTEFACT_WINDOW_SEC
    rate = gaps / max(window, MIN_WINDOW_SEC)
    sheet.values["eval_tok_per_sec"] = rate
    sheet.values["eval_tok_sec_floored"] = floored
    sheet.values["decode_provenance"] = "client"
    if (
        isinstance(engine_rate, float)
        and not floored
        and abs(rate - engine_rate) > DISAGREEMENT * engine_rate
    ):
        sheet.flags.append("engine_disagrees")


def _decoded_after_first(arrivals: Sequence[Arrival], n: int, finish_reason: str) -> float:
    """Tokens decoded between the first and the last arrival.

    Exact where the server counts per chunk. Else ``n - n/c`` for c chunks, which is ``n - 1`` when
    each chunk is a token; chunks that came in one segment with the first are one with it. A reply
    that stopped by itself ends with an end token, which engines count but which never arrives: one
    token more than chunks is that one.
    """
    c = len(arrivals)
    first = sum(a.ns == arrivals[0].ns for a in arrivals)
    known = [a.tokens for a in arrivals if a.tokens is not None]
    if len(known) == c:
        return sum(known[first:])
    if finish_reason == "stop" and c == n - 1:
        return c - first
    if all(a.tokens is not None for a in arrivals[:first]):
        return n - sum(known[:first])
    return n * (c - first) / c


def _gaps(sheet: _Sheet, generation: Generation) -> None:
    """Inter-token latencies, and drift, only where tokens arrive one by one."""
    arrivals = generation.marks.arrivals
    percentiles = ("itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_max_ms")
    names = (*percentiles, "decode_drift_pct")
    n = generation.usage.completion_tokens
    if not arrivals:
        sheet.missing(_why_no_arrivals(generation), *names)
        return
    if n is None:
        sheet.missing("the server did not count the tokens", *names)
        return
    c = len(arrivals)
    if c < 3:
        sheet.missing("too few tokens", *names)
        return
    if generation.marks.coalesced:
        sheet.flags.append("coalesced")
    gaps = [(b.ns - a.ns) / 1e6 for a, b in itertools.pairwise(arrivals)]
    if not one_by_one(c, n):
        sheet.missing(f"{n} tokens came in {c} chunks", *percentiles)
    elif sum(gap <= 0 for gap in gaps) > MAX_BUNCHED_SHARE * len(gaps):
        sheet.missing("several tokens came in one segment", *percentiles)
    else:
        sheet.values["itl_p50_ms"] = percentile(gaps, 0.50)
        sheet.values["itl_p95_ms"] = percentile(gaps, 0.95)
        sheet.values["itl_p99_ms"] = percentile(gaps, 0.99)
        sheet.values["itl_max_ms"] = max(gaps)
    drift = _drift(arrivals)
    sheet.values["decode_drift_pct"] = drift
    if drift is None:
        sheet.missing("too few tokens", "decode_drift_pct")


def one_by_one(chunks: int, tokens: int) -> bool:
    """Whether arrivals and the server's count agree: the end token, and one in fifty, may lack."""
    return abs(tokens - chunks) <= max(1, tokens // 50)


def _drift(arrivals: Sequence[Arrival]) -> float | None:
    """Rate of the last quarter of the chunks against the first, in percent; below 0 is slower."""
    quarter = (len(arrivals) - 1) // 4
    if len(arrivals) < MIN_DRIFT_TOKENS:
        return None
    first = arrivals[quarter].ns - arrivals[0].ns
    last = arrivals[-1].ns - arrivals[-1 - quarter].ns
    if first < MIN_WINDOW_SEC * 1e9 or last < MIN_WINDOW_SEC * 1e9:
        return None
    return (first / last - 1) * 100


def _budget(sheet: _Sheet, generation: Generation, request: Request | None) -> None:
    if request is None or not request.ignore_eos or request.sampling.num_predict is None:
        return
    n = generation.usage.completion_tokens
    if n is not None and n < request.sampling.num_predict:
        sheet.flags.append("short_budget")
