"""The timed half of HTTP: requests to one endpoint over a connection that is kept between them.

Everything that costs time is done before the clock starts: the connection is open, the body is
serialised. Between the first byte of the request and the first token this thread waits in the
kernel and nowhere else; events are parsed from bytes that already carry their stamp.
"""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping

from pytest_benchrig.core.generation import Generation, JsonValue, Request, RuntimeFault
from pytest_benchrig.runtimes.address import Endpoint, ca_file, proxy_of, tls_context, tunnel_of
from pytest_benchrig.runtimes.clock import StampedEvent, now_ns
from pytest_benchrig.runtimes.exchange import Busy, Exchange, StaleConnection
from pytest_benchrig.runtimes.faults import fault_of_connect
from pytest_benchrig.runtimes.framing import JSON_TYPES, MEDIA_TYPES, Framing
from pytest_benchrig.runtimes.http import CONNECT_TIMEOUT_SEC
from pytest_benchrig.runtimes.redact import without_secrets
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage, Reply, decode_event
from pytest_benchrig.runtimes.retry import MAX_WAITS, wait_sec
from pytest_benchrig.runtimes.transport import Connection, Tunnel, connect

__all__ = [
    "ErrorInStream",
    "Framing",
    "Garbage",
    "Reply",
    "StampedEvent",
    "StreamClient",
    "decode_event",
]

RESENT_NOTE = "the server had closed the kept connection; the request was sent again on a new one"


class StreamClient:
    """Timed requests to one endpoint.

    Args:
        endpoint: Where.
        target: ``runtime:model``, for faults.
        wait: Called with the seconds to wait on a busy server.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        target: str = "",
        *,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.site = endpoint.site(target)
        self._wait = wait
        self._idle: Connection | None = None

    def post(
        self,
        path: str,
        body: Mapping[str, JsonValue],
        make_reply: Callable[[], Reply],
        request: Request,
        *,
        framing: Framing = "sse",
        media_types: tuple[str, ...] = (),
    ) -> Generation:
        """Send one request and read its reply to the end, timed.

        With ``request.stream`` the reply is read event by event into :meth:`Reply.feed`, else the
        body is read whole and given to :meth:`Reply.whole`. 429 and 503 are waited on at most
        three times, outside the timed span, each time with a new reply. An interrupted request is
        cancelled by closing its connection.

        Args:
            path: From the server's root, such as ``/api/chat``; the prefix is not added.
            body: The JSON body.
            make_reply: Gives the reply object to fill.
            request: Its limits and whether to stream.
            framing: How events are framed.
            media_types: Content types to take for a stream; default :data:`MEDIA_TYPES`.

        Raises:
            RuntimeFault: Anything but a complete reply; ``partial`` holds what had arrived.
        """
        payload = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        accept = media_types or MEDIA_TYPES[framing]
        proxy = proxy_of(self.endpoint)
        tunnel = tunnel_of(proxy) if proxy else None
        message = self._message(path, payload, (*accept, *JSON_TYPES[:1]), tunnel)
        waited_ns = attempt = 0
        notes: list[str] = []
        while True:
            connection, reused = self._take(tunnel)
            reply = make_reply()
            reply.notes.extend(notes)
            exchange = Exchange(
                self.site,
                connection,
                reused=reused,
                request=request,
                reply=reply,
                framing=framing,
                media_types=accept,
                waited_ns=waited_ns,
            )
            try:
                with collector_paused():
                    generation = exchange.run(message)
            except StaleConnection:
                connection.close()
                notes.append(RESENT_NOTE)
            except Busy as busy:
                connection.close()
                if attempt >= MAX_WAITS:
                    raise busy.fault from None
                pause = wait_sec(busy.headers, attempt)
                before = now_ns()
                self._wait(pause)
                waited_ns += now_ns() - before
                attempt += 1
                notes.append(f"the server was busy ({busy.fault.status}); waited {pause:g} s")
            except RuntimeFault as fault:
                connection.close()
                if fault.partial is not None:
                    fault.partial = without_secrets(fault.partial, self.site.secrets)
                raise
            except BaseException:
                connection.close()
                raise
            else:
                self._give_back(connection, exchange.reusable)
                return without_secrets(generation, self.site.secrets)

    def close(self) -> None:
        """Close the kept connection."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.close()

    def _take(self, tunnel: Tunnel | None) -> tuple[Connection, bool]:
        idle, self._idle = self._idle, None
        if idle is not None:
            if not idle.is_stale():
                return idle, True
            idle.close()
        endpoint = self.endpoint
        try:
            tls = tls_context(ca_file()) if endpoint.scheme == "https" else None
            return (
                connect(
                    endpoint.host,
                    endpoint.port,
                    tls=tls,
                    timeout_sec=CONNECT_TIMEOUT_SEC,
                    proxy=tunnel,
                ),
                False,
            )
        except (OSError, UnicodeError) as problem:
            raise fault_of_connect(self.site, problem, CONNECT_TIMEOUT_SEC) from None

    def _give_back(self, connection: Connection, reusable: bool) -> None:
        if reusable and self._idle is None:
            self._idle = connection
        else:
            connection.close()

    def _message(
        self, path: str, payload: bytes, accept: tuple[str, ...], tunnel: Tunnel | None
    ) -> bytes:
        where = path
        headers = dict(self.endpoint.headers)
        if tunnel is not None and self.endpoint.scheme == "http":
            where = f"http://{headers['Host']}{path}"
            if tunnel.authorisation:
                headers["Proxy-Authorization"] = tunnel.authorisation
        headers["Accept"] = ", ".join(accept)
        headers["Content-Type"] = "application/json"
        headers["Content-Length"] = str(len(payload))
        lines = [f"POST {where} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join((*lines, "", "")).encode("latin-1") + payload


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection while a stream is read: a full one can take 50 ms of a large process.

    Reading makes no reference cycles, so nothing is left lying about meanwhile.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
