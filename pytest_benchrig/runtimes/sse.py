"""Server-sent events from stamped bytes.

Format: the event stream of the WHATWG HTML standard, section "Server-sent events". Lines end with
CR LF, LF or CR and with nothing else: U+2028 and U+0085 are text. Bytes are split, never decoded,
so a character that arrives in two segments cannot break.
"""

from __future__ import annotations

import re

from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.lines import LineSplitter

GARBAGE = "?"
"""Name of the event made from a line that is no field and no comment."""

_BOM = b"\xef\xbb\xbf"
_FIELD_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9_-]*\Z")
_IGNORED = (b"id", b"retry")


class SseParser:
    """Incremental parser: feed stamped bytes, get stamped events.

    An event's stamp is the arrival of the last byte of its last ``data`` line, not of the blank
    line behind it, which some servers send together with the next event.
    """

    def __init__(self, max_line_bytes: int | None = None) -> None:
        self._lines = LineSplitter(max_line_bytes, bare_cr=True)
        self._data: list[bytes] = []
        self._ns = 0
        self._name = ""
        self._at_start = True

    def feed(self, ns: int, data: bytes) -> list[StampedEvent]:
        """The events that these bytes complete.

        Raises:
            LineTooLong: A line is longer than the bound.
        """
        if (
            data[:6] == b"data: "
            and data[-2:] == b"\n\n"
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
            and self._lines.empty
            and not (self._data or self._name)
        ):
            # Nearly every read is one event of one line.
            self._lines.check(len(data) - 2)
            self._at_start = False
            return [StampedEvent(ns, data[6:-2])]
        events: list[StampedEvent] = []
        for line_ns, line in self._lines.feed(ns, data):
            self._line(line_ns, line, events)
        return events

    def close(self) -> list[StampedEvent]:
        """The event that the end of the stream completes: some servers leave out the blank line."""
        events: list[StampedEvent] = []
        for line_ns, line in self._lines.close():
            self._line(line_ns, line, events)
        self._dispatch(events)
        return events

    def _line(self, ns: int, line: bytes, events: list[StampedEvent]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        if line[:1] == b":":
            return
        name, colon, value = line.partition(b":")
        if colon and value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._ns = ns
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"error" and colon:
            events.append(StampedEvent(ns, value, "error"))
        elif name not in _IGNORED and not (colon and _FIELD_NAME.match(name)):
            events.append(StampedEvent(ns, line, GARBAGE))

    def _dispatch(self, events: list[StampedEvent]) -> None:
        if self._data:
            events.append(StampedEvent(self._ns, b"\n".join(self._data), self._name))
            self._data = []
        self._name = ""
