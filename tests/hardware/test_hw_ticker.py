"""The thread that ticks: what it records, and when it lets go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
from pytest_benchrig.hardware.ticker import Ticker, Watch

FAR = float("inf")


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    """A ticker that ticks as fast as it can; its thread ends with the test."""
    fast = Ticker(0.001)
    yield fast
    fast.close()


class Log(list[object]):
    """What was recorded, and a way to wait for the next of it."""

    def __init__(self) -> None:
        super().__init__()
        self.grew = threading.Semaphore(0)

    def append(self, item: object) -> None:
        super().append(item)
        self.grew.release()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.grew.acquire(timeout=60)


def watch(log: Log, *readers: Callable[[], object], full_at: float = FAR) -> Watch:
    made = Watch(log.append, lambda now: log.append(("full", now)))
    made.readers = readers
    made.full_at = full_at
    return made


def ended() -> object:
    raise ProcessLookupError(1)


def nothing() -> None:
    """What a watch without anything open gives back."""


def test_a_tick_is_its_moment_and_what_each_reader_gave(ticker: Ticker) -> None:
    log = Log()
    before = time.perf_counter()
    ticker.enter(watch(log, lambda: "a", ended, lambda: "b"))
    log.wait(8)
    first, second = log[:4], log[4:8]
    assert first[1:] == second[1:] == ["a", None, "b"]
    assert isinstance(first[0], float)
    assert isinstance(second[0], float)
    assert before < first[0] < second[0]


def test_a_full_sample_takes_the_place_of_a_tick_once_its_time_has_come(ticker: Ticker) -> None:
    log = Log()
    made = watch(log, lambda: "read", full_at=0.0)

    def full(now: float) -> None:
        made.full_at = FAR
        log.append(("full", now))

    made.full = full
    ticker.enter(made)
    log.wait(3)
    assert isinstance(log[0], tuple)
    assert log[2] == "read"


def test_what_is_read_is_given_back_only_after_the_reading(ticker: Ticker) -> None:
    """Else a descriptor could be another file's when the thread comes to read it."""
    log = Log()
    reading, go_on = threading.Event(), threading.Event()

    def slow() -> object:
        reading.set()
        assert go_on.wait(60)
        return "still open"

    made = watch(log, slow)
    ticker.enter(made)
    assert reading.wait(60)
    thread = ticker.leave(made, lambda: log.append("given back"))
    assert "given back" not in log
    go_on.set()
    assert thread is not None
    thread.join(60)
    assert log[1:] == ["still open", "given back"]


def test_who_leaves_is_given_back_while_others_go_on(ticker: Ticker) -> None:
    stays, leaves = Log(), Log()
    staying, leaving = watch(stays), watch(leaves)
    ticker.enter(staying)
    ticker.enter(leaving)
    leaves.wait(1)
    given = threading.Event()
    assert ticker.leave(leaving, given.set) is None
    assert given.wait(60)
    count = len(leaves)
    stays.wait(len(stays) + 2)
    assert len(leaves) == count


def test_the_thread_ends_with_the_last_and_begins_anew(
    ticker: Ticker, threads: Callable[[], list[str]]
) -> None:
    for _ in range(2):
        log = Log()
        made = watch(log)
        ticker.enter(made)
        log.wait(1)
        thread = ticker.leave(made, nothing)
        assert thread is not None
        thread.join(60)
        assert "benchrig-sampler" not in threads()


def test_a_thread_that_sleeps_long_is_woken_to_end() -> None:
    sleeper = Ticker(3600)
    made = watch(Log())
    sleeper.enter(made)
    thread = sleeper.leave(made, nothing)
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()


def test_leaving_a_closed_ticker_gives_back_at_once() -> None:
    sleeper = Ticker(3600)
    made = watch(Log())
    sleeper.enter(made)
    sleeper.close()
    given = threading.Event()
    assert sleeper.leave(made, given.set) is None
    assert given.is_set()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_windows_leave_no_descriptor_open() -> None:
    serving = Serving("own", (os.getpid(), os.getppid()))
    sampler = Sampler(60, sensors=[])

    def opened() -> list[str]:
        return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 (names are all that is wanted)

    before = opened()
    outer = sampler.window(serving).open()
    sampler.window(serving).open().close()
    assert len(opened()) > len(before)
    outer.close()
    sampler.close()
    left = [fd for fd in opened() if fd not in before]
    assert not left


@pytest.mark.parametrize("ticks", [1, 5])
def test_the_ticks_of_a_window_are_its_samples(this_process: Serving, ticks: int) -> None:
    """Driven by hand, so that exactly as many ticks come as are asked for."""

    class ByHand(Ticker):
        def enter(self, watch: Watch) -> None:
            self.watch = watch

    with Sampler(60, sensors=[], keep_samples=True) as sampler:
        sampler.ticker = by_hand = ByHand(60)
        window = sampler.window(this_process).open()
        made = by_hand.watch
        for _ in range(ticks):
            made.record(time.perf_counter())
            for read in made.readers:
                made.record(read())
        made.record(time.perf_counter())  # a tick that is under way at the close
        report = window.close()
    assert report.sample_count == ticks + 2
    sizes = [s["server_rss_mb"] for s in report.samples if "server_rss_mb" in s]
    assert len(sizes) == ticks + 2
    assert min(sizes) > 1


SAMPLED = """
import os, sys, threading
from pytest_benchrig.hardware.readings import SlowReading
from pytest_benchrig.hardware.sampler import Sampler, known_sensors
from pytest_benchrig.hardware.serving import Serving

class Told:
    name, cadence_sec = "told", 0.001
    readings = threading.Semaphore(0)
    def probe(self): pass
    def read(self):
        self.readings.release()
        return SlowReading()

starts = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
starts.add("subprocess.Popen")
started = []
with Sampler(0.001, sensors=[*known_sensors(), Told()]) as sampler:
    sys.addaudithook(lambda event, _: event in starts and started.append(event))
    with sampler.window(Serving("own", (os.getpid(),))):
        for _ in range(10):
            Told.readings.acquire()
print(started)
os.system("true")
print(started)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="on macOS programs tell the GPU")
def test_no_process_is_started_for_a_sample() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAMPLED], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "['os.system']"]
