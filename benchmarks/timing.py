"""The harness's own timing error: each dialect against a server whose send times are known.

    python benchmarks/timing.py [--repeat N] [--clock]

Every schedule is played several times in turn by the scripted server, a process of its own on
loopback, and read by the product's runtimes. Shown are the absolute errors of the time to first
token (median, 95th percentile), of the decode rate (median, in percent), of single inter-token
latencies (99th percentile), and CPU per 100 tokens. ``--clock`` reads without the kernel's stamps.
Exit status 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


def measure(
    runtime: Runtime, server: ScriptedServer, schedule: str, repeat: int
) -> tuple[list[Errors], list[Generation], float]:
    """Errors and replies of each repetition, and CPU milliseconds per 100 tokens."""
    errors: list[Errors] = []
    generations: list[Generation] = []
    cpu = 0.0
    tokens = 0
    for number in range(repeat):
        before = time.process_time()
        generation = runtime.generate(request_of(schedule, number))
        cpu += time.process_time() - before
        [truth] = server.truths()
        errors.append(errors_of(generation, truth))
        generations.append(generation)
        tokens += sum(count for _, _, count in truth.sends)
    return errors, generations, cpu * 1e5 / tokens


def prefill_error_pct(generations: Sequence[Generation]) -> float | None:
    """Error of the effective prefill rate against the engine's own; ``None`` without one."""
    pairs = [
        (t.prefill_eff_tok_per_sec, t.prompt_tok_per_sec) for t in map(timings_of, generations)
    ]
    shares = [abs(ours / engine - 1) * 100 for ours, engine in pairs if ours and engine]
    return statistics.median(shares) if shares else None


def main() -> int:
    """Print the table; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each schedule (5)")
    parser.add_argument("--clock", action="store_true", help="do without the kernel's stamps")
    options = parser.parse_args()
    if options.clock:
        clock.KERNEL_STAMPS_OFFERED = False
    kernel = clock.KERNEL_STAMPS_OFFERED
    p50, p95, itl_max = (0.1, 0.3, 0.2) if kernel else (0.5, 1.5, 0.5)
    print(
        f"stamps: {'kernel' if kernel else 'clock after the read'}; targets: TTFT {p50} ms median, "
        f"{p95} ms p95, ITL p99 {itl_max} ms; {options.repeat} repetitions, "
        f"{PROMPT_TOKENS} prompt tokens\n"
    )
    print(
        f"{'dialect':9}{'schedule':38}{'TTFT p50':>9}{'p95':>7}{'decode %':>10}{'may be':>8}"
        f"{'ITL p99':>9}{'CPU/100':>9}  what"
    )
    missed: list[str] = []
    ttfts: list[float] = []
    gaps: list[float] = []
    with scripted_server() as server:
        for name, make, rows in DIALECTS:
            runtime = make(server.url)
            for row in rows:
                errors, generations, cpu = measure(runtime, server, row.schedule, options.repeat)
                ttft = [e.ttft_ms for e in errors]
                itl = [gap for e in errors for gap in e.itl_ms]
                decode = statistics.median(e.decode_pct for e in errors)
                if not ttfts and ttft[0] > 1.0:
                    missed.append(f"the first request of all: TTFT off by {ttft[0]:.2f} ms")
                ttfts += ttft
                gaps += itl
                late = " *" if decode > row.decode_pct else ""
                if late:
                    missed.append(f"{name} {row.schedule}: decode {decode:.3f} %")
                print(
                    f"{name:9}{row.schedule:38}{statistics.median(ttft):9.3f}"
                    f"{percentile(ttft, 0.95):7.3f}{decode:10.4f}{row.decode_pct:8.2f}"
                    f"{percentile(itl, 0.99):9.3f}{cpu:9.1f}  {row.what}{late}"
                )
                prefill = prefill_error_pct(generations)
                if prefill is not None:
                    print(f"{'':47}prefill off the engine's own by {prefill:.3f} %")
                    if prefill > 1.0:
                        missed.append(f"{name} {row.schedule}: prefill {prefill:.2f} %")
            runtime.close()
    for what, value, limit in (
        ("TTFT median ms", statistics.median(ttfts), p50),
        ("TTFT p95 ms", percentile(ttfts, 0.95), p95),
        ("ITL p99 ms", percentile(gaps, 0.99), itl_max),
    ):
        print(f"\nall: {what} {value:.3f} (target {limit})", end="")
        if value > limit:
            missed.append(f"{what} {value:.3f}, target {limit}")
    print(f"\nfirst request of all: TTFT off by {ttfts[0]:.3f} ms (target 1)")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
