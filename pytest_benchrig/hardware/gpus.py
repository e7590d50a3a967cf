"""The figures of one kind of GPU over a window: each GPU, and all together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_benchrig.hardware.energy import EnergyMeter
from pytest_benchrig.hardware.readings import GpuReading, Series

_FIGURES = (
    "memory_used_mb",
    "util_pct",
    "temperature_c",
    "power_w",
    "clock_mhz",
    "memory_clock_mhz",
)
_COUNTER_RANGES_J = (2**32 / 1000, 2**64 / 1000)

_POWER_REFRESH_SEC = 1.0
"""A driver's power figure is itself a mean over up to a second."""

COVERED_SHARE = 0.9
"""A sensor must have answered over this share of a window for its energy to be the window's."""


@dataclass(slots=True)
class _OneGpu:
    name: str
    series: dict[str, Series] = field(default_factory=lambda: {f: Series() for f in _FIGURES})
    energy: EnergyMeter = field(default_factory=lambda: EnergyMeter(_COUNTER_RANGES_J))
    total_mb: float | None = None
    peak_used_pct: float | None = None
    throttles: dict[str, None] = field(default_factory=dict)
    power_capped: bool = False
    missing: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a window: joules, what gave them, and whether they are only coarse.

    ``refresh_sec`` is how often the source moves; a shorter window is coarse.
    """

    joules: float | None
    source: str = ""
    coarse: bool = False
    refresh_sec: float = 0.0
    reason: str = ""


class GpuFigures:
    """Gathers the readings of one GPU sensor.

    Sums exist only over readings to which every visible GPU contributed: a sum that lacks one GPU
    is another figure. Each GPU's own figures are kept beside them.
    """

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self._gpus: dict[str, _OneGpu] = {}
        self.memory = Series()
        self.power = Series()
        self.util = Series()
        self.clock = Series()
        self.missing: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._gpus)

    def add(self, at: float, readings: tuple[GpuReading, ...]) -> None:
        """Take one reading of all GPUs."""
        for reading in readings:
            self._add_one(at, reading)
        for series, figure, mean in (
            (self.memory, "memory_used_mb", False),
            (self.power, "power_w", False),
            (self.util, "util_pct", True),
            (self.clock, "clock_mhz", True),
        ):
            values = [getattr(reading, figure) for reading in readings]
            known = [value for value in values if value is not None]
            if len(known) == len(values) and values:
                series.add(at, sum(known) / (len(known) if mean else 1))
            else:
                lacking = next((r for r in readings if getattr(r, figure) is None), None)
                if lacking is not None:
                    self.missing[figure] = lacking.missing.get(figure, f"{lacking.key}: not told")

    def _add_one(self, at: float, reading: GpuReading) -> None:
        gpu = self._gpus.setdefault(reading.key, _OneGpu(reading.name))
        for figure, series in gpu.series.items():
            value = getattr(reading, figure)
            if value is not None:
                series.add(at, value)
            elif series.count and figure in reading.missing:
                gpu.lost[figure] = reading.missing[figure]
        if reading.energy_j is not None:
            gpu.energy.add(at, reading.energy_j)
        if reading.memory_total_mb is not None:
            gpu.total_mb = reading.memory_total_mb
            if reading.memory_used_mb is not None and reading.memory_total_mb > 0:
                pct = 100 * reading.memory_used_mb / reading.memory_total_mb
                gpu.peak_used_pct = max(gpu.peak_used_pct or 0.0, pct)
        gpu.throttles.update(dict.fromkeys(reading.throttles or ()))
        gpu.power_capped = gpu.power_capped or bool(reading.power_capped)
        gpu.missing.update(reading.missing)

    @property
    def total_mb(self) -> float | None:
        """Memory of all GPUs together."""
        totals = [gpu.total_mb for gpu in self._gpus.values()]
        known = [total for total in totals if total is not None]
        return sum(known) if known and len(known) == len(totals) else None

    @property
    def peak_used_pct(self) -> float | None:
        """How full the fullest GPU was."""
        known = [g.peak_used_pct for g in self._gpus.values() if g.peak_used_pct is not None]
        return max(known) if known else None

    @property
    def temperature(self) -> tuple[float, float] | None:
        """Peak and mean of the hottest GPU."""
        each = [g.series["temperature_c"] for g in self._gpus.values()]
        known = [(series.peak, series.mean) for series in each if series.count]
        return max(known) if known else None

    def throttled(self) -> Iterable[str]:
        """What held a GPU's clocks down: ``gpu0: hardware thermal slowdown``."""
        for key, gpu in self._gpus.items():
            for reason in gpu.throttles:
                yield f"{key}: {reason}"

    def notes(self) -> Iterable[str]:
        """What a reader should know of single GPUs."""
        for key, gpu in self._gpus.items():
            if gpu.power_capped:
                yield f"{key} ran at its power limit"
            for reason in dict.fromkeys(gpu.lost.values()):
                yield f"{key} was lost during the window: {reason}"

    def energy(self, duration_sec: float, refresh_sec: float) -> Energy:
        """Energy of all GPUs over the window, from their counters, else from their power."""
        counted = self._counted(duration_sec, refresh_sec)
        if counted.joules is not None:
            return counted
        reasons = [counted.reason]
        lost = next((r for g in self._gpus.values() for r in g.lost.values()), "")
        span = self.power.span_sec
        if lost:
            reasons.append(lost)
        elif self.power.count < 2:
            reasons.append(self.missing.get("power_w", "power was read once only"))
        elif span < COVERED_SHARE * duration_sec:
            reasons.append(_too_little("power", span, duration_sec))
        else:
            joules = self.power.mean * duration_sec
            coarse = duration_sec < _POWER_REFRESH_SEC
            return Energy(joules, f"{self.sensor} power", coarse, _POWER_REFRESH_SEC)
        return Energy(None, reason="; ".join(dict.fromkeys(reasons)))

    def _counted(self, duration_sec: float, refresh_sec: float) -> Energy:
        total = 0.0
        for key, gpu in self._gpus.items():
            meter = gpu.energy
            if meter.broken:
                return Energy(None, reason=f"{key}: {meter.broken}")
            if "energy_j" in gpu.missing or meter.count < 2:
                return Energy(
                    None, reason=gpu.missing.get("energy_j", f"{key}: the counter was read once")
                )
            if meter.span_sec < COVERED_SHARE * duration_sec:
                return Energy(None, reason=_too_little(key, meter.span_sec, duration_sec))
            if meter.joules == 0 and duration_sec < 2 * refresh_sec:
                return Energy(
                    None,
                    reason=f"{key}: the window is shorter than the energy counter's refresh "
                    f"({refresh_sec * 1000:.0f} ms), and it did not move",
                )
            total += meter.joules * duration_sec / meter.span_sec
        coarse = duration_sec < refresh_sec
        return Energy(total, f"{self.sensor} energy counter", coarse, refresh_sec)

    def to_json(self) -> list[dict[str, object]]:
        """Each GPU's own figures: mean and peak, absent ones with their reason."""
        result = []
        for key, gpu in self._gpus.items():
            entry: dict[str, object] = {"gpu": key, "name": gpu.name}
            if gpu.total_mb is not None:
                entry["memory_total_mb"] = round(gpu.total_mb, 3)
            for figure, series in gpu.series.items():
                if series.count:
                    entry[f"peak_{figure}"] = round(series.peak, 3)
                    entry[f"mean_{figure}"] = round(series.mean, 3)
            if gpu.energy.count > 1 and not gpu.energy.broken:
                entry["energy_j"] = round(gpu.energy.joules, 6)
            if gpu.throttles:
                entry["throttles"] = list(gpu.throttles)
            if gpu.missing:
                entry["unmeasured"] = dict(gpu.missing)
            result.append(entry)
        return result


def _too_little(what: str, span_sec: float, duration_sec: float) -> str:
    return f"{what}: the sensor answered over {span_sec:.3f} s of {duration_sec:.3f} s only"
