"""AMD GPUs from sysfs, as the kernel's amdgpu driver documents it.

``mem_info_vram_used`` and ``_total`` are bytes, ``gpu_busy_percent`` percent; hwmon has power in
microwatts and temperature in thousandths of a degree. Processes: ``/sys/class/kfd/kfd/proc``.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from pytest_benchrig.hardware.files import listing, read_number, read_text, under
from pytest_benchrig.hardware.readings import MIB, GpuProcess, GpuReading, SensorError, SlowReading

_VENDOR = "0x1002"
_CARD = re.compile(r"card\d+\Z")


class AmdSensor:
    """The GPUs of the amdgpu driver below ``root``."""

    name = "amdgpu"
    cadence_sec = 0.2

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._cards: tuple[Path, ...] = ()

    def probe(self) -> None:
        """List the cards.

        Raises:
            SensorError: There is none.
        """
        folder = under(self._root, "sys/class/drm")
        self._cards = tuple(
            entry / "device"
            for entry in listing(folder)
            if _CARD.match(entry.name) and _is_amd(entry / "device")
        )
        if not self._cards:
            raise SensorError(f"{folder}: no card of the amdgpu driver")

    def read(self) -> SlowReading:
        """All cards now."""
        return SlowReading(gpus=tuple(_read_card(card) for card in self._cards))

    def processes(self) -> tuple[GpuProcess, ...]:
        """Who holds memory of the cards for computing.

        Raises:
            SensorError: The kernel's compute driver does not tell.
        """
        folder = under(self._root, "sys/class/kfd/kfd/proc")
        if not Path(folder).is_dir():
            raise SensorError(f"{folder}: not there; the compute driver (amdkfd) is not in use")
        found = []
        for process in listing(folder):
            if not process.name.isdigit():
                continue
            files = [file for file in listing(process) if file.name.startswith("vram_")]
            try:
                total = sum(read_number(file) for file in files)
            except SensorError:
                continue  # the process ended between the listing and the reading
            found.append(GpuProcess("", int(process.name), total / MIB))
        return tuple(found)

    def details(self) -> list[dict[str, object]]:
        """What does not change: name, memory, power limit."""
        result: list[dict[str, object]] = []
        for card in self._cards:
            reading = _read_card(card)
            entry: dict[str, object] = {"name": reading.name, "index": reading.key}
            if reading.memory_total_mb is not None:
                entry["memory_total_mb"] = round(reading.memory_total_mb, 1)
            with contextlib.suppress(SensorError):  # a card without a limit
                entry["power_limit_w"] = _hwmon(card, "power1_cap") / 1e6
            result.append(entry)
        return result


def _is_amd(device: Path) -> bool:
    try:
        return read_text(device / "vendor").lower() == _VENDOR
    except SensorError:
        return (device / "mem_info_vram_total").exists()


def _read_card(device: Path) -> GpuReading:
    key = device.parent.name
    name = _name(device)
    figures: dict[str, float] = {}
    missing: dict[str, str] = {}

    def take(figure: str, scale: float, *files: str, hwmon: bool = False) -> None:
        for file in files:
            try:
                value = _hwmon(device, file) if hwmon else read_number(device / file)
            except SensorError as problem:
                missing.setdefault(figure, problem.reason)
            else:
                figures[figure] = value / scale
                missing.pop(figure, None)
                return

    take("memory_used_mb", MIB, "mem_info_vram_used")
    take("memory_total_mb", MIB, "mem_info_vram_total")
    take("util_pct", 1, "gpu_busy_percent")
    take("power_w", 1e6, "power1_average", "power1_input", hwmon=True)
    take("temperature_c", 1e3, "temp1_input", hwmon=True)
    take("clock_mhz", 1e6, "freq1_input", hwmon=True)
    take("memory_clock_mhz", 1e6, "freq2_input", hwmon=True)
    missing["energy_j"] = "amdgpu has no energy counter; power is integrated instead"
    missing["throttles"] = "amdgpu's sysfs does not tell throttling"
    return GpuReading(
        key=key,
        name=name,
        memory_used_mb=figures.get("memory_used_mb"),
        memory_total_mb=figures.get("memory_total_mb"),
        util_pct=figures.get("util_pct"),
        temperature_c=figures.get("temperature_c"),
        power_w=figures.get("power_w"),
        clock_mhz=figures.get("clock_mhz"),
        memory_clock_mhz=figures.get("memory_clock_mhz"),
        missing=missing,
    )


def _name(device: Path) -> str:
    for file in ("product_name", "device"):
        try:
            text = read_text(device / file)
        except SensorError:
            continue  # the next best name
        return text if file == "product_name" else f"AMD GPU {text}"
    return "AMD GPU"


def _hwmon(device: Path, file: str) -> float:
    """A figure of the card's hardware monitor, whatever number that has."""
    folders = listing(device / "hwmon")
    for folder in folders:
        if (folder / file).exists():
            return read_number(folder / file)
    raise SensorError(f"{device}/hwmon: no {file}")
