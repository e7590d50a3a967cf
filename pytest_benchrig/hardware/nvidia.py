"""NVIDIA GPUs through NVML (the module pynvml of the distribution nvidia-ml-py).

Units as in the NVML reference: memory in bytes, power in mW, energy in mJ since the driver was
loaded, temperature in degrees Celsius, clocks in MHz.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_benchrig.hardware.readings import MIB, GpuProcess, GpuReading, SensorError, SlowReading

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")

ENERGY_REFRESH_SEC = 0.1
"""How often the energy counter moves: between 20 and 100 ms; unmeasured, the longer is taken."""

_REMEDY = "install or load NVIDIA's driver; in a container, start it with --gpus all"

_THROTTLES = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_POWER_CAP = 0x04
_UNKNOWN = 0xFFFFFFFFFFFFFFFF
_LOST_CODES = (15, 16)  # GPU_IS_LOST, RESET_REQUIRED


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of this machine, as NVML numbers them (by PCI bus)."""

    index: int
    name: str
    uuid: str
    handle: Any

    @property
    def key(self) -> str:
        """Its name among the GPUs of this run."""
        return f"gpu{self.index}" if not self.uuid.startswith("MIG-") else self.uuid


class NvidiaSensor:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible."""

    name = "nvml"
    cadence_sec = 0.2

    def __init__(self, visible: str | None = None) -> None:
        self._visible = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
        self._own_choice = self._visible
        self._nvml: ModuleType | None = None
        self._all: tuple[Device, ...] = ()
        self._shown: tuple[Device, ...] = ()
        self._lost: dict[str, str] = {}
        self.driver = ""
        self.notes: tuple[str, ...] = ()

    def probe(self) -> None:
        """Load NVML and list the GPUs.

        Raises:
            SensorError: No driver, no library, no GPU.
        """
        try:
            import pynvml
        except ImportError as problem:
            raise SensorError(
                f"pynvml cannot be imported: {problem}", "python -m pip install nvidia-ml-py"
            ) from None
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as problem:
            raise SensorError(f"NVML: {problem}", _REMEDY) from None
        self._nvml = pynvml
        self.driver = self._ask(pynvml.nvmlSystemGetDriverVersion, default="")
        self._all = tuple(d for d in (self._device(i) for i in range(count)) if d is not None)
        self.select(self._visible)
        if not self._all:
            raise SensorError("NVML: no GPU", _REMEDY)

    def _device(self, index: int) -> Device | None:
        nvml = self._module()
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as problem:
            self._lost[f"gpu{index}"] = f"GPU {index}: {problem}"
            return None
        name = _text(self._ask(nvml.nvmlDeviceGetName, handle, default="")) or f"GPU {index}"
        uuid = _text(self._ask(nvml.nvmlDeviceGetUUID, handle, default=""))
        return Device(index, name, uuid, handle)

    def select(self, visible: str | None) -> None:
        """Show what this value of ``CUDA_VISIBLE_DEVICES`` shows; ``None`` for not set."""
        self._visible = visible
        shown, note = visible_devices(self._all, visible, os.environ.get("CUDA_DEVICE_ORDER", ""))
        if visible and "MIG-" in visible:
            shown = (*shown, *self._mig(visible))
        self._shown = shown
        self.notes = (note,) if note else ()

    @property
    def visible(self) -> str | None:
        """The value of ``CUDA_VISIBLE_DEVICES`` in force."""
        return self._visible

    @property
    def own_choice(self) -> str | None:
        """That of this process, which holds where the server's is not known."""
        return self._own_choice

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that are read."""
        return self._shown

    def _mig(self, visible: str) -> Iterable[Device]:
        nvml = self._module()
        for number, entry in enumerate(part.strip() for part in visible.split(",")):
            if not entry.startswith("MIG-"):
                continue
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(entry.encode())
            except nvml.NVMLError as problem:
                self._lost[entry] = f"{entry}: {problem}"
                continue
            name = _text(self._ask(nvml.nvmlDeviceGetName, handle, default="")) or entry
            yield Device(number, name, entry, handle)

    def read(self) -> SlowReading:
        """All visible GPUs now.

        Raises:
            SensorError: None is visible.
        """
        devices = self._shown
        if not devices:
            raise SensorError(
                f"CUDA_VISIBLE_DEVICES={self._visible!r} leaves no GPU visible",
                "unset CUDA_VISIBLE_DEVICES, or list the GPUs that the server uses",
            )
        return SlowReading(gpus=tuple(self._read(device) for device in devices))

    def _read(self, device: Device) -> GpuReading:
        nvml, handle = self._module(), device.handle
        missing: dict[str, str] = {}

        def ask(figure: str, call: Callable[[], T]) -> T | None:
            if device.key in self._lost:
                missing[figure] = self._lost[device.key]
                return None
            try:
                return call()
            except nvml.NVMLError as problem:
                missing[figure] = f"{device.name} ({device.key}): {problem}"
                if getattr(problem, "value", None) in _LOST_CODES:
                    self._lost[device.key] = missing[figure]
            except (AttributeError, UnicodeDecodeError, ValueError) as problem:
                missing[figure] = f"{device.name} ({device.key}): {problem}"
            return None

        memory = ask("memory_used_mb", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        used = total = None
        if memory is not None:
            used = _known(memory.used, MIB, "memory_used_mb", missing)
            total = _known(memory.total, MIB, "memory_total_mb", missing)
            if total == 0:
                used = total = None
                missing["memory_used_mb"] = missing["memory_total_mb"] = (
                    f"{device.name} ({device.key}): NVML says that it has no memory of its own"
                )
        elif "memory_used_mb" in missing:
            missing["memory_total_mb"] = missing["memory_used_mb"]
        util = ask("util_pct", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        temperature = ask(
            "temperature_c",
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        power = ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        energy = ask("energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        clock = ask(
            "clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_GRAPHICS)
        )
        memory_clock = ask(
            "memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        )
        reasons = ask("throttles", lambda: self._reasons(handle))
        return GpuReading(
            key=device.key,
            name=device.name,
            memory_used_mb=used,
            memory_total_mb=total,
            util_pct=None if util is None else _known(util.gpu, 1, "util_pct", missing),
            temperature_c=None if temperature is None else float(temperature),
            power_w=None if power is None else _known(power, 1000, "power_w", missing),
            energy_j=None if energy is None else _known(energy, 1000, "energy_j", missing),
            clock_mhz=None if clock is None else float(clock),
            memory_clock_mhz=None if memory_clock is None else float(memory_clock),
            throttles=None if reasons is None else throttles_of(reasons),
            power_capped=None if reasons is None else bool(reasons & _POWER_CAP),
            missing=missing,
        )

    def _reasons(self, handle: Any) -> int:
        """The event reasons; drivers before 535 know them under their old name only."""
        nvml = self._module()
        try:
            return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except (nvml.NVMLError_FunctionNotFound, AttributeError):
            return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def processes(self) -> tuple[GpuProcess, ...]:
        """Who holds memory of the visible GPUs.

        Raises:
            SensorError: NVML cannot list them (WSL2, old drivers, no permission).
        """
        nvml = self._module()
        found: dict[tuple[str, int], GpuProcess] = {}
        for device in self._shown:
            for compute in (False, True):
                try:
                    listed = self._listed("Compute" if compute else "Graphics", device.handle)
                except nvml.NVMLError as problem:
                    if not compute:
                        continue  # compute processes are those that count
                    raise SensorError(
                        f"{device.name} ({device.key}): processes: {problem}"
                    ) from None
                for process in listed:
                    memory = process.usedGpuMemory
                    known = memory is not None and memory != _UNKNOWN
                    key = (device.key, int(process.pid))
                    # A process with both kinds of context is listed twice with its whole memory.
                    graphics = key in found and not found[key].compute
                    found[key] = GpuProcess(
                        device.key,
                        key[1],
                        memory / MIB if known else None,
                        compute and not graphics,
                    )
        return tuple(found.values())

    def _listed(self, kind: str, handle: Any) -> list[Any]:
        """Processes of one kind; drivers before 510 know the second form of the query only."""
        nvml = self._module()
        try:
            return list(getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle))
        except (nvml.NVMLError_FunctionNotFound, nvml.NVMLLibraryMismatchError):
            return list(getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2")(handle))

    def details(self) -> list[dict[str, object]]:
        """What does not change: name, memory, power limit, of every visible GPU."""
        nvml = self._module()
        result: list[dict[str, object]] = []
        for device in self._shown:
            entry: dict[str, object] = {"name": device.name, "index": device.index}
            memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, device.handle, default=None)
            if memory is not None and memory.total:
                entry["memory_total_mb"] = round(memory.total / MIB, 1)
            limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, device.handle, default=None)
            if limit is not None:
                entry["power_limit_w"] = limit / 1000
            result.append(entry)
        return result

    def energy_refresh_sec(self, budget_sec: float = 0.3) -> float | None:
        """How often the energy counter of the first GPU moves; ``None`` where it cannot be told.

        Polls it every 2 ms for at most ``budget_sec``; for use outside any window only.
        """
        nvml = self._module()
        if not self._shown:
            return None
        handle, pause = self._shown[0].handle, threading.Event()
        until = time.perf_counter() + budget_sec
        changes: list[float] = []
        last = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle, default=None)
        while last is not None and len(changes) < 4 and time.perf_counter() < until:
            pause.wait(0.002)
            now = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle, default=None)
            if now is not None and now != last:
                changes.append(time.perf_counter())
                last = now
        if len(changes) < 2:
            return None
        return (changes[-1] - changes[0]) / (len(changes) - 1)

    def _ask(self, call: Callable[..., T], *args: Any, default: Any) -> Any:
        """The answer, or the default where this GPU or driver has none."""
        try:
            return call(*args)
        except (self._module().NVMLError, UnicodeDecodeError):
            return default

    def _module(self) -> Any:
        if self._nvml is None:
            raise SensorError("NVML was not found", _REMEDY)
        return self._nvml


def visible_devices(
    devices: tuple[Device, ...], visible: str | None, order: str = ""
) -> tuple[tuple[Device, ...], str]:
    """The GPUs that CUDA shows under this ``CUDA_VISIBLE_DEVICES``, and a warning or "".

    CUDA's rule: indices or UUIDs (any unambiguous beginning), in this order, up to the first entry
    that names no GPU; an empty value shows none. Indices count in CUDA's own order, which is NVML's
    only under ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` or where all GPUs are alike.
    """
    if visible is None:
        return devices, ""
    shown: list[Device] = []
    by_index = False
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            continue
        if entry.isdecimal():
            matches = [d for d in devices if d.index == int(entry)]
            by_index = True
        else:
            matches = [d for d in devices if len(entry) > 4 and d.uuid.startswith(entry)]
        if len(matches) != 1:
            break
        if matches[0] not in shown:
            shown.append(matches[0])
    note = ""
    alike = len({device.name for device in devices}) < 2
    if by_index and not alike and order != "PCI_BUS_ID" and len(shown) < len(devices):
        note = (
            f"CUDA_VISIBLE_DEVICES={visible} counts in CUDA's order, fastest first, which may not "
            "be the order of these figures; set CUDA_DEVICE_ORDER=PCI_BUS_ID to be sure"
        )
    return tuple(shown), note


def throttles_of(reasons: int) -> tuple[str, ...]:
    """The reasons that mean heat or failing power; idle, set clocks and power caps are none."""
    return tuple(text for bit, text in _THROTTLES.items() if reasons & bit)


def _known(value: int, divisor: float, figure: str, missing: dict[str, str]) -> float | None:
    if value in (_UNKNOWN, 0xFFFFFFFF):
        missing[figure] = "NVML says that the value is not available"
        return None
    return value / divisor


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
