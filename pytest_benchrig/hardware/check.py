"""For ``--benchrig-check``: every sensor, what it reads now, or what is missing and the way out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from pytest_benchrig.hardware.host import Host, open_host
from pytest_benchrig.hardware.readings import GpuReading, SensorError, SlowReading
from pytest_benchrig.hardware.sampler import known_sensors
from pytest_benchrig.hardware.sensor import SlowSensor, bounded
from pytest_benchrig.hardware.serving import Serving


@dataclass(frozen=True, slots=True)
class SensorReading:
    """One sensor as it is now.

    Attributes:
        name: What it measures and through what (``NVIDIA GPUs (nvml)``).
        found: Whether it can be read.
        reading: What it reads now, for people; "" where it cannot be read.
        missing: What cannot be read, and why; also single figures of a sensor that was found.
        remedy: What to do about it; "" where nothing can be done.
    """

    name: str
    found: bool
    reading: str = ""
    missing: str = ""
    remedy: str = ""


_TITLES = {
    "nvml": "NVIDIA GPUs (nvml)",
    "amdgpu": "AMD GPUs (sysfs)",
    "apple": "Apple GPU (ioreg)",
    "rapl": "CPU package energy (RAPL)",
    "cpufreq": "CPU clock and throttling (sysfs)",
    "battery": "battery (sysfs)",
    "psutil": "CPU clock and battery (psutil)",
}


def sensors(
    root: str = "/", *, serving: Serving | None = None, within_sec: float = 3.0
) -> tuple[SensorReading, ...]:
    """Ask every sensor that a machine of this kind may have, each within a bounded time.

    Args:
        root: Where /proc and /sys lie.
        serving: The server that is asked about, to say whether its processes can be seen.
        within_sec: The longest wait for each sensor.
    """
    result = list(_host(root))
    if serving is not None:
        result.append(_server(serving, root))
    result += [_slow(sensor, within_sec) for sensor in known_sensors(root)]
    return tuple(result)


def _host(root: str) -> list[SensorReading]:
    try:
        host = open_host(root)
    except OSError as problem:
        return [SensorReading("host", False, "", str(problem), "python -m pip install psutil")]
    try:
        return [
            _fast(f"memory ({host.source})", lambda: _memory(host)),
            _fast(f"processors ({host.source})", lambda: _processors(host)),
            _fast(f"swap traffic ({host.source})", lambda: f"{host.swapped_mb():.0f} MiB so far"),
            _fast(f"this process ({host.source})", lambda: _own(host)),
        ]
    finally:
        host.close()


def _fast(name: str, read: Callable[[], str]) -> SensorReading:
    try:
        return SensorReading(name, True, read())
    except OSError as problem:
        return SensorReading(name, False, "", str(problem))


def _memory(host: Host) -> str:
    memory = host.memory()
    swap = "unknown" if memory.swap_used_mb is None else f"{memory.swap_used_mb:.0f} MiB"
    return f"{memory.used_mb:.0f} of {memory.total_mb:.0f} MiB used, swap in use: {swap}"


def _processors(host: Host) -> str:
    times = host.cpu()
    steal = "not told" if times.steal_sec is None else f"{times.steal_sec:.1f} s since boot"
    return f"{len(times.cores)} processors, counted in {times.resolution_sec:g} s, steal: {steal}"


def _own(host: Host) -> str:
    process = host.process(os.getpid())
    try:
        return f"pid {process.pid}: {process.sample().rss_mb:.0f} MiB resident"
    finally:
        process.close()


def _server(serving: Serving, root: str) -> SensorReading:
    name = f"serving process of {serving.endpoint or 'this process'}"
    if not serving.seen:
        remedy = ""
        if serving.kind == "unseen":
            remedy = "run the tests on the same machine as the server, and as its user or root"
        return SensorReading(name, False, "", serving.reason, remedy)
    try:
        host = open_host(root)
    except OSError as problem:
        return SensorReading(name, False, "", str(problem))
    try:
        total = 0.0
        pids = sorted(host.tree(serving.pids))
        for pid in pids:
            process = host.process(pid)
            try:
                total += process.sample().rss_mb
            finally:
                process.close()
    except OSError as problem:
        return SensorReading(name, False, "", f"it ended: {problem}")
    finally:
        host.close()
    listed = ", ".join(map(str, pids))
    return SensorReading(name, True, f"pid {listed}: {total:.0f} MiB resident")


def _slow(sensor: SlowSensor, within_sec: float) -> SensorReading:
    name = _TITLES.get(sensor.name, sensor.name)

    def read() -> SlowReading:
        sensor.probe()
        return sensor.read()

    try:
        reading = bounded(sensor.name, read, within_sec)
    except SensorError as problem:
        return SensorReading(name, False, "", problem.reason, problem.remedy)
    missing = [f"{figure}: {reason}" for figure, reason in reading.missing.items()]
    for gpu in reading.gpus:
        missing += [f"{gpu.key} {figure}: {reason}" for figure, reason in gpu.missing.items()]
    return SensorReading(name, True, "; ".join(_said(reading)), "; ".join(missing))


def _said(reading: SlowReading) -> list[str]:
    said = [_gpu(gpu) for gpu in reading.gpus]
    said += [f"{c.name}: {c.energy_j:.1f} J counted" for c in reading.counters]
    if reading.cpu_mhz is not None:
        said.append(f"{reading.cpu_mhz:.0f} MHz")
    if reading.throttle_events is not None:
        said.append(f"throttled {reading.throttle_events} times since boot")
    if reading.battery is not None:
        charge = reading.battery.charge_pct
        state = "discharging" if reading.battery.discharging else "on mains"
        said.append(state if charge is None else f"{state}, {charge:.0f} %")
    return said


def _gpu(gpu: GpuReading) -> str:
    parts = []
    if gpu.memory_used_mb is not None:
        total = "?" if gpu.memory_total_mb is None else f"{gpu.memory_total_mb:.0f}"
        parts.append(f"{gpu.memory_used_mb:.0f} of {total} MiB")
    for value, text in (
        (gpu.util_pct, "{:.0f} % busy"),
        (gpu.temperature_c, "{:.0f} C"),
        (gpu.power_w, "{:.1f} W"),
        (gpu.clock_mhz, "{:.0f} MHz"),
    ):
        if value is not None:
            parts.append(text.format(value))
    if gpu.throttles:
        parts.append(f"throttled: {', '.join(gpu.throttles)}")
    return f"{gpu.key} {gpu.name}: {', '.join(parts) or 'says nothing'}"


__all__ = ["SensorReading", "sensors"]
