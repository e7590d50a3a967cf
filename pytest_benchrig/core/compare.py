"""Comparison of two runs, or of two targets of one run: record by record, never mean by mean.

Records are paired by suite, scenario, target and run. Every headline metric gets one verdict,
corrected for the number of metrics compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pytest_benchrig.core import stats
from pytest_benchrig.core.aggregate import Pools
from pytest_benchrig.core.compare_metrics import (
    TIMINGS,
    MetricPairs,
    RecordPair,
    compared_metrics,
    metric_pairs,
    pair_records,
)
from pytest_benchrig.core.compare_tests import (
    FEWEST_PAIRS,
    Tested,
    compare_rates,
    compare_timings,
)
from pytest_benchrig.core.fingerprint import (
    differences,
    refusal,
    refused,
    scenario_differences,
)
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import metric_of
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.regression import DEFAULT_TIMING_PCT, Regression, parse_regression
from pytest_benchrig.core.runfile import RunFile, latest_attempts
from pytest_benchrig.core.samples import key_of
from pytest_benchrig.core.thresholds import ThresholdResult

Change: TypeAlias = Literal[
    "better", "worse", "no difference shown", "too few runs to tell", "not compared"
]
LEVEL = 0.05
FIRST_TRY = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of one target against its baseline.

    Attributes:
        target: The target (of two targets: the second, compared with the first).
        metric: The metric.
        before: The baseline's figure over the paired records.
        after: This run's.
        change: The verdict.
        effect: Percent for timings, percentage points for rates; positive is more.
        interval: Interval of the effect, corrected for the number of comparisons.
        p: p value, corrected by Holm's method.
        pairs: Pairs of records behind it.
        needed: What would tell, as words; "" where nothing more is needed or known.
        note: What the reader should know (medians disagree, why nothing was compared).
        smallest: The effect that counts as a regression.
    """

    target: str
    metric: str
    before: float | None
    after: float | None
    change: Change
    effect: float | None = None
    interval: stats.Interval | None = None
    p: float | None = None
    pairs: int = 0
    needed: str = ""
    note: str = ""
    smallest: float = 0.0

    @property
    def unit(self) -> str:
        """Unit of the effect."""
        return "%" if metric_of(self.metric).kind == "timing" else "points"

    @property
    def regressed(self) -> bool:
        """Worse, and by more than what counts."""
        return (
            self.change == "worse" and self.effect is not None and abs(self.effect) > self.smallest
        )


@dataclass(frozen=True, slots=True)
class Flip:
    """A scenario whose verdict changed: passes before and after, of so many paired runs."""

    target: str
    scenario: str
    before: int
    after: int
    runs: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one baseline with one run.

    Attributes:
        baseline: The baseline's name.
        current: This run's.
        interleaved: Whether the two were measured alternately, run by run.
        refusal: Why they were not compared, "" when they were.
        allowed: Differences that were allowed by name.
        rows: One per target and metric.
        flips: Scenarios whose verdict changed, by name.
        unpaired: Records that have no partner in the other run.
    """

    baseline: str
    current: str
    interleaved: bool
    refusal: str = ""
    allowed: tuple[str, ...] = ()
    rows: tuple[Compared, ...] = ()
    flips: tuple[Flip, ...] = ()
    unpaired: int = 0

    @property
    def caveat(self) -> str:
        """What limits the timings of this comparison; "" when they were interleaved."""
        if self.interleaved or self.refusal:
            return ""
        return (
            "not interleaved: a machine that drifts between the two runs looks like a difference "
            "in timing; --benchrig-interleave with two models measures them side by side"
        )

    def gates(self) -> tuple[ThresholdResult, ...]:
        """Regressions as threshold results: violated only by worse beyond what counts.

        A refused comparison is violated too: what was not compared cannot be called good.
        """
        if self.refusal:
            text = f"no regression against {self.baseline}"
            return (
                ThresholdResult(
                    text, "", False, None, None, 0.0, 0, f"{text}: violated, {self.refusal}"
                ),
            )
        return tuple(self._gate(row) for row in self.rows)

    def _gate(self, row: Compared) -> ThresholdResult:
        text = f"{row.metric} no worse than {self.baseline}"
        bound = f"worse by more than {row.smallest:g} {row.unit} counts"
        return ThresholdResult(
            text=text,
            target=row.target,
            held=not row.regressed,
            value=row.effect,
            interval=row.interval,
            bound=row.smallest,
            n=row.pairs,
            message=f"{text}: {'violated' if row.regressed else 'held'}, {sentence(row)} ({bound})",
        )

    def to_json(self) -> dict[str, JsonValue]:
        """As it stands in the run file."""
        return {
            "baseline": self.baseline,
            "current": self.current,
            "interleaved": self.interleaved,
            "refusal": self.refusal,
            "allowed": list(self.allowed),
            "caveat": self.caveat,
            "rows": [_row_json(row) for row in self.rows],
            "flips": [
                {
                    "target": flip.target,
                    "scenario": flip.scenario,
                    "before": flip.before,
                    "after": flip.after,
                    "runs": flip.runs,
                }
                for flip in self.flips
            ],
            "unpaired": self.unpaired,
        }


def _row_json(row: Compared) -> dict[str, JsonValue]:
    return {
        "target": row.target,
        "metric": row.metric,
        "before": row.before,
        "after": row.after,
        "change": row.change,
        "effect": row.effect,
        "unit": row.unit,
        "interval": list(row.interval) if row.interval else None,
        "p": row.p,
        "pairs": row.pairs,
        "needed": row.needed,
        "note": row.note,
        "smallest": row.smallest,
        "regressed": row.regressed,
        "sentence": sentence(row),
    }


def sentence(row: Compared) -> str:
    """The verdict in words, with effect, interval and n."""
    if row.effect is None:
        return f"{row.change}: {row.note}"
    text = f"{row.change}, {row.effect:+.1f} {row.unit}"
    if row.interval is not None:
        text += f" [{row.interval[0]:+.1f} to {row.interval[1]:+.1f}]"
    text += f", n={row.pairs} pairs"
    return "; ".join(part for part in (text, row.needed, row.note) if part)


def compare(
    baseline: RunFile,
    current: RunFile,
    *,
    name: str = "baseline",
    regressions: Sequence[str] = (),
    allow_difference: Sequence[str] = (),
) -> Comparison:
    """Compare this run with an earlier one.

    Args:
        baseline: The earlier run.
        current: This run.
        name: What to call the baseline.
        regressions: ``METRIC:PCT``, the effect from which a metric's change counts.
        allow_difference: Parts of the fingerprint that may differ.

    Raises:
        ValueError: A regression setting is wrong.
    """
    limits = [parse_regression(text) for text in regressions]
    label = str(current.run.get("id") or "this run")
    old, new = latest_attempts(baseline.records), latest_attempts(current.records)
    mine = dict.fromkeys(r.target for r in new)
    shared = [t for t in dict.fromkeys(r.target for r in old) if t in mine]
    if not shared:
        theirs = ", ".join(dict.fromkeys(r.target for r in old)) or "none"
        reason = f"no target in common (baseline: {theirs}; this run: {', '.join(mine) or 'none'})"
        return Comparison(name, label, False, refusal=f"not comparable: {reason}")
    paired, unpaired = pair_records(old, new)
    found = [
        *differences(baseline.run, current.run, shared),
        *scenario_differences((a, b) for pairs in paired.values() for a, b in pairs),
    ]
    stopped = refused(found, allow_difference)
    if stopped:
        return Comparison(name, label, False, refusal=refusal(stopped))
    rows, flips = _tables(shared, old, new, paired, limits)
    allowed = tuple(str(d) for d in found)
    return Comparison(name, label, False, "", allowed, rows, flips, unpaired)


def compare_targets(
    run: RunFile, first: str, second: str, *, regressions: Sequence[str] = ()
) -> Comparison:
    """Compare two targets of one run, the first as the baseline.

    Raises:
        ValueError: A regression setting is wrong.
    """
    limits = [parse_regression(text) for text in regressions]
    counted = latest_attempts(run.records)
    interleaved = bool(run.run.get("interleaved"))
    targets = dict.fromkeys(r.target for r in counted)
    missing = [t for t in (first, second) if t not in targets]
    if missing or first == second:
        reason = (
            f"no records of {' and '.join(missing)}; targets: {', '.join(targets) or 'none'}"
            if missing
            else f"{first} is named twice"
        )
        return Comparison(first, second, interleaved, refusal=f"not comparable: {reason}")
    old = [r.replace(target=second) for r in counted if r.target == first]
    new = [r for r in counted if r.target == second]
    paired, unpaired = pair_records(old, new)
    rows, flips = _tables([second], old, new, paired, limits)
    return Comparison(first, second, interleaved, "", (), rows, flips, unpaired)


Paired = Mapping[str, Sequence[RecordPair]]


def _tables(
    targets: Iterable[str],
    old: Sequence[Record],
    new: Sequence[Record],
    paired: Paired,
    limits: Sequence[Regression],
) -> tuple[tuple[Compared, ...], tuple[Flip, ...]]:
    smallest = {limit.metric: limit.percent for limit in limits}
    found: list[tuple[str, MetricPairs]] = []
    for target in targets:
        before = Pools.of(r for r in old if r.target == target)
        after = Pools.of(r for r in new if r.target == target)
        found += [
            (target, metric_pairs(name, paired.get(target, ())))
            for name in compared_metrics(before, after)
        ]
    tested = sum(bool(pairs.pairs) for _, pairs in found)
    confidence = 1.0 - LEVEL / max(1, tested)
    results = [
        _test(pairs, confidence, _limit(pairs.metric, smallest)) if pairs.pairs else None
        for _, pairs in found
    ]
    corrected = iter(stats.holm([result.p for result in results if result is not None]))
    rows = [
        _row(
            target,
            pairs,
            result,
            1.0 if result is None else next(corrected),
            _limit(pairs.metric, smallest),
        )
        for (target, pairs), result in zip(found, results, strict=True)
    ]
    return tuple(rows), _flips(paired)


def _limit(metric: str, smallest: Mapping[str, float]) -> float:
    return smallest.get(metric, DEFAULT_TIMING_PCT if metric in TIMINGS else 0.0)


def _test(pairs: MetricPairs, confidence: float, limit: float) -> Tested:
    if pairs.metric in TIMINGS:
        return compare_timings(pairs.pairs, confidence, (limit or DEFAULT_TIMING_PCT) / 100.0)
    runs = {
        scenario: list(zip(found, pairs.of[scenario], strict=True))
        for scenario, found in pairs.pairs.items()
    }
    return compare_rates(runs, confidence)


def _row(
    target: str, pairs: MetricPairs, result: Tested | None, p: float, limit: float
) -> Compared:
    row = Compared(target, pairs.metric, pairs.before, pairs.after, "not compared", smallest=limit)
    if result is None:
        return replace(row, note=pairs.missing)
    timing = pairs.metric in TIMINGS
    scale = 100.0 if timing else 1.0
    interval = result.interval and (scale * result.interval[0], scale * result.interval[1])
    row = replace(row, effect=scale * result.effect, interval=interval, p=p, pairs=result.pairs)
    if p < LEVEL and (not timing or result.pairs >= FEWEST_PAIRS):
        lower_is_better = metric_of(pairs.metric).direction == "lower"
        improved = (result.effect < 0.0) is lower_is_better
        return replace(row, change="better" if improved else "worse", note=_median_note(result))
    if timing:
        wide = interval is None or max(abs(interval[0]), abs(interval[1])) > (
            limit or DEFAULT_TIMING_PCT
        )
        few = wide or result.pairs < FEWEST_PAIRS
        needed = _timing_needed(pairs, result, limit) if few else ""
    else:
        few = result.needed is not None
        needed = f"about {result.needed} scenarios like these would tell" if few else ""
    return replace(
        row,
        change="too few runs to tell" if few else "no difference shown",
        needed=needed,
        note=_median_note(result) if timing else "",
    )


def _timing_needed(pairs: MetricPairs, result: Tested, limit: float) -> str:
    if result.needed is None:
        return f"one value on each side says nothing; try --benchrig-runs {FIRST_TRY}"
    runs = max(len(found) for found in pairs.pairs.values())
    wanted = max(result.needed, runs + 1)
    return (
        f"about {wanted} runs on each side would tell {limit or DEFAULT_TIMING_PCT:g} % "
        f"(--benchrig-runs {wanted})"
    )


def _median_note(result: Tested) -> str:
    """The robustness flag: whether the medians say something else than the means."""
    middle = result.median_effect
    if middle is None or result.interval is None:
        return ""
    low, high = result.interval
    if low <= middle <= high and (middle * result.effect >= 0.0 or low <= 0.0 <= high):
        return ""
    return f"medians disagree ({100.0 * middle:+.1f} %): look at the spread"


def _flips(paired: Paired) -> tuple[Flip, ...]:
    found: list[Flip] = []
    for target, pairs in paired.items():
        tally: dict[str, list[int]] = {}
        for old, new in pairs:
            if old.passed is None or new.passed is None:
                continue
            count = tally.setdefault(key_of(new), [0, 0, 0])
            count[0] += bool(old.passed)
            count[1] += bool(new.passed)
            count[2] += 1
        found += [
            Flip(target, scenario, before, after, runs)
            for scenario, (before, after, runs) in tally.items()
            if before != after
        ]
    return tuple(found)
