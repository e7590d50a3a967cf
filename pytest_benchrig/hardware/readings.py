"""What a sensor can say, as frozen values; units stand in the names (MiB, seconds, watts, joules).

A figure that a sensor cannot give is ``None`` and its reason stands in ``missing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1024 * 1024


class SensorError(Exception):
    """A sensor that is not there or cannot be read.

    Attributes:
        reason: What was tried and what came back, in one sentence.
        remedy: What the user can do about it; empty where nothing can be done.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Memory:
    """The host's memory; ``used`` is total minus available, as the kernel estimates it."""

    total_mb: float
    available_mb: float
    swap_used_mb: float | None = None

    @property
    def used_mb(self) -> float:
        """Memory that a new program could not have."""
        return self.total_mb - self.available_mb


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Processor time since boot, summed over all processors.

    ``busy_sec`` is what processes used: user, nice and system time, no interrupts, no waiting.
    ``cores`` has (busy, total) of each processor; ``resolution_sec`` is the step of the counters.
    """

    busy_sec: float
    total_sec: float
    steal_sec: float | None
    cores: tuple[tuple[float, float], ...] = ()
    resolution_sec: float = 0.01


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process: resident memory, and processor time with that of its reaped children."""

    rss_mb: float
    cpu_sec: float


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment.

    ``key`` tells this GPU from all others for the life of the process, ``energy_j`` is a counter
    of arbitrary origin, ``throttles`` the reasons why its clocks are held down by heat or faulty
    power, ``power_capped`` that they are held down by its power limit. ``missing`` has the reason
    for every figure that is ``None``, by its name here.
    """

    key: str
    name: str
    memory_used_mb: float | None = None
    memory_total_mb: float | None = None
    util_pct: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    throttles: tuple[str, ...] | None = None
    power_capped: bool | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU; ``memory_mb`` is ``None`` where it is not told."""

    key: str
    pid: int
    memory_mb: float | None
    compute: bool = True


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """A counter of used energy that starts again at 0 after ``range_j``."""

    name: str
    energy_j: float
    range_j: float


@dataclass(frozen=True, slots=True)
class Battery:
    """The machine's battery: ``discharging`` is true when it runs on it."""

    discharging: bool
    charge_pct: float | None = None


@dataclass(frozen=True, slots=True)
class SlowReading:
    """What one of the slow sensors said; the parts that it does not know stay empty."""

    gpus: tuple[GpuReading, ...] = ()
    counters: tuple[EnergyCounter, ...] = ()
    cpu_mhz: float | None = None
    throttle_events: int | None = None
    battery: Battery | None = None
    swapped_mb: float | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


class Series:
    """Peak, time-weighted mean, growth and integral of a figure, without keeping its samples.

    Times are seconds of one monotonic clock. Between two samples the figure is taken as a straight
    line (trapezoid rule), so uneven sampling does not bend the mean.
    """

    __slots__ = ("count", "first", "first_at", "integral", "last", "last_at", "lowest", "peak")

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = self.peak = self.lowest = 0.0
        self.first_at = self.last_at = 0.0
        self.integral = 0.0

    def add(self, at: float, value: float) -> None:
        """Take one more sample, not older than the last one."""
        if self.count == 0:
            self.first = self.peak = self.lowest = value
            self.first_at = at
        else:
            self.integral += (at - self.last_at) * (self.last + value) / 2
            self.peak = max(self.peak, value)
            self.lowest = min(self.lowest, value)
        self.count += 1
        self.last, self.last_at = value, at

    @property
    def span_sec(self) -> float:
        """Seconds between the first and the last sample."""
        return self.last_at - self.first_at

    @property
    def mean(self) -> float:
        """Time-weighted mean; the last value where all samples were taken at one moment."""
        return self.integral / self.span_sec if self.span_sec > 0 else self.last

    @property
    def growth(self) -> float:
        """How far the figure rose above its first sample."""
        return self.peak - self.first
