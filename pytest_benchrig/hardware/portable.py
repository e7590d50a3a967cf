"""Host and processes through psutil, where there is no /proc (macOS, Windows, BSD)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pytest_benchrig.hardware.readings import (
    MIB,
    Battery,
    CpuTimes,
    Memory,
    ProcessSample,
    SensorError,
    SlowReading,
)

if TYPE_CHECKING:
    import psutil


class PsutilProcess:
    """One process; psutil tells it from a later one with the same number by its start time."""

    __slots__ = ("_process", "pid")

    def __init__(self, pid: int) -> None:
        import psutil

        self.pid = pid
        try:
            self._process = psutil.Process(pid)
        except psutil.Error:
            raise ProcessLookupError(pid) from None

    def sample(self) -> ProcessSample:
        """Memory and processor time now.

        Raises:
            ProcessLookupError: The process is gone or may not be seen.
        """
        import psutil

        try:
            with self._process.oneshot():
                times = self._process.cpu_times()
                rss = self._process.memory_info().rss
        except (psutil.Error, OSError):
            raise ProcessLookupError(self.pid) from None
        cpu = times.user + times.system + times.children_user + times.children_system
        return ProcessSample(rss / MIB, cpu)

    @property
    def read_rss(self) -> Callable[[], object]:
        """Reads memory alone, for :meth:`rss_mb`."""
        return self._rss

    def _rss(self) -> float:
        import psutil

        try:
            return float(self._process.memory_info().rss / MIB)
        except (psutil.Error, OSError):
            raise ProcessLookupError(self.pid) from None

    def rss_mb(self, read: object) -> float | None:
        """The memory; ``None`` of a process without any, which has ended."""
        return read if isinstance(read, float) and read > 0 else None

    def close(self) -> None:
        """Nothing is kept open."""


class PsutilHost:
    """The machine as psutil tells it."""

    source = "psutil"

    def memory(self) -> Memory:
        """Memory and swap."""
        import psutil

        memory = psutil.virtual_memory()
        return Memory(memory.total / MIB, memory.available / MIB, psutil.swap_memory().used / MIB)

    def cpu(self) -> CpuTimes:
        """Processor time since boot; ``steal_sec`` only where the system counts it."""
        import psutil

        cores = psutil.cpu_times(percpu=True)
        each = tuple(_times(core) for core in cores)
        steal = None
        if cores and hasattr(cores[0], "steal"):
            steal = sum(core.steal for core in cores)
        return CpuTimes(sum(b for b, _ in each), sum(t for _, t in each), steal, each)

    def swapped_mb(self) -> float:
        """Growth of the used swap stands for the traffic, which these systems do not tell apart."""
        import psutil

        return psutil.swap_memory().used / MIB

    def process(self, pid: int) -> PsutilProcess:
        """A handle of one process.

        Raises:
            ProcessLookupError: There is none.
        """
        return PsutilProcess(pid)

    def tree(self, roots: Iterable[int]) -> set[int]:
        """These processes and all their descendants."""
        import psutil

        found: set[int] = set()
        for pid in roots:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                found |= {pid, *(child.pid for child in process.children(recursive=True))}
        return found

    def close(self) -> None:
        """Nothing is kept open."""


class PsutilSensor:
    """Clock and battery through psutil, read slowly."""

    name = "psutil"
    cadence_sec = 5.0

    def probe(self) -> None:
        """See whether there is anything to read.

        Raises:
            SensorError: psutil is not installed.
        """
        try:
            import psutil  # noqa: F401
        except ImportError as problem:
            raise SensorError(
                f"psutil cannot be imported: {problem}", "python -m pip install psutil"
            ) from None

    def read(self) -> SlowReading:
        """Clock and battery now."""
        import psutil

        missing = {}
        clock = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
        if clock is None:
            missing["cpu_mhz"] = "the system does not tell the processors' clock"
        state = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        battery = None
        if state is None:
            missing["battery"] = "no battery"
        else:
            battery = Battery(state.power_plugged is False, float(state.percent))
        return SlowReading(
            cpu_mhz=clock.current if clock else None, battery=battery, missing=missing
        )


def _times(core: psutil._common.scputimes) -> tuple[float, float]:  # type: ignore[name-defined]
    busy = core.user + core.system + getattr(core, "nice", 0.0)
    total = busy + core.idle + getattr(core, "iowait", 0.0) + getattr(core, "irq", 0.0)
    total += getattr(core, "softirq", 0.0) + getattr(core, "steal", 0.0)
    total += getattr(core, "interrupt", 0.0) + getattr(core, "dpc", 0.0)
    return busy, total
