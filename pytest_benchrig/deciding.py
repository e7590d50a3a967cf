"""From the session's records to scorecards, thresholds and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import (
    RunFile,
    latest_attempts,
    score_settings,
    with_decisions,
)
from pytest_benchrig.core.scorecard import build_scorecard
from pytest_benchrig.core.thresholds import ThresholdResult, evaluate, parse_threshold

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.core.compare import Comparison


@dataclass(frozen=True, slots=True)
class Decision:
    """What the session came to."""

    run: RunFile
    thresholds: tuple[ThresholdResult, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


def in_order(active: Active, records: Sequence[Record]) -> list[Record]:
    """Records by target, then scenario as the files have them, then run.

    So the run file does not depend on how many workers there were or which was faster.
    """
    targets = {str(target): place for place, target in enumerate(active.targets)}
    places: dict[tuple[str, str], int] = {}
    for loaded in active.loaded_files():
        for scenario in loaded.scenarios:
            places.setdefault((scenario.suite, scenario.id), len(places))

    def key(record: Record) -> tuple[int, bool, int, str, str, int, int]:
        return (
            targets.get(record.target, len(targets)),
            record.phase != "warmup",
            places.get((record.suite, record.task_id), len(places)),
            record.suite,
            record.task_id,
            record.attempt,
            record.run_index,
        )

    return sorted(records, key=key)


def decide(active: Active, records: Sequence[Record], *, interrupted: bool = False) -> Decision:
    """Scorecards of every target; thresholds and comparisons unless the user interrupted."""
    from pytest_benchrig.environment import run_header

    settings = active.settings
    records = in_order(active, records)
    counted = latest_attempts(records)
    header = run_header(active, records=counted, interrupted=interrupted)
    # From the header, as for a journal: both ways must come to the same scorecard.
    score = score_settings(header)
    by_target: dict[str, list[Record]] = {str(target): [] for target in active.targets}
    for record in counted:
        by_target.setdefault(record.target, []).append(record)
    scorecards = tuple(
        build_scorecard(name, found, settings=score) for name, found in by_target.items()
    )
    run = RunFile(run=header, scorecards=scorecards, records=tuple(records))
    if interrupted:
        return Decision(run)
    thresholds = [parse_threshold(text) for text in settings.thresholds]
    results = evaluate(
        thresholds,
        scorecards,
        counted,
        policy=settings.threshold_policy,
        allow_disturbed=settings.allow_disturbed,
    )
    from pytest_benchrig.comparing import compare_all, regression_results

    comparisons = compare_all(active, run)
    results = (*results, *regression_results(active, comparisons))
    decided = with_decisions(
        run, [r.to_json() for r in results], [c.to_json() for c in comparisons]
    )
    return Decision(decided, results, comparisons)
