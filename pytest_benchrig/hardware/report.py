"""What a window found: plain figures, each either there or absent with its reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue

RssCoverage: TypeAlias = Literal["client_only", "client_and_server", "remote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """The hardware figures of one window.

    ``peak_`` is the highest sample, ``mean_`` the time-weighted mean, ``growth_`` how far the
    figure rose above its value at the opening. Memory is MiB, power watts, energy joules, a
    ``_share`` 0 to 1 of all processors, a ``_pct`` 0 to 100. A figure that is ``None`` has its
    reason in ``unmeasured``.

    Attributes:
        duration_sec: From the opening sample to the closing one.
        rss_coverage: What ``peak_rss_mb`` covers: this process (``client_only``), the serving
            processes too (``client_and_server``), or this process while the model is served
            elsewhere (``remote``).
        peak_rss_mb: Client and server together at the worst moment; pages that several server
            processes share count once for each.
        memory_growth_mb: Growth of what serves the model; ``memory_growth_source`` says whether
            ``server_rss``, ``vram``, both, or the whole ``host`` was watched.
        memory_used_pct: How full the device memory was at worst: the fullest GPU, else the host.
        energy_j: Of everything in ``energy_coverage`` (``gpu``, ``cpu_package`` or both).
        energy_coarse: The window is shorter than the source's refresh (``energy_refresh_sec``), so
            that the figure is only an order of magnitude.
        swapped_mb: Moved to and from swap, where the system counts it.
        disturbed: Why the timings of this window are not to be trusted; "" if they are.
        unverified: The server is on this machine but cannot be seen, so that the load of other
            processes is not known.
        notes: Sentences that a reader of the figures should know.
        samples: One object a sample, ``t`` seconds after the opening; only where asked for.
    """

    duration_sec: float
    interval_sec: float
    sample_count: int
    rss_coverage: RssCoverage

    client_rss_mb: float | None = None
    server_rss_mb: float | None = None
    peak_rss_mb: float | None = None
    mean_rss_mb: float | None = None
    growth_rss_mb: float | None = None
    memory_growth_mb: float | None = None
    memory_growth_source: str | None = None

    memory_total_mb: float | None = None
    memory_available_mb: float | None = None
    peak_memory_used_mb: float | None = None
    mean_memory_used_mb: float | None = None
    growth_memory_used_mb: float | None = None
    memory_used_pct: float | None = None
    swap_used_mb: float | None = None
    swap_growth_mb: float | None = None
    swapped_mb: float | None = None

    cpu_pct: float | None = None
    cpu_per_core_pct: tuple[float, ...] | None = None
    cpu_mhz: float | None = None
    own_cpu_share: float | None = None
    serving_cpu_share: float | None = None
    other_cpu_share: float | None = None
    steal_share: float | None = None
    throttle_events: int | None = None

    gpus: tuple[Mapping[str, JsonValue], ...] = ()
    peak_vram_mb: float | None = None
    mean_vram_mb: float | None = None
    growth_vram_mb: float | None = None
    vram_total_mb: float | None = None
    vram_baseline_mb: float | None = None
    vram_model_mb: float | None = None
    vram_baseline_dirty: bool | None = None
    gpu_util_pct: float | None = None
    peak_gpu_util_pct: float | None = None
    temperature_c: float | None = None
    mean_temperature_c: float | None = None
    gpu_clock_mhz: float | None = None
    foreign_vram_mb: float | None = None

    avg_power_w: float | None = None
    peak_power_w: float | None = None
    energy_j: float | None = None
    energy_source: str | None = None
    energy_coverage: str | None = None
    energy_coarse: bool | None = None
    energy_refresh_sec: float | None = None
    gpu_energy_j: float | None = None
    cpu_energy_j: float | None = None

    on_battery: bool | None = None
    battery_pct: float | None = None

    disturbed: str = ""
    unverified: bool = False
    memory_warning: bool = False
    notes: tuple[str, ...] = ()
    unmeasured: Mapping[str, str] = dataclasses.field(default_factory=dict)
    samples: tuple[Mapping[str, float], ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON for ``Record.hardware``; absent figures stand under ``unmeasured`` only."""
        result: dict[str, JsonValue] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None or (field.name in ("gpus", "samples", "notes") and not value):
                continue
            result[field.name] = _plain(value)
        return result


_LABELS = frozenset(
    {"memory_growth_source", "vram_baseline_dirty", "energy_source", "energy_coverage"}
    | {"energy_coarse", "energy_refresh_sec"}
)
"""What only describes another figure, and is absent with it."""

FIGURES = tuple(
    field.name
    for field in dataclasses.fields(WindowReport)
    if "None" in str(field.type) and field.name not in _LABELS
)
"""The names of all figures that may be absent."""


def _plain(value: object) -> JsonValue:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
