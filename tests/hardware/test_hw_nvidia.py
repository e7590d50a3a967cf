"""NVIDIA GPUs: the real pynvml on a library whose answers are written by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.hardware.hw_programs import window

Nvidia = Callable[..., Any]


def test_memory_and_power_of_two_gpus_are_summed_and_each_is_kept(nvidia: Nvidia) -> None:
    seen = nvidia(window())
    assert seen["peak_vram_mb"] == 5 * 1024
    assert seen["vram_total_mb"] == 48 * 1024
    assert seen["peak_power_w"] == 200
    assert seen["gpu_util_pct"] == 40
    assert seen["temperature_c"] == 61
    assert [gpu["peak_memory_used_mb"] for gpu in seen["gpus"]] == [4096, 1024]
    assert [gpu["mean_power_w"] for gpu in seen["gpus"]] == [150, 50]


def test_memory_growth_is_the_rise_since_the_opening(nvidia: Nvidia) -> None:
    seen = nvidia(window("say(gpu0_memory_used=6 * 1024**3)"))
    assert seen["growth_vram_mb"] == 2048
    assert seen["peak_vram_mb"] == 7 * 1024


def test_a_missing_power_sensor_leaves_the_sum_absent_and_the_other_gpus_figure(
    nvidia: Nvidia,
) -> None:
    seen = nvidia(window(), {"gpu1.power": None, "gpu1.energy": None})
    assert "avg_power_w" not in seen
    assert "energy_j" not in seen
    assert "gpu1" in seen["unmeasured"]["peak_power_w"]
    assert "Not Supported" in seen["unmeasured"]["energy_j"]
    assert seen["gpus"][0]["mean_power_w"] == 150
    assert seen["peak_vram_mb"] == 5 * 1024


def test_a_gpu_that_supports_nothing_gives_reasons_and_no_figure(nvidia: Nvidia) -> None:
    figures = ("memory_used", "memory_total", "util", "temperature", "power", "energy", "clock")
    refused: dict[str, object] = {f"gpu0.{figure}": "!3" for figure in figures}
    seen = nvidia(window(), refused | {"count": 1, "gpu0.throttle": "!3"})
    for figure in ("peak_vram_mb", "gpu_util_pct", "temperature_c", "avg_power_w", "energy_j"):
        assert figure not in seen
        assert "Not Supported" in seen["unmeasured"][figure], figure
    assert seen["disturbed"] == "" or "throttled" not in seen["disturbed"]


def test_a_value_that_is_not_available_is_absent(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.power": 0xFFFFFFFF, "gpu0.energy": None, "count": 1})
    assert "peak_power_w" not in seen
    assert "not available" in seen["unmeasured"]["peak_power_w"]


def test_a_gpu_that_falls_off_the_bus_keeps_what_was_seen_and_says_so(nvidia: Nvidia) -> None:
    gone = ", ".join(
        f"gpu1_{figure}='!15'"
        for figure in ("memory_used", "util", "temperature", "power", "energy", "clock", "throttle")
    )
    seen = nvidia(window(f"say({gone})"))
    assert seen["peak_vram_mb"] == 5 * 1024
    assert "energy_j" not in seen
    assert "GPU is lost" in seen["unmeasured"]["energy_j"]
    assert any("gpu1 was lost" in note for note in seen["notes"])


def test_a_gpu_lost_before_the_run_is_no_crash(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu1.handle": "!15"})
    assert [gpu["gpu"] for gpu in seen["gpus"]] == ["gpu0"]


def test_full_device_memory_is_warned_about(nvidia: Nvidia) -> None:
    full = {"gpu1.memory_used": int(0.9 * 24 * 1024**3)}
    seen = nvidia(window(), full)
    assert seen["memory_warning"] is True
    assert any(note.startswith("memory_warning") for note in seen["notes"])
    higher = nvidia("show(sampler(memory_warning_pct=95).window(own()).open().close())", full)
    assert higher["memory_warning"] is False


@pytest.mark.parametrize("code", [9, 17, 18, 999])
def test_a_driver_that_does_not_come_up_is_a_reason(nvidia: Nvidia, code: int) -> None:
    seen = nvidia(window(), {"init": f"!{code}"})
    assert "peak_vram_mb" not in seen
    assert "NVML" in seen["unmeasured"]["peak_vram_mb"]


def test_a_gpu_that_hangs_delays_nothing(nvidia: Nvidia) -> None:
    """The reading takes a minute; the script is over long before the test's own limit."""
    seen = nvidia(
        """
s = sampler(sensor_wait_sec=0.0015)
say(gpu0_sleep_ms=60_000)
reports = [s.window(own()).open().close() for _ in range(3)]
show(reports[-1])
"""
    )
    assert "peak_vram_mb" not in seen
    assert "has not answered" in seen["unmeasured"]["peak_vram_mb"]
    assert seen["client_rss_mb"] > 0


def test_what_the_gpus_are_stands_in_the_environment(nvidia: Nvidia) -> None:
    block = nvidia(
        """
from pytest_benchrig.hardware.environment import environment, fingerprint
block = environment()
show([block, fingerprint(block)])
"""
    )
    assert block[0]["gpu_driver"] == "575.64"
    assert block[0]["gpus"][0] == {
        "name": "NVIDIA Test 24",
        "index": 0,
        "memory_total_mb": 24576,
        "power_limit_w": 300,
    }
    assert "NVIDIA Test 24 24576" in block[1]["gpus"]


def test_the_check_shows_what_each_gpu_reads(nvidia: Nvidia) -> None:
    lines = nvidia(
        """
from pytest_benchrig.hardware.check import sensors
show([[s.name, s.found, s.reading, s.missing] for s in sensors() if "nvml" in s.name])
""",
        {"gpu1.power": None},
    )
    [(_, found, reading, missing)] = lines
    assert found
    assert "gpu0 NVIDIA Test 24: 4096 of 24576 MiB, 60 % busy, 61 C, 150.0 W" in reading
    assert "gpu1 power_w" in missing
