"""Newline-delimited JSON from stamped bytes: a line is an event, blank lines are none."""

from __future__ import annotations

from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.lines import LineSplitter

_BOM = b"\xef\xbb\xbf"


class NdjsonParser:
    """Incremental parser: feed stamped bytes, get stamped events, a line each."""

    def __init__(self, max_line_bytes: int | None = None) -> None:
        self._lines = LineSplitter(max_line_bytes, bare_cr=False)
        self._at_start = True

    def feed(self, ns: int, data: bytes) -> list[StampedEvent]:
        """The lines that these bytes complete.

        Raises:
            LineTooLong: A line is longer than the bound.
        """
        return [
            StampedEvent(line_ns, text)
            for line_ns, line in self._lines.feed(ns, data)
            if (text := self._text(line))
        ]

    def close(self) -> list[StampedEvent]:
        """The last line, where it ends with the stream instead of a newline."""
        return [
            StampedEvent(line_ns, text)
            for line_ns, line in self._lines.close()
            if (text := self._text(line))
        ]

    def _text(self, line: bytes) -> bytes:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        return line.strip(b" \t\r")
