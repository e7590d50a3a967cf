"""The harness's own timing error: each dialect against a server whose send times are known.

    python benchmarks/timing.py [--repeat N]

Every schedule is played several times in turn by the scripted server, a process of its own on
loopback, and read by the product's runtimes, with the kernel's stamps and without them in turn:
"plain" is what a machine without such stamps, or TLS, gives. Shown are the absolute errors of the
time to first token (median, 95th percentile), of the decode rate (median, in percent), of single
inter-token latencies (99th percentile), and CPU per 100 tokens; at the end CPU beside that of a
bare loop. Exit status 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_benchrig.core.generation import Generation, Message, Request, Runtime
from pytest_benchrig.core.stats import percentile
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes import clock
from pytest_benchrig.runtimes.calibrate import Errors, errors_of
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.schedule import PROMPT_TOKENS
from pytest_benchrig.runtimes.scripted import ScriptedServer, scripted_server
from pytest_benchrig.runtimes.vllm import VllmRuntime

BASE = "ttft250-itl10-n100"
WAYS = {True: "kernel", False: "plain"}
LIMITS = {True: (0.1, 0.3, 0.2), False: (0.5, 1.5, 0.5)}
"""Targets by the kind of stamps: TTFT median and 95th percentile, ITL 99th percentile, in ms."""
FIRST_MS = 1.0
PREFILL_PCT = 1.0
CPU_MS = 15.0


@dataclass(frozen=True)
class Row:
    """A schedule, why it is there, and the largest decode error it may show, in percent."""

    schedule: str
    what: str
    decode_pct: float


OPENAI_ROWS = (
    Row(BASE, "10 ms a token", 0.02),
    Row("ttft50-itl1-n300", "1 ms a token", 0.1),
    Row("ttft100-itl10-n100-pack5", "five tokens in an event", 0.2),
    Row("ttft100-itl10-n100-burst5", "five events in a segment", 0.2),
    Row("ttft100-itl10-n60-tail300", "finish 300 ms late", 0.1),
    Row("ttft100-itl10-n15", "short reply", 0.1),
    Row("ttft100-itl10-n40-raw", "no chunked framing", 0.1),
    Row("ttft100-itl10-n40-split2", "cut inside a character", 0.1),
    Row("ttft250-itl10-n40-hdr0-role2-ping20", "early head, role chunk, pings", 0.1),
    Row("ttft100-itl10-n40-crlf-nosp", "CR LF, no blank after data:", 0.1),
    Row("ttft100-itl10-n60-think40", "40 thinking tokens", 0.1),
    Row("ttft100-itl10-n40-usage3", "usage with every event", 0.1),
    Row("ttft100-itl10-n40-usage0", "no usage (estimated)", 0.1),
    Row("ttft100-itl10-n40-ka0", "connection closed after each", 0.1),
)
LLAMACPP_ROWS = (
    Row(f"{BASE}-tm-usage2", "with timings", 0.02),
    Row("ttft100-itl10-n100-pack5-tm-usage2", "five tokens in an event", 0.2),
    Row("ttft100-itl10-n60-tail300-tm-usage2", "finish 300 ms late", 0.1),
)
OLLAMA_ROWS = (
    Row(BASE, "10 ms a token", 0.02),
    Row("ttft100-itl10-n100-pack5", "five tokens in a line", 0.2),
    Row("ttft100-itl10-n60-tail300", "last line 300 ms late", 0.1),
    Row("ttft100-itl10-n60-think40", "40 thinking tokens", 0.1),
    Row("ttft100-itl10-n40-split2-crlf", "cut inside a character, CR LF", 0.1),
)
DIALECTS: tuple[tuple[str, Callable[[str], Any], Sequence[Row]], ...] = (
    ("openai", OpenAIRuntime, OPENAI_ROWS),
    ("llamacpp", LlamaCppRuntime, LLAMACPP_ROWS),
    ("vllm", VllmRuntime, (Row(f"{BASE}-usage3", "usage with every event", 0.02),)),
    ("ollama", OllamaRuntime, OLLAMA_ROWS),
)


def request_of(schedule: str, number: int) -> Request:
    """A request that no cache can answer."""
    marker = f"run {number}"
    return Request(schedule, (Message("user", f"[{marker}] Count."),), marker=marker)


@contextlib.contextmanager
def stamps_of(kernel: bool) -> Iterator[None]:
    """Connections that are opened meanwhile ask for the kernel's stamps, or do without."""
    offered, clock.KERNEL_STAMPS_OFFERED = clock.KERNEL_STAMPS_OFFERED, kernel
    try:
        yield
    finally:
        clock.KERNEL_STAMPS_OFFERED = offered


@dataclass
class Series:
    """The repetitions of one schedule, read in one way.

    ``cpu_ms`` is per 100 tokens of each repetition.
    """

    errors: list[Errors] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    @property
    def ttft_ms(self) -> list[float]:
        """Absolute errors of the time to first token."""
        return [e.ttft_ms for e in self.errors]

    @property
    def itl_ms(self) -> list[float]:
        """Absolute errors of single inter-token latencies."""
        return [gap for e in self.errors for gap in e.itl_ms]

    @property
    def decode_pct(self) -> float:
        """Median error of the decode rate."""
        return statistics.median(e.decode_pct for e in self.errors)

    def take(self, runtime: Runtime, server: ScriptedServer, schedule: str, number: int) -> None:
        """One more repetition."""
        before = time.process_time()
        generation = runtime.generate(request_of(schedule, number))
        cpu = time.process_time() - before
        [truth] = server.truths()
        self.errors.append(errors_of(generation, truth))
        self.generations.append(generation)
        self.cpu_ms.append(cpu * 1e5 / sum(count for _, _, count in truth.sends))


def prefill_error_pct(generations: Sequence[Generation]) -> float | None:
    """Error of the effective prefill rate against the engine's own; ``None`` without one."""
    pairs = [
        (t.prefill_eff_tok_per_sec, t.prompt_tok_per_sec) for t in map(timings_of, generations)
    ]
    shares = [abs(ours / engine - 1) * 100 for ours, engine in pairs if ours and engine]
    return statistics.median(shares) if shares else None


class BareLoop:
    """The least that reading a stream can cost: one system call a segment, nothing looked at."""

    def __init__(self, server: ScriptedServer) -> None:
        self._sock = socket.create_connection(("127.0.0.1", server.port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if clock.KERNEL_STAMPS_OFFERED:
            self._sock.setsockopt(socket.SOL_SOCKET, clock.SO_TIMESTAMPNS, 1)

    def cpu_ms(self, schedule: str) -> float:
        """CPU of reading one stream."""
        body = json.dumps({"model": schedule, "messages": [], "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        kept: list[tuple[bytes, object, int, object]] = []
        before = time.process_time()
        self._sock.sendall(head.encode() + body)
        while not kept or not kept[-1][0].endswith(b"0\r\n\r\n"):
            kept.append(self._sock.recvmsg(65536, clock.ANCILLARY_BYTES))
        return (time.process_time() - before) * 1e3

    def close(self) -> None:
        """Close its connection."""
        self._sock.close()


@dataclass
class Benchmark:
    """Every row, each way of reading in turn; what missed its target."""

    server: ScriptedServer
    repeat: int
    ways: tuple[bool, ...]
    missed: list[str] = field(default_factory=list)
    all: dict[bool, Series] = field(default_factory=dict)

    def run(self) -> None:
        """Play and print every row, then the summary."""
        print(
            f"{'dialect':9}{'schedule':38}{'stamps':8}{'TTFT p50':>9}{'p95':>7}{'decode %':>10}"
            f"{'may be':>8}{'ITL p99':>9}{'CPU/100':>9}  what"
        )
        self.all = {kernel: Series() for kernel in self.ways}
        for name, make, rows in DIALECTS:
            runtimes = {kernel: make(self.server.url) for kernel in self.ways}
            for row in rows:
                series = self._series(runtimes, row)
                for kernel, one in series.items():
                    self._show(name, row, kernel, one)
            for runtime in runtimes.values():
                runtime.close()
        for kernel, one in self.all.items():
            self._sum_up(kernel, one)
        self._cpu()

    def _series(self, runtimes: Mapping[bool, Runtime], row: Row) -> dict[bool, Series]:
        series = {kernel: Series() for kernel in runtimes}
        for number in range(self.repeat):
            for kernel, runtime in runtimes.items():
                with stamps_of(kernel):
                    series[kernel].take(runtime, self.server, row.schedule, number)
        return series

    def _show(self, name: str, row: Row, kernel: bool, one: Series) -> None:
        total = self.all[kernel]
        if not total.errors and one.ttft_ms[0] > FIRST_MS:
            self.missed.append(f"the first request of all: TTFT off by {one.ttft_ms[0]:.2f} ms")
        total.errors += one.errors
        late = " *" if one.decode_pct > row.decode_pct else ""
        if late:
            self.missed.append(
                f"{name} {row.schedule} ({WAYS[kernel]}): decode {one.decode_pct:.3f} %"
            )
        print(
            f"{name:9}{row.schedule:38}{WAYS[kernel]:8}{statistics.median(one.ttft_ms):9.3f}"
            f"{percentile(one.ttft_ms, 0.95):7.3f}{one.decode_pct:10.4f}{row.decode_pct:8.2f}"
            f"{percentile(one.itl_ms, 0.99):9.3f}{statistics.median(one.cpu_ms):9.1f}"
            f"  {row.what}{late}"
        )
        prefill = prefill_error_pct(one.generations)
        if prefill is not None:
            print(f"{'':55}prefill off the engine's own by {prefill:.3f} %")
            if prefill > PREFILL_PCT:
                self.missed.append(f"{name} {row.schedule}: prefill {prefill:.2f} %")

    def _sum_up(self, kernel: bool, one: Series) -> None:
        print(f"\n{WAYS[kernel]}: first request of all {one.ttft_ms[0]:.3f} ms (target {FIRST_MS})")
        for what, value, limit in zip(
            ("TTFT median ms", "TTFT p95 ms", "ITL p99 ms"),
            (
                statistics.median(one.ttft_ms),
                percentile(one.ttft_ms, 0.95),
                percentile(one.itl_ms, 0.99),
            ),
            LIMITS[kernel],
            strict=True,
        ):
            print(f"{WAYS[kernel]}: {what} {value:.3f} (target {limit})")
            if value > limit:
                self.missed.append(f"{WAYS[kernel]}: {what} {value:.3f}, target {limit}")

    def _cpu(self) -> None:
        """CPU of a request of 100 tokens beside the least that it can be, in turn."""
        runtime, bare = OpenAIRuntime(self.server.url), BareLoop(self.server)
        ours, least = Series(), []
        for number in range(self.repeat):
            ours.take(runtime, self.server, BASE, number)
            least.append(bare.cpu_ms(BASE))
            self.server.truths()
        runtime.close()
        bare.close()
        cost = statistics.median(ours.cpu_ms)
        print(
            f"\nCPU of a request of 100 tokens: {cost:.1f} ms (target {CPU_MS}), of a bare loop "
            f"{statistics.median(least):.1f} ms"
        )
        if cost > CPU_MS:
            self.missed.append(f"CPU {cost:.1f} ms per 100 tokens, target {CPU_MS}")


def main() -> int:
    """Print the table; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each schedule (5)")
    options = parser.parse_args()
    ways = (True, False) if clock.KERNEL_STAMPS_OFFERED else (False,)
    print(f"{options.repeat} repetitions, {PROMPT_TOKENS} prompt tokens\n")
    with scripted_server() as server:
        benchmark = Benchmark(server, options.repeat, ways)
        benchmark.run()
    for line in benchmark.missed:
        print(f"MISSED {line}")
    return 1 if benchmark.missed else 0


if __name__ == "__main__":
    sys.exit(main())
