"""Energy of a target: what may be added, and what may not."""

from __future__ import annotations

import pytest

from pytest_benchrig.core.hardware_metrics import hardware_fields
from pytest_benchrig.core.record import Record
from tests.core.run_support import reply

ENERGY_FIELDS = ("avg_power_w", "tokens_per_joule", "joules_per_solved_task")


def run(task: str, coverage: str, joules: float, *, concurrent: bool = False) -> Record:
    """A solved task of 100 tokens that took two seconds."""
    hardware = {
        "energy_j": joules,
        "avg_power_w": joules / 2,
        "duration_sec": 2.0,
        "energy_coverage": coverage,
    }
    return reply(task, passed=True, completion_tokens=100, hardware=hardware, concurrent=concurrent)


def test_energy_of_equal_coverage_is_added() -> None:
    found = hardware_fields([run("a", "gpu", 100.0), run("b", "gpu", 300.0)])
    assert found["avg_power_w"] == pytest.approx(100.0)
    assert found["tokens_per_joule"] == pytest.approx(0.5)
    assert found["joules_per_solved_task"] == pytest.approx(200.0)


def test_energy_of_different_devices_is_never_added() -> None:
    found = hardware_fields([run("a", "gpu", 100.0), run("b", "gpu+cpu_package", 300.0)])
    assert [found[name] for name in ENERGY_FIELDS] == [None, None, None]


def test_energy_of_requests_side_by_side_counts_for_none() -> None:
    found = hardware_fields(
        [run("a", "gpu", 100.0), run("b", "gpu+cpu_package", 300.0, concurrent=True)]
    )
    assert [found[name] for name in ENERGY_FIELDS] == pytest.approx([50.0, 1.0, 100.0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "100", True, None])
def test_a_reading_that_is_no_number_is_none(value: object) -> None:
    hardware = {"energy_j": value, "avg_power_w": value, "peak_vram_mb": value}
    found = hardware_fields([reply("a", passed=True, completion_tokens=10, hardware=hardware)])
    assert [found[name] for name in (*ENERGY_FIELDS, "peak_vram_mb")] == [None] * 4
