"""The sampler: opens windows, ticks while one is open, and knows the sensors of this machine."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterable

from pytest_benchrig.hardware.amd import AmdSensor
from pytest_benchrig.hardware.apple import AppleSensor
from pytest_benchrig.hardware.baseline import Baseline
from pytest_benchrig.hardware.cpu import BatterySensor, ClockSensor, RaplSensor
from pytest_benchrig.hardware.host import Host, open_host
from pytest_benchrig.hardware.nvidia import ENERGY_REFRESH_SEC, NvidiaSensor
from pytest_benchrig.hardware.portable import PsutilSensor
from pytest_benchrig.hardware.readings import GpuProcess, GpuReading, SensorError, SlowReading
from pytest_benchrig.hardware.report import WindowReport
from pytest_benchrig.hardware.sensor import SensorThread, SlowSensor, bounded
from pytest_benchrig.hardware.serving import Serving
from pytest_benchrig.hardware.ticker import Ticker
from pytest_benchrig.hardware.window import Window

PROBE_SEC = 3.0
"""How long the sampler waits for its sensors to be found; later ones still join."""

SENSOR_WAIT_SEC = 0.0015
"""A reading of NVML takes 0.1 ms a GPU; what is slower must not hold up a request."""

GPU_SENSORS = ("nvml", "amdgpu", "apple")


class Sampler:
    """Measures the machine and the serving process around requests.

    One thread named ``benchrig-sampler`` runs while a window is open, and one for each slow sensor
    that was found; between windows there is none.

    Args:
        interval_sec: Seconds between two samples.
        root: Where /proc and /sys lie.
        keep_samples: Keep every sample in the report.
        memory_warning_pct: From which share of the device memory on to warn, in percent.
        own_pids: Processes that are ours with all their children, so that their load is not held
            against a measurement; default: this process, and the controller of an xdist worker.
        probe_sec: The longest wait for the sensors to be found.
        sensor_wait_sec: How long the opening and the close of a window each wait for the slow
            sensors, all together.
        sensors: Slow sensors to use instead of those that this system may have.

    Raises:
        ValueError: The interval or the percentage makes no sense.
    """

    def __init__(
        self,
        interval_sec: float = 0.15,
        *,
        root: str = "/",
        keep_samples: bool = False,
        memory_warning_pct: float = 88.0,
        own_pids: Iterable[int] | None = None,
        probe_sec: float = PROBE_SEC,
        sensor_wait_sec: float = SENSOR_WAIT_SEC,
        sensors: Iterable[SlowSensor] | None = None,
    ) -> None:
        self.interval_sec = _positive(interval_sec, "the sample interval", "seconds")
        self.memory_warning_pct = _positive(memory_warning_pct, "the memory warning", "percent")
        self.keep_samples = keep_samples
        self.sensor_wait_sec = sensor_wait_sec
        self.root = str(root)
        self.own_pids = tuple(own_pids) if own_pids is not None else harness_pids()
        self.energy_refresh_sec = ENERGY_REFRESH_SEC
        self.baseline: Baseline | None = None
        self.host: Host | None = None
        self.no_host = ""
        self._lock = threading.Lock()
        self._listening: list[Window] = []
        self.ticker = Ticker(self.interval_sec)
        chosen = known_sensors(self.root) if sensors is None else tuple(sensors)
        self.sensors = tuple(SensorThread(sensor, self._deliver) for sensor in chosen)
        for sensor in self.sensors:
            sensor.probe()
        try:
            self.host = open_host(self.root)
        except OSError as problem:
            self.no_host = str(problem)
        until = time.perf_counter() + probe_sec
        for sensor in self.sensors:
            sensor.wait_probed(until)

    def window(self, serving: Serving) -> Window:
        """A window around one request: ``with sampler.window(serving) as window: ...``.

        It opens when entered, or by its ``open()``; its report comes with ``close()`` or, after
        the block, as ``window.report``.
        """
        return Window(self, serving)

    def close(self) -> None:
        """Stop the threads and give back what was kept open; windows still open just end."""
        with self._lock:
            self._listening.clear()
        self.ticker.close()
        if self.host is not None:
            self.host.close()
            self.host = None
            self.no_host = "the sampler was closed"

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What windows need.

    def slow_sensors(self, serving: Serving) -> list[SensorThread]:
        """The slow sensors that say something about this server: none for a remote one."""
        if not serving.local:
            return []
        self.choose_gpus(serving)
        return [sensor for sensor in self.sensors if sensor.found]

    def choose_gpus(self, serving: Serving) -> None:
        """Read the GPUs that this server uses from now on, as far as that is told."""
        for thread in self.sensors:
            sensor = thread.sensor
            if thread.found and isinstance(sensor, NvidiaSensor):
                told = serving.devices_told or serving.visible_devices is not None
                visible = serving.visible_devices if told else sensor.own_choice
                if visible != sensor.visible:
                    sensor.select(visible)

    def listen(self, window: Window) -> None:
        """Let the window have the readings of the slow sensors from now on."""
        with self._lock:
            self._listening.append(window)

    def unlisten(self, window: Window) -> None:
        """Spare the window further readings of the slow sensors."""
        with self._lock:
            if window in self._listening:
                self._listening.remove(window)

    def why_absent(self, *names: str) -> str:
        """Why none of these sensors gave a figure."""
        reasons = [
            sensor.why_not() or f"the sensor {sensor.name} gave nothing in this window"
            for sensor in self.sensors
            if sensor.name in names
        ]
        return "; ".join(reasons) or "this system has no such sensor"

    def no_gpu(self) -> str:
        """Why there are no figures of a GPU."""
        return f"no GPU that can be read: {self.why_absent(*GPU_SENSORS)}"

    def gpu_notes(self) -> tuple[str, ...]:
        """What the GPU sensors want to be known."""
        return tuple(
            note
            for thread in self.sensors
            if thread.found and isinstance(thread.sensor, NvidiaSensor)
            for note in thread.sensor.notes
        )

    # What the baseline and the diagnostics need.

    def gpu_threads(self) -> list[SensorThread]:
        """The GPU sensors that were found."""
        return [s for s in self.sensors if s.found and s.name in GPU_SENSORS]

    def read_gpus(self, within_sec: float = 2.0) -> tuple[GpuReading, ...]:
        """The GPUs now, outside any window.

        Raises:
            SensorError: There is none, or it did not answer in time.
        """
        threads = self.gpu_threads()
        if not threads:
            raise SensorError(self.no_gpu())
        found: list[GpuReading] = []
        problems: list[str] = []
        for thread in threads:
            try:
                found += thread.read_now(within_sec).gpus
            except SensorError as problem:
                problems.append(problem.reason)
        if not found:
            raise SensorError("; ".join(problems))
        return tuple(found)

    def measure_energy_refresh(self, within_sec: float = 0.5) -> None:
        """Find out how often NVIDIA's energy counter moves, outside any window.

        Shorter windows are then flagged coarse; where it cannot be measured, the longest period
        known of such counters stands.
        """
        for thread in self.sensors:
            if thread.found and isinstance(thread.sensor, NvidiaSensor):
                try:
                    period = bounded(thread.name, thread.sensor.energy_refresh_sec, within_sec)
                except SensorError:
                    continue  # the period assumed before stays
                if period is not None:
                    self.energy_refresh_sec = period

    def gpu_processes(self, within_sec: float = 2.0) -> tuple[GpuProcess, ...]:
        """The processes on the GPUs now, outside any window.

        Raises:
            SensorError: They cannot be listed.
        """
        found: list[GpuProcess] = []
        for thread in self.gpu_threads():
            found += thread.processes_now(within_sec)
        return tuple(found)

    def _deliver(self, sensor: SensorThread, at: float, reading: SlowReading) -> None:
        with self._lock:
            windows = tuple(self._listening)
        for window in windows:
            window.deliver(sensor, at, reading)


def known_sensors(root: str = "/") -> tuple[SlowSensor, ...]:
    """The slow sensors that a machine of this kind may have."""
    sensors: list[SlowSensor] = [NvidiaSensor()]
    if sys.platform == "darwin":
        return (*sensors, AppleSensor(), PsutilSensor())
    if sys.platform == "win32":
        return (*sensors, PsutilSensor())
    return (*sensors, AmdSensor(root), RaplSensor(root), ClockSensor(root), BatterySensor(root))


def harness_pids() -> tuple[int, ...]:
    """This process, and under xdist its controller, whose children all workers are."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return os.getppid(), os.getpid()
    return (os.getpid(),)


def _positive(value: float, what: str, unit: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} must be a number of {unit}, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{what} must be more than 0 {unit}, not {value!r}")
    return float(value)


__all__ = ["Sampler", "Window", "WindowReport", "harness_pids", "known_sensors"]
