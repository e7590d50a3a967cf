from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.sandbox.isolation import survey
from pytest_benchrig.sandbox.process import ProcessLauncher
from pytest_benchrig.sandbox.runner import SandboxRunner

DATA = Path(__file__).parents[1] / "data" / "sandbox"


@pytest.fixture(scope="session")
def runner() -> Iterator[SandboxRunner]:
    """What a program means does not depend on its containment: the level that works anywhere."""
    with SandboxRunner(launcher=ProcessLauncher()) as found:
        yield found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in ("adversarial", "legit", "honest", "hostile", "contained"):
        if f"{name}_case" in metafunc.fixturenames:
            cases: list[dict[str, Any]] = [
                case
                for path in sorted(DATA.glob(f"{name}*.json"))
                for case in json.loads(path.read_bytes())
            ]
            metafunc.parametrize(f"{name}_case", cases, ids=[case["id"] for case in cases])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say on which levels the tests of containment ran here, and why not on the others."""
    outcomes = [entry for key in ("passed", "failed") for entry in terminalreporter.getreports(key)]
    if any("tests/sandbox/" in report.nodeid for report in outcomes):
        terminalreporter.section("levels of the sandbox on this machine")
        for line in survey():
            terminalreporter.line(line)
