"""From what a window has read to its report: every figure, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pytest_benchrig.hardware import peek
from pytest_benchrig.hardware.disturbance import (
    CpuUse,
    ForeignUse,
    cpu_reasons,
    foreign_use,
    swap_reason,
)
from pytest_benchrig.hardware.gathered import Gathered
from pytest_benchrig.hardware.gpus import COVERED_SHARE, Energy
from pytest_benchrig.hardware.readings import GpuProcess, SensorError
from pytest_benchrig.hardware.report import FIGURES, WindowReport
from pytest_benchrig.hardware.sensor import SensorThread, Ticket

if TYPE_CHECKING:
    from pytest_benchrig.hardware.sampler import Sampler

_GPU_SENSORS = ("nvml", "amdgpu", "apple")
_REMOTE = "the model is served by another machine"
_UNSEEN = "the serving process cannot be seen"


class _Figures:
    """Figures by name, and why the others are absent."""

    def __init__(self, missing: Mapping[str, str]) -> None:
        self.values: dict[str, Any] = {}
        self.missing = dict(missing)
        self.disturbed: list[str] = []
        self.notes: dict[str, None] = {}

    def put(self, name: str, value: object, reason: str) -> None:
        if value is None:
            self.missing.setdefault(name, reason)
        else:
            self.values[name] = value
            self.missing.pop(name, None)

    def absent(self, reason: str, *names: str) -> None:
        for name in names:
            self.missing.setdefault(name, reason)


def summarise(
    data: Gathered, sampler: Sampler, sensors: Mapping[SensorThread, Ticket]
) -> WindowReport:
    """The report of a closed window."""
    figures = _Figures(data.missing)
    no_host = sampler.no_host
    _memory(figures, data, no_host)
    _host(figures, data, no_host)
    if data.serving.local:
        _gpus(figures, data, sampler, sensors)
        _energy(figures, data, sampler)
        _growth(figures, data)
        _baseline(figures, sampler)
        _processor_sensors(figures, data, sampler)
        _memory_warning(figures, data, sampler.memory_warning_pct)
    coverage = "client_only"
    if not data.serving.local:
        coverage = "remote"
        for name in FIGURES:
            if name not in figures.values:
                figures.absent(_REMOTE, name)
        figures.disturbed.clear()
    elif data.serving.seen and data.server.count:
        coverage = "client_and_server"
    unverified = data.serving.kind == "unseen"
    if unverified:
        figures.notes[f"unverified: {data.serving.reason}"] = None
    if data.server_ended and data.serving.local:
        figures.notes["the serving process ended during the window"] = None
    values = figures.values
    return WindowReport(
        duration_sec=data.duration_sec,
        interval_sec=data.interval_sec,
        sample_count=data.sample_count,
        rss_coverage=coverage,  # type: ignore[arg-type]
        disturbed="; ".join(dict.fromkeys(figures.disturbed)),
        unverified=unverified,
        notes=tuple(figures.notes),
        unmeasured={
            name: reason
            for name, reason in figures.missing.items()
            if name in FIGURES and name not in values
        },
        samples=tuple(sorted(data.samples or (), key=lambda sample: sample["t"])),
        **values,
    )


def _memory(figures: _Figures, data: Gathered, no_host: str) -> None:
    server_why = _UNSEEN if data.serving.local else _REMOTE
    if data.serving.reason:
        server_why = data.serving.reason
    elif data.server_ended:
        server_why = "the serving process had ended"
    client_why = no_host or "this process could not be read"
    client = data.client if data.client.count else None
    server = data.server if data.server.count else None
    figures.put("client_rss_mb", client and client.peak, client_why)
    figures.put("server_rss_mb", server and server.peak, no_host or server_why)
    both = data.rss if data.rss.count else client
    figures.put("peak_rss_mb", both and both.peak, client_why)
    figures.put("mean_rss_mb", both and both.mean, client_why)
    figures.put("growth_rss_mb", both and both.growth, client_why)


def _host(figures: _Figures, data: Gathered, no_host: str) -> None:
    why = no_host or figures.missing.get("peak_memory_used_mb", "the host's memory was not read")
    memory = data.memory if data.memory.count else None
    total = data.memory_total_mb
    figures.put("memory_total_mb", total, why)
    lowest = None if memory is None or total is None else total - memory.peak
    figures.put("memory_available_mb", lowest, why)
    figures.put("peak_memory_used_mb", memory and memory.peak, why)
    figures.put("mean_memory_used_mb", memory and memory.mean, why)
    figures.put("growth_memory_used_mb", memory and memory.growth, why)
    swap = data.swap if data.swap.count else None
    figures.put("swap_used_mb", swap and swap.peak, no_host or "the host does not tell its swap")
    figures.put(
        "swap_growth_mb", swap and swap.growth, no_host or "the host does not tell its swap"
    )
    before, after = data.swapped_before, data.swapped_after
    swapped = None if before is None or after is None else max(0.0, after - before)
    if data.swap_traffic.count > 1:
        # psutil sees the growth of the used swap only; traffic both ways is seen here.
        swapped = max(swapped or 0.0, data.swap_traffic.growth)
    figures.put("swapped_mb", swapped, no_host or "the host does not count swap traffic")
    figures.disturbed += swap_reason(swapped)
    _cpu(figures, data, no_host)


def _cpu(figures: _Figures, data: Gathered, no_host: str) -> None:
    before, after = data.cpu_before, data.cpu_after
    names = (
        "cpu_pct",
        "cpu_per_core_pct",
        "own_cpu_share",
        "serving_cpu_share",
        "other_cpu_share",
        "steal_share",
    )
    if before is None or after is None:
        figures.absent(no_host or figures.missing.get("cpu_pct", "the host was not read"), *names)
        return
    steal = None
    if before.steal_sec is not None and after.steal_sec is not None:
        steal = after.steal_sec - before.steal_sec
    use = CpuUse(
        total_sec=after.total_sec - before.total_sec,
        busy_sec=after.busy_sec - before.busy_sec,
        own_sec=data.own_cpu_sec,
        serving_sec=data.serving_cpu_sec,
        steal_sec=steal,
        resolution_sec=after.resolution_sec,
        active=data.active,
    )
    if use.total_sec <= 0:
        step = after.resolution_sec * 1000
        figures.absent(f"the window is shorter than the clock's step ({step:.0f} ms)", *names)
        return
    share = use.share(use.busy_sec)
    figures.put("cpu_pct", None if share is None else 100 * share, "")
    cores = tuple(
        100 * min(1.0, max(0.0, (busy - busy_before) / (total - total_before)))
        for (busy_before, total_before), (busy, total) in zip(
            before.cores, after.cores, strict=False
        )
        if total > total_before
    )
    figures.put("cpu_per_core_pct", cores or None, "the host tells no single processors")
    server_why = data.serving.reason or _UNSEEN
    figures.put("own_cpu_share", use.share(use.own_sec), "")
    figures.put("serving_cpu_share", use.share(use.serving_sec), server_why)
    figures.put("other_cpu_share", use.share(use.other_sec), server_why)
    figures.put("steal_share", use.share(steal), "this system does not tell steal time")
    figures.disturbed += cpu_reasons(use)


def _gpus(
    figures: _Figures, data: Gathered, sampler: Sampler, sensors: Mapping[SensorThread, Ticket]
) -> None:
    why = sampler.no_gpu()
    asked = {s: ticket for s, ticket in sensors.items() if s.name in _GPU_SENSORS}
    gathered = [data.gpus[s.name] for s in asked if s.name in data.gpus]
    if asked and not gathered:
        why = "; ".join(s.why_not() or f"the sensor {s.name} gave nothing in time" for s in asked)
    missing: dict[str, str] = {}
    for gpu in gathered:
        missing.update(gpu.missing)
    # Several kinds of GPU in one machine: the one with most memory is where a model goes.
    main = max(gathered, key=lambda gpu: gpu.total_mb or 0.0, default=None)
    memory = main.memory if main is not None and main.memory.count else None
    memory_why = missing.get("memory_used_mb", why)
    figures.put("peak_vram_mb", memory and memory.peak, memory_why)
    figures.put("mean_vram_mb", memory and memory.mean, memory_why)
    figures.put("growth_vram_mb", memory and memory.growth, memory_why)
    figures.put("vram_total_mb", main and main.total_mb, memory_why)
    util = main.util if main is not None and main.util.count else None
    util_why = missing.get("util_pct", why)
    figures.put("gpu_util_pct", util and util.mean, util_why)
    figures.put("peak_gpu_util_pct", util and util.peak, util_why)
    heat = main.temperature if main is not None else None
    heat_why = _gpu_reason(gathered, "temperature_c", why)
    figures.put("temperature_c", heat and heat[0], heat_why)
    figures.put("mean_temperature_c", heat and heat[1], heat_why)
    clock = main.clock if main is not None and main.clock.count else None
    figures.put("gpu_clock_mhz", clock and clock.mean, missing.get("clock_mhz", why))
    power = main.power if main is not None and main.power.count else None
    figures.put("peak_power_w", power and power.peak, missing.get("power_w", why))
    if gathered:
        figures.values["gpus"] = tuple(entry for gpu in gathered for entry in gpu.to_json())
    for gpu in gathered:
        figures.disturbed += [f"throttled: {reason}" for reason in gpu.throttled()]
        figures.notes.update(dict.fromkeys(gpu.notes()))
    figures.notes.update(dict.fromkeys(sampler.gpu_notes()))
    _foreign(figures, data, asked, why)


def _gpu_reason(gathered: Collection[Any], figure: str, why: str) -> str:
    for gpu in gathered:
        for entry in gpu.to_json():
            if figure in entry.get("unmeasured", {}):
                return str(entry["unmeasured"][figure])
    return why


def _foreign(
    figures: _Figures, data: Gathered, asked: Mapping[SensorThread, Ticket], why: str
) -> None:
    found: list[GpuProcess] = []
    problems: list[str] = []
    for sensor, ticket in asked.items():
        try:
            found += sensor.processes(ticket)
        except SensorError as problem:
            problems.append(problem.reason)
    if not asked or problems:
        figures.absent("; ".join(problems) or why, "foreign_vram_mb")
        return
    if not data.serving.seen:
        figures.absent(
            "the serving process cannot be told from others on the GPU", "foreign_vram_mb"
        )
        return
    use: ForeignUse = foreign_use(
        found,
        data.ours | frozenset(data.serving.pids),
        {process.pid: peek.name(process.pid) for process in found},
        same_namespace=peek.first_pid_namespace(),
    )
    figures.put("foreign_vram_mb", use.memory_mb, "")
    figures.disturbed += use.reasons
    figures.notes.update(dict.fromkeys(use.notes))


def _energy(figures: _Figures, data: Gathered, sampler: Sampler) -> None:
    duration = data.duration_sec
    parts: list[tuple[str, Energy]] = []
    gpu_why = sampler.no_gpu()
    main = max(data.gpus.values(), key=lambda gpu: gpu.total_mb or 0.0, default=None)
    if main is not None:
        gpu = main.energy(duration, sampler.energy_refresh_sec)
        gpu_why = gpu.reason or gpu_why
        parts.append(("gpu", gpu))
    elif figures.missing.get("peak_vram_mb"):
        gpu_why = figures.missing["peak_vram_mb"]
    package = _packages(data)
    package_why = package.reason or sampler.why_absent("rapl")
    parts.append(("cpu_package", package))
    known = [(what, energy) for what, energy in parts if energy.joules is not None]
    by_part = {what: energy.joules for what, energy in known}
    figures.put("gpu_energy_j", by_part.get("gpu"), gpu_why)
    figures.put("cpu_energy_j", by_part.get("cpu_package"), package_why)
    why = f"GPU: {gpu_why}; processors: {package_why}"
    total = sum(energy.joules or 0.0 for _, energy in known) if known else None
    figures.put("energy_j", total, why)
    power = None if total is None or duration <= 0 else total / duration
    figures.put("avg_power_w", power, why)
    figures.put("energy_source", " + ".join(e.source for _, e in known) or None, why)
    figures.put("energy_coverage", "+".join(what for what, _ in known) or None, why)
    figures.put("energy_coarse", any(e.coarse for _, e in known) if known else None, why)
    refresh = max((energy.refresh_sec for _, energy in known), default=None)
    figures.put("energy_refresh_sec", refresh, why)


def _packages(data: Gathered) -> Energy:
    total = 0.0
    for name, meter in data.packages.items():
        if meter.broken:
            return Energy(None, reason=f"{name}: {meter.broken}")
        if meter.count < 2 or meter.span_sec < COVERED_SHARE * data.duration_sec:
            return Energy(
                None,
                reason=f"{name}: the counter answered over {meter.span_sec:.3f} s of "
                f"{data.duration_sec:.3f} s only",
            )
        total += meter.joules * data.duration_sec / meter.span_sec
    if not data.packages:
        return Energy(None)
    return Energy(total, "RAPL", data.duration_sec < _RAPL_REFRESH_SEC, _RAPL_REFRESH_SEC)


_RAPL_REFRESH_SEC = 0.001


def _growth(figures: _Figures, data: Gathered) -> None:
    values = figures.values
    unified = "apple" in data.gpus
    parts = []
    if data.server.count and not unified:
        parts.append(("server_rss", data.server.growth))
    if "growth_vram_mb" in values and not unified:
        parts.append(("vram", values["growth_vram_mb"]))
    if not parts and data.memory.count:
        parts.append(("host", data.memory.growth))
    why = figures.missing.get("growth_memory_used_mb", "no memory could be read")
    figures.put("memory_growth_mb", sum(g for _, g in parts) if parts else None, why)
    figures.put("memory_growth_source", "+".join(name for name, _ in parts) or None, why)


def _baseline(figures: _Figures, sampler: Sampler) -> None:
    from pytest_benchrig.hardware.baseline import vram_model_mb

    baseline = sampler.baseline
    if baseline is None or baseline.vram_baseline_mb is None:
        why = "no baseline was taken before the model was loaded"
        if baseline is not None:
            why = baseline.reason
        figures.absent(why, "vram_baseline_mb", "vram_model_mb", "vram_baseline_dirty")
        return
    figures.put("vram_baseline_mb", baseline.vram_baseline_mb, "")
    figures.put("vram_baseline_dirty", baseline.vram_baseline_dirty, "")
    model = vram_model_mb(figures.values.get("peak_vram_mb"), baseline)
    figures.put("vram_model_mb", model, figures.missing.get("peak_vram_mb", baseline.reason))
    if baseline.vram_baseline_dirty:
        figures.notes[f"vram_model_mb is a lower bound: {baseline.dirty_reason}"] = None


def _processor_sensors(figures: _Figures, data: Gathered, sampler: Sampler) -> None:
    clock = data.cpu_mhz if data.cpu_mhz.count else None
    figures.put("cpu_mhz", clock and clock.mean, sampler.why_absent("cpufreq", "psutil"))
    events = None
    if len(data.throttle_events) > 1:
        events = data.throttle_events[-1] - data.throttle_events[0]
    figures.put("throttle_events", events, sampler.why_absent("cpufreq"))
    if events is not None and events > 0:
        figures.disturbed.append(f"throttled: the processors were held down by heat {events} times")
    battery = data.battery
    why = sampler.why_absent("battery", "psutil")
    figures.put("on_battery", None if battery is None else battery.discharging, why)
    figures.put("battery_pct", None if battery is None else battery.charge_pct, why)
    if battery is not None and battery.discharging:
        charge = "" if battery.charge_pct is None else f" ({battery.charge_pct:.0f} % left)"
        figures.notes[f"the machine runs on its battery{charge}: it may save power"] = None


def _memory_warning(figures: _Figures, data: Gathered, limit_pct: float) -> None:
    fullest = max(
        (pct for gpu in data.gpus.values() if (pct := gpu.peak_used_pct) is not None), default=None
    )
    where = "the GPU's memory"
    if fullest is None and data.memory.count and data.memory_total_mb:
        fullest = 100 * data.memory.peak / data.memory_total_mb
        where = "the host's memory"
    why = figures.missing.get("peak_memory_used_mb", "no memory could be read")
    figures.put("memory_used_pct", fullest, why)
    figures.values["memory_warning"] = fullest is not None and fullest >= limit_pct
    if figures.values["memory_warning"]:
        figures.notes[
            f"memory_warning: {where} was {fullest:.0f} % full (from {limit_pct:g} % on, engines "
            "begin to move layers or fail)"
        ] = None
