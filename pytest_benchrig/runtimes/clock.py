"""The one clock of all client marks, and how a kernel stamp becomes a time on it."""

from __future__ import annotations

import struct
import sys
import time
from typing import NamedTuple

now_ns = time.perf_counter_ns
"""The clock of every mark: monotonic, in ns. On Linux it is ``CLOCK_MONOTONIC``, which all
processes of the machine share."""

SO_TIMESTAMPNS = 35
"""Linux socket option and ancillary type (asm-generic/socket.h) that stamps received segments;
the ``socket`` module names it only in recent Pythons."""

KERNEL_STAMPS_OFFERED = sys.platform == "linux"

ANCILLARY_BYTES = 64

_TIMESPEC = struct.Struct("@ll")
_BRACKET_NS = 20_000
_TRIES = 8
_MAX_AGE_NS = 60_000_000_000


class StampedEvent(NamedTuple):
    """One event of a stream with the time its last byte of content arrived.

    One is made for each token: a named tuple costs a third of a frozen dataclass.

    Attributes:
        ns: Arrival on the clock of :func:`now_ns`.
        data: The event's payload, without framing.
        name: The ``event:`` field of SSE, "" where there is none.
    """

    ns: int
    data: bytes
    name: str = ""


class KernelClock:
    """Maps the kernel's stamps, which are wall time, onto :func:`now_ns`.

    Each stamp is mapped through the segment's age at its read, so that a wall clock that is stepped
    or slewed between reads cannot shift the marks.
    """

    def __init__(self) -> None:
        self._offset: int | None = None

    def prime(self) -> None:
        """Learn anew how the clocks stand, for a first read that something interrupts.

        Where every try is interrupted too, the reads will tell.
        """
        for _ in range(_TRIES):
            before, wall, after = now_ns(), time.time_ns(), now_ns()
            if after - before <= _BRACKET_NS:
                self._offset = wall - (before + after) // 2
                return

    def arrival(
        self,
        ancillary: list[tuple[int, int, bytes]],
        level: int,
        before: int,
        wall: int,
        after: int,
    ) -> int | None:
        """The arrival of a segment, ``None`` where its stamp is missing or cannot be mapped.

        Args:
            ancillary: What recvmsg returned beside the data.
            level: ``SOL_SOCKET``.
            before: :func:`now_ns` right after the read.
            wall: ``time.time_ns()`` after that.
            after: :func:`now_ns` after that; the two bracket ``wall``.
        """
        stamp = _stamp_in(ancillary, level)
        if stamp is None:
            return None
        if after - before <= _BRACKET_NS or self._offset is None:
            # An age that no pending segment can have: the wall clock was stepped in between.
            if after - before > _BRACKET_NS or not 0 <= wall - stamp <= _MAX_AGE_NS:
                return None
            self._offset = wall - (before + after) // 2
        return stamp - self._offset


def _stamp_in(ancillary: list[tuple[int, int, bytes]], level: int) -> int | None:
    for kind_level, kind, payload in ancillary:
        if kind_level == level and kind == SO_TIMESTAMPNS and len(payload) >= _TIMESPEC.size:
            seconds, nanos = _TIMESPEC.unpack_from(payload)
            return int(seconds) * 1_000_000_000 + int(nanos)
    return None
