"""Comparison of this run with earlier ones, and of two targets of this run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.compare import Comparison
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.thresholds import ThresholdResult

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


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
            read_run(path, "compare"),
            run,
            name=path.name,
            regressions=settings.regressions,
            allow_difference=settings.allow_difference,
        )
        for path in settings.compare
    ]
    if len(settings.compare_targets) == 2:
        first, second = settings.compare_targets
        done.append(compare_targets(run, first, second))
    return tuple(done)


def regression_results(
    active: Active, comparisons: Sequence[Comparison]
) -> tuple[ThresholdResult, ...]:
    """Regressions as threshold results, when they shall fail the run."""
    if not active.settings.fail_on_regression:
        return ()
    return tuple(result for comparison in comparisons for result in comparison.gates())
