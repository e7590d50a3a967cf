"""A plain socket whose reads carry the time their bytes arrived.

On Linux the kernel stamps each received segment (``SO_TIMESTAMPNS``); elsewhere, and under TLS,
the clock is read right after the read returned. Nothing else happens between a read and its stamp.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_benchrig.runtimes import clock
from pytest_benchrig.runtimes.clock import ANCILLARY_BYTES, SO_TIMESTAMPNS, KernelClock, now_ns

if TYPE_CHECKING:
    import ssl

READ_BYTES = 65536
_MAPPING_ERROR_NS = 100_000
_TIMEVAL = struct.Struct("@ll")

Raw: TypeAlias = tuple[bytes, list[tuple[int, int, bytes]], int, int, int]
"""One read as it was: data, ancillary data, clock, wall clock, clock again."""


class Segment(NamedTuple):
    """What one read returned: ``data`` is empty at the end of the stream.

    ``kernel`` says whether ``ns`` is the kernel's stamp or the clock after the read. One is made
    for each token: a named tuple costs a third of a frozen dataclass.
    """

    ns: int
    data: bytes
    kernel: bool


class Connection:
    """One open connection; made by :func:`connect`.

    Attributes:
        connect_ns: How long connecting took, TLS included.
        start_ns: Just before the first byte of the latest request was written.
    """

    def __init__(self, sock: socket.socket, connect_ns: int, *, tls: bool = False) -> None:
        self._sock = sock
        self.connect_ns = connect_ns
        self.start_ns = 0
        self._stamped = clock.KERNEL_STAMPS_OFFERED and not tls
        self._clock = KernelClock()
        self._clock.prime()
        self._latest_ns = 0
        self._patience_ns = 0

    @classmethod
    def accepted(cls, sock: socket.socket) -> Connection:
        """The serving end of a connection, stamped like the other."""
        _ask_for_stamps(sock)
        return cls(sock, 0)

    def send(self, data: bytes, timeout_sec: float) -> None:
        """Write everything.

        Raises:
            TimeoutError: The peer did not take it in time.
            OSError: The connection is gone.
        """
        self._patience_ns = 0
        self._sock.settimeout(max(timeout_sec, 0.001))
        self._clock.prime()
        self.start_ns = self._latest_ns = now_ns()
        self._sock.sendall(data)

    def wait_at_most(self, ns: int) -> None:
        """How long :meth:`receive` waits for bytes; what already waits is always read.

        Where the kernel keeps the time, a read is one system call instead of two.
        """
        ns = max(ns, 1_000_000)
        if ns == self._patience_ns:
            return
        self._patience_ns = ns
        if self._stamped:
            self._sock.settimeout(None)
            timeval = _TIMEVAL.pack(ns // 1_000_000_000, ns % 1_000_000_000 // 1000)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        else:
            self._sock.settimeout(ns / 1e9)

    def receive(self) -> Raw:
        """The next bytes, as soon as there are any; to be stamped later by :meth:`segment`.

        This runs between tokens, when the caches are cold, so it does as little as it can.

        Raises:
            TimeoutError: Nothing came in time; also as ``BlockingIOError``.
            OSError: The connection is gone.
        """
        if self._stamped:
            data, ancillary, _, _ = self._sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
            return data, ancillary, now_ns(), time.time_ns(), now_ns()
        data = self._sock.recv(READ_BYTES)
        ns = now_ns()
        return data, [], ns, 0, ns

    def collect(
        self, backlog: list[Raw], tails: tuple[bytes, ...], until_ns: int, room: int
    ) -> int:
        """Keep reads in ``backlog`` as long as they end with a tail; the last one kept does not.

        As :meth:`receive` in a loop, for the time between tokens: what is done here for each of
        them runs on cold caches and costs ten times what it costs in a row.

        Args:
            backlog: Gets the reads.
            tails: How segments end that are followed by another.
            until_ns: A read after this time is the last.
            room: So many bytes may come; the read that exceeds them is the last.

        Returns:
            The room that is left.

        Raises:
            TimeoutError: Nothing came in time; also as ``BlockingIOError``.
            OSError: The connection is gone.
        """
        keep = backlog.append
        if not self._stamped:
            while True:
                raw = self.receive()
                keep(raw)
                room -= len(raw[0])
                if not raw[0].endswith(tails) or raw[2] > until_ns or room < 0:
                    return room
        recvmsg, clock_ns, wall_ns = self._sock.recvmsg, now_ns, time.time_ns
        while True:
            data, ancillary, _, _ = recvmsg(READ_BYTES, ANCILLARY_BYTES)
            ns = clock_ns()
            keep((data, ancillary, ns, wall_ns(), clock_ns()))
            room -= len(data)
            if not data.endswith(tails) or ns > until_ns or room < 0:
                return room

    def segment(self, raw: Raw) -> Segment:
        """The read with its arrival; reads are given in the order they were made."""
        data, ancillary, before, wall, after = raw
        stamp = self._clock.arrival(ancillary, socket.SOL_SOCKET, before, wall, after)
        if stamp is None or stamp > before or stamp < self._latest_ns - _MAPPING_ERROR_NS:
            self._latest_ns = max(before, self._latest_ns)
            return Segment(self._latest_ns, data, False)
        self._latest_ns = max(stamp, self._latest_ns)
        return Segment(self._latest_ns, data, True)

    def is_stale(self) -> bool:
        """Whether an idle connection was closed by the server or has unasked bytes waiting."""
        pending: Callable[[], int] | None = getattr(self._sock, "pending", None)
        if pending is not None and pending():  # of TLS: bytes that were decrypted already
            return True
        try:
            readable, _, _ = select.select([self._sock], [], [], 0)
        except ValueError:  # a descriptor above FD_SETSIZE cannot be asked
            return True
        return bool(readable)

    def close(self) -> None:
        """Close at once; a server that still generates for it sees its peer gone."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@dataclass(frozen=True, slots=True)
class Tunnel:
    """An HTTP proxy: where it listens, and the header line that authorises us, or ""."""

    host: str
    port: int
    authorisation: str = ""


class TunnelError(OSError):
    """The proxy did not open the tunnel."""


def connect(
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None,
    timeout_sec: float,
    proxy: Tunnel | None = None,
) -> Connection:
    """Open a connection, each address of the name in turn.

    Raises:
        socket.gaierror: The name is not known.
        ssl.SSLError: TLS could not be agreed.
        TimeoutError: Nobody answered in time.
        OSError: Refused, unreachable, or the proxy's refusal.
    """
    began = now_ns()
    deadline = time.monotonic() + timeout_sec
    where = (proxy.host, proxy.port) if proxy else (host, port)
    sock = _open(where[0], where[1], deadline)
    try:
        if proxy and tls:
            _open_tunnel(sock, host, port, proxy)
        if tls:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock = tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return Connection(sock, now_ns() - began, tls=tls is not None)


def _open(host: str, port: int, deadline: float) -> socket.socket:
    refused: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ask_for_stamps(sock)
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock.connect(address)
        except OSError as problem:
            sock.close()
            refused = problem
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise refused or OSError(f"{host} has no address")


def _ask_for_stamps(sock: socket.socket) -> None:
    """Where the kernel offers none, reads fall back on the clock, and the marks say so."""
    if clock.KERNEL_STAMPS_OFFERED:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def _open_tunnel(sock: socket.socket, host: str, port: int, proxy: Tunnel) -> None:
    name = f"[{host}]" if ":" in host else host
    lines = [f"CONNECT {name}:{port} HTTP/1.1", f"Host: {name}:{port}"]
    if proxy.authorisation:
        lines.append(f"Proxy-Authorization: {proxy.authorisation}")
    sock.sendall("\r\n".join((*lines, "", "")).encode("latin-1"))
    head = b""
    while b"\r\n\r\n" not in head:
        got = sock.recv(1)
        if not got or len(head) > READ_BYTES:
            raise TunnelError("the proxy closed the connection instead of opening a tunnel")
        head += got
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if not status.startswith("HTTP/1.") or status.split(" ")[1:2] != ["200"]:
        raise TunnelError(f"the proxy answered {status!r} to CONNECT")
