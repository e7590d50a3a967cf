"""Servers that the tests script: real sockets, and bytes exactly as told."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_benchrig.core.generation import Message, Request, Sampling

DATA = Path(__file__).parent.parent / "data"
CERTIFICATE = DATA / "tls" / "localhost.pem"


@dataclass(frozen=True)
class Canned:
    """One response: its bytes, a write each, and what happens to the connection then.

    ``end``: ``keep`` it for the next request, ``close`` it, ``reset`` it, or ``hang`` until the
    client goes away.
    """

    parts: Sequence[bytes]
    end: str = "close"


class TestServer:
    """A listening socket, a thread for each connection; a test's server says what to answer."""

    __test__ = False

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port = self._listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def answer(self, request: bytes) -> Canned:
        """The response to one request."""
        raise NotImplementedError

    def left_hanging(self) -> None:
        """The client of a request that was left hanging has gone away."""

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self._open.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            while request := _request(sock):
                response = self.answer(request)
                for part in response.parts:
                    sock.sendall(part)
                if response.end == "hang":
                    with contextlib.suppress(ConnectionError):
                        while sock.recv(4096):
                            pass
                    self.left_hanging()
                    return
                if response.end == "reset":
                    linger = struct.pack("ii", 1, 0)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    sock.close()
                    return
                if response.end == "close":
                    sock.shutdown(socket.SHUT_RDWR)
                    sock.close()
                    return


class CannedServer(TestServer):
    """Answers each request, in order, with the next response; the last one is repeated."""

    def __init__(self, responses: Sequence[Canned], tls: ssl.SSLContext | None = None) -> None:
        self.responses = responses
        self.requests: list[bytes] = []
        self.cancelled = threading.Event()
        super().__init__(tls)

    def bodies(self) -> list[dict[str, object]]:
        """The JSON bodies received."""
        return [json.loads(r.partition(b"\r\n\r\n")[2]) for r in self.requests]

    def answer(self, request: bytes) -> Canned:
        response = self.responses[min(len(self.requests), len(self.responses) - 1)]
        self.requests.append(request)
        return response

    def left_hanging(self) -> None:
        self.cancelled.set()


def _request(sock: socket.socket) -> bytes:
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        if found:
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if len(body) >= length:
                return data
        piece = sock.recv(65536)
        if not piece:
            return b""
        data += piece


CannedFactory = Callable[..., CannedServer]
Opener = Callable[..., Any]
"""``opened(LlamaCppRuntime, url, ...)`` makes a runtime that is closed after the test."""


def ask(model: str = "m", **changes: object) -> Request:
    """A request with short limits."""
    values: dict[str, object] = {
        "messages": (Message("user", "Hi"),),
        "sampling": Sampling(num_predict=16),
        "timeout_sec": 20.0,
        "stall_timeout_sec": 10.0,
    }
    return Request(model=model, **{**values, **changes})  # type: ignore[arg-type]


def http(
    body: bytes,
    status: str = "200 OK",
    media: str = "text/event-stream",
    extra: str = "",
    length: int | None = None,
) -> bytes:
    """A response with ``Content-Length``."""
    lines = f"Content-Type: {media}\r\n" if media else ""
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\n{lines}{extra}Content-Length: {size}\r\n\r\n".encode() + body


def as_json(value: object, status: str = "200 OK", extra: str = "") -> Canned:
    """A JSON response."""
    return Canned([http(json.dumps(value).encode(), status, "application/json", extra)])


def chunk(text: str | None = None, finish: str | None = None, **delta: object) -> bytes:
    """An event of a chat completion."""
    if text is not None:
        delta["content"] = text
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "m", "choices": [choice]}).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
GOOD = (chunk("Hello"), chunk(" there"), chunk(finish="stop"), USAGE, DONE)


def framed(*events: bytes, last: bool = True) -> list[bytes]:
    """Events as HTTP chunks, after a head."""
    pieces = [b"%x\r\n%b\r\n" % (len(e), e) for e in events]
    return [CHUNKED, *pieces, *([b"0\r\n\r\n"] if last else [])]


def capture(name: str) -> Canned:
    """A recorded response of a real server, its writes as its reads were."""
    text = (DATA / "captures" / f"{name}.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.split("\n") if line]
    return Canned(
        [
            line["text"].encode() if "text" in line else base64.b64decode(line["b64"])
            for line in lines
            if line["kind"] == "recv"
        ]
    )


def server_tls() -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for localhost that signs itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, DATA / "tls" / "localhost.key")
    return context
