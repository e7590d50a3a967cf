"""Samples of one metric: numerators and denominators by scenario and run, and what they say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_benchrig.core import stats
from pytest_benchrig.core.blocking import blocked
from pytest_benchrig.core.record import Record


class Sample(NamedTuple):
    """One record's contribution: ``above / below`` summed over records is the metric.

    A named tuple, because a large run has millions of them.
    """

    scenario: str
    run: int
    above: float
    below: float


@dataclass(frozen=True, slots=True)
class Samples:
    """All contributions to one metric of one target.

    Attributes:
        rows: One per record that counts.
        percent: Whether the metric is a proportion times 100.
        missing: Why there is no row, "" when there are some or none was expected.
    """

    rows: tuple[Sample, ...]
    percent: bool = False
    missing: str = ""

    @property
    def value(self) -> float | None:
        """The pooled figure; ``None`` for a zero denominator."""
        return _ratio(self.rows, self._scale)

    @property
    def _scale(self) -> float:
        return 100.0 if self.percent else 1.0

    @property
    def runs(self) -> int:
        """Number of different runs that contributed."""
        return len({row.run for row in self.rows})

    @property
    def spread(self) -> stats.Interval | None:
        """Lowest and highest of the per-run figures; ``None`` with fewer than two runs."""
        figures = self._by_run()
        return (min(figures), max(figures)) if len(figures) > 1 else None

    @property
    def interval(self) -> stats.Interval | None:
        """95 % interval, bootstrap clustered by scenario; ``None`` for a single run.

        A proportion's interval is never narrower than Wilson's over the pooled observations, nor,
        where every scenario gave the same share, than Wilson's over the scenarios; a timing's is
        never narrower than Student's t interval over the runs. Agreement of a few is not
        certainty.
        """
        if self.runs < 2:
            return None
        sums: dict[str, list[float]] = {}
        for row in self.rows:
            total = sums.setdefault(row.scenario, [0.0, 0.0])
            total[0] += row.above
            total[1] += row.below
        clusters = [(above, below) for above, below in sums.values()]
        found = stats.cluster_interval(clusters, [(row.above, row.below) for row in self.rows])
        if self.percent:
            return self._proportion(found, clusters)
        over_runs = stats.t_interval(self._by_run())
        widest = stats.hull(found, over_runs)
        return widest and (max(0.0, widest[0]), widest[1])

    def _by_run(self) -> list[float]:
        by_run: dict[int, list[Sample]] = {}
        for row in self.rows:
            by_run.setdefault(row.run, []).append(row)
        return [v for rows in by_run.values() if (v := _ratio(rows, self._scale)) is not None]

    def _proportion(
        self, found: stats.Interval | None, clusters: Sequence[tuple[float, float]]
    ) -> stats.Interval | None:
        passed = round(math.fsum(row.above for row in self.rows))
        of = round(math.fsum(row.below for row in self.rows))
        if of == 0:
            return None
        widest = stats.hull(found, stats.wilson(passed, of))
        if len(clusters) > 1 and len({above / below for above, below in clusters if below}) == 1:
            units = len(clusters)
            widest = stats.hull(widest, stats.wilson(round(units * passed / of), units))
        if widest is None:
            return None
        low, high = widest
        return 100.0 * max(0.0, low), 100.0 * min(1.0, high)


def _ratio(rows: Sequence[Sample], scale: float) -> float | None:
    of = math.fsum([row.below for row in rows])
    return scale * math.fsum([row.above for row in rows]) / of if of > 0.0 else None


def key_of(record: Record) -> str:
    """The scenario's name within a session: ``suite/id``."""
    return f"{record.suite}/{record.task_id}"


def pooled(
    records: Iterable[Record], above: Callable[[Record], float], below: Callable[[Record], float]
) -> Samples:
    """A pooled percentage."""
    return Samples(
        tuple(Sample(key_of(r), r.run_index, above(r), below(r)) for r in records), percent=True
    )


def accuracy(records: Iterable[Record]) -> Samples:
    """Share of the judged records that passed."""
    judged = (r for r in records if r.passed is not None)
    return pooled(judged, lambda r: float(bool(r.passed)), lambda r: 1.0)


def timing(
    records: Sequence[Record],
    field: str,
    *,
    weighted: bool = False,
    allow_disturbed: bool = False,
) -> Samples:
    """The average of a timing field over the records that nothing blocks.

    Args:
        records: Measured replies.
        field: The record's field.
        weighted: Weigh each by its completion tokens.
        allow_disturbed: Count records measured under other load.
    """
    return unblocked(
        records,
        field,
        lambda record: getattr(record, field),
        weigh=(lambda record: float(record.completion_tokens or 0)) if weighted else None,
        allow_disturbed=allow_disturbed,
    )


def unblocked(
    records: Iterable[Record],
    field: str,
    read: Callable[[Record], float | None],
    *,
    weigh: Callable[[Record], float] | None = None,
    allow_disturbed: bool = False,
) -> Samples:
    """The figures of the records that nothing blocks; artefacts of the clock only without others.

    Args:
        records: Measured replies.
        field: The record's field, for what blocks it and why it is missing.
        read: The figure of a record.
        weigh: The weight of a record, 1 by default.
        allow_disturbed: Count records measured under other load.
    """
    rows: list[Sample] = []
    floored: list[Sample] = []
    reasons: Counter[str] = Counter()
    for record in records:
        value = read(record)
        if value is None:
            if field in record.unmeasured:
                reasons[record.unmeasured[field]] += 1
            continue
        reason = blocked(record, field, allow_disturbed=allow_disturbed)
        if reason:
            reasons[reason] += 1
            continue
        weight = 1.0 if weigh is None else weigh(record)
        sample = Sample(key_of(record), record.run_index, value * weight, weight)
        artefact = record.eval_tok_sec_floored and field == "eval_tok_per_sec"
        (floored if artefact else rows).append(sample)
    kept = rows or floored
    return Samples(tuple(kept), missing="" if kept else most_common(reasons))


def most_common(reasons: Counter[str]) -> str:
    """The commonest reason, with how many others there are; "" without any."""
    if not reasons:
        return ""
    (reason, count), *others = reasons.most_common()
    if len(reasons) == 1:
        return reason
    return (
        f"{reason}, {count} of {sum(reasons.values())} records; others for {len(others)} more "
        + ("reason" if len(others) == 1 else "reasons")
    )
