"""What the hardware sampler costs, and whether it disturbs what it measures.

    python benchmarks/sampler.py [--seconds 10] [--tokens 1500] [--rounds 5] [--json]

Prints the share of a core that the sampler's thread takes at the default interval and at 100 ms,
beside the cheapest threads there can be (one that only sleeps, one that can also be stopped), how
long opening and closing a window take, and by how much the error of inter-token latencies at 1 ms a
token grows with the sampler's thread in this process and with the same sampler in another process.

A thread's own processor clock is read, which does not move while others have the processor, and
conditions take turns within one run, so that a drift of the machine meets them all alike. Ratios
are taken between neighbours in time and given as the median with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving, find_serving

TOKEN_SEC = 0.001

STREAM = """
import socket, struct, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wanted = int(connection.recv(64))
    due = time.perf_counter() + 0.02
    for _ in range(wanted):
        due += float(sys.argv[1])
        while (left := due - time.perf_counter()) > 0:
            if left > 0.0004:
                time.sleep(left - 0.0003)
        connection.sendall(struct.pack("<d", time.perf_counter()))
    connection.close()
"""

ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
window = Sampler(float(sys.argv[2])).window(Serving("own", (int(sys.argv[3]),))).open()
print("ready", flush=True)
sys.stdin.read()
window.close()
"""


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of them lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def program(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python program and the line that it says when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


class Idle:
    """A thread that does nothing at an interval: what no sampler can be below."""

    def __init__(self, interval: float, *, stoppable: bool) -> None:
        self._interval = interval
        self._stop = threading.Lock()
        self._stop.acquire()
        self._going = True
        self.thread = threading.Thread(target=self._wait if stoppable else self._sleep)
        self.thread.start()

    def _sleep(self) -> None:
        sleep, interval = time.sleep, self._interval
        while self._going:
            sleep(interval)

    def _wait(self) -> None:
        acquire, interval = self._stop.acquire, self._interval
        while not acquire(True, interval):
            pass

    def end(self) -> None:
        """Stop the thread and wait for it."""
        self._going = False
        self._stop.release()
        self.thread.join()


def share_of(thread: threading.Thread, seconds: float) -> float:
    """Processor time of a thread in percent of one core, while this one waits."""
    pause = threading.Event()
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    began, at = time.clock_gettime(clock), time.perf_counter()
    pause.wait(seconds)
    return 100 * (time.clock_gettime(clock) - began) / (time.perf_counter() - at)


def share_of_the_sampler(serving: Serving, interval: float, seconds: float) -> float:
    """The share of the thread that ticks, in a window that is open for long."""
    with Sampler(interval, sensors=()) as sampler, sampler.window(serving):
        [thread] = [t for t in threading.enumerate() if t.name == "benchrig-sampler"]
        return share_of(thread, seconds)


def share_of_the_idle(interval: float, seconds: float, *, stoppable: bool) -> float:
    """The share of a thread that wakes as often and does nothing."""
    idle = Idle(interval, stoppable=stoppable)
    try:
        return share_of(idle.thread, seconds)
    finally:
        idle.end()


def shares(serving: Serving, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Percent of a core of each thread, in turns."""
    measures: dict[str, Callable[[], float]] = {
        "sampler, 150 ms": lambda: share_of_the_sampler(serving, 0.15, seconds),
        "sampler, 100 ms": lambda: share_of_the_sampler(serving, 0.1, seconds),
        "only sleeps, 100 ms": lambda: share_of_the_idle(0.1, seconds, stoppable=False),
        "can be stopped, 100 ms": lambda: share_of_the_idle(0.1, seconds, stoppable=True),
    }
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def opening_and_closing(serving: Serving, count: int = 100) -> dict[str, float]:
    """Milliseconds to open and to close a window of 20 ms, median and 95th percentile."""
    pause = threading.Event()
    opened, closed = [], []
    with Sampler() as sampler:
        for _ in range(count):
            window = sampler.window(serving)
            began = time.perf_counter()
            window.open()
            opened.append(time.perf_counter() - began)
            pause.wait(0.02)
            began = time.perf_counter()
            window.close()
            closed.append(time.perf_counter() - began)
    return {
        "open_ms_p50": 1000 * statistics.median(opened),
        "open_ms_p95": 1000 * percentile(opened, 0.95),
        "close_ms_p50": 1000 * statistics.median(closed),
        "close_ms_p95": 1000 * percentile(closed, 0.95),
    }


def read_stream(port: int, tokens: int) -> tuple[list[float], list[float]]:
    """One stream: by how much each token was seen later than sent, and its gap's error; seconds."""
    import struct

    late, gaps = [], []
    last_sent = last_seen = 0.0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(str(tokens).encode())
        pending = b""
        while data := connection.recv(4096):
            seen = time.perf_counter()
            pending += data
            while len(pending) >= 8:
                (sent,) = struct.unpack("<d", pending[:8])
                pending = pending[8:]
                late.append(seen - sent)
                if last_sent:
                    gaps.append(abs((seen - last_seen) - (sent - last_sent)))
                last_sent, last_seen = sent, seen
    return late, gaps


CONDITIONS = {
    "thread, 150 ms": ("thread", 0.15),
    "thread, 100 ms": ("thread", 0.1),
    "thread, 10 ms": ("thread", 0.01),
    "process, 150 ms": ("process", 0.15),
    "process, 100 ms": ("process", 0.1),
    "process, 10 ms": ("process", 0.01),
}
"""Where the sampler runs, and its interval in seconds."""

MEASURED = ("seen late p50", "seen late p99", "gap error p50", "gap error p99")


def one_stream(
    port: int, tokens: int, serving: Serving, condition: tuple[str, float] | None
) -> dict[str, float]:
    """Microseconds of :data:`MEASURED` for one stream under one condition, ``None`` for none."""
    root = str(Path(__file__).parent.parent)
    with ExitStack() as stack:
        if condition is not None:
            kind, interval = condition
            if kind == "thread":
                sampler = stack.enter_context(Sampler(interval))
                stack.enter_context(sampler.window(serving))
            else:
                pid = str(serving.pids[0])
                stack.enter_context(program(ELSEWHERE, root, str(interval), pid))
        late, gaps = read_stream(port, tokens)
    values = (
        statistics.median(late),
        percentile(late, 0.99),
        statistics.median(gaps),
        percentile(gaps, 0.99),
    )
    return {name: 1e6 * value for name, value in zip(MEASURED, values, strict=True)}


def latency_change(
    serving: Serving, tokens: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, dict[str, list[float]]]]:
    """What the sampler does to latencies at 1 ms a token.

    Before and after each stream with a sampler there is one without, and the mean of these two is
    what it is divided by.

    Returns:
        The microseconds without a sampler, and the ratios of each condition, by what was measured.
    """
    alone: dict[str, list[float]] = {name: [] for name in MEASURED}
    ratios: dict[str, dict[str, list[float]]] = {
        condition: {name: [] for name in MEASURED} for condition in CONDITIONS
    }
    with program(STREAM, str(TOKEN_SEC)) as (_, text):
        port = int(text)
        read_stream(port, 200)
        before = one_stream(port, tokens, serving, None)
        for number in range(rounds):
            names = list(CONDITIONS)
            for name in names if number % 2 == 0 else reversed(names):
                sampled = one_stream(port, tokens, serving, CONDITIONS[name])
                after = one_stream(port, tokens, serving, None)
                for figure in MEASURED:
                    ratios[name][figure].append(
                        sampled[figure] / statistics.fmean((before[figure], after[figure]))
                    )
                    alone[figure].append(before[figure])
                before = after
    return alone, ratios


def finding(port: int) -> dict[str, float]:
    """Milliseconds to find the serving process for the first time and again."""
    url = f"http://127.0.0.1:{port}/v1"
    began = time.perf_counter()
    find_serving(url)
    first = time.perf_counter() - began
    again = []
    for _ in range(200):
        began = time.perf_counter()
        find_serving(url)
        again.append(time.perf_counter() - began)
    return {"first_ms": 1000 * first, "again_ms_p50": 1000 * statistics.median(again)}


def spread(values: list[float], digits: int) -> str:
    """The median with the lowest and the highest value."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f}-{high:.{digits}f}]"


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the idle windows")
    parser.add_argument("--tokens", type=int, default=1500, help="tokens of each stream")
    parser.add_argument("--rounds", type=int, default=5, help="times that each condition is met")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with program(STREAM, str(TOKEN_SEC)) as (server, port):
        serving = Serving("own", (server.pid,))
        core_pct = shares(serving, options.seconds, options.rounds)
        milliseconds = {**opening_and_closing(serving), **finding(int(port))}
        alone, ratios = latency_change(serving, options.tokens, options.rounds)
    if options.json:
        result = {
            "processors": os.cpu_count(),
            "python": sys.version.split()[0],
            "core_pct": core_pct,
            "milliseconds": milliseconds,
            "latency_us_without": alone,
            "latency_ratio": ratios,
        }
        print(json.dumps(result, indent=2))
        return
    print("percent of one core, median [lowest-highest]")
    for name, values in core_pct.items():
        print(f"  {name:24} {spread(values, 3)}")
    print("milliseconds")
    for name, value in milliseconds.items():
        print(f"  {name:24} {value:.3f}")
    print("1 ms a token, without a sampler, microseconds")
    for figure, values in alone.items():
        print(f"  {figure:24} {spread(values, 0)}")
    print("with one, as a multiple of that of its neighbours")
    for condition, figures in ratios.items():
        for figure, values in figures.items():
            print(f"  {condition:16} {figure:14} {spread(values, 2)}")


if __name__ == "__main__":
    main()
