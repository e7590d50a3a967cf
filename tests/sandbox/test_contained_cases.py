"""Programs that ask the system for harm: at every level that contains, none gets what it asks."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.sandbox.runner import SandboxRunner
from tests.sandbox.isolation_support import CONTAINED, launcher


@pytest.fixture(scope="module", params=CONTAINED)
def contained(request: pytest.FixtureRequest) -> SandboxRunner:
    """A runner at each level that contains; its launcher is shared with other tests."""
    return SandboxRunner(launcher=launcher(request.param))


def test_harm_is_refused(contained_case: dict[str, Any], contained: SandboxRunner) -> None:
    result = contained.run(
        contained_case["code"],
        contained_case["assertions"],
        timeout=contained_case.get("timeout", 6.0),
    )
    assert result.verdict in ("fail", "crash", "timeout", "tampered")
    assert result.passed_tests == 0
    assert len(result.assertions) == len(contained_case["assertions"])
