"""The text of values inside a JSON text, as it was sent: duplicate keys and all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def members(text: str, start: int = 0) -> Iterator[tuple[str, int, int]]:
    """Each member of the object at ``start``: its key, and where its value begins and ends.

    Raises:
        ValueError: There is no well-formed object.
    """
    at = _expect(text, start, "{")
    if text[at : at + 1] == "}":
        return
    while True:
        key, at = _value(text, at)
        at = _expect(text, at, ":")
        begin = at
        _, at = _value(text, at)
        yield str(key), begin, at
        at = _skip(text, at)
        if text[at : at + 1] != ",":
            return
        at = _skip(text, at + 1)


def elements(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Where each element of the array at ``start`` begins and ends.

    Raises:
        ValueError: There is no well-formed array.
    """
    at = _expect(text, start, "[")
    if text[at : at + 1] == "]":
        return
    while True:
        begin = at
        _, at = _value(text, at)
        yield begin, at
        at = _skip(text, at)
        if text[at : at + 1] != ",":
            return
        at = _skip(text, at + 1)


def find(text: str, start: int, *keys: str) -> int | None:
    """Where the value under these keys begins, the last one of each name; ``None`` if missing."""
    at: int | None = start
    for key in keys:
        if at is None or text[at : at + 1] != "{":
            return None
        at = next((b for k, b, _ in reversed(list(members(text, at))) if k == key), None)
    return at


def _value(text: str, at: int) -> tuple[object, int]:
    value, end = _DECODER.raw_decode(text, at)
    return value, end


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
