"""Values that resemble an expected one, so that a comparison cannot tell which one is meant."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

COUNT = 26
"""Decoys asked besides the real value, which is asked neither first nor last.

A blind guess is right once in 25 times an assertion.
"""

TOLERATED = 3
"""Decoys that an honest object may equal as well: numbers modulo 2 or 3, sloppy text."""

_SHIFTS = (1, -1, 2, -2, 3, -3)
_FAR = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191)
_LETTERS = "etaoinshrdlucmfwypvbgkqjxz"
_random = random.SystemRandom()


def decoys(value: Any, count: int = COUNT) -> list[Any]:
    """Values of the same type, none equal to the real one; fewer where the type has no more."""
    made = [_alter(value, index) for index in range(count)]
    return [decoy for decoy in made if decoy is not None and decoy != value]


def extremes(value: Any) -> list[Any]:
    """Values of the same type that lie far on both sides of any ordinary one."""
    kind = type(value)
    if kind in (int, bool):
        return [-(10**30), 10**30]
    if kind is float:
        return [-1e300, 1e300]
    if kind in (Decimal, Fraction):
        return [kind(-(10**30)), kind(10**30)]
    if kind is str:
        return ["", "\U0010ffff" * 3]
    if kind is bytes:
        return [b"", b"\xff" * 3]
    if kind in (tuple, list) and value and extremes(value[0]):
        low, high = extremes(value[0])
        return [kind(), kind([high, high])] if kind is tuple else [[low], [high, high]]
    if kind is dt.date:
        return [dt.date.min, dt.date.max]
    if kind is dt.datetime:
        return [
            dt.datetime.min.replace(tzinfo=value.tzinfo),
            dt.datetime.max.replace(tzinfo=value.tzinfo),
        ]
    if kind is dt.timedelta:
        return [dt.timedelta.min, dt.timedelta.max]
    return []


def unrelated() -> list[Any]:
    """Values that no object of a program has a reason to equal."""
    number = _random.randrange(10**6, 10**9)
    return [number, f"c{number}", (number, "canary"), {"canary": number}, None]


def shuffled(values: list[Any]) -> list[Any]:
    """A copy in random order."""
    copy = list(values)
    _random.shuffle(copy)
    return copy


def hidden_order(count: int, real: int) -> list[int]:
    """Indices in random order; the real value's is neither first nor last if there are enough.

    Those are the places at which a program would look that keeps what it was asked about.
    """
    order = shuffled(list(range(count)))
    if count > 3 and real in (order[0], order[-1]):
        order.remove(real)
        order.insert(_random.randrange(1, count - 1), real)
    return order


def hidden_among(others: list[Any], real: Any) -> list[Any]:
    """The real value among others, in such an order."""
    values = [*others, real]
    return [values[index] for index in hidden_order(len(values), len(others))]


def _shift(index: int) -> int:
    if index < len(_SHIFTS):
        return _SHIFTS[index]
    far = _FAR[index % len(_FAR)]
    return far if _random.random() < 0.5 else -far


def _alter(value: Any, index: int) -> Any:
    kind = type(value)
    if value is None:
        return (0, "", False)[index % 3]
    if kind is bool:
        return not value
    if kind is int:
        return value + _shift(index)
    if kind in (float, complex):
        return value + _shift(index) * max(1.0, abs(value) / 100)
    if kind in (Decimal, Fraction):
        return value + _shift(index)
    if kind is str:
        return _alter_text(value)
    if kind is bytes:
        return _alter_text(value.decode("latin-1")).encode("latin-1")
    if kind in (list, tuple):
        return kind(_alter_items(list(value), index))
    if kind in (set, frozenset):
        items = list(value)
        if items and index % 2:
            items.pop(_random.randrange(len(items)))
        else:
            items.append(_random.randrange(10**6))
        return kind(items)
    if kind is dict:
        return _alter_dict(value, index)
    if kind is dt.date or kind is dt.datetime:
        return value + dt.timedelta(days=_shift(index))
    if kind is dt.timedelta:
        return value + dt.timedelta(seconds=_shift(index))
    return None


def _alter_text(text: str) -> str:
    letter = _random.choice(_LETTERS)
    if not text:
        return letter
    at = _random.randrange(len(text))
    if text[at].isdigit():
        letter = str(_random.randrange(10))
    return text[:at] + letter + text[at + _random.randrange(2) :]


def _alter_items(items: list[Any], index: int) -> list[Any]:
    if not items or index % 4 == 3:
        return [*items, _random.randrange(1000)]
    at = _random.randrange(len(items))
    other = _alter(items[at], index)
    return [*items[:at], other, *items[at + 1 :]]


def _alter_dict(content: dict[Any, Any], index: int) -> dict[Any, Any]:
    if not content or index % 4 == 3:
        return {**content, _random.randrange(1000): None}
    key = _random.choice(list(content))
    return {**content, key: _alter(content[key], index)}
