"""Thresholds and regressions as test reports, so that summary, JUnit and exit status agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from pytest_benchrig.core.thresholds import ThresholdResult

THRESHOLD_FILE = "benchrig.thresholds"


def report_results(session: pytest.Session, results: Sequence[ThresholdResult]) -> None:
    """Send one test per threshold through pytest's own reporting: passed, failed, or skipped.

    What could not be decided is skipped: a passed test would look like a check that was passed.
    """
    for result in results:
        name = f"{result.text} [{result.target}]" if result.target else result.text
        nodeid = f"{THRESHOLD_FILE}::{name}"
        session.testscollected += 1
        for when in ("setup", "call", "teardown"):
            outcome: Literal["passed", "failed", "skipped"] = "passed"
            longrepr: str | tuple[str, int, str] | None = None
            if when == "call" and not result.held:
                outcome, longrepr = "failed", result.message
            elif when == "call" and not result.decided:
                outcome, longrepr = "skipped", (THRESHOLD_FILE, 0, result.message)
            report = pytest.TestReport(
                nodeid=nodeid,
                location=(THRESHOLD_FILE, None, name),
                keywords={},
                outcome=outcome,
                longrepr=longrepr,
                when=when,
                duration=0.0,
                sections=[("benchrig", result.message)] if when == "call" else [],
            )
            if when == "setup":
                session.config.hook.pytest_runtest_logstart(nodeid=nodeid, location=report.location)
            session.config.hook.pytest_runtest_logreport(report=report)
        session.config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=report.location)
