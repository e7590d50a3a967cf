"""Waiting on a busy server: bounded, at most three times, never inside a timed span."""

from __future__ import annotations

import time
from collections.abc import Mapping

MAX_WAITS = 3
"""Waits per request; a fourth refusal is a fault."""
MAX_WAIT_SEC = 30.0
"""Longest single wait, whatever ``Retry-After`` says."""
_DEFAULT_WAITS_SEC = (1.0, 2.0, 4.0)


def wait_sec(headers: Mapping[str, str], attempt: int) -> float:
    """Seconds to wait before the next attempt.

    ``Retry-After`` (RFC 9110, seconds or a date) bounded by :data:`MAX_WAIT_SEC`; without one, or
    with one that cannot be read, 1, 2 and 4 seconds.

    Args:
        headers: Header names in lower case.
        attempt: How often this request has waited already.
    """
    said = headers.get("retry-after", "").strip()
    seconds: float | None = None
    if said.replace(".", "", 1).isdecimal() and said.isascii():
        seconds = float(said)
    elif said:
        import email.utils

        try:
            seconds = email.utils.parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            seconds = None
    if seconds is None:
        seconds = _DEFAULT_WAITS_SEC[min(attempt, len(_DEFAULT_WAITS_SEC) - 1)]
    return min(max(seconds, 0.0), MAX_WAIT_SEC)
