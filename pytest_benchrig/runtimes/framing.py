"""The two framings of a stream, and how each is told from anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.ndjson import NdjsonParser
from pytest_benchrig.runtimes.sse import SseParser

Framing: TypeAlias = Literal["sse", "ndjson"]

MEDIA_TYPES: Mapping[Framing, tuple[str, ...]] = {
    "sse": ("text/event-stream",),
    "ndjson": ("application/x-ndjson", "application/ndjson", "application/jsonl"),
}
JSON_TYPES = ("application/json", "text/json", "application/problem+json")
PARSERS: Mapping[Framing, type[SseParser] | type[NdjsonParser]] = {
    "sse": SseParser,
    "ndjson": NdjsonParser,
}
END_HINTS: Mapping[Framing, tuple[bytes, ...]] = {
    "sse": (b"[DONE]",),
    "ndjson": (b'"done":true', b'"done": true'),
}
"""Bytes that the last event of a stream holds; others may hold them too."""


EVENT_TAILS: Mapping[Framing, tuple[bytes, ...]] = {
    "sse": (b"}\n\n\r\n", b"}\n\n", b"}\r\n\r\n\r\n", b"}\r\n\r\n"),
    "ndjson": (b"}\n\r\n",),
}
"""How a segment ends that holds whole events, in HTTP chunks or not, the usual way first: another
will follow, or the end of the body. What ends otherwise is looked at more closely."""


class Parser(Protocol):
    """What both framings offer."""

    def feed(self, ns: int, data: bytes) -> list[StampedEvent]:
        """The events that these bytes complete."""
        ...

    def close(self) -> list[StampedEvent]:
        """The event that the end completes."""
        ...
