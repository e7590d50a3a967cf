"""What the repetitions of each scenario say: pass rates, stability, medians of timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, TypeAlias

from pytest_benchrig.core import stats
from pytest_benchrig.core.blocking import blocked
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record

Stability: TypeAlias = Literal["stable", "flaky", "broken"]
TIMINGS = ("ttft_sec", "eval_tok_per_sec", "prefill_eff_tok_per_sec")
KS = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class TimingStats:
    """Median, its distribution-free 95 % interval, spread and number of unblocked values."""

    median: float
    low: float
    high: float
    n: int
    ci95: stats.Interval | None

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object."""
        return {
            "median": self.median,
            "min": self.low,
            "max": self.high,
            "n": self.n,
            "ci95": list(self.ci95) if self.ci95 else None,
        }


@dataclass(frozen=True, slots=True)
class ScenarioStats:
    """One scenario of one target.

    Attributes:
        suite: Its suite.
        task_id: Its id.
        runs: Judged runs.
        passed: Runs that passed.
        min_pass_rate: What the scenario asks for.
        ci95: Wilson's interval of the pass rate in percent, ``None`` with fewer than two runs.
        stability: All runs passed, some, or none; ``None`` with fewer than two runs, because one
            run cannot tell.
        timings: Statistics by record field, over unblocked values.
    """

    suite: str
    task_id: str
    runs: int
    passed: int
    min_pass_rate: float
    ci95: stats.Interval | None
    stability: Stability | None
    timings: dict[str, TimingStats]

    @property
    def pass_rate(self) -> float | None:
        """Percentage of the judged runs that passed."""
        return 100.0 * self.passed / self.runs if self.runs else None

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object of the scorecard."""
        return {
            "suite": self.suite,
            "task_id": self.task_id,
            "runs": self.runs,
            "passed": self.passed,
            "pass_rate": self.pass_rate,
            "min_pass_rate": self.min_pass_rate,
            "ci95": list(self.ci95) if self.ci95 else None,
            "class": self.stability,
            "timings": {name: found.to_json() for name, found in self.timings.items()},
        }


def scenario_stats(records: Sequence[Record]) -> tuple[ScenarioStats, ...]:
    """One entry per scenario, in the order of first appearance.

    Args:
        records: The measured replies of one target.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.suite, record.task_id), []).append(record)
    return tuple(_one(suite, task_id, group) for (suite, task_id), group in groups.items())


def _one(suite: str, task_id: str, records: Sequence[Record]) -> ScenarioStats:
    judged = [r for r in records if r.passed is not None]
    passed = sum(bool(r.passed) for r in judged)
    repeated = len(judged) > 1
    interval = None
    if repeated:
        low, high = stats.wilson(passed, len(judged))
        interval = (100.0 * low, 100.0 * high)
    timed = TIMINGS if records[0].kind != "tool_use" else ()
    return ScenarioStats(
        suite=suite,
        task_id=task_id,
        runs=len(judged),
        passed=passed,
        min_pass_rate=records[0].min_pass_rate,
        ci95=interval,
        stability=stability(len(judged), passed) if repeated else None,
        timings={name: t for name in timed if (t := timing_stats(records, name)) is not None},
    )


def stability(runs: int, passed: int) -> Stability:
    """``stable``: every run passed; ``broken``: none did; ``flaky``: anything between."""
    if passed == runs:
        return "stable"
    return "flaky" if passed else "broken"


def timing_stats(
    records: Sequence[Record], field: str, *, allow_disturbed: bool = False
) -> TimingStats | None:
    """Median with interval of a timing field; ``None`` when nothing unblocked is left."""
    real: list[float] = []
    floored: list[float] = []
    for record in records:
        value = getattr(record, field)
        if value is None or blocked(record, field, allow_disturbed=allow_disturbed):
            continue
        artefact = record.eval_tok_sec_floored and field == "eval_tok_per_sec"
        (floored if artefact else real).append(float(value))
    values = real or floored
    if not values:
        return None
    return TimingStats(
        median(values), min(values), max(values), len(values), stats.quantile_interval(values)
    )


def pass_at(scenarios: Sequence[ScenarioStats]) -> dict[str, JsonValue]:
    """pass@k and pass^k, averaged over the judged scenarios, for each k that all of them allow.

    Returns:
        ``{"1": {"pass_at_k": .., "pass_hat_k": ..}, ...}`` in percent; empty when nothing was
        judged more than once.
    """
    judged = [s for s in scenarios if s.runs]
    fewest = min((s.runs for s in judged), default=0)
    if fewest < 2:
        return {}
    ks = sorted({k for k in (*KS, fewest) if k <= fewest})
    return {
        str(k): {
            "pass_at_k": 100.0 * fmean(stats.pass_at_k(s.runs, s.passed, k) for s in judged),
            "pass_hat_k": 100.0 * fmean(stats.pass_hat_k(s.runs, s.passed, k) for s in judged),
        }
        for k in ks
    }
