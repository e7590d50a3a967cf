"""The one thread that reads the memory of processes while windows are open.

A thread that wakes finds nothing of its own left in the processor's caches, so that whatever it
does costs up to ten times as much as many times in a row: waking alone 50 us of processor time, a
system call 25, a call of a Python function 10. Hence this loop is written out in one function and
calls nothing but the system; what it has read is understood later, by the window.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Watch:
    """What the thread does for one window.

    Attributes:
        readers: Called in every tick, one after the other; each raises ``OSError`` once its process
            has ended.
        record: Takes the moment of the tick (``time.perf_counter``) and then, for each reader, what
            it gave, or ``None`` where it raised.
        full: Called with the moment, instead of a tick, once ``full_at`` has come; it moves that
            on.
        full_at: Seconds of ``time.perf_counter``.
    """

    __slots__ = ("full", "full_at", "readers", "record")

    def __init__(self, record: Callable[[object], None], full: Callable[[float], None]) -> None:
        self.readers: tuple[Callable[[], object], ...] = ()
        self.record = record
        self.full = full
        self.full_at = 0.0


class _Run:
    """One life of the thread: how it is stopped, and what it does when it is done with a watch."""

    __slots__ = ("retired", "stop", "thread")

    def __init__(self) -> None:
        self.stop = threading.Lock()
        self.stop.acquire()
        self.retired: list[Callable[[], None]] = []
        self.thread: threading.Thread | None = None


class Ticker:
    """Ticks every ``interval_sec`` seconds while there is anything to watch; else has no thread."""

    def __init__(self, interval_sec: float) -> None:
        self._pause = min(interval_sec, threading.TIMEOUT_MAX)
        self._lock = threading.Lock()
        self._watches: tuple[Watch, ...] = ()
        self._run: _Run | None = None

    def enter(self, watch: Watch) -> None:
        """Tick for this watch from now on."""
        with self._lock:
            self._watches = (*self._watches, watch)
            if self._run is not None:
                return
            run = self._run = _Run()
            run.thread = threading.Thread(
                target=self._loop, args=(run,), name="benchrig-sampler", daemon=True
            )
            run.thread.start()

    def leave(self, watch: Watch, give_back: Callable[[], None]) -> threading.Thread | None:
        """Stop ticking for it; with the last watch the thread ends, and is then returned.

        A tick may be under way, so it is the thread that calls ``give_back``, when it no longer
        reads: at its end, or at its next tick.
        """
        with self._lock:
            run = self._run
            self._watches = tuple(other for other in self._watches if other is not watch)
            if run is None:
                give_back()
                return None
            run.retired.append(give_back)
            return None if self._watches else self._end(run)

    def close(self) -> None:
        """Drop all watches and wait for the thread, a second at most."""
        with self._lock:
            self._watches = ()
            thread = None if self._run is None else self._end(self._run)
        if thread is not None:
            thread.join(1.0)

    def _end(self, run: _Run) -> threading.Thread | None:
        self._run = None
        run.stop.release()
        return run.thread

    def _loop(self, run: _Run) -> None:
        # A bare lock, asked by position: waking from an Event costs twice as much. The ticks' own
        # time is not made up for, since nothing is gained by an even beat.
        acquire, pause, retired = run.stop.acquire, self._pause, run.retired
        clock = time.perf_counter
        while not acquire(True, pause):
            while retired:
                retired.pop()()
            now = clock()
            for watch in self._watches:
                if now >= watch.full_at:
                    watch.full(now)
                    continue
                record = watch.record
                record(now)
                for read in watch.readers:
                    try:
                        record(read())
                    except OSError:
                        record(None)
        while retired:
            retired.pop()()
