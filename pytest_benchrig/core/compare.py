"""Comparison of two runs, or of two targets of one run: record by record, never mean by mean.

Records are paired by suite, scenario, target and run. Every headline metric gets one verdict,
corrected for the number of metrics compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

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
    RateTest,
    TimingTest,
    compare_rates,
    compare_timings,
    fewest_flips,
)
from pytest_benchrig.core.comparison import Change, Compared, Comparison, Flip, sentence
from pytest_benchrig.core.fingerprint import (
    differences,
    refusal,
    refused,
    scenario_differences,
)
from pytest_benchrig.core.metrics import metric_of
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.regression import DEFAULT_TIMING_PCT, Regression, parse_regression
from pytest_benchrig.core.runfile import RunFile, latest_attempts
from pytest_benchrig.core.samples import key_of

LEVEL = 0.05
FIRST_TRY = 5


def compare(
    baseline: RunFile,
    current: RunFile,
    *,
    name: str = "baseline",
    regressions: Sequence[str] = (),
    allow_difference: Sequence[str] = (),
    allow_disturbed: bool = False,
) -> Comparison:
    """Compare this run with an earlier one.

    Args:
        baseline: The earlier run.
        current: This run.
        name: What to call the baseline.
        regressions: ``METRIC:PCT``, the effect from which a metric's change counts.
        allow_difference: Parts of the fingerprint that may differ.
        allow_disturbed: Compare timings that were measured under other load, too.

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
    paired, unpaired = pair_records(
        [r for r in old if r.target in shared], [r for r in new if r.target in shared]
    )
    found = [
        *differences(baseline.run, current.run, shared),
        *scenario_differences((a, b) for pairs in paired.values() for a, b in pairs),
    ]
    stopped = refused(found, allow_difference)
    if stopped:
        return Comparison(name, label, False, refusal=refusal(stopped))
    rows, flips = _tables(shared, old, new, paired, limits, allow_disturbed)
    allowed = tuple(str(d) for d in found)
    return Comparison(name, label, False, "", allowed, rows, flips, unpaired)


def compare_targets(
    run: RunFile,
    first: str,
    second: str,
    *,
    regressions: Sequence[str] = (),
    allow_disturbed: bool = False,
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
    rows, flips = _tables([second], old, new, paired, limits, allow_disturbed)
    return Comparison(first, second, interleaved, "", (), rows, flips, unpaired)


Paired = Mapping[str, Sequence[RecordPair]]


def _tables(
    targets: Iterable[str],
    old: Sequence[Record],
    new: Sequence[Record],
    paired: Paired,
    limits: Sequence[Regression],
    allow_disturbed: bool,
) -> tuple[tuple[Compared, ...], tuple[Flip, ...]]:
    smallest = {limit.metric: limit.percent for limit in limits}
    found: list[tuple[str, MetricPairs]] = []
    for target in targets:
        before = Pools.of(r for r in old if r.target == target)
        after = Pools.of(r for r in new if r.target == target)
        found += [
            (target, metric_pairs(name, paired.get(target, ()), allow_disturbed))
            for name in compared_metrics(before, after)
        ]
    results = [_test(pairs) if pairs.pairs else None for _, pairs in found]
    raw = [result.p for result in results if result is not None]
    corrected = iter(zip(stats.holm(raw), stats.holm_levels(raw, LEVEL), strict=True))
    rows = []
    for (target, pairs), result in zip(found, results, strict=True):
        limit = smallest.get(pairs.metric, DEFAULT_TIMING_PCT if pairs.metric in TIMINGS else 0.0)
        row = Compared(
            target,
            pairs.metric,
            pairs.before,
            pairs.after,
            "not compared",
            smallest=limit,
            named=pairs.metric in smallest,
        )
        if result is None:
            rows.append(replace(row, note=pairs.missing))
            continue
        p, level = next(corrected)
        row = replace(
            row,
            effect=result.effect,
            interval=result.interval(level),
            p=p,
            pairs=result.pairs,
        )
        rows.append(
            _judge_timing(row, pairs, result, level)
            if isinstance(result, TimingTest)
            else _judge_rate(row, result, level)
        )
    return tuple(rows), _flips(paired)


def _test(pairs: MetricPairs) -> RateTest | TimingTest:
    if pairs.metric in TIMINGS:
        return compare_timings(pairs.pairs)
    return compare_rates(
        {
            scenario: list(zip(found, pairs.of[scenario], strict=True))
            for scenario, found in pairs.pairs.items()
        }
    )


def _direction(row: Compared, effect: float) -> Change:
    lower_is_better = metric_of(row.metric).direction == "lower"
    return "better" if (effect < 0.0) is lower_is_better else "worse"


def _judge_rate(row: Compared, result: RateTest, level: float) -> Compared:
    if row.p is not None and row.p < LEVEL:
        return replace(row, change=_direction(row, result.effect))
    # The exact test decides; an interval of another method must not seem to say more.
    if row.interval is not None:
        row = replace(row, interval=stats.hull(row.interval, (0.0, 0.0)))
    enough, needed = fewest_flips(level), result.needed(level)
    if needed is not None:
        words = f"about {needed} scenarios that flip as these did would tell"
    elif len(result.flips) < enough:
        words = f"fewer than {enough} scenarios can show nothing"
    else:
        return replace(row, change="no difference shown")
    return replace(row, change="too few runs to tell", needed=words)


def _judge_timing(row: Compared, pairs: MetricPairs, result: TimingTest, level: float) -> Compared:
    row = replace(row, note=_median_note(row, result))
    if row.p is not None and row.p < LEVEL and result.pairs >= FEWEST_PAIRS:
        return replace(row, change=_direction(row, result.effect))
    limit = row.smallest or DEFAULT_TIMING_PCT
    within = row.interval is not None and max(abs(end) for end in row.interval) <= limit
    if within and result.pairs >= FEWEST_PAIRS:
        return replace(row, change="no difference shown")
    return replace(
        row,
        change="too few runs to tell",
        needed=_timing_needed(pairs, result.needed(level, limit / 100.0), limit),
    )


def _timing_needed(pairs: MetricPairs, needed: int | None, limit: float) -> str:
    if needed is None:
        return f"one value on each side says nothing; try --benchrig-runs {FIRST_TRY}"
    runs = max(len(found) for found in pairs.pairs.values())
    wanted = max(needed, runs + 1)
    return f"about {wanted} runs on each side would tell {limit:g} % (--benchrig-runs {wanted})"


def _median_note(row: Compared, result: TimingTest) -> str:
    """The robustness flag: whether the medians say something else than the means."""
    middle = 100.0 * result.median_effect
    if row.interval is None or row.interval[0] <= middle <= row.interval[1]:
        return ""
    return f"medians disagree ({middle:+.1f} %): look at the spread"


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


__all__ = [
    "Change",
    "Compared",
    "Comparison",
    "Flip",
    "compare",
    "compare_targets",
    "sentence",
]
