"""The processors' energy counters, clock and throttling, and the battery, from Linux's sysfs.

RAPL: the kernel's powercap documentation (``energy_uj`` in microjoules, starting again after
``max_energy_range_uj``); Intel and AMD processors alike appear as ``intel-rapl:N``. Batteries:
``Documentation/ABI/testing/sysfs-class-power``.
"""

from __future__ import annotations

import re
from pathlib import Path

from pytest_benchrig.hardware.files import listing, read_number, read_text, under
from pytest_benchrig.hardware.readings import (
    Battery,
    EnergyCounter,
    SensorError,
    SlowReading,
)

_PACKAGE = re.compile(r"(intel|amd)-rapl:\d+\Z")


class RaplSensor:
    """The energy counters of the processor packages."""

    name = "rapl"
    cadence_sec = 1.0

    def __init__(self, root: str = "/") -> None:
        self._folder = Path(under(root, "sys/class/powercap"))
        self._zones: tuple[tuple[str, Path, float], ...] = ()

    def probe(self) -> None:
        """Find the packages and read each once.

        Raises:
            SensorError: There are none, or they may not be read (since 2020 only by root).
        """
        zones = []
        for zone in listing(self._folder):
            if not _PACKAGE.match(zone.name):
                continue
            label = read_text(zone / "name")
            # psys covers the package as well, and would count it twice.
            if not label.startswith("package"):
                continue
            zones.append((label, zone, read_number(zone / "max_energy_range_uj") / 1e6))
        if not zones:
            raise SensorError(
                f"{self._folder}: no energy counter of a processor package",
                "load the module intel_rapl_msr; virtual machines have none",
            )
        self._zones = tuple(zones)
        self.read()

    def read(self) -> SlowReading:
        """The counters now.

        Raises:
            SensorError: One cannot be read, so that no sum is to be had.
        """
        return SlowReading(
            counters=tuple(
                EnergyCounter(label, read_number(zone / "energy_uj") / 1e6, range_j)
                for label, zone, range_j in self._zones
            )
        )


class ClockSensor:
    """The processors' clock and how often they were throttled by heat."""

    name = "cpufreq"
    cadence_sec = 1.0

    def __init__(self, root: str = "/") -> None:
        self._folder = Path(under(root, "sys/devices/system/cpu"))
        self._clocks: tuple[Path, ...] = ()
        self._throttles: tuple[Path, ...] = ()

    def probe(self) -> None:
        """Find the files.

        Raises:
            SensorError: The kernel tells neither.
        """
        cores = [e for e in listing(self._folder) if re.fullmatch(r"cpu\d+", e.name)]
        clocks = [core / "cpufreq/scaling_cur_freq" for core in cores]
        # One figure a package would do, but which processors share one is not told everywhere.
        throttles = [
            core / "thermal_throttle" / file
            for core in cores
            for file in ("core_throttle_count", "package_throttle_count")
        ]
        self._clocks = tuple(path for path in clocks if path.exists())
        self._throttles = tuple(path for path in throttles if path.exists())
        if not self._clocks and not self._throttles:
            raise SensorError(f"{self._folder}: no cpufreq and no thermal_throttle")

    def read(self) -> SlowReading:
        """Mean clock and the sum of all throttle counts now."""
        missing = {}
        clock = events = None
        try:
            values = [read_number(path) / 1000 for path in self._clocks]
            clock = sum(values) / len(values) if values else None
            if clock is None:
                missing["cpu_mhz"] = f"{self._folder}: no cpufreq"
        except SensorError as problem:
            missing["cpu_mhz"] = problem.reason
        try:
            events = sum(int(read_number(path)) for path in self._throttles)
            if not self._throttles:
                events = None
                missing["throttle_events"] = f"{self._folder}: no thermal_throttle"
        except SensorError as problem:
            missing["throttle_events"] = problem.reason
        return SlowReading(cpu_mhz=clock, throttle_events=events, missing=missing)


class BatterySensor:
    """Whether the machine runs on its battery."""

    name = "battery"
    cadence_sec = 30.0

    def __init__(self, root: str = "/") -> None:
        self._folder = Path(under(root, "sys/class/power_supply"))
        self._batteries: tuple[Path, ...] = ()
        self._mains: tuple[Path, ...] = ()

    def probe(self) -> None:
        """Find the machine's batteries; those of mice and pens are none of them.

        Raises:
            SensorError: There is none.
        """
        batteries, mains = [], []
        for supply in listing(self._folder):
            kind = _or_empty(supply / "type")
            if kind == "Battery" and _or_empty(supply / "scope") != "Device":
                batteries.append(supply)
            elif kind == "Mains" or kind.startswith("USB"):
                mains.append(supply)
        if not batteries:
            raise SensorError(f"{self._folder}: no battery")
        self._batteries, self._mains = tuple(batteries), tuple(mains)

    def read(self) -> SlowReading:
        """The state of all batteries together.

        Raises:
            SensorError: No battery tells its state.
        """
        states = [_or_empty(battery / "status") for battery in self._batteries]
        if not any(states):
            raise SensorError(f"{self._folder}: no battery tells its state")
        # A battery may drain although the machine is plugged in; then the charger is too weak.
        discharging = "Discharging" in states
        charges = []
        for battery in self._batteries:
            try:
                charges.append(read_number(battery / "capacity"))
            except SensorError:
                continue  # a battery that does not tell its charge
        charge = sum(charges) / len(charges) if charges else None
        return SlowReading(battery=Battery(discharging, charge))


def _or_empty(path: Path) -> str:
    try:
        return read_text(path)
    except SensorError:
        return ""
