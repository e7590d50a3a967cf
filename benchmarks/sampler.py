"""What the hardware sampler costs, and whether it disturbs what it measures.

    python benchmarks/sampler.py [--seconds 10] [--tokens 1500] [--rounds 4] [--json]

Prints the processor time of one sample, the share of a core at the default interval and at 100 ms,
how long opening and closing a window take, and the error of inter-token latencies at 1 ms a token
without a sampler, with its thread in this process, and with the same sampler in another process.
The conditions of the last one take turns, so that a drift of the machine meets them all alike.
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
from collections.abc import Iterator
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


def cost_per_sample(serving: Serving, count: int = 2000) -> float:
    """Processor microseconds of one tick: host memory, this process, the serving processes."""
    with Sampler(3600) as sampler:
        window = sampler.window(serving).open()
        began = time.thread_time()
        for _ in range(count):
            window.tick()
        spent = time.thread_time() - began
        window.close()
    return spent / count * 1e6


def share_of_a_core(serving: Serving, interval: float, seconds: float) -> float:
    """Processor time of this otherwise idle process in percent of one core, a long window open."""
    pause = threading.Event()
    with Sampler(interval) as sampler:
        window = sampler.window(serving).open()
        began, at = time.process_time(), time.perf_counter()
        pause.wait(seconds)
        share = (time.process_time() - began) / (time.perf_counter() - at)
        window.close()
    return 100 * share


def share_of_an_empty_thread(interval: float, seconds: float) -> float:
    """The same of a thread that wakes as often and does nothing: what no sampler can be below."""
    pause, stop = threading.Event(), threading.Lock()
    stop.acquire()

    def wake() -> None:
        while not stop.acquire(timeout=interval):
            pass

    thread = threading.Thread(target=wake)
    thread.start()
    began, at = time.process_time(), time.perf_counter()
    pause.wait(seconds)
    share = (time.process_time() - began) / (time.perf_counter() - at)
    stop.release()
    thread.join()
    return 100 * share


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


def latency_error(serving: Serving, tokens: int, rounds: int) -> dict[str, dict[str, float]]:
    """Error of latencies at 1 ms a token under each condition, microseconds."""
    root = str(Path(__file__).parent.parent)
    conditions = {
        "none": ("", 0.0),
        "thread, 150 ms": ("thread", 0.15),
        "thread, 100 ms": ("thread", 0.1),
        "thread, 10 ms": ("thread", 0.01),
        "process, 100 ms": ("process", 0.1),
        "process, 10 ms": ("process", 0.01),
    }
    late: dict[str, list[float]] = {name: [] for name in conditions}
    gaps: dict[str, list[float]] = {name: [] for name in conditions}
    with program(STREAM, str(TOKEN_SEC)) as (_, port):
        read_stream(int(port), 200)
        for number in range(rounds):
            names = list(conditions)
            for name in names if number % 2 == 0 else reversed(names):
                kind, interval = conditions[name]
                with ExitStack() as stack:
                    if kind == "thread":
                        sampler = stack.enter_context(Sampler(interval))
                        stack.enter_context(sampler.window(serving))
                    elif kind == "process":
                        pid = str(serving.pids[0])
                        stack.enter_context(program(ELSEWHERE, root, str(interval), pid))
                    seen, errors = read_stream(int(port), tokens)
                late[name] += seen
                gaps[name] += errors
    return {
        name: {
            "seen_late_us_p50": 1e6 * statistics.median(late[name]),
            "seen_late_us_p99": 1e6 * percentile(late[name], 0.99),
            "gap_error_us_p50": 1e6 * statistics.median(gaps[name]),
            "gap_error_us_p99": 1e6 * percentile(gaps[name], 0.99),
        }
        for name in conditions
    }


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


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the idle windows")
    parser.add_argument("--tokens", type=int, default=1500, help="tokens of each stream")
    parser.add_argument("--rounds", type=int, default=4, help="streams of each condition")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with program(STREAM, str(TOKEN_SEC)) as (server, port):
        serving = Serving("own", (server.pid,))
        result = {
            "processors": os.cpu_count(),
            "python": sys.version.split()[0],
            "sample_us": cost_per_sample(serving),
            "core_pct_at_150_ms": share_of_a_core(serving, 0.15, options.seconds),
            "core_pct_at_100_ms": share_of_a_core(serving, 0.1, options.seconds),
            "core_pct_empty_100_ms": share_of_an_empty_thread(0.1, options.seconds),
            "window": opening_and_closing(serving),
            "finding": finding(int(port)),
            "latency": latency_error(serving, options.tokens, options.rounds),
        }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"one sample              {result['sample_us']:8.1f} us of processor time")
    print(f"share of a core, 150 ms {result['core_pct_at_150_ms']:8.3f} %")
    print(f"share of a core, 100 ms {result['core_pct_at_100_ms']:8.3f} %")
    print(f"  an empty thread       {result['core_pct_empty_100_ms']:8.3f} %")
    for name, value in {**result["window"], **result["finding"]}.items():  # type: ignore[dict-item]
        print(f"{name:23} {value:8.3f}")
    print("\n1 ms a token            seen late p50    p99   gap error p50    p99   (us)")
    latency: dict[str, dict[str, float]] = result["latency"]  # type: ignore[assignment]
    for name, figures in latency.items():
        late50, late99, gap50, gap99 = figures.values()
        print(f"{name:22} {late50:14.0f} {late99:6.0f} {gap50:15.0f} {gap99:6.0f}")


if __name__ == "__main__":
    main()
