"""The instrument's own error on this machine, and what differences a real server can show.

A child process streams on known schedules through a real loopback connection; the product's own
reader measures it, and every figure is compared with the truth. Nothing is printed here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.generation import (
    Generation,
    JsonValue,
    Message,
    Request,
    Runtime,
    RuntimeFault,
    Sampling,
)
from pytest_benchrig.core.stats import coefficient_of_variation, percentile, runs_needed
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.clock import now_ns
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.scripted import ScriptedServer, Truth, scripted_server

SCHEDULES: tuple[str, ...] = (
    "ttft30-itl10-n12",
    "ttft20-itl1-n60",
    "ttft20-itl2-n50-pack5",
    "ttft20-itl4-n15-split1",
    "ttft20-itl5-n10-tail40",
)
"""Played in turn: token by token, fast, packed, split inside a character, late finish."""

MAX_TTFT_MS = 1.0
MAX_ITL_MS = 1.0
MAX_DECODE_PCT = 1.0
MAX_WORK_CV_PCT = 15.0
MAX_LATENESS_MS = 5.0
MAX_RESOLUTION_NS = 100_000
"""Above any of these no timing of a model of ordinary speed can be trusted."""

_WORK = 60
_NAPS = 20
_NAP_SEC = 0.002


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the harness adds to each figure, and how quiet the machine was, then.

    Errors are absolute; milliseconds, percent or nanoseconds as the names say.

    Attributes:
        fit: Whether timings taken here can be trusted at all.
        reason: Why not, "" when fit.
        requests: Streams measured.
        kernel_stamps: Whether the kernel stamped the arrivals.
        ttft_p50_ms: Median error of the time to first token.
        ttft_p95_ms: 95th percentile of it.
        ttft_first_ms: Error of the very first request.
        itl_p99_ms: 99th percentile of the error of single inter-token latencies.
        decode_pct: Largest error of a decode rate, in percent of it.
        arrival_p50_ms: How long after its sending a token is seen, median.
        arrival_p99_ms: 99th percentile of it.
        coalesced_share: Streams in which one read held several tokens that were sent apart.
        clock_resolution_ns: Smallest step of the clock.
        sleep_lateness_p95_ms: How late a sleeping thread wakes.
        work_cv_pct: Spread of a fixed piece of work: what others take away.
        work_p95_over_best: Its 95th percentile over its best.
        duration_sec: What the calibration took.
    """

    fit: bool
    reason: str
    requests: int
    kernel_stamps: bool
    ttft_p50_ms: float
    ttft_p95_ms: float
    ttft_first_ms: float
    itl_p99_ms: float
    decode_pct: float
    arrival_p50_ms: float
    arrival_p99_ms: float
    coalesced_share: float
    clock_resolution_ns: int
    sleep_lateness_p95_ms: float
    work_cv_pct: float
    work_p95_over_best: float
    duration_sec: float

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON, every field by its name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> Calibration:
        """A calibration from its JSON object; fields of later versions are ignored.

        Raises:
            ValueError: It is none.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            return cls(**{k: v for k, v in data.items() if k in known})
        except TypeError as problem:
            raise ValueError(f"not a calibration: {problem}") from None


@dataclass(frozen=True, slots=True)
class TargetNoise:
    """An A/A of a real server: two interleaved series of the same request.

    Attributes:
        runs: Requests measured, both series together.
        decode_tok_per_sec: Mean of all.
        decode_cv_pct: Their coefficient of variation.
        ttft_cv_pct: That of the time to first token.
        aa_difference_pct: Mean of one series against the other; pure noise.
        smallest_gate_pct: Smallest change that five runs a side would show (80 % power).
        runs_for_5_pct: Runs a side that a 5 % change needs.
        server_ms: Median of a model-list round trip.
        counts_tokens: The server sends its token counts.
        counts_per_event: It sends them with every event.
        says_cached: It says what it took from the prompt cache.
        one_by_one: Tokens arrive one by one.
    """

    runs: int
    decode_tok_per_sec: float
    decode_cv_pct: float
    ttft_cv_pct: float | None
    aa_difference_pct: float
    smallest_gate_pct: float
    runs_for_5_pct: int
    server_ms: float
    counts_tokens: bool
    counts_per_event: bool
    says_cached: bool
    one_by_one: bool

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON, every field by its name."""
        return dataclasses.asdict(self)


def calibrate(seconds: float = 4.0) -> Calibration:
    """Measure the instrument for about so long, and judge the machine.

    Args:
        seconds: Time for streaming; each schedule is played at least once, and machine checks
            take a quarter of a second more.

    Raises:
        RuntimeFault: ``start``: the scripted server did not come up.
    """
    began = time.monotonic()
    resolution = clock_resolution_ns()
    lateness = [_nap_ms() for _ in range(_NAPS)]
    work = [_work_ms() for _ in range(_WORK)]
    samples: list[tuple[Generation, Truth]] = []
    with scripted_server() as server:
        runtime = OpenAIRuntime(server.url, target_model="calibration")
        try:
            while len(samples) < len(SCHEDULES) or time.monotonic() - began < seconds:
                samples.append(_sample(runtime, server, SCHEDULES[len(samples) % len(SCHEDULES)]))
        finally:
            runtime.close()
    errors = [errors_of(generation, truth) for generation, truth in samples]
    ttft = [e.ttft_ms for e in errors]
    itl = [gap for e in errors for gap in e.itl_ms]
    arrivals = [late for e in errors for late in e.arrival_ms]
    figures = Calibration(
        fit=True,
        reason="",
        requests=len(errors),
        kernel_stamps=all(g.marks.kernel_stamps for g, _ in samples),
        ttft_p50_ms=percentile(ttft, 0.5),
        ttft_p95_ms=percentile(ttft, 0.95),
        ttft_first_ms=ttft[0],
        itl_p99_ms=percentile(itl, 0.99),
        decode_pct=percentile([e.decode_pct for e in errors], 0.95),
        arrival_p50_ms=percentile(arrivals, 0.5),
        arrival_p99_ms=percentile(arrivals, 0.99),
        coalesced_share=sum(e.coalesced for e in errors) / len(errors),
        clock_resolution_ns=resolution,
        sleep_lateness_p95_ms=percentile(lateness, 0.95),
        work_cv_pct=(coefficient_of_variation(work) or 0.0) * 100,
        work_p95_over_best=percentile(work, 0.95) / min(work),
        duration_sec=time.monotonic() - began,
    )
    reason = unfit_because(figures)
    return dataclasses.replace(figures, fit=not reason, reason=reason)


def unfit_because(figures: Calibration) -> str:
    """Why timings taken under these conditions cannot be trusted; "" where they can."""
    checks = (
        (
            figures.clock_resolution_ns > MAX_RESOLUTION_NS,
            "the clock is coarse",
            "clock_resolution_ns",
        ),
        (figures.work_cv_pct > MAX_WORK_CV_PCT, "other work takes the CPU away", "work_cv_pct"),
        (
            figures.sleep_lateness_p95_ms > MAX_LATENESS_MS,
            "threads wake up late",
            "sleep_lateness_p95_ms",
        ),
        (figures.ttft_p95_ms > MAX_TTFT_MS, "first tokens are seen late", "ttft_p95_ms"),
        (figures.itl_p99_ms > MAX_ITL_MS, "tokens are seen late", "itl_p99_ms"),
        (figures.decode_pct > MAX_DECODE_PCT, "decode rates are off", "decode_pct"),
    )
    return "; ".join(
        f"{what} ({name} {getattr(figures, name):.3g})" for failed, what, name in checks if failed
    )


@dataclass(frozen=True, slots=True)
class Errors:
    """One measured stream against the truth; all absolute."""

    ttft_ms: float
    decode_pct: float
    itl_ms: tuple[float, ...]
    arrival_ms: tuple[float, ...]
    coalesced: bool


def errors_of(generation: Generation, truth: Truth) -> Errors:
    """What the client saw against what the server did.

    Raises:
        RuntimeFault: The client counted other events than were sent.
    """
    timings = timings_of(generation)
    seen = [a.ns for a in generation.marks.arrivals]
    sent = truth.token_ns
    if len(seen) > len(sent):  # several events went out in one write
        sent = [ns for kind, ns, tokens in truth.sends if kind == "token" for _ in range(tokens)]
    if len(seen) != len(sent) or timings.ttft_sec is None or timings.eval_tok_per_sec is None:
        raise RuntimeFault(
            "broken_stream",
            f"{len(sent)} events were sent and {len(seen)} seen",
            target="openai:calibration",
            phase="stream",
            remedy="This is a defect of the harness; please report it",
        )
    gaps = [b - a for a, b in itertools.pairwise(seen)]
    true_gaps = [b - a for a, b in itertools.pairwise(sent)]
    rate = truth.decode_tok_per_sec
    return Errors(
        ttft_ms=abs(timings.ttft_sec - truth.ttft_sec) * 1e3,
        decode_pct=abs(timings.eval_tok_per_sec / rate - 1) * 100,
        itl_ms=tuple(abs(a - b) / 1e6 for a, b in zip(gaps, true_gaps, strict=True)),
        arrival_ms=tuple(abs(a - b) / 1e6 for a, b in zip(seen, sent, strict=True)),
        coalesced=generation.marks.coalesced,
    )


def ab_of_target(runtime: Runtime, model: str, *, runs: int = 5, tokens: int = 32) -> TargetNoise:
    """Two series of ``runs`` short generations, taken in turn, on a real server.

    Args:
        runtime: Connected to the server.
        model: The model to ask.
        runs: Requests in each series.
        tokens: Budget of each.

    Raises:
        RuntimeFault: A request failed, or no decode rate came of any.
    """
    trips = [_trip_ms(runtime) for _ in range(3)]
    runtime.load(model)
    runtime.generate(_short_request(model, "warm-up", tokens))
    rates: tuple[list[float], list[float]] = ([], [])
    ttfts: list[float] = []
    last: Generation | None = None
    for number in range(2 * runs):
        request = _short_request(model, f"{now_ns():x}-{number}", tokens)
        last = runtime.generate(request)
        timings = timings_of(last, request)
        if timings.eval_tok_per_sec is not None:
            rates[number % 2].append(timings.eval_tok_per_sec)
        if timings.ttft_sec is not None:
            ttfts.append(timings.ttft_sec)
    both = [*rates[0], *rates[1]]
    if last is None or not rates[0] or not rates[1]:
        raise RuntimeFault(
            "unsupported",
            "no reply had a decode rate: " + ("" if last is None else _why_none(last)),
            target=f"{runtime.name}:{model}",
            url=runtime.base_url,
            phase="stream",
            remedy="Choose a model that writes more than one token",
        )
    cv = coefficient_of_variation(both) or 0.0
    ttft_cv = coefficient_of_variation(ttfts)
    first, second = statistics.fmean(rates[0]), statistics.fmean(rates[1])
    counts = [a.tokens for a in last.marks.arrivals]
    return TargetNoise(
        runs=len(both),
        decode_tok_per_sec=statistics.fmean(both),
        decode_cv_pct=cv * 100,
        ttft_cv_pct=None if ttft_cv is None else ttft_cv * 100,
        aa_difference_pct=(second / first - 1) * 100,
        smallest_gate_pct=smallest_difference(cv, runs=5) * 100,
        runs_for_5_pct=runs_needed(cv, 0.05),
        server_ms=statistics.median(trips),
        counts_tokens=last.usage.completion_tokens is not None,
        counts_per_event=bool(counts) and all(c is not None for c in counts),
        says_cached=last.usage.cached_prompt_tokens is not None,
        one_by_one=timings_of(last).itl_p50_ms is not None,
    )


def smallest_difference(cv: float, *, runs: int, error: float = 0.05, power: float = 0.8) -> float:
    """The smallest relative change that so many runs a side show: ``z CV sqrt(2/n)``."""
    normal = statistics.NormalDist()
    z = normal.inv_cdf(1 - error / 2) + normal.inv_cdf(power)
    return z * cv * math.sqrt(2 / runs)


def clock_resolution_ns() -> int:
    """The smallest step seen between two readings of the clock."""
    steps: list[int] = []
    for _ in range(200):
        first = second = now_ns()
        while second == first:
            second = now_ns()
        steps.append(second - first)
    return min(steps)


def _sample(
    runtime: OpenAIRuntime, server: ScriptedServer, schedule: str
) -> tuple[Generation, Truth]:
    generation = runtime.generate(_short_request(schedule, "calibration", 64))
    truths: Sequence[Truth] = server.truths()
    return generation, truths[-1]


def _short_request(model: str, marker: str, tokens: int) -> Request:
    prompt = f"[{marker}] Count upwards from one, in words, and do not stop."
    return Request(
        model,
        (Message("user", prompt),),
        Sampling(temperature=0.0, num_predict=tokens, seed=1),
        marker=marker,
        cache_prompt=False,
        ignore_eos=True,
        timeout_sec=120.0,
    )


def _why_none(generation: Generation) -> str:
    return timings_of(generation).unmeasured.get("eval_tok_per_sec", "")


def _trip_ms(runtime: Runtime) -> float:
    start = now_ns()
    runtime.list_models()
    return (now_ns() - start) / 1e6


def _nap_ms() -> float:
    start = now_ns()
    threading.Event().wait(_NAP_SEC)
    return max(0.0, (now_ns() - start) / 1e6 - _NAP_SEC * 1e3)


def _work_ms() -> float:
    """A fixed piece of work, about a millisecond."""
    start = now_ns()
    total = 0
    for number in range(20_000):
        total += number * number
    return (now_ns() - start) / 1e6
