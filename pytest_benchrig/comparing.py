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


def check_compared_targets(active: Active) -> None:
    """The targets to compare must be targets of this run.

    Raises:
        pytest.UsageError: One is not; the message lists those there are.
    """
    import difflib

    known = [str(target) for target in active.targets]
    for name in active.settings.compare_targets:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise pytest.UsageError(
                f"--benchrig-compare-targets: no target {name!r} in this run{hint}; targets: "
                + ", ".join(known)
            )


def compare_all(active: Active, run: RunFile) -> tuple[Comparison, ...]:
    """Every comparison asked for."""
    settings = active.settings
    if not (settings.compare or settings.compare_targets or settings.interleave):
        return ()
    from pytest_benchrig.core.compare import compare, compare_targets

    done = [
        compare(
            active.baselines[path],
            run,
            name=path.name,
            regressions=settings.regressions,
            allow_difference=settings.allow_difference,
            allow_disturbed=settings.allow_disturbed,
        )
        for path in settings.compare
    ]
    pair = settings.compare_targets
    if not pair and settings.interleave and len(active.targets) == 2:
        pair = tuple(str(target) for target in active.targets)
    if pair:
        done.append(
            compare_targets(
                run,
                pair[0],
                pair[1],
                regressions=settings.regressions,
                allow_disturbed=settings.allow_disturbed,
            )
        )
    return tuple(done)


def regression_results(
    active: Active, comparisons: Sequence[Comparison]
) -> tuple[ThresholdResult, ...]:
    """Regressions as threshold results, when they shall fail the run."""
    if not active.settings.fail_on_regression:
        return ()
    policy = active.settings.threshold_policy
    return tuple(result for comparison in comparisons for result in comparison.gates(policy))
