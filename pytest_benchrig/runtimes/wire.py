"""HTTP/1.x responses from bytes as they come: the head, then the body by its framing (RFC 9112)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
_MAX_CHUNK_LINE = 4096
_USUAL_SIZE_LINE = 8


class WireError(Exception):
    """The bytes are no HTTP/1.x response, or end before it does."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers; names in lower case, repeated headers joined by a comma."""

    version: str
    status: int
    reason: str
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; "" if the server sent none."""
        return self.headers.get("content-type", "").split(";")[0].split(",")[0].strip().lower()

    @property
    def keeps_alive(self) -> bool:
        """Whether the server will take another request on this connection."""
        words = {w.strip().lower() for w in self.headers.get("connection", "").split(",")}
        return "close" not in words and (self.version != "HTTP/1.0" or "keep-alive" in words)


class ResponseReader:
    """Feed the bytes of one response; get the body's bytes without their framing.

    Attributes:
        head: Status and headers, ``None`` until they are complete. Interim 1xx heads are skipped.
        done: The body is complete.
        until_close: The body ends with the connection.
    """

    def __init__(self) -> None:
        self.head: Head | None = None
        self.done = False
        self.until_close = False
        self._buffer = b""
        self._left: int | None = None
        self._chunked = False
        self._in_trailer = False
        self._after_chunk = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry the next request."""
        return (
            self.done
            and not self.until_close
            and not self._buffer
            and self.head is not None
            and self.head.keeps_alive
        )

    def feed(self, data: bytes) -> bytes:
        """The body bytes in these bytes.

        Raises:
            WireError: This is not HTTP/1.x, or its framing is broken.
        """
        if self.head is None:
            self._buffer += data
            if not self._read_head():
                return b""
            data, self._buffer = self._buffer, b""
        if self.done:
            self._buffer += data
            return b""
        if self._chunked:
            return self._feed_chunked(data)
        if self._left is None:
            return data
        body, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.done = self._left == 0
        return body

    def end(self) -> None:
        """The peer closed the connection.

        Raises:
            WireError: The response was not complete.
        """
        if self.head is None:
            raise WireError(
                "the connection was closed in the middle of the response head"
                if self._buffer
                else "the connection was closed without a response"
            )
        if self.until_close:
            self.done = True
        if not self.done:
            raise WireError("the connection was closed before the body was complete")

    def _read_head(self) -> bool:
        while True:
            crlf, lf = self._buffer.find(b"\r\n\r\n"), self._buffer.find(b"\n\n")
            ends = [end for end in (crlf + 4 if crlf >= 0 else 0, lf + 2 if lf >= 0 else 0) if end]
            if not ends:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise WireError(f"the response head is longer than {MAX_HEAD_BYTES:,} bytes")
                if not b"HTTP/1."[: len(self._buffer)] == self._buffer[:7]:
                    raise WireError(f"not an HTTP/1.x response: {self._buffer[:60]!r}")
                return False
            end = min(ends)
            head = parse_head(self._buffer[:end])
            self._buffer = self._buffer[end:]
            if head.status >= 200:
                self._begin(head)
                return True

    def _begin(self, head: Head) -> None:
        self.head = head
        encoding = head.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise WireError(f"the body is compressed ({encoding}) although identity was asked for")
        codings = [c.strip().lower() for c in head.headers.get("transfer-encoding", "").split(",")]
        if "chunked" in codings:
            self._chunked = True
        elif head.status in (204, 304):
            self.done = True
        elif "content-length" in head.headers:
            lengths = {v.strip() for v in head.headers["content-length"].split(",")}
            value = lengths.pop()
            if lengths or not (value.isascii() and value.isdigit()):
                raise WireError(f"Content-Length is {head.headers['content-length']!r}")
            self._left = int(value)
            self.done = self._left == 0
        else:
            self.until_close = True

    def _feed_chunked(self, data: bytes) -> bytes:
        if not (self._buffer or self._left or self._after_chunk or self._in_trailer):
            # Nearly every read is one whole chunk.
            end = data.find(b"\r\n")
            size = _chunk_size(data[:end]) if 0 < end <= _USUAL_SIZE_LINE else 0
            if size and len(data) == end + size + 4 and data.endswith(b"\r\n"):
                return data[end + 2 : -2]
        data = self._buffer + data
        self._buffer = b""
        body: list[bytes] = []
        at = 0
        while not self.done:
            if self._left:
                piece = data[at : at + self._left]
                if not piece:
                    break
                body.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._after_chunk = self._left == 0
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._buffer = data[at:]
                if len(self._buffer) > _MAX_CHUNK_LINE:
                    raise WireError("a chunk's size line has no end")
                return b"".join(body)
            line = data[at:end].strip(b"\r")
            at = end + 1
            self._chunk_line(line)
        self._buffer = data[at:]
        return b"".join(body)

    def _chunk_line(self, line: bytes) -> None:
        if self._after_chunk:
            if line:
                raise WireError(f"a chunk is longer than its stated size: {line[:40]!r}")
            self._after_chunk = False
        elif self._in_trailer:
            self.done = not line
        else:
            size = _chunk_size(line.split(b";")[0].strip())
            if size is None:
                raise WireError(f"not a chunk size: {line[:40]!r}")
            self._left = size
            self._in_trailer = self._left == 0


def _chunk_size(text: bytes) -> int | None:
    """A chunk's size in hexadecimal, ``None`` for what is none."""
    try:
        return int(text, 16) if text.isalnum() else None
    except ValueError:
        return None


def parse_head(data: bytes) -> Head:
    """A response head, the empty line included.

    Raises:
        WireError: It is none.
    """
    lines = data.decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")
    version, _, rest = lines[0].partition(" ")
    code, _, reason = rest.strip().partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdigit():
        raise WireError(f"not an HTTP/1.x status line: {lines[0][:80]!r}")
    headers: dict[str, str] = {}
    last = ""
    for line in lines[1:]:
        if line[:1] in (" ", "\t") and last:
            headers[last] += " " + line.strip()
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise WireError(f"not a header line: {line[:80]!r}")
        last = name.strip().lower()
        value = value.strip()
        headers[last] = f"{headers[last]}, {value}" if last in headers else value
    return Head(version, int(code), reason.strip(), headers)
