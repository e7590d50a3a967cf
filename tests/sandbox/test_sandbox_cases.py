"""Whole programs: honest ones must pass, hostile ones must not, and each gets its verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.scenario import CodingSpec
from pytest_benchrig.sandbox.runner import SandboxRunner
from pytest_benchrig.sandbox.verdicts import judge_code

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the runner needs fork")


def _verdict(case: dict[str, Any], runner: SandboxRunner, canary: Path, seconds: float) -> Any:
    def fill(text: str) -> str:
        return text.replace("@CANARY@", str(canary))

    spec = CodingSpec(
        tuple(map(fill, case["test_assertions"])), execution_timeout=seconds, entry_points=()
    )
    return judge_code(spec, fill(case["response"]), cut_off=False, budget="", runner=runner)


def test_a_legitimate_answer_passes(
    legit_case: dict[str, Any], runner: SandboxRunner, tmp_path: Path
) -> None:
    verdict = _verdict(legit_case, runner, tmp_path, 20.0)
    assert verdict.kind == legit_case["expect"]["verdict"], verdict.fields.get("sandbox_error")
    assert verdict.fields["passed_tests"] == legit_case["expect"]["passed_tests"]


def test_an_adversarial_answer_gets_its_verdict(
    adversarial_case: dict[str, Any], runner: SandboxRunner, tmp_path: Path
) -> None:
    if adversarial_case["id"] == "adv-write-outside":
        # What only containment can prevent is shown for the levels that contain.
        return
    expected = adversarial_case["expect"]
    verdict = _verdict(adversarial_case, runner, tmp_path, 2.0)
    name = "error" if verdict.kind == "crash" else verdict.kind
    assert name in expected["accept_verdicts"]
    assert verdict.fields["passed_tests"] <= expected["passed_tests_max"]
    assert verdict.fields["total_tests"] == expected["total_tests"]


def test_an_honest_program_passes(honest_case: dict[str, Any], runner: SandboxRunner) -> None:
    if sys.version_info < tuple(honest_case.get("min_python", (3, 10))):
        pytest.skip("the program uses syntax of a later Python")
    result = runner.run(
        honest_case["code"],
        honest_case["assertions"],
        entry_points=honest_case.get("entry_points", ()),
        timeout=20.0,
    )
    failed = [a.detail for a in result.assertions if not a.passed]
    assert (result.verdict, failed) == ("pass", [])


def test_a_hostile_program_fails(hostile_case: dict[str, Any], runner: SandboxRunner) -> None:
    result = runner.run(
        hostile_case["code"], hostile_case["assertions"], timeout=hostile_case.get("timeout", 6.0)
    )
    assert result.verdict in ("fail", "crash", "timeout", "tampered")
    assert result.passed_tests <= hostile_case["passed_max"]
    assert result.total_tests == len(hostile_case["assertions"]) == len(result.assertions)
    if "verdict" in hostile_case:
        assert result.verdict == hostile_case["verdict"]
