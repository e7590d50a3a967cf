"""The first code that runs inside: limit and confine this process, then become one of the sides.

Everything here happens before a byte of the model's code, or of a scenario's, is read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_SWEEP_SEC = 2.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the launcher says to one side; nothing in it is secret.

    Attributes:
        role: Which side.
        descriptors: Those of its ``main``, in order.
        lifeline: A pipe that the launcher holds open; who starts after its end is too late.
        memory_mb: Address space on top of what the process has.
        cpu_sec: CPU time.
        tasks: Processes and threads of the user in all, where the limit can be set.
        open_files: Descriptors.
        file_size_mb: Largest file.
        allow_fork: Whether processes may be started.
        path: Folders for ``sys.path``, at its end.
        read_only: Paths left by Landlock; empty where a mount namespace does it.
        read_write: The same, to write.
        leave_root: Become nobody if root.
        guard: Fork, and keep the first process outside as the reaper of everything.
        launcher: Process id of the launcher; a guard that has another parent is too late.
        signal_only_itself: Filter signals by process id, where nothing else does.
    """

    role: Literal["candidate", "judge"]
    descriptors: tuple[int, ...]
    lifeline: int
    memory_mb: int
    cpu_sec: float
    tasks: int
    open_files: int
    file_size_mb: int
    allow_fork: bool = False
    path: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    read_write: tuple[str, ...] = ()
    leave_root: bool = False
    guard: bool = False
    launcher: int = 0
    signal_only_itself: bool = False


def main(text: str) -> None:
    """Run the side that the settings describe, to its end."""
    settings = Settings(**json.loads(text))
    if select.select([settings.lifeline], [], [], 0)[0]:
        # From here on a parent's death reaches this process; it may have died on the way.
        os._exit(1)
    _close_others(settings.descriptors)
    serve = _side(settings)
    guard = os.getpid()
    if settings.guard:
        _guard(settings.launcher)
    sys.path.extend(settings.path)
    _limit(settings)
    _confine(settings, guard)
    serve(*settings.descriptors)


def _side(settings: Settings) -> Callable[..., object]:
    if settings.role == "candidate":
        from pytest_benchrig.sandbox import candidate

        return candidate.main
    from pytest_benchrig.sandbox import judge

    return judge.main


def _close_others(kept: tuple[int, ...]) -> None:
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, 4096))


def _confine(settings: Settings, guard: int) -> None:
    from pytest_benchrig.sandbox import landlock, seccomp

    if settings.read_only:
        landlock.restrict(list(settings.read_only), list(settings.read_write))
    if settings.leave_root:
        landlock.leave_root([*settings.read_only], reading=bool(settings.read_only))
    if settings.guard:
        # Not earlier: the kernel forgets it when the user changes.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
    if settings.role == "judge":
        _prctl(_PR_SET_DUMPABLE, 0)
    seccomp.install(allow_fork=settings.allow_fork, signal_only_itself=settings.signal_only_itself)


def _limit(settings: Settings) -> None:
    """Set what the platform lets us set; what it does not is no error."""
    import resource

    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    memory = pages * os.sysconf("SC_PAGE_SIZE") + (settings.memory_mb << 20)
    seconds = math.ceil(settings.cpu_sec)
    size = settings.file_size_mb << 20
    for name, soft, hard in (
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_AS", memory, memory),
        ("RLIMIT_CPU", seconds, seconds + 1),
        ("RLIMIT_FSIZE", size, size),
        ("RLIMIT_NOFILE", settings.open_files, settings.open_files),
        ("RLIMIT_NPROC", settings.tasks, settings.tasks),
    ):
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def _guard(launcher: int) -> None:
    """Go on in a child; this process outlives it, to end whatever it leaves behind."""
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != launcher:
        os._exit(1)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.setsid()
        return
    _close_others(())
    for fd in range(3):
        os.close(fd)
    status = 0
    ended = False
    while not ended and signal.sigwait(signals) != signal.SIGTERM:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    status, ended = found[1], True
    _sweep()
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _sweep() -> None:
    deadline = time.monotonic() + _SWEEP_SEC
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.0005)


def _children() -> list[int]:
    me = os.getpid()
    try:
        words = Path(f"/proc/self/task/{me}/children").read_text("ascii").split()
    except OSError:
        words = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = entry.read_text("latin-1").rpartition(")")[2].split()
                if int(fields[1]) == me:
                    words.append(entry.parent.name)
    return [pid for pid in map(int, words) if pid > 1]


def _prctl(option: int, value: int) -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
