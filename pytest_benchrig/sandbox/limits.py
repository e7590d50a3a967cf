"""Limits that a process puts on itself before it runs foreign code."""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import TYPE_CHECKING

from pytest_benchrig.sandbox.inventory import FORKS_AHEAD

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.launch import Limits

JUDGE_MEMORY_MB = 1024
JUDGE_THREADS = 16
JUDGE_STACK_MB = 72
"""Less than the room that the kernel leaves below the stack of a process, which is 128 MB."""

_UCOUNT_RELEASE = (5, 14)
_OWN_TASKS = 2 * (FORKS_AHEAD + 1)
"""In a zygote's user namespace: each fork that waits or runs, and what holds its pid namespace."""
_STRANGERS = 256
"""Room for processes that the user starts meanwhile, where the kernel counts those too."""


def resource_limits(limits: Limits, *, judge: bool, base_tasks: int) -> dict[str, int]:
    """The limits by name of ``resource``, sizes in bytes, CPU time in seconds.

    ``RLIMIT_AS`` is what comes on top of the size that the process has. The judge is ours: it gets
    the time of the candidate and a little more, so that it can still report.
    """
    processes = JUDGE_THREADS if judge else limits.processes
    memory = JUDGE_MEMORY_MB if judge else limits.memory_mb
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_AS": memory << 20,
        "RLIMIT_CPU": math.ceil(limits.wall_sec + 2 if judge else limits.cpu_limit_sec),
        "RLIMIT_FSIZE": limits.file_size_mb << 20,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": base_tasks + processes,
    }
    if judge:
        wanted["RLIMIT_STACK"] = JUDGE_STACK_MB << 20
    return wanted


def ceilings() -> dict[str, tuple[int, float]]:
    """The limits that the platform knows, each with its number and the most that may be set."""
    import resource

    found: dict[str, tuple[int, float]] = {}
    for name, kind in vars(resource).items():
        if name.startswith("RLIMIT_"):
            most = resource.getrlimit(kind)[1]
            found[name] = kind, float("inf") if most == resource.RLIM_INFINITY else most
    return found


def apply_limits(
    wanted: dict[str, int],
    address_space: int,
    most: dict[str, tuple[int, float]],
    *,
    renewable: bool = False,
) -> None:
    """Set them on this process; what the platform cannot set is no error.

    Args:
        wanted: As :func:`resource_limits` gives them.
        address_space: The size in bytes that the process has now.
        most: As :func:`ceilings` gives it.
        renewable: Leave room for :func:`renew_cpu_limit`; for processes that run our code alone.
    """
    import resource

    for name, value in wanted.items():
        if name not in most:
            continue
        kind, ceiling = most[name]
        soft: float = value + address_space if name == "RLIMIT_AS" else value
        hard = soft
        if name == "RLIMIT_CPU":
            # One second between the signal that can be ignored and the one that cannot.
            hard = ceiling if renewable else soft + 1
        hard = min(hard, ceiling)
        soft = min(soft, hard)
        most_allowed = resource.RLIM_INFINITY if hard == math.inf else int(hard)
        try:
            resource.setrlimit(kind, (int(soft), most_allowed))
        except (ValueError, OSError):
            continue


def renew_cpu_limit(seconds: int) -> None:
    """Let this process use so much CPU time from now on, as far as the limit set before allows."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time()) + seconds
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def address_space(statm: bytes) -> int:
    """The size in bytes that a ``/proc/PID/statm`` tells."""
    return int(statm.split()[0]) * os.sysconf("SC_PAGE_SIZE")


def base_tasks(*, own_user_namespace: bool, release: str, uid: int) -> int:
    """What to add to the limit on processes because the kernel counts others too.

    Since Linux 5.14 a user namespace counts its own processes alone; elsewhere the limit counts
    every process and thread of the user.
    """
    numbers = release.split("-")[0].split(".")
    known = tuple(int(part) for part in numbers[:2] if part.isdigit())
    if own_user_namespace and known >= _UCOUNT_RELEASE:
        return _OWN_TASKS
    return tasks_of_user(uid) + _STRANGERS


def tasks_of_user(uid: int) -> int:
    """Processes and threads that run as a user."""
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            # Processes end while they are counted.
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == uid:
                    count += os.stat(f"{entry.path}/task").st_nlink - 2  # noqa: PTH116 - as below
    return count
