"""NVIDIA's energy counters and power: what becomes energy, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.hardware.hw_programs import window

Nvidia = Callable[..., Any]


def test_energy_is_counted_over_the_window_on_all_gpus(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
import threading
s = sampler()
window = s.window(own()).open()
threading.Event().wait(0.25)  # as long as a short generation
say(gpu0_energy=1_030_000, gpu1_energy=2_010_000)
show(window.close())
"""
    )
    assert [gpu["energy_j"] for gpu in seen["gpus"]] == [30, 10]
    # The counters are read a moment before the opening and after the close, and what they counted
    # is taken for the window's share of that time.
    assert 0 < seen["energy_j"] <= 40
    watts = seen["energy_j"] / seen["duration_sec"]
    assert seen["avg_power_w"] == pytest.approx(watts, rel=1e-4)
    assert seen["energy_source"] == "nvml energy counter"
    assert seen["energy_coverage"] == "gpu"
    assert seen["energy_coarse"] is False


def test_a_window_shorter_than_the_counters_refresh_is_coarse(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
s = sampler()
s.energy_refresh_sec = 3600
window = s.window(own()).open()
say(gpu0_energy=1_000_500, gpu1_energy=2_000_500)
show(window.close())
"""
    )
    assert seen["energy_coarse"] is True
    assert seen["energy_refresh_sec"] == 3600


def test_a_counter_that_did_not_move_in_a_short_window_is_no_zero(nvidia: Nvidia) -> None:
    seen = nvidia(window())
    # Power is there, so it is integrated instead; 0 J would be an invention.
    assert seen["energy_source"] == "nvml power"
    assert seen["energy_j"] == pytest.approx(200 * seen["duration_sec"], rel=1e-3)
    assert seen["energy_coarse"] is True


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_wraps_goes_on(nvidia: Nvidia, bits: int) -> None:
    before = 2**bits - 1000
    seen = nvidia(
        """
s = sampler()
s.energy_refresh_sec = 1e-9
window = s.window(own()).open()
say(gpu0_energy=4000)
show(window.close())
""",
        {"gpu0.energy": before, "count": 1},
    )
    # In doubles, 64 bits of millijoules are known to a few joules only.
    assert seen["gpus"][0]["energy_j"] == pytest.approx(5, abs=0.1 if bits == 32 else 5)


def test_a_counter_that_is_set_back_gives_no_energy_of_its_own(nvidia: Nvidia) -> None:
    seen = nvidia(window("say(gpu0_energy=5)"), {"gpu0.energy": 900_000_000_000, "count": 1})
    assert seen["energy_source"] == "nvml power"
    assert "energy_j" not in seen["gpus"][0]
