"""One attempt of one timed request: written, read as it arrives, ended by a reply or a fault."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from pytest_benchrig.core.generation import Generation, Request, RuntimeFault
from pytest_benchrig.runtimes.clock import StampedEvent, now_ns
from pytest_benchrig.runtimes.faults import (
    Site,
    decode_json,
    error_in,
    excerpt,
    fault_of_status,
)
from pytest_benchrig.runtimes.framing import (
    END_HINTS,
    EVENT_TAILS,
    JSON_TYPES,
    PARSERS,
    Framing,
    Parser,
)
from pytest_benchrig.runtimes.lines import MAX_LINE_BYTES, LineTooLong
from pytest_benchrig.runtimes.progress import Progress
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage, Reply
from pytest_benchrig.runtimes.transport import Connection, Raw, Segment
from pytest_benchrig.runtimes.wire import Head, ResponseReader, WireError

_LAST_CHUNK = b"0\r\n\r\n"
_IDLE_NS = 250_000_000
_STALE_NS = 500_000_000
_LINGER_NS = 1_000_000_000
_ERROR_BODY_NS = 10_000_000_000
_RECENT = 8


class StaleConnection(Exception):  # noqa: N818 - a signal to the client
    """A kept connection was closed before anything was answered on it."""


class Busy(Exception):  # noqa: N818 - a signal to the client
    """429 or 503; ``fault`` is what it becomes when there are no waits left."""

    def __init__(self, fault: RuntimeFault, headers: Mapping[str, str]) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.headers = headers


class Exchange:
    """Writes one request on an open connection and reads the response into a reply.

    Args:
        site: Where, for faults.
        connection: Open and idle.
        reused: Whether it carried a request before.
        request: Its limits, and whether to stream.
        reply: Filled event by event.
        framing: How events are framed.
        media_types: Content types that are a stream.
        waited_ns: Time already spent waiting on a busy server.
    """

    def __init__(
        self,
        site: Site,
        connection: Connection,
        *,
        reused: bool,
        request: Request,
        reply: Reply,
        framing: Framing,
        media_types: tuple[str, ...],
        waited_ns: int = 0,
    ) -> None:
        self._connection = connection
        self._reused = reused
        self._request = request
        self._reply = reply
        self._parser: Parser = PARSERS[framing]()
        self._hints = END_HINTS[framing]
        self._tails = EVENT_TAILS[framing]
        self._media_types = media_types
        self._reader = ResponseReader()
        self._progress = Progress(
            site,
            request,
            reply,
            connect_ns=None if reused else connection.connect_ns,
            waited_ns=waited_ns,
        )
        self._lost: OSError | None = None
        self._look_ns = 0

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry the next request."""
        return self._reader.reusable

    def run(self, message: bytes) -> Generation:
        """Send the message and read to the end of the reply.

        Raises:
            StaleConnection: The server had closed the kept connection; nothing was answered.
            Busy: 429 or 503.
            RuntimeFault: Anything else but a complete reply.
        """
        head, body = self._send(message)
        if head.status in (429, 503) or not 200 <= head.status < 300:
            raise self._refused(head, body)
        if not self._request.stream:
            return self._whole(head, body)
        if head.content_type and head.content_type not in self._media_types:
            raise self._no_stream(head, body)
        return self._stream(body)

    def _send(self, message: bytes) -> tuple[Head, bytes]:
        """Write the request, read the head; with it come the first bytes of the body."""
        limit = self._request.timeout_sec
        broken: OSError | None = None
        try:
            self._connection.send(message, limit)
        except TimeoutError:
            self._begin()
            raise self._progress.fault(
                "timeout",
                f"the server did not take the request within {limit:g} s",
                "Check whether the server hangs",
                phase="request",
            ) from None
        except OSError as problem:
            broken = problem  # a server may answer and close before it has read a large body
        self._begin()
        while True:
            read = self._read(self._progress.total_ns, broken)
            if read is None:
                raise self._progress.cut("the connection was closed without a response")
            if self._reader.head is not None:
                self._progress.headers_ns = self._progress.last_ns
                return self._reader.head, read

    def _begin(self) -> None:
        self._progress.begin(self._connection.start_ns)
        self._look_ns = self._connection.start_ns + self._progress.stall_ns

    def _stream(self, body: bytes) -> Generation:
        self._feed(body)
        while not self._reader.done and not self._reply.ended:
            closed = self._digest(self._collect())
            if closed:
                break
            if (
                now_ns() > self._progress.deadline_ns
                and not self._reader.done
                and not self._reply.ended
            ):
                raise self._progress.late()
        if self._reply.ended:
            self._linger()
        else:
            self._events(self._parser.close())
        if not self._reply.complete:
            raise self._progress.cut(
                "the stream ended with [DONE] but without a finish reason"
                if self._reply.ended
                else "the stream ended without its terminal signal"
            )
        return self._progress.partial()

    def _collect(self) -> list[Raw]:
        """Read until there is something to look at, and look at nothing until then.

        Parsing between two tokens runs on cold caches and costs ten times what it costs in a row.
        So reads are kept as they are until the stream seems to end or falls silent, or so much
        has come that the bounds have to be checked.
        """
        connection = self._connection
        backlog: list[Raw] = []
        total_ns = self._progress.total_ns
        look_ns = min(self._look_ns, total_ns)
        room = MAX_LINE_BYTES
        connection.wait_at_most(min(_IDLE_NS, self._progress.deadline_ns - now_ns()))
        try:
            while True:
                room = connection.collect(backlog, self._tails, look_ns, room)
                data, _, ns, _, _ = backlog[-1]
                if data.endswith(_LAST_CHUNK) or not data or room < 0:
                    break
                if ns > look_ns:
                    if ns > total_ns or not _flows(backlog):
                        break
                    look_ns = min(ns + self._progress.stall_ns, total_ns)
                if any(hint in data for hint in self._hints):
                    break
        except (TimeoutError, BlockingIOError):
            pass  # silence: the time to look at what has come
        except OSError as problem:
            self._lost = problem
        return backlog

    def _digest(self, backlog: list[Raw]) -> bool:
        """Parse what was collected; whether the peer has closed."""
        for raw in backlog:
            segment = self._connection.segment(raw)
            if not segment.data:
                if not self._reply.ended:
                    self._end()
                return True
            self._feed(self._arrived(segment))
        if self._lost is not None:
            raise self._progress.cut(f"the connection was cut ({self._lost})")
        self._look_ns = (self._progress.token_ns or now_ns()) + self._progress.stall_ns
        return False

    def _feed(self, body: bytes) -> None:
        try:
            events = self._parser.feed(self._progress.last_ns, body)
        except LineTooLong as problem:
            raise self._progress.fault(
                "broken_stream",
                str(problem),
                "Check that the address is the model server's",
            ) from None
        self._events(events)

    def _events(self, events: list[StampedEvent]) -> None:
        reply = self._reply
        before = len(reply.arrivals)
        for event in events:
            if reply.ended:
                break
            try:
                reply.feed(event)
            except ErrorInStream as problem:
                raise self._progress.stream_error(problem.error) from None
            except Garbage as problem:
                raise self._progress.fault(
                    "broken_stream",
                    f"the stream holds a line that is no event: {problem}",
                    "Check the runtime's name, and what stands between it and the server",
                ) from None
        new = len(reply.arrivals) - before
        if new:
            self._progress.tokens(new)

    def _linger(self) -> None:
        """After the terminal event: read what ends the body, so that the connection can be kept."""
        limit = now_ns() + _LINGER_NS
        while not self._reader.done and (left := limit - now_ns()) > 0:
            self._connection.wait_at_most(left)
            try:
                segment = self._connection.segment(self._connection.receive())
                if not segment.data:
                    return
                self._reader.feed(segment.data)
            except (OSError, WireError):
                return  # the reply is complete; only the connection is lost
            if self._reader.done:
                self._progress.last_ns = segment.ns

    def _whole(self, head: Head, body: bytes) -> Generation:
        data = self._body(body)
        value = decode_json(data)
        if not isinstance(value, dict):
            raise self._progress.fault(
                "broken_stream",
                f"expected a JSON object, got {head.content_type or 'no content type'}: "
                f"{excerpt(data)!r}",
                "Check the runtime's name and --benchrig-base-url",
                phase="request",
                status=head.status,
            )
        self._reply.body = data
        self._take_whole(value)
        if not self._reply.complete:
            raise self._progress.cut("the reply has no finish reason")
        return self._progress.partial()

    def _take_whole(self, value: Mapping[str, object]) -> None:
        error = error_in(value)
        if error is not None:
            raise self._progress.stream_error(error)
        try:
            self._reply.whole(value)
        except ErrorInStream as problem:
            raise self._progress.stream_error(problem.error) from None
        except Garbage as problem:
            raise self._progress.fault(
                "broken_stream",
                f"the reply is not what this runtime sends: {problem}",
                "Check the runtime's name and --benchrig-base-url",
                phase="request",
            ) from None

    def _no_stream(self, head: Head, body: bytes) -> RuntimeFault:
        """A 200 that is no stream: an error object, a whole reply, or something else entirely."""
        data = self._error_body(body)
        value = decode_json(data)
        if isinstance(value, dict) and head.content_type in JSON_TYPES:
            self._take_whole(value)
            return self._progress.fault(
                "broken_stream",
                "the server answered in one piece although a stream was asked for, "
                "so that nothing can be timed",
                "Turn streaming on in the server or whatever stands before it",
                phase="prefill",
                status=head.status,
            )
        return self._progress.fault(
            "broken_stream",
            f"expected {self._media_types[0]}, got {head.content_type}: {excerpt(data)!r}",
            "Check that the address is the model server's",
            phase="prefill",
            status=head.status,
        )

    def _refused(self, head: Head, body: bytes) -> RuntimeFault | Busy:
        data = self._error_body(body)
        fault = fault_of_status(
            self._progress.site, head.status, head.headers, data, phase="request"
        )
        fault.partial = self._progress.partial()
        return Busy(fault, head.headers) if fault.kind == "busy" else fault

    def _body(self, body: bytes) -> bytes:
        """The whole body."""
        pieces = [body]
        while not self._reader.done:
            piece = self._read(self._progress.total_ns)
            if piece is None:
                break
            pieces.append(piece)
        return b"".join(pieces)

    def _error_body(self, body: bytes) -> bytes:
        """What comes of a body that only explains: cut, late or too long, it explains enough."""
        pieces = [body]
        limit = min(self._progress.total_ns, now_ns() + _ERROR_BODY_NS)
        with contextlib.suppress(RuntimeFault):
            while not self._reader.done and sum(map(len, pieces)) < MAX_LINE_BYTES:
                piece = self._read(limit)
                if piece is None:
                    break
                pieces.append(piece)
        return b"".join(pieces)

    def _read(self, deadline_ns: int, broken: OSError | None = None) -> bytes | None:
        """The next bytes of the body, which may be none; ``None`` once the peer has closed."""
        self._connection.wait_at_most(deadline_ns - now_ns())
        try:
            segment = self._connection.segment(self._connection.receive())
        except (TimeoutError, BlockingIOError):
            raise self._progress.late() from None
        except OSError as problem:
            if self._is_stale():
                raise StaleConnection from None
            raise self._progress.cut(f"the connection was cut ({broken or problem})") from None
        if segment.data:
            return self._arrived(segment)
        self._end()
        return None

    def _arrived(self, segment: Segment) -> bytes:
        """Body bytes of a segment, its arrival noted."""
        self._progress.bytes(segment)
        try:
            return self._reader.feed(segment.data)
        except WireError as problem:
            raise self._progress.cut(str(problem)) from None

    def _end(self) -> None:
        """The peer has closed."""
        try:
            self._reader.end()
        except WireError as problem:
            if self._is_stale():
                raise StaleConnection from None
            raise self._progress.cut(str(problem)) from None

    def _is_stale(self) -> bool:
        """Whether the server had closed a kept connection just as we wrote on it.

        Later, the same sign means that it died over this request.
        """
        return (
            self._reused
            and not self._progress.taken
            and now_ns() - self._progress.start_ns < _STALE_NS
        )


def _flows(backlog: list[Raw]) -> bool:
    """Whether the latest reads hold events, not only comments that keep the connection alive."""
    return any(b"{" in raw[0] for raw in backlog[-_RECENT:])
