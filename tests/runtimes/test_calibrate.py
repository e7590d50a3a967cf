"""The calibration finds the instrument's error, and says when a machine is not fit."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from pytest_benchrig.core.generation import Generation, ModelInfo, Request
from pytest_benchrig.runtimes.calibrate import (
    SCHEDULES,
    Calibration,
    ab_of_target,
    calibrate,
    smallest_difference,
    unfit_because,
)
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.scripted import ScriptedServer

QUIET = Calibration(
    fit=True,
    reason="",
    requests=10,
    kernel_stamps=True,
    ttft_p50_ms=0.05,
    ttft_p95_ms=0.2,
    ttft_first_ms=0.3,
    itl_p99_ms=0.14,
    decode_pct=0.02,
    arrival_p50_ms=0.01,
    arrival_p99_ms=0.1,
    coalesced_share=0.0,
    clock_resolution_ns=40,
    sleep_lateness_p95_ms=0.1,
    work_cv_pct=3.0,
    work_p95_over_best=1.1,
    duration_sec=2.0,
)


def test_a_calibration_measures_every_schedule_and_crosses_json() -> None:
    found = calibrate(seconds=0.1)
    assert found.requests == len(SCHEDULES)
    assert 0.0 <= found.ttft_p50_ms <= found.ttft_p95_ms
    assert found.clock_resolution_ns > 0
    assert found.fit is (found.reason == "")
    assert Calibration.from_json({**json.loads(json.dumps(found.to_json())), "new": 1}) == found


def test_a_quiet_machine_is_fit() -> None:
    assert unfit_because(QUIET) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"work_cv_pct": 60.0}, "other work"),
        ({"ttft_p95_ms": 140.0}, "first tokens are seen late"),
        ({"decode_pct": 34.9}, "decode rates are off"),
        ({"itl_p99_ms": 4.0}, "tokens are seen late"),
        ({"sleep_lateness_p95_ms": 20.0}, "wake up late"),
        ({"clock_resolution_ns": 15_600_000}, "coarse"),
    ],
)
def test_a_machine_that_is_not_fit_says_why(change: dict[str, float], said: str) -> None:
    reason = unfit_because(dataclasses.replace(QUIET, **change))  # type: ignore[arg-type]
    assert said in reason
    assert next(iter(change)) in reason


def test_a_machine_that_works_for_others_is_not_fit() -> None:
    spin = [sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"]
    hogs = [
        subprocess.Popen(spin, stdout=subprocess.PIPE) for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        for hog in hogs:
            assert hog.stdout is not None
            assert hog.stdout.readline()
        found = calibrate(seconds=0.1)
    finally:
        for hog in hogs:
            hog.kill()
            hog.communicate()
    assert not found.fit
    assert found.reason


def test_something_else_is_no_calibration() -> None:
    with pytest.raises(ValueError, match="not a calibration"):
        Calibration.from_json({"fit": True})


def test_the_smallest_difference_that_five_runs_show() -> None:
    assert smallest_difference(0.05, runs=5) == pytest.approx(0.0886, abs=1e-3)
    assert smallest_difference(0.0, runs=5) == 0.0


class Scheduled(OpenAIRuntime):
    """The scripted server takes any model's name for a schedule; two speeds in turn."""

    def __init__(self, url: str) -> None:
        super().__init__(url, target_model="aa")
        self.asked = 0

    def list_models(self) -> tuple[ModelInfo, ...]:
        return ()

    def generate(self, request: Request) -> Generation:
        self.asked += 1
        speed = "itl4" if self.asked % 2 else "itl2"
        return super().generate(dataclasses.replace(request, model=f"ttft5-{speed}-n16-usage3"))


def test_an_aa_of_a_real_server_says_what_it_can_show(scripted: ScriptedServer) -> None:
    runtime = Scheduled(scripted.url)
    noise = ab_of_target(runtime, "any", runs=2)
    runtime.close()
    assert runtime.asked == 5  # a warm-up and two series
    assert noise.runs == 4
    assert noise.counts_tokens
    assert noise.counts_per_event
    assert not noise.says_cached
    # the series are taken in turn, so they see the two speeds apart
    assert abs(noise.aa_difference_pct) > 20
    assert noise.smallest_gate_pct > 20
    assert noise.runs_for_5_pct > 10
