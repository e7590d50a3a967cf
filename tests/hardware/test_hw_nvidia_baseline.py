"""GPU memory before the model is loaded, and what the model then took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.hw_programs import TWO_GPUS
from tests.runtimes.routed import RoutedServer, ollama_routes
from tests.runtimes.support import as_json, capture

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


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_model_that_the_server_still_holds_is_told_in_the_records(
    libraries: dict[str, Path], tmp_path: Path, workers: str
) -> None:
    """Asked before any request, and by one worker for all."""
    held = {"models": [{"name": "phi4:latest", "size_vram": 700 * 2**20}]}
    server = RoutedServer(
        ollama_routes(
            **{"GET /api/ps": as_json(held), "POST /api/chat": capture("ollama/15-chat-long")}
        )
    )
    answers = tmp_path / "answers"
    answers.write_text("".join(f"{key} {value}\n" for key, value in TWO_GPUS.items()), "utf-8")
    gpus = {"LD_LIBRARY_PATH": str(libraries["current"]), "FAKE_NVML": str(answers)}
    entry = {"kind": "speed", "prompt": "Count to three."}
    scenarios = tmp_path / "scenarios" / "two.json"
    scenarios.parent.mkdir()
    scenarios.write_text(json.dumps([{"id": name, **entry} for name in ("one", "two")]), "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", workers]
    command += ["--benchrig-model", "ollama:smollm2:135m", "--benchrig-base-url", server.url]
    try:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **gpus},
            capture_output=True,
            text=True,
        )
    finally:
        server.stop()
    assert done.returncode == 0, done.stdout
    run = json.loads((tmp_path / "results" / "latest.json").read_text("utf-8"))
    measured = [r["hardware"] for r in run["records"] if r["phase"] == "measured"]
    assert len(measured) == 2
    for hardware in measured:
        assert hardware["vram_baseline_dirty"] is True
        assert hardware["vram_baseline_mb"] == 5 * 1024
