"""NVIDIA GPUs: the real pynvml on a library whose answers are written by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.nvidia import Device, throttles_of, visible_devices

Nvidia = Callable[..., Any]

WINDOW = """
s = sampler()
window = s.window(own()).open()
{between}
show(window.close())
"""


def window(between: str = "") -> str:
    return WINDOW.format(between=between)


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


@pytest.mark.parametrize(
    ("visible", "keys"),
    [
        ("1", ["gpu1"]),
        ("1,0", ["gpu1", "gpu0"]),
        ("GPU-bbbb2222-0000", ["gpu1"]),
        ("GPU-aaaa", ["gpu0"]),
        ("0,7,1", ["gpu0"]),
        ("0,0", ["gpu0"]),
    ],
)
def test_only_visible_gpus_count(nvidia: Nvidia, visible: str, keys: list[str]) -> None:
    seen = nvidia(window(), CUDA_VISIBLE_DEVICES=visible)
    assert [gpu["gpu"] for gpu in seen["gpus"]] == keys
    assert seen["peak_vram_mb"] == sum({"gpu0": 4096, "gpu1": 1024}[key] for key in keys)


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_no_visible_gpu_is_said(nvidia: Nvidia, visible: str) -> None:
    seen = nvidia(window(), CUDA_VISIBLE_DEVICES=visible)
    assert "peak_vram_mb" not in seen
    assert "CUDA_VISIBLE_DEVICES" in seen["unmeasured"]["peak_vram_mb"]


def test_the_servers_own_choice_of_gpus_wins(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
s = sampler()
show(s.window(Serving("own", (os.getpid(),), visible_devices="1")).open().close())
"""
    )
    assert [gpu["gpu"] for gpu in seen["gpus"]] == ["gpu1"]


def test_unlike_gpus_chosen_by_number_get_a_warning(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu1.name": "NVIDIA Other"}, CUDA_VISIBLE_DEVICES="0")
    assert any("CUDA_DEVICE_ORDER" in note for note in seen["notes"])
    sure = nvidia(
        window(),
        {"gpu1.name": "NVIDIA Other"},
        CUDA_VISIBLE_DEVICES="0",
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
    )
    assert not any("CUDA_DEVICE_ORDER" in note for note in sure.get("notes", []))


def test_an_old_driver_is_asked_in_its_own_words(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu0.compute": f"1:{1024**3}", "gpu0.throttle": 0x40}, driver="old")
    assert "hardware thermal slowdown" in seen["disturbed"]
    assert seen["foreign_vram_mb"] == 1024


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


BASELINE = """
from pytest_benchrig.hardware.baseline import take_baseline
s = sampler()
show(take_baseline(s, own(), interval_sec=0.01, **{options}))
"""


def test_a_quiet_gpu_gives_a_clean_baseline(nvidia: Nvidia) -> None:
    seen = nvidia(BASELINE.format(options={}))
    assert seen["vram_baseline_mb"] == 5 * 1024
    assert seen["vram_baseline_dirty"] is False
    assert seen["settled"] is True


def test_what_others_hold_makes_the_baseline_dirty(nvidia: Nvidia) -> None:
    seen = nvidia(BASELINE.format(options={}), {"gpu0.compute": f"1:{3 * 1024**3}"})
    assert seen["vram_baseline_dirty"] is True
    assert seen["dirty_mb"] == 3072
    assert "pid 1" in seen["dirty_reason"]


def test_a_model_that_is_still_loaded_makes_the_baseline_dirty(nvidia: Nvidia) -> None:
    seen = nvidia(BASELINE.format(options={"loaded": {"qwen3:8b": 5120.0}}))
    assert seen["vram_baseline_dirty"] is True
    assert seen["dirty_mb"] == 5120
    assert "qwen3:8b is still loaded" in seen["dirty_reason"]


def test_a_reading_that_never_settles_is_taken_and_called_dirty(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
import threading
from pytest_benchrig.hardware.baseline import take_baseline
s = sampler()
stop = threading.Event()
def move():
    size = 0
    while not stop.wait(0.005):
        size += 64 * 1024**2
        say(gpu0_memory_used=size)
mover = threading.Thread(target=move)
mover.start()
try:
    baseline = take_baseline(s, own(), interval_sec=0.05, timeout_sec=0.5, tolerance_mb=1)
finally:
    stop.set()
    mover.join()
show(baseline)
"""
    )
    assert seen["settled"] is False
    assert seen["vram_baseline_dirty"] is True
    assert "still moved" in seen["dirty_reason"]


def test_the_models_memory_is_the_peak_above_the_baseline(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
from pytest_benchrig.hardware.baseline import take_baseline
s = sampler()
take_baseline(s, own(), interval_sec=0.01)
say(gpu0_memory_used=10 * 1024**3)
show(s.window(own()).open().close())
"""
    )
    assert seen["vram_baseline_mb"] == 5 * 1024
    assert seen["vram_model_mb"] == 6 * 1024
    assert seen["vram_baseline_dirty"] is False


GPUS = tuple(Device(i, "NVIDIA Test", f"GPU-{i}{i}{i}{i}-0000", None) for i in range(4))


@given(st.lists(st.integers(0, 3), unique=True))
def test_every_choice_of_gpus_is_shown_in_its_order(chosen: list[int]) -> None:
    by_number, _ = visible_devices(GPUS, ",".join(map(str, chosen)))
    by_uuid, _ = visible_devices(GPUS, ",".join(GPUS[i].uuid for i in chosen))
    assert [d.index for d in by_number] == [d.index for d in by_uuid] == chosen


@given(st.text())
def test_no_value_of_the_variable_breaks_the_choice(value: str) -> None:
    shown, _ = visible_devices(GPUS, value)
    assert set(shown) <= set(GPUS)


def test_an_ambiguous_uuid_shows_nothing() -> None:
    twins = (Device(0, "a", "GPU-1234-a", None), Device(1, "a", "GPU-1234-b", None))
    assert visible_devices(twins, "GPU-1234")[0] == ()


@given(st.integers(0, 2**64 - 1))
def test_only_heat_and_failing_power_are_throttling(reasons: int) -> None:
    assert bool(throttles_of(reasons)) == bool(reasons & 0b1110_1000)
