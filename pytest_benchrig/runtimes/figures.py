"""Counts and measures as JSON of any server may hold them: checked, or ``None``."""

from __future__ import annotations

import math

from pytest_benchrig.core.generation import JsonValue

MOST = 2**53
"""From here on JSON's numbers are not exact, and nothing that is counted is that many."""


def whole_number(value: JsonValue) -> int | None:
    """A count, ``None`` for anything that is none: negative, a fraction, a bool, a text, absurd."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MOST or value != int(value):
        return None
    return int(value)


def number(value: JsonValue) -> float | None:
    """A finite measure that is not negative, ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    try:
        measure = float(value)
    except OverflowError:
        return None
    return measure if math.isfinite(measure) else None
