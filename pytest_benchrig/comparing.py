"""Comparison of this run with earlier ones, and of two targets of this run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.core.compare import Comparison
    from pytest_benchrig.core.runfile import RunFile
    from pytest_benchrig.core.thresholds import ThresholdResult


def read_run(path: Path, option: str) -> RunFile:
    """A run file or journal.

    Raises:
        pytest.UsageError: It cannot be read.
    """
    from pytest_benchrig.core.runfile import load_run

    try:
        return load_run(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise pytest.UsageError(f"--benchrig-{option}: {path}: {problem}") from None


def compare_all(active: Active, run: RunFile) -> tuple[Comparison, ...]:
    """Every comparison asked for."""
    from pytest_benchrig.core.compare import compare, compare_targets

    settings = active.settings
    done = [
        compare(
            active.baselines[path],
            run,
            name=path.name,
            regressions=settings.regressions,
            allow_difference=settings.allow_difference,
        )
        for path in settings.compare
    ]
    pair = settings.compare_targets
    if not pair and settings.interleave and len(active.targets) == 2:
        pair = tuple(str(target) for target in active.targets)
    if pair:
        done.append(compare_targets(run, pair[0], pair[1], regressions=settings.regressions))
    return tuple(done)


def regression_results(
    active: Active, comparisons: Sequence[Comparison]
) -> tuple[ThresholdResult, ...]:
    """Regressions as threshold results, when they shall fail the run."""
    if not active.settings.fail_on_regression:
        return ()
    return tuple(result for comparison in comparisons for result in comparison.gates())
