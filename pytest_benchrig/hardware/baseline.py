"""GPU memory before the model is loaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.hardware import peek
from pytest_benchrig.hardware.readings import SensorError
from pytest_benchrig.hardware.serving import Serving

if TYPE_CHECKING:
    from pytest_benchrig.hardware.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Baseline:
    """Memory in use on all visible GPUs before the model was loaded, in MiB.

    Attributes:
        vram_baseline_mb: ``None`` where no GPU could be read; ``reason`` says why.
        vram_baseline_dirty: A model is still loaded, other processes hold memory, or the reading
            never settled; ``dirty_mb`` of it are theirs as far as it is told.
        settled: Whether the reading stood still within the tolerance.
        waited_sec: How long that took, or how long was waited in vain.
    """

    vram_baseline_mb: float | None
    vram_baseline_dirty: bool = False
    dirty_mb: float | None = None
    dirty_reason: str = ""
    settled: bool = False
    waited_sec: float = 0.0
    reason: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON; what was not measured is left out."""
        pairs = {
            "vram_baseline_mb": self.vram_baseline_mb,
            "vram_baseline_dirty": self.vram_baseline_dirty,
            "dirty_mb": self.dirty_mb,
            "dirty_reason": self.dirty_reason or None,
            "settled": self.settled,
            "waited_sec": round(self.waited_sec, 3),
            "reason": self.reason or None,
        }
        return {key: value for key, value in pairs.items() if value is not None}


def take_baseline(
    sampler: Sampler,
    serving: Serving | None = None,
    *,
    loaded: Mapping[str, float | None] | None = None,
    interval_sec: float = 0.2,
    timeout_sec: float = 5.0,
    tolerance_mb: float = 8.0,
) -> Baseline:
    """Wait until the GPUs' memory stands still and take it; never raises, never waits for ever.

    It is settled when three readings in a row lie within the tolerance.

    Args:
        sampler: Whose sensors are read; its ``baseline`` is set, so that later windows tell
            ``vram_model_mb``.
        serving: Whose memory is a loaded model's and not another process's.
        loaded: Models that the runtime says are loaded, with their MiB of GPU memory if known.
        interval_sec: Between two readings.
        timeout_sec: The longest wait.
        tolerance_mb: Within which readings count as equal.
    """
    sampler.baseline = _take(
        sampler, serving, loaded or {}, interval_sec, timeout_sec, tolerance_mb
    )
    return sampler.baseline


def _take(
    sampler: Sampler,
    serving: Serving | None,
    loaded: Mapping[str, float | None],
    interval_sec: float,
    timeout_sec: float,
    tolerance_mb: float,
) -> Baseline:
    if serving is not None and not serving.local:
        return Baseline(None, reason="the model is served by another machine")
    if serving is not None:
        sampler.choose_gpus(serving)
    began = time.perf_counter()
    pause = threading.Event()
    readings: list[float] = []
    settled = False
    while True:
        left = timeout_sec - (time.perf_counter() - began)
        try:
            used = _used(sampler, max(left, 0.05))
        except SensorError as problem:
            waited = time.perf_counter() - began
            return Baseline(None, waited_sec=waited, reason=problem.reason)
        readings.append(used)
        settled = len(readings) >= 3 and max(readings[-3:]) - min(readings[-3:]) <= tolerance_mb
        if settled or time.perf_counter() - began + interval_sec > timeout_sec:
            break
        pause.wait(interval_sec)
    waited = time.perf_counter() - began
    sampler.measure_energy_refresh()
    dirty, reasons = _dirt(sampler, serving, loaded)
    if not settled:
        reasons.append(
            f"the reading still moved after {waited:.1f} s "
            f"({min(readings[-3:]):.0f} to {max(readings[-3:]):.0f} MiB)"
        )
    return Baseline(
        readings[-1], bool(reasons), dirty if reasons else None, "; ".join(reasons), settled, waited
    )


def _used(sampler: Sampler, within_sec: float) -> float:
    total = 0.0
    for gpu in sampler.read_gpus(within_sec):
        if gpu.memory_used_mb is None:
            raise SensorError(gpu.missing.get("memory_used_mb", f"{gpu.key}: not told"))
        total += gpu.memory_used_mb
    return total


def _dirt(
    sampler: Sampler, serving: Serving | None, loaded: Mapping[str, float | None]
) -> tuple[float | None, list[str]]:
    reasons = []
    amounts: list[float | None] = []
    for model, size in loaded.items():
        how_much = "" if size is None else f" with {size:.0f} MiB"
        reasons.append(f"{model} is still loaded{how_much}")
        amounts.append(size)
    try:
        processes = sampler.gpu_processes()
    except SensorError:
        processes = ()  # what cannot be listed cannot be held against the baseline
    host = sampler.host
    mine = host.tree(serving.pids) if host is not None and serving is not None else set()
    for process in processes:
        if process.memory_mb == 0:
            continue
        size = process.memory_mb
        how_much = "an unknown amount" if size is None else f"{size:.0f} MiB"
        if process.pid in mine:
            if not loaded:
                reasons.append(f"the server (pid {process.pid}) still holds {how_much}")
                amounts.append(size)
            continue
        name = peek.name(process.pid) or "process"
        reasons.append(f"{name} (pid {process.pid}) holds {how_much}")
        amounts.append(size)
    known = [amount for amount in amounts if amount is not None]
    return (sum(known) if known else None), reasons


def vram_model_mb(peak_vram_mb: float | None, baseline: Baseline | None) -> float | None:
    """GPU memory that the model took: peak minus baseline, never below 0; MiB."""
    if peak_vram_mb is None or baseline is None or baseline.vram_baseline_mb is None:
        return None
    return max(0.0, peak_vram_mb - baseline.vram_baseline_mb)
