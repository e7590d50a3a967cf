"""Lines from stamped bytes, bounded in length."""

from __future__ import annotations

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line of a stream: four orders above a token's event, far below what fills a memory."""


class LineTooLong(Exception):  # noqa: N818 - named for what it reports
    """A line exceeded the bound; ``limit`` in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a line of the stream is longer than {limit:,} bytes")
        self.limit = limit


class LineSplitter:
    """Cuts stamped bytes at line ends; each line has the stamp of its last byte of content.

    Args:
        max_line_bytes: The bound; default :data:`MAX_LINE_BYTES`.
        bare_cr: Whether a CR alone ends a line (SSE) or is content (NDJSON).
    """

    def __init__(self, max_line_bytes: int | None, *, bare_cr: bool) -> None:
        self._limit = MAX_LINE_BYTES if max_line_bytes is None else max_line_bytes
        self._bare_cr = bare_cr
        self._rest: list[bytes] = []
        self._length = 0
        self._rest_ns = 0
        self._skip_lf = False

    def feed(self, ns: int, data: bytes) -> list[tuple[int, bytes]]:
        """The lines that these bytes complete, without their line ends.

        Raises:
            LineTooLong: A line, complete or not, is longer than the bound.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if self._bare_cr and b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pieces = data.split(b"\n")
        last = pieces.pop()
        lines: list[tuple[int, bytes]] = []
        for piece in pieces:
            if self._rest:
                line_ns = ns if piece.strip(b"\r") else self._rest_ns
                self.check(self._length + len(piece))
                lines.append((line_ns, b"".join((*self._rest, piece))))
                self._rest = []
                self._length = 0
            else:
                self.check(len(piece))
                lines.append((ns, piece))
        if last:
            self._rest.append(last)
            self._rest_ns = ns
            self._length += len(last)
            self.check(self._length)
        return lines

    def close(self) -> list[tuple[int, bytes]]:
        """The unfinished line at the end of the stream, if there is one."""
        if not self._rest:
            return []
        rest = [(self._rest_ns, b"".join(self._rest))]
        self._rest = []
        self._length = 0
        return rest

    @property
    def empty(self) -> bool:
        """Whether nothing of an earlier feed still matters to the next line."""
        return not (self._rest or self._skip_lf)

    def check(self, length: int) -> None:
        """Refuse a line of this length.

        Raises:
            LineTooLong: It is longer than the bound.
        """
        if length > self._limit:
            raise LineTooLong(self._limit)
