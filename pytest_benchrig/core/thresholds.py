"""Thresholds: bounds that decide the exit status, evaluated against scorecards and records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_benchrig.core import stats
from pytest_benchrig.core.aggregate import Pools, composite, headline_samples
from pytest_benchrig.core.blocking import answered
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import NOT_MEASURED, metric_of
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.samples import unblocked
from pytest_benchrig.core.scorecard_types import Scorecard
from pytest_benchrig.core.threshold_grammar import Threshold, parse_threshold

Policy: TypeAlias = Literal["point", "confident"]
TYPICAL_CV = 0.065
"""Variation of a decode rate on a quiet machine, taken where a single run shows none."""


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    """One threshold judged for one target.

    Attributes:
        text: The threshold as the user wrote it.
        target: Whose figure was judged, "" where no target was measured at all.
        held: Whether it held; a metric that was not measured is violated.
        value: The measured figure.
        interval: Its 95 % interval, ``None`` where there is none (a single run, an exact count).
        bound: The number it was held against.
        n: Records behind the figure.
        message: One sentence with all of it.
        decided: ``False`` for a regression gate that could tell neither way; it holds nothing up,
            and must not pass for a check that was passed.
    """

    text: str
    target: str
    held: bool
    value: float | None
    interval: stats.Interval | None
    bound: float
    n: int
    message: str
    decided: bool = True

    def to_json(self) -> dict[str, JsonValue]:
        """As it stands in the run file."""
        return {
            "text": self.text,
            "target": self.target,
            "held": self.held,
            "value": self.value,
            "interval": list(self.interval) if self.interval else None,
            "bound": self.bound,
            "n": self.n,
            "message": self.message,
            "decided": self.decided,
        }


@dataclass(frozen=True, slots=True)
class _Measured:
    """A figure with what is known about its uncertainty.

    ``exact`` figures (counts, a maximum) describe this run itself and have no interval; ``share``
    is the quantile's, whose interval needs a least number of values.
    """

    value: float | None
    shown: str
    interval: stats.Interval | None = None
    n: int = 0
    runs: int = 0
    exact: bool = False
    percent: bool = False
    missing: str = ""
    share: float | None = None


def evaluate(
    thresholds: Sequence[Threshold],
    scorecards: Sequence[Scorecard],
    records: Sequence[Record],
    *,
    policy: Policy = "point",
    allow_disturbed: bool = False,
) -> tuple[ThresholdResult, ...]:
    """Judge every threshold; one without a target must hold for each target.

    Args:
        thresholds: What was asked.
        scorecards: One per target.
        records: The records behind them, the last attempt of each item.
        policy: ``point`` judges the measured value, ``confident`` wants the whole 95 % interval
            on the good side.
        allow_disturbed: Count timings that were measured under other load.
    """
    by_target: dict[str, list[Record]] = {}
    for record in records:
        by_target.setdefault(record.target, []).append(record)
    pools = {card.target: Pools.of(by_target.get(card.target, ())) for card in scorecards}
    results: list[ThresholdResult] = []
    for threshold in thresholds:
        named = [c for c in scorecards if threshold.target in (None, c.target)]
        if not named:
            who = threshold.target or "any target"
            results.append(_absent(threshold, f"nothing was measured for {who}"))
        for card in named:
            if threshold.metric:
                found = _scorecard_figure(
                    threshold.metric, card, pools[card.target], allow_disturbed
                )
            else:
                found = _record_figure(threshold, by_target.get(card.target, ()), allow_disturbed)
            results.append(_judge(threshold, card.target, found, policy))
    return tuple(results)


def _absent(threshold: Threshold, reason: str) -> ThresholdResult:
    return ThresholdResult(
        threshold.text,
        threshold.target or "",
        False,
        None,
        None,
        threshold.bound,
        0,
        f"{threshold.name} {threshold.op} {threshold.bound:g}: violated, not measured: {reason}",
    )


def _scorecard_figure(name: str, card: Scorecard, pools: Pools, allow_disturbed: bool) -> _Measured:
    metric = metric_of(name)
    value, interval = metric.number(card.get(name)), card.ci95.get(name)
    missing = card.unmeasured.get(name, "")
    shown = card.show(name)
    n, runs = card.samples.get(name, 0), len({r.run_index for r in pools.measured})
    if allow_disturbed and (metric.kind == "timing" or name == "composite_score"):
        found = _with_disturbed(name, card, pools)
        if found is not None:
            value, interval, n = found.value, found.interval, found.n
            shown, missing = metric.show(value), found.missing or missing
    exact = metric.kind in ("count", "number") or name.startswith("p95_")
    if exact and not n:
        n = len(pools.measured)
    return _Measured(
        value,
        shown,
        interval,
        n,
        runs,
        exact=exact,
        percent=metric.kind in ("rate", "ratio") and name != "composite_score",
        missing=missing or "no record of this run has it",
    )


def _with_disturbed(name: str, card: Scorecard, pools: Pools) -> _Measured | None:
    """The figure with disturbed records counted; ``None`` where that changes nothing."""
    samples = headline_samples(pools, allow_disturbed=True)
    if name == "composite_score":
        values = {key: found.value for key, found in samples.items()}
        value = composite(values, card.weights, card.reference_tok_per_sec)
        return _Measured(value, "", n=card.samples.get(name, 0))
    found = samples.get("avg_ttft_sec" if name == "p95_ttft_sec" else name)
    if found is None:
        return None
    if name == "p95_ttft_sec":
        rows = [row.above for row in found.rows]
        value = stats.percentile(rows, 0.95) if rows else None
        return _Measured(value, "", n=len(rows), missing=found.missing)
    return _Measured(found.value, "", found.interval, len(found.rows), missing=found.missing)


def _record_figure(
    threshold: Threshold, records: Iterable[Record], allow_disturbed: bool
) -> _Measured:
    suite, field, stat = threshold.suite, threshold.field, threshold.stat
    asked = [r for r in records if r.suite == suite and answered(r)]
    samples = unblocked(
        asked, field, lambda r: number_of(r, field), allow_disturbed=allow_disturbed
    )
    if not samples.rows:
        missing = samples.missing or (
            f"no reply of suite {suite} has {field}" if asked else f"suite {suite} gave no reply"
        )
        return _Measured(None, NOT_MEASURED, missing=missing)
    values = [row.above for row in samples.rows]
    runs = samples.runs
    interval: stats.Interval | None = None
    share = {"p50": 0.5, "p95": 0.95}.get(stat or "")
    if stat == "mean":
        measured, interval = math.fsum(values) / len(values), samples.interval
    elif stat == "max":
        measured = max(values)
    else:
        measured = stats.percentile(values, share or 0.5)
        interval = stats.quantile_interval(values, share or 0.5) if runs > 1 else None
    return _Measured(
        measured,
        f"{measured:.6g}",
        interval,
        len(values),
        runs,
        exact=stat == "max",
        share=share,
    )


def number_of(record: Record, field: str) -> float | None:
    """A record's figure by name, ``metrics.NAME`` and ``hardware.NAME`` included."""
    prefix, dot, name = field.partition(".")
    value = (
        (record.metrics if prefix == "metrics" else record.hardware).get(name)
        if dot
        else getattr(record, field)
    )
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _judge(threshold: Threshold, target: str, found: _Measured, policy: Policy) -> ThresholdResult:
    asked = f"{threshold.name} {threshold.op} {threshold.bound:g}"
    if found.value is None:
        held, message = False, f"{asked}: violated, not measured: {found.missing}"
    else:
        held = threshold.holds(found.value)
        verdict = "held" if held else "violated"
        if held and policy == "confident" and not found.exact:
            held, verdict = _confident(threshold, found)
        message = f"{asked}: {verdict}, measured {found.shown} ({_uncertainty(found)})"
    return ThresholdResult(
        threshold.text,
        target,
        held,
        found.value,
        found.interval,
        threshold.bound,
        found.n,
        message,
    )


def _uncertainty(found: _Measured) -> str:
    runs = f" in {found.runs} runs" if found.runs > 1 else ", one run"
    if found.exact:
        return f"exact, n={found.n}{runs}"
    if found.interval is None:
        if found.runs > 1:
            return f"too few values for an interval, n={found.n}{runs}"
        return f"n={found.n}{runs}: no interval"
    low, high = found.interval
    return f"95 % interval {low:.4g} to {high:.4g}, n={found.n}{runs}"


def _confident(threshold: Threshold, found: _Measured) -> tuple[bool, str]:
    """Whether the whole interval is on the good side, and else how many runs would settle it."""
    if found.interval is not None and all(threshold.holds(end) for end in found.interval):
        return True, "held"
    return False, f"violated, too few runs to tell, {more_runs(threshold, found)}"


def more_runs(threshold: Threshold, found: _Measured) -> str:
    """About how many further runs would settle the threshold, as the end of a sentence."""
    value = found.value or 0.0
    distance = abs(value - threshold.bound)
    if distance == 0.0:
        return "and no number of runs would settle it: the value sits on the bound"
    runs = max(1, found.runs)
    if found.interval is not None:
        low, high = found.interval
        half = value - low if value > threshold.bound else high - value
        needed = runs * (half / distance) ** 2
    elif found.share is not None:
        per_run = max(1.0, found.n / runs)
        needed = stats.fewest_for_quantile(found.share) / per_run
    elif found.percent:
        per_run = max(1.0, found.n / runs)
        share = (value / 100.0 * found.n + 2.0) / (found.n + 4.0)
        needed = stats.Z95**2 * share * (1.0 - share) / (distance / 100.0) ** 2 / per_run
    else:
        needed = (stats.Z95 * TYPICAL_CV * value / distance) ** 2
    more = _round_up(max(1, math.ceil(needed) - runs, 2 - runs))
    return f"about {more} more would settle it (--benchrig-runs {runs + more})"


def _round_up(count: int) -> int:
    """Two significant digits are all that such an estimate has."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // step) * step


__all__ = [
    "Policy",
    "Threshold",
    "ThresholdResult",
    "evaluate",
    "parse_threshold",
]
