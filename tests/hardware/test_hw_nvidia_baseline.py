"""GPU memory before the model is loaded, and what the model then took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Nvidia = Callable[..., Any]

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


def test_the_baseline_is_that_of_the_gpus_that_the_server_uses(nvidia: Nvidia) -> None:
    """Else the model's memory would be a peak of some GPUs minus a baseline of others."""
    seen = nvidia(
        """
from pytest_benchrig.hardware.baseline import take_baseline
s = sampler()
serving = Serving("own", (os.getpid(),), visible_devices="1")
take_baseline(s, serving, interval_sec=0.01)
say(gpu1_memory_used=3 * 1024**3)
show(s.window(serving).open().close())
"""
    )
    assert seen["vram_baseline_mb"] == 1024
    assert seen["vram_model_mb"] == 2048


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
