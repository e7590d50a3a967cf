"""Who else uses the GPUs, and what holds their clocks down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.nvidia import throttles_of
from tests.hardware.hw_programs import window

Nvidia = Callable[..., Any]


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (0x40, "hardware thermal slowdown"),
        (0x20, "software thermal slowdown"),
        (0x80, "power brake"),
        (0x08, "hardware slowdown"),
    ],
)
def test_throttling_by_heat_or_failing_power_disturbs(
    nvidia: Nvidia, reasons: int, text: str
) -> None:
    seen = nvidia(window(f"say(gpu0_throttle={reasons})"))
    assert f"gpu0: {text}" in seen["disturbed"]
    assert seen["gpus"][0]["throttles"] == [text]


def test_idle_clocks_and_the_power_limit_are_no_throttling(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.throttle": 0x1 | 0x2 | 0x4 | 0x10 | 0x100})
    assert "throttled" not in seen["disturbed"]
    assert "gpu0 ran at its power limit" in seen["notes"]


def test_a_foreign_process_on_the_gpu_disturbs(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.compute": f"1:{2 * 1024**3}"})
    assert "pid 1" in seen["disturbed"]
    assert "2048 MiB" in seen["disturbed"]
    assert seen["foreign_vram_mb"] == 2048


def test_the_server_and_the_harness_are_not_foreign(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
say(gpu0_compute=f"{os.getpid()}:{1024**3}")
s = sampler()
show(s.window(own()).open().close())
"""
    )
    assert "uses gpu0" not in seen["disturbed"]
    assert seen["foreign_vram_mb"] == 0


def test_a_desktop_is_noted_with_its_memory(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.graphics": f"1:{300 * 1024**2}"})
    assert "uses gpu0" not in seen["disturbed"]
    assert seen["foreign_vram_mb"] == 300
    assert any("pid 1" in note and "300 MiB" in note for note in seen["notes"])


def test_a_process_without_memory_figure_is_noted_only(nvidia: Nvidia) -> None:
    """As on WSL2, where the size is never told and no process is known by its own number."""
    seen = nvidia(window(), {"gpu0.compute": "1:N"})
    assert "uses gpu0" not in seen["disturbed"]
    assert any("pid 1" in note for note in seen["notes"])


def test_wsl2_lists_no_processes_at_all(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.compute": "!3"})
    assert "foreign_vram_mb" not in seen
    assert "Not Supported" in seen["unmeasured"]["foreign_vram_mb"]
    assert seen["peak_vram_mb"] == 5 * 1024


def test_foreign_use_is_not_judged_where_the_server_cannot_be_seen(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
s = sampler()
show(s.window(Serving("unseen", (), "127.0.0.1:1", "in a container")).open().close())
""",
        {"gpu0.compute": f"1:{2 * 1024**3}"},
    )
    assert seen["disturbed"] == "" or "uses gpu0" not in seen["disturbed"]
    assert seen["unverified"] is True
    assert seen["peak_vram_mb"] == 5 * 1024


def test_this_machines_gpus_say_nothing_about_a_remote_server(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
s = sampler()
show(s.window(Serving("remote", (), "10.0.0.1:80", "10.0.0.1 is another machine")).open().close())
"""
    )
    assert "peak_vram_mb" not in seen
    assert "another machine" in seen["unmeasured"]["peak_vram_mb"]
    assert seen["rss_coverage"] == "remote"


def test_an_old_driver_is_asked_in_its_own_words(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.compute": f"1:{1024**3}", "gpu0.throttle": 0x40}, driver="old")
    assert "hardware thermal slowdown" in seen["disturbed"]
    assert seen["foreign_vram_mb"] == 1024


@given(st.integers(0, 2**64 - 1))
def test_only_heat_and_failing_power_are_throttling(reasons: int) -> None:
    assert bool(throttles_of(reasons)) == bool(reasons & 0b1110_1000)
