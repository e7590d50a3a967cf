"""From marks to figures. Pure: every figure is computed from one Generation, or absent with why.

Definitions are those of the design's section "Measuring". Durations are seconds, rates tokens per
second, inter-token latencies milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_benchrig.core.counts import (
    REFUSED_FLAG,
    believed,
    engine_counts_wrong,
    hidden_thinking,
    refused_before,
)
from pytest_benchrig.core.decoding import Sheet, decode, estimate, gaps, why_no_arrivals
from pytest_benchrig.core.engine_figures import (
    MIN_WINDOW_SEC,
    decode_rate,
    implausible,
    queue_sec,
    why_no_decode_rate,
)
from pytest_benchrig.core.generation import EngineTimings, Generation, Request

RELOAD_SEC = 0.2
"""A load inside a request that is longer is a reload; warm engines report up to 0.1 s."""
QUEUE_SEC = 0.1
"""Unexplained time of the engine's total that is longer is queueing."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Every timing field of a record by its name; ``unmeasured`` says why one is ``None``.

    ``flags`` are ``usage_refused``, ``usage_estimated``, ``engine_disagrees``, ``coalesced``,
    ``never_answered``, ``cache_unknown``, ``engine_refused``, ``reloaded``, ``queued``,
    ``short_budget``.
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


def timings_of(generation: Generation, request: Request | None = None) -> Timings:
    """The figures of one reply.

    Args:
        generation: What came back, with the client's marks.
        request: What was asked; tells a budget that was not used up, and whether a marker kept
            the prompt cache out.
    """
    sheet = Sheet()
    generation = believed(generation, request)
    marks = generation.marks
    sheet.values["total_time_sec"] = (marks.end_ns - marks.start_ns) / 1e9
    sheet.values["kernel_stamps"] = marks.kernel_stamps
    if marks.connect_ns is not None:
        sheet.values["connect_sec"] = marks.connect_ns / 1e9
    else:
        sheet.missing("the connection was kept from the request before", "connect_sec")
    _counts(sheet, generation, request)
    _first_tokens(sheet, generation)
    _engine(sheet, generation)
    _prefill(sheet, generation)
    decode(sheet, generation)
    gaps(sheet, generation)
    _budget(sheet, generation, request)
    return Timings(
        **sheet.values,  # type: ignore[arg-type]
        flags=tuple(dict.fromkeys(sheet.flags)),
        unmeasured=sheet.why,
    )


def _counts(sheet: Sheet, generation: Generation, request: Request | None) -> None:
    usage = generation.usage
    sheet.values["prompt_tokens_actual"] = usage.prompt_tokens
    sheet.values["thinking_tokens"] = usage.thinking_tokens
    if REFUSED_FLAG in generation.flags:
        sheet.flags.append(REFUSED_FLAG)
    if usage.prompt_tokens is None:
        sheet.missing(_why_no_prompt_count(generation), "prompt_tokens_actual")
    if usage.completion_tokens is not None:
        sheet.values["completion_tokens"] = usage.completion_tokens
    else:
        sheet.values["completion_tokens"] = estimate(generation)
        sheet.values["usage_estimated"] = True
        sheet.flags.append("usage_estimated")
    cached = usage.cached_prompt_tokens
    sheet.values["cached_prompt_tokens"] = cached
    if cached is None:
        sheet.missing(
            refused_before(generation, "cached_prompt_tokens")
            or "the server does not say what it took from its prompt cache",
            "cached_prompt_tokens",
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


def _why_no_prompt_count(generation: Generation) -> str:
    return refused_before(generation, "prompt_tokens") or "the server did not count the prompt"


def _first_tokens(sheet: Sheet, generation: Generation) -> None:
    marks = generation.marks
    names = ("ttft_sec", "answer_ttft_sec", "think_time_sec")
    if not marks.arrivals:
        sheet.missing(why_no_arrivals(generation), *names)
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


def _engine(sheet: Sheet, generation: Generation) -> None:
    engine = generation.engine_timings
    names = ("load_time_sec", "queue_sec", "prompt_tok_per_sec", "engine_eval_tok_per_sec")
    if engine is None:
        sheet.missing("the engine gives no timings", *names, "engine_ttft_sec")
        return
    refused = engine.refused or engine_counts_wrong(engine, generation) or implausible(engine)
    if refused:
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


def _prefill(sheet: Sheet, generation: Generation) -> None:
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
        sheet.missing(_why_no_prompt_count(generation), name)
    elif not isinstance(ttft, float) or ttft <= 0:
        sheet.missing("there is no time to first token", name)
    elif hidden_thinking(generation):
        sheet.missing("the model thought unseen before the first token", name)
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


def _engine_prefill(sheet: Sheet, engine: EngineTimings) -> None:
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


def _budget(sheet: Sheet, generation: Generation, request: Request | None) -> None:
    if request is None or not request.ignore_eos or request.sampling.num_predict is None:
        return
    n = generation.usage.completion_tokens
    if n is not None and n < request.sampling.num_predict:
        sheet.flags.append("short_budget")
