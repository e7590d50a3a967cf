"""What a window has read so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_benchrig.hardware.energy import EnergyMeter
from pytest_benchrig.hardware.gpus import GpuFigures
from pytest_benchrig.hardware.readings import Battery, CpuTimes, Series
from pytest_benchrig.hardware.serving import Serving


@dataclass(slots=True)
class Gathered:
    """Everything that a window has read; the report is made of it."""

    serving: Serving
    interval_sec: float
    memory_warning_pct: float
    opened_at: float = 0.0
    closed_at: float = 0.0
    sample_count: int = 0
    client: Series = field(default_factory=Series)
    server: Series = field(default_factory=Series)
    rss: Series = field(default_factory=Series)
    memory: Series = field(default_factory=Series)
    swap: Series = field(default_factory=Series)
    memory_total_mb: float | None = None
    cpu_before: CpuTimes | None = None
    cpu_after: CpuTimes | None = None
    own_cpu_sec: float = 0.0
    serving_cpu_sec: float | None = None
    active: int = 0
    swapped_before: float | None = None
    swapped_after: float | None = None
    server_ended: bool = False
    gpus: dict[str, GpuFigures] = field(default_factory=dict)
    packages: dict[str, EnergyMeter] = field(default_factory=dict)
    cpu_mhz: Series = field(default_factory=Series)
    swap_traffic: Series = field(default_factory=Series)
    throttle_events: list[int] = field(default_factory=list)
    battery: Battery | None = None
    ours: frozenset[int] = frozenset()
    missing: dict[str, str] = field(default_factory=dict)
    samples: list[Mapping[str, float]] | None = None

    @property
    def duration_sec(self) -> float:
        """From the opening sample to the closing one."""
        return self.closed_at - self.opened_at
