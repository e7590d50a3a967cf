"""The one clock of all client marks, and how a kernel stamp becomes a time on it."""

from __future__ import annotations

import struct
import sys
import time
from dataclasses import dataclass

now_ns = time.perf_counter_ns
"""The clock of every mark: monotonic, in ns. On Linux it is ``CLOCK_MONOTONIC``, which all
processes of the machine share."""

SO_TIMESTAMPNS = 35
"""Linux socket option and ancillary type (asm-generic/socket.h) that stamps received segments;
the ``socket`` module names it only in recent Pythons."""

KERNEL_STAMPS_OFFERED = sys.platform == "linux"

_TIMESPEC = struct.Struct("@ll")
ANCILLARY_BYTES = 64
_BRACKET_NS = 20_000
_MAX_AGE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class StampedEvent:
    """One event of a stream with the time its last byte of content arrived.

    Attributes:
        ns: Arrival on the clock of :func:`now_ns`.
        data: The event's payload, without framing.
        name: The ``event:`` field of SSE, "" where there is none.
    """

    ns: int
    data: bytes
    name: str = ""


def kernel_ns(ancillary: list[tuple[int, int, bytes]], level: int) -> int | None:
    """The segment's arrival on :func:`now_ns` from recvmsg's ancillary data, ``None`` without one.

    The kernel stamps with the wall clock. Each stamp is mapped on its own through the segment's
    age, so that a wall clock that is stepped or slewed between reads cannot shift the marks; an
    age that no pending segment can have means that it was stepped in between.
    """
    for kind_level, kind, payload in ancillary:
        if kind_level == level and kind == SO_TIMESTAMPNS and len(payload) >= _TIMESPEC.size:
            seconds, nanos = _TIMESPEC.unpack_from(payload)
            stamp = seconds * 1_000_000_000 + nanos
            for _ in range(5):
                before = now_ns()
                wall = time.time_ns()
                after = now_ns()
                if after - before <= _BRACKET_NS:
                    break
            else:
                return None
            age = wall - stamp
            return (before + after) // 2 - age if 0 <= age <= _MAX_AGE_NS else None
    return None
