"""What blocks what: whether a record's figure may enter an aggregate, and if not, why.

The rules of honesty: other load (``disturbed``) and other requests in flight (``concurrent``)
block every timing of a record; estimated token counts block token rates only; an unknown cache
state blocks prefill and time to first token only, and so does a prompt that came whole from the
cache, because no timing may. Nothing else blocks anything.
"""

from __future__ import annotations

from pytest_benchrig.core.record import Record

PREFILL_FIELDS = frozenset(
    {
        "ttft_sec",
        "answer_ttft_sec",
        "engine_ttft_sec",
        "prompt_tok_per_sec",
        "prefill_eff_tok_per_sec",
    }
)
TOKEN_RATE_FIELDS = frozenset(
    {
        "eval_tok_per_sec",
        "prompt_tok_per_sec",
        "prefill_eff_tok_per_sec",
        "engine_eval_tok_per_sec",
    }
)
TIMING_FIELDS = (
    PREFILL_FIELDS
    | TOKEN_RATE_FIELDS
    | {
        "think_time_sec",
        "load_time_sec",
        "cold_start_sec",
        "connect_sec",
        "queue_sec",
        "decode_drift_pct",
        "itl_p50_ms",
        "itl_p95_ms",
        "itl_p99_ms",
        "itl_max_ms",
        "total_time_sec",
    }
)
UNKNOWN_CACHE = "unverified"
WHOLE_PROMPT_CACHED = "warm"


def blocked(record: Record, name: str, *, allow_disturbed: bool = False) -> str:
    """Why the record's figure stays out of aggregates; "" when it counts."""
    if name not in TIMING_FIELDS:
        return ""
    if record.disturbed and not allow_disturbed:
        return f"disturbed ({record.disturbed})"
    if record.concurrent:
        return "concurrent (other requests of this session were in flight)"
    if record.usage_estimated and name in TOKEN_RATE_FIELDS:
        return "token counts are estimates (the server sends none)"
    if record.cache_mode == UNKNOWN_CACHE and name in PREFILL_FIELDS:
        return "cache state unknown (the server does not say what it reused)"
    if record.cache_mode == WHOLE_PROMPT_CACHED and name in PREFILL_FIELDS:
        return "the whole prompt came from the cache"
    return ""


def answered(record: Record) -> bool:
    """Whether the record is a measured reply: no warm-up, no error, nothing skipped."""
    return record.phase == "measured" and record.outcome not in ("error", "skipped")
