"""How fast a reply was decoded: the rate, the gaps between tokens, and their drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_benchrig.core.counts import hidden_thinking, refused_before
from pytest_benchrig.core.engine_figures import MIN_WINDOW_SEC
from pytest_benchrig.core.generation import Arrival, Generation
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


@dataclass(slots=True)
class Sheet:
    """Figures while they are collected."""

    values: dict[str, object] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)

    def missing(self, reason: str, *names: str) -> None:
        """Say why these figures are absent; the first reason stands."""
        for name in names:
            self.why.setdefault(name, reason)


def estimate(generation: Generation) -> int:
    """Without a count: the chunks where they are of a token's length, else by characters."""
    characters = len(generation.text) + len(generation.thinking)
    characters += sum(len(c.name) + len(c.arguments) for c in generation.tool_calls)
    chunks = len(generation.marks.arrivals)
    if chunks and characters <= PACKED_CHARS * chunks:
        return chunks
    return math.ceil(characters / CHARS_PER_TOKEN)


def why_no_arrivals(generation: Generation) -> str:
    """Why a reply has no marks of tokens."""
    if generation.text or generation.thinking or generation.tool_calls:
        return "the reply was not streamed"
    return "no token arrived"


def decode(sheet: Sheet, generation: Generation) -> None:
    """The decode rate from the arrivals and the server's count, or why there is none."""
    arrivals = generation.marks.arrivals
    names = ("eval_tok_per_sec", "eval_tok_sec_floored")
    engine_rate = sheet.values.get("engine_eval_tok_per_sec")
    if not arrivals:
        sheet.missing(why_no_arrivals(generation), *names)
        return
    n = _shown_tokens(generation)
    if n is None:
        n = estimate(generation)
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
    intervals = _decoded_after_first(arrivals, n, generation.finish_reason)
    if intervals <= 0:
        sheet.missing("no token was counted after the first chunk", *names)
        return
    window = (arrivals[-1].ns - arrivals[0].ns) / 1e9
    floored = window < ARTEFACT_WINDOW_SEC
    rate = intervals / max(window, MIN_WINDOW_SEC)
    sheet.values["eval_tok_per_sec"] = rate
    sheet.values["eval_tok_sec_floored"] = floored
    sheet.values["decode_provenance"] = "client"
    if (
        isinstance(engine_rate, float)
        and not floored
        and abs(rate - engine_rate) > DISAGREEMENT * engine_rate
    ):
        sheet.flags.append("engine_disagrees")


def _shown_tokens(generation: Generation) -> int | None:
    """The server's count without what no arrival stands for: hidden thinking, a blank tail."""
    n = generation.usage.completion_tokens
    if n is None:
        return None
    return max(0, n - hidden_thinking(generation) - generation.marks.blank_tail)


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


def gaps(sheet: Sheet, generation: Generation) -> None:
    """Inter-token latencies, and drift, only where tokens arrive one by one."""
    arrivals = generation.marks.arrivals
    percentiles = ("itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_max_ms")
    names = (*percentiles, "decode_drift_pct")
    n = _shown_tokens(generation)
    if not arrivals:
        sheet.missing(why_no_arrivals(generation), *names)
        return
    if n is None:
        why = refused_before(generation, "completion_tokens")
        sheet.missing(why or "the server did not count the tokens", *names)
        return
    c = len(arrivals)
    if c < 3:
        sheet.missing("too few tokens", *names)
        return
    if generation.marks.coalesced:
        sheet.flags.append("coalesced")
    between = [(b.ns - a.ns) / 1e6 for a, b in itertools.pairwise(arrivals)]
    if not one_by_one(c, n):
        sheet.missing(f"{n} tokens came in {c} chunks", *percentiles)
    elif sum(gap <= 0 for gap in between) > MAX_BUNCHED_SHARE * len(between):
        sheet.missing("several tokens came in one segment", *percentiles)
    else:
        sheet.values["itl_p50_ms"] = percentile(between, 0.50)
        sheet.values["itl_p95_ms"] = percentile(between, 0.95)
        sheet.values["itl_p99_ms"] = percentile(between, 0.99)
        sheet.values["itl_max_ms"] = max(between)
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
