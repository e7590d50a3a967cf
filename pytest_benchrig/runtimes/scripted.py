"""A server that streams on an exact schedule and logs when it really sent what.

It runs as a process of its own on loopback; its log is on the same monotonic clock as the client's
marks, so that each figure of the client can be compared with the truth. It is the reference of the
calibration, of ``benchmarks/timing.py`` and of the tests.

Run ``python -m pytest_benchrig.runtimes.scripted``: it prints its port and serves until standard
input closes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.runtimes.clock import now_ns
from pytest_benchrig.runtimes.schedule import Dialect, Schedule, Send, plan
from pytest_benchrig.runtimes.transport import Connection

_DAY_NS = 86_400_000_000_000
SPIN_NS = 700_000
"""The last stretch before a send is waited out awake: sleeping is late by up to 0.1 ms and more."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server really did for one request; all in ns of the common clock.

    Attributes:
        model: The schedule's words.
        request_ns: Arrival of the request's last segment.
        sends: For each write: kind, the time just before it, tokens complete with it.
    """

    model: str
    request_ns: int
    sends: tuple[tuple[str, int, int], ...]

    @property
    def token_ns(self) -> list[int]:
        """The writes that completed at least one token."""
        return [ns for kind, ns, tokens in self.sends if kind == "token" and tokens]

    @property
    def ttft_sec(self) -> float:
        """First token minus the request's arrival."""
        return (self.token_ns[0] - self.request_ns) / 1e9

    @property
    def decode_tok_per_sec(self) -> float:
        """Tokens after the first write of tokens, over the time from it to the last."""
        sizes = [tokens for kind, _, tokens in self.sends if kind == "token" and tokens]
        times = self.token_ns
        return (sum(sizes) - sizes[0]) / ((times[-1] - times[0]) / 1e9)


class ScriptedServer:
    """The handle of a scripted server in a child process; use :func:`scripted_server`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.pid = process.pid

    def truths(self) -> list[Truth]:
        """Every request played since the last call, oldest first."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            sock.sendall(b"GET /log HTTP/1.0\r\n\r\n")
            data = b""
            while piece := sock.recv(65536):
                data += piece
        entries = json.loads(data.partition(b"\r\n\r\n")[2])
        return [
            Truth(e["model"], e["request_ns"], tuple((k, n, t) for k, n, t in e["sends"]))
            for e in entries
        ]


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Start the server in a child process; it ends with the block, or with this process.

    Raises:
        RuntimeFault: ``start`` where it did not come up.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_benchrig.runtimes.scripted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        if process.stdout is None or process.stdin is None:
            raise TypeError("the child's pipes are missing")
        line = process.stdout.readline().strip()
        if not line.isdigit():
            raise RuntimeFault(
                "start",
                f"the scripted server did not start (exit status {process.wait(timeout=5)})",
                phase="start",
                remedy="See what it wrote above",
            )
        yield ScriptedServer(process, int(line))
    finally:
        process.stdin.close() if process.stdin else None
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


class _Player:
    """Answers connections; one thread each."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = models
        self._log: list[dict[str, JsonValue]] = []
        self._seen: set[str] = set()
        self._refusals: dict[str, int] = {}

    def serve(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection.accepted(sock)
        connection.wait_at_most(_DAY_NS)
        try:
            while self._answer(sock, connection):
                pass
        except (OSError, ValueError):
            return  # the client went away, or is none
        finally:
            sock.close()

    def _answer(self, sock: socket.socket, connection: Connection) -> bool:
        head, body, ns = _read_request(connection)
        if not head:
            return False
        path = head.split(b" ", 2)[1].decode("latin-1").split("?")[0]
        if path == "/log":
            log, self._log = self._log, []
            self._reply(sock, 200, log)
            return False
        if path == "/v1/models":
            listed = [{"id": name, "object": "model"} for name in self._models]
            self._reply(sock, 200, {"object": "list", "data": listed})
            return False
        request = json.loads(body)
        dialect: Dialect = "ollama" if path.startswith("/api/") else "openai"
        return self._play(sock, dialect, request, ns, body)

    def _play(
        self,
        sock: socket.socket,
        dialect: Dialect,
        request: dict[str, JsonValue],
        ns: int,
        body: bytes,
    ) -> bool:
        model = str(request.get("model", ""))
        try:
            schedule = Schedule.parse(model)
        except ValueError as problem:
            self._reply(sock, 404, {"error": {"message": f"model not found: {problem}"}})
            return False
        key = body.decode("utf-8", "replace")
        cached = key in self._seen and schedule.cttft is not None
        self._seen.add(key)
        if schedule.err is not None and self._refusals.get(model, 0) < schedule.errx:
            self._refusals[model] = self._refusals.get(model, 0) + 1
            self._reply(sock, schedule.err, {"error": {"message": "scripted"}}, schedule.ra)
            return False
        entry: dict[str, JsonValue] = {"model": model, "request_ns": ns, "sends": []}
        self._log.append(entry)
        self._stream(sock, schedule, plan(schedule, dialect, model, cached=cached), entry, dialect)
        return not schedule.raw and schedule.ka == 1 and schedule.drop is None

    def _stream(
        self,
        sock: socket.socket,
        schedule: Schedule,
        sends: list[Send],
        entry: dict[str, JsonValue],
        dialect: Dialect,
    ) -> None:
        media = "application/x-ndjson" if dialect == "ollama" else "text/event-stream"
        lines = [f"HTTP/1.{0 if schedule.raw else 1} 200 OK", f"Content-Type: {media}"]
        if not schedule.raw:
            lines.append("Transfer-Encoding: chunked")
        if schedule.raw or not schedule.ka:
            lines.append("Connection: close")
        head = "\r\n".join((*lines, "", "")).encode()
        start = entry["request_ns"]
        log = entry["sends"]
        if schedule.hdr is not None:
            _wait_until(start + int(schedule.hdr * 1e6))
            log.append(("head", now_ns(), 0))
            sock.sendall(head)
            head = b""
        for send in sends:
            data = send.data if schedule.raw else b"%x\r\n%b\r\n" % (len(send.data), send.data)
            _wait_until(start + int(send.at * 1e6))
            sent = now_ns()
            sock.sendall(head + data)
            log.append((send.kind, sent, send.tokens))
            head = b""
        if not schedule.raw and schedule.drop is None:
            sock.sendall(b"0\r\n\r\n")

    def _reply(
        self, sock: socket.socket, status: int, value: JsonValue, retry_after: int | None = None
    ) -> None:
        body = json.dumps(value).encode()
        retry = f"Retry-After: {retry_after}\r\n" if retry_after is not None else ""
        head = (
            f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        sock.sendall(head.encode() + body)


def _read_request(connection: Connection) -> tuple[bytes, bytes, int]:
    """Head, body and the arrival of the last segment; empty at the end of the connection."""
    data = b""
    ns = now_ns()
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        if found:
            length = 0
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.strip().lower() == b"content-length":
                    length = int(value)
            if len(body) >= length:
                return head, body[:length], ns
        segment = connection.segment(connection.receive())
        if not segment.data:
            return b"", b"", ns
        data += segment.data
        ns = segment.ns


def _wait_until(ns: int) -> None:
    """Sleep most of the way, then spin."""
    while (left := ns - now_ns()) > 0:
        if left > SPIN_NS:
            time.sleep((left - SPIN_NS) / 1e9)


def main() -> None:
    """Serve on a free port, print it, and end with standard input; arguments are models listed."""
    player = _Player(sys.argv[1:])
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()

        def accept() -> None:
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=player.serve, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
