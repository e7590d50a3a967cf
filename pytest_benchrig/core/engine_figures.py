"""What an engine's own timings say, recomputed to one definition, and whether to believe them."""

from __future__ import annotations

from pytest_benchrig.core.generation import EngineTimings

MIN_WINDOW_SEC = 0.001
"""A decode window is never taken shorter."""
MOST_DECODED_PER_SEC = 1e6
MOST_PREFILLED_PER_SEC = 1e9
"""No engine is within a factor of a hundred of these for one request."""


def implausible(engine: EngineTimings) -> str:
    """Why no engine can have measured these figures; "" where one can.

    Servers that only imitate an engine's protocol send durations that are zero, or one wall time
    under several names.
    """
    prompt, decode, total = engine.prompt_sec, engine.decode_sec, engine.total_sec
    if prompt == 0 and (engine.prompt_tokens or 0) > 1:
        return "a prompt was processed in no time"
    if decode == 0 and (engine.decode_tokens or 0) > 1:
        return "tokens were decoded in no time"
    if (engine.decode_tok_per_sec or 0) > MOST_DECODED_PER_SEC:
        return f"{engine.decode_tok_per_sec:.3g} decoded tokens a second are none of a model"
    if prompt and (engine.prompt_tokens or 0) / prompt > MOST_PREFILLED_PER_SEC:
        return f"a prompt of {engine.prompt_tokens:,} tokens was read in {prompt:.3g} s"
    if decode and total and decode >= total:
        return "decoding is said to have taken the whole request"
    if decode and prompt and decode == prompt:
        return "the prompt and the reply are said to have taken the same time"
    return ""


def why_no_decode_rate(engine: EngineTimings) -> str:
    """Why the engine's figures give no decode rate, in words for a report."""
    if engine.decode_tokens is not None and engine.decode_tokens < 2:
        return "one token has no decode rate"
    if engine.decode_sec is not None and engine.decode_sec < MIN_WINDOW_SEC:
        return "the engine's decode time is too short to be one"
    return "the engine does not give it"


def queue_sec(engine: EngineTimings) -> float | None:
    """Waiting in the server's queue: as it says, else what its total leaves unexplained."""
    if engine.queue_sec is not None:
        return engine.queue_sec
    parts = (engine.load_sec, engine.prompt_sec, engine.decode_sec)
    if engine.total_sec is None or engine.prompt_sec is None or engine.decode_sec is None:
        return None
    return max(0.0, engine.total_sec - sum(p for p in parts if p is not None))


def decode_rate(engine: EngineTimings) -> float | None:
    """The engine's decode rate, recomputed over the intervals that its duration covers.

    A window below :data:`MIN_WINDOW_SEC` gives none: one token in a microsecond is a million
    tokens per second.
    """
    if engine.decode_tokens is not None and engine.decode_tokens < 2:
        return None
    intervals, seconds = engine.decode_intervals, engine.decode_sec
    if intervals is not None and seconds is not None:
        return intervals / seconds if intervals > 0 and seconds >= MIN_WINDOW_SEC else None
    return engine.decode_tok_per_sec or None
