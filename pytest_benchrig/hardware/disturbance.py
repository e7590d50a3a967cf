"""What disturbs a measurement, and what does not: the rules, without any reading."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pytest_benchrig.hardware.readings import GpuProcess

OTHER_CPU_SHARE = 0.10
STEAL_SHARE = 0.01
SWAPPED_MB = 1.0


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Where the machine's processor time went during a window; seconds over all processors.

    Attributes:
        total_sec: All of it, idle time included.
        busy_sec: What all processes used.
        own_sec: What we used: pytest, its workers, their children without the serving process.
        serving_sec: What the serving processes used; ``None`` where they cannot be seen.
        steal_sec: What the hypervisor gave to others; ``None`` where it is not told.
        resolution_sec: The step of the counters.
        active: How many of our and the serving processes used any.
    """

    total_sec: float
    busy_sec: float
    own_sec: float
    serving_sec: float | None
    steal_sec: float | None
    resolution_sec: float
    active: int

    @property
    def other_sec(self) -> float | None:
        """What all other processes used; ``None`` where the serving ones cannot be told apart."""
        if self.serving_sec is None:
            return None
        return max(0.0, self.busy_sec - self.own_sec - self.serving_sec)

    def share(self, seconds: float | None) -> float | None:
        """A part of the whole, 0 to 1; ``None`` where the window is shorter than the clock's step.

        Rounding of the counters can make a part larger than the whole; it never is.
        """
        if seconds is None or self.total_sec <= 0:
            return None
        return min(1.0, max(0.0, seconds / self.total_sec))


def cpu_reasons(use: CpuUse) -> Iterable[str]:
    """Load of others above 10 % of the machine, steal above 1 %.

    The kernel counts in steps of about 10 ms. In a short window one such step is a large share, so
    the load must also be more than rounding can make of none: two steps, and half a step for each
    process that is subtracted.
    """
    share = use.share(use.other_sec) or 0.0
    rounding = use.resolution_sec * (2 + use.active / 2)
    if share > OTHER_CPU_SHARE and (use.other_sec or 0.0) > rounding:
        yield f"other processes used {100 * share:.0f} % of the machine's CPU time"
    share = use.share(use.steal_sec) or 0.0
    if share > STEAL_SHARE and (use.steal_sec or 0.0) > 1.5 * use.resolution_sec:
        yield f"the hypervisor took {100 * share:.1f} % of the CPU time (steal)"


def swap_reason(swapped_mb: float | None) -> Iterable[str]:
    """A MiB or more moved to or from swap; a few pages are the kernel's housekeeping."""
    if swapped_mb is not None and swapped_mb >= SWAPPED_MB:
        yield f"the machine was swapping ({swapped_mb:.0f} MiB)"


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """Processes on our GPUs that are neither ours nor the server's."""

    memory_mb: float = 0.0
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def foreign_use(
    processes: Collection[GpuProcess],
    ours: Collection[int],
    living: Mapping[int, str],
    *,
    same_namespace: bool,
) -> ForeignUse:
    """Who else computes on the GPUs.

    Computing processes count; those that only draw (a desktop) are noted with their memory. In a
    container NVML may number processes as the host does: a process that is not to be found here
    could then be the server itself, so it is noted, not held against the measurement.

    Args:
        processes: The processes on the GPUs.
        ours: Pids of the serving processes and of the harness.
        living: Names of the processes that can be seen here, by pid.
        same_namespace: Whether NVML's process numbers are known to be ours.
    """
    agree = same_namespace or any(process.pid in ours for process in processes)
    reasons: dict[str, None] = {}
    notes: dict[str, None] = {}
    total = 0.0
    for process in processes:
        if process.pid in ours:
            continue
        name = living.get(process.pid, "")
        who = f"{name or 'process'} (pid {process.pid})"
        where = process.key or "the GPU"
        size = "" if process.memory_mb is None else f" with {process.memory_mb:.0f} MiB"
        if not agree and not name:
            notes[f"{who} holds {where}{size}; whose it is cannot be told from here"] = None
            continue
        total += process.memory_mb or 0.0
        if process.compute and process.memory_mb is not None and process.memory_mb > 0:
            reasons[f"{who} uses {where}{size}"] = None
        else:
            notes[f"{who} is on {where}{size}"] = None
    return ForeignUse(total, tuple(reasons), tuple(notes))
