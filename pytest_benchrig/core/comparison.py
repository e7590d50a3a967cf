"""What a comparison found: values only, with their words and their JSON form."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_benchrig.core import stats
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import metric_of
from pytest_benchrig.core.thresholds import Policy, ThresholdResult

Change: TypeAlias = Literal[
    "better", "worse", "no difference shown", "too few runs to tell", "not compared"
]


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
        named: Whether a limit was set for this very metric.
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
    named: bool = False

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

    def gates(self, policy: Policy = "point") -> tuple[ThresholdResult, ...]:
        """Regressions as threshold results: violated only by worse beyond what counts.

        A refused comparison is violated too, and so is a metric that was named and could not be
        compared: what was not compared cannot be called good. Whatever else could tell neither
        way is undecided under the policy ``point`` and violated under ``confident``.
        """
        if self.refusal:
            text = f"no regression against {self.baseline}"
            return (
                ThresholdResult(
                    text, "", False, None, None, 0.0, 0, f"{text}: violated, {self.refusal}"
                ),
            )
        return tuple(self._gate(row, policy) for row in self.rows)

    def _gate(self, row: Compared, policy: Policy) -> ThresholdResult:
        text = f"{row.metric} no worse than {self.baseline}"
        bound = f"worse by more than {row.smallest:g} {row.unit} counts"
        told = row.change not in ("not compared", "too few runs to tell")
        must_tell = policy == "confident" or (row.named and row.change == "not compared")
        held = not row.regressed and (told or not must_tell)
        decided = told or not held
        word = "violated" if not held else "held" if decided else "undecided"
        return ThresholdResult(
            text=text,
            target=row.target,
            held=held,
            decided=decided,
            value=row.effect,
            interval=row.interval,
            bound=row.smallest,
            n=row.pairs,
            message=f"{text}: {word}, {sentence(row)} ({bound})",
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
            "flips": [dataclasses.asdict(flip) for flip in self.flips],
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
