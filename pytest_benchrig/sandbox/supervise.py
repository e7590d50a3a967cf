"""The processes of the ``process`` level: a warm server, and a supervisor forked for each program.

The server has imported what programs need and knows nothing else. A supervisor is forked from it,
forks candidate and judge, waits, sweeps, and tells how they ended. So the candidate's parent is a
throw-away process and never the harness, and killing its parent harms nothing.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from pytest_benchrig.sandbox import boot, candidate, judge, landlock

DESCRIPTORS = ("report", "job", "stdout", "stderr", "judge_stderr", "status")
"""What is handed over with the settings of a program, in this order."""

MAX_SETTINGS = 1 << 16
_SWEEP_SEC = 2.0
_IDLE_SEC = 0.2
_LAST_STEPS_SEC = 0.1
_JUDGE_MEMORY_MB = 1024
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
Prctl = Callable[[int, int], int]


def serve(control: int) -> None:
    """Fork a supervisor for each program asked for, until the harness is gone."""
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()
    supervisors: set[int] = set()
    with socket.socket(fileno=control) as harness:
        while True:
            ready, _, _ = select.select([harness], [], [], _IDLE_SEC if supervisors else None)
            _tidy(supervisors)
            if not ready:
                continue
            data, fds, _, _ = socket.recv_fds(harness, MAX_SETTINGS, len(DESCRIPTORS))
            if not data:
                break
            pid = os.fork()
            if not pid:
                harness.close()
                _supervise(dict(zip(DESCRIPTORS, fds, strict=True)), json.loads(data), prctl)
            supervisors.add(pid)
            for fd in fds:
                os.close(fd)
    _sweep(supervisors, {})


def _tidy(supervisors: set[int]) -> None:
    """Reap the ended supervisors and end what a killed one has left behind."""
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            supervisors.discard(pid)
    for pid in _children(set()) - supervisors:
        _kill(pid)


def _supervise(fds: dict[str, int], settings: dict[str, Any], prctl: Prctl) -> None:
    """Run one program; never returns."""
    try:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        os.environ.update(HOME=settings["home"], TMPDIR=settings["home"])
        os.chdir(settings["home"])
        os.write(fds["status"], b"%d\n" % os.getpid())
        ours, theirs = socket.socketpair()
        first = _fork(
            lambda: _candidate(theirs.fileno(), fds, settings, prctl),
            {theirs.fileno(), fds["stdout"], fds["stderr"]},
            prctl,
        )
        theirs.close()
        second = _fork(
            lambda: _judge(ours.fileno(), fds, prctl),
            {ours.fileno(), fds["report"], fds["job"], fds["judge_stderr"]},
            prctl,
        )
        ours.close()
        for name in DESCRIPTORS[:-1]:
            os.close(fds[name])
        os.write(fds["status"], json.dumps(_wait(second, first)).encode("ascii"))
    finally:
        os._exit(0)


def _prctl() -> Prctl:
    if not sys.platform.startswith("linux"):
        return lambda option, value: 0
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: int(function(option, value, 0, 0, 0))


def _fork(body: Callable[[], None], keep: set[int], prctl: Prctl) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.setsid()
        for fd in _open_files() - {0, 1, 2} - keep:
            with contextlib.suppress(OSError):
                os.close(fd)
        body()
        status = 0
    except Exception as problem:
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _open_files() -> set[int]:
    try:
        return set(map(int, os.listdir("/dev/fd")))  # noqa: PTH208 - pathlib costs a start-up
    except OSError:
        return set(range(256))


def _leave_root(prctl: Prctl) -> None:
    """Become nobody if root; the interpreter stays readable where it lies under root's home."""
    if os.geteuid() != 0:
        return
    if sys.platform.startswith("linux"):
        landlock.leave_root([sys.base_prefix, str(boot.SOURCES)], reading=True)
        # The change of the user forgets the signal.
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        os.setgroups([])
        os.setgid(landlock.NOBODY)
        os.setuid(landlock.NOBODY)


def _candidate(rpc_fd: int, fds: dict[str, int], settings: dict[str, Any], prctl: Prctl) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(fds[name], number)
        os.close(fds[name])
    sys.path.extend(settings["site_packages"])
    _leave_root(prctl)
    _limit(settings["limits"])
    candidate.main(rpc_fd)


def _judge(rpc_fd: int, fds: dict[str, int], prctl: Prctl) -> None:
    os.dup2(fds["judge_stderr"], 2)
    os.close(fds["judge_stderr"])
    _leave_root(prctl)
    _limit({"memory_mb": _JUDGE_MEMORY_MB})
    judge.main(rpc_fd, fds["report"], fds["job"])


def _limit(limits: dict[str, Any]) -> None:
    """Set what the platform lets us set; what it does not is no error."""
    import resource

    memory = _address_space() + (int(limits["memory_mb"]) << 20)
    wanted = [("RLIMIT_CORE", 0, 0), ("RLIMIT_AS", memory, memory)]
    if "cpu_sec" in limits:
        seconds = math.ceil(limits["cpu_sec"])
        wanted.append(("RLIMIT_CPU", seconds, seconds + 1))
        wanted.append(("RLIMIT_NOFILE", limits["open_files"], limits["open_files"]))
        size = int(limits["file_size_mb"]) << 20
        wanted.append(("RLIMIT_FSIZE", size, size))
        if os.geteuid():
            most = _tasks_of_user() + int(limits["processes"])
            wanted.append(("RLIMIT_NPROC", most, most))
    for name, soft, hard in wanted:
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    try:
        pages = int(_text_of("/proc/self/statm").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _text_of(path: str) -> str:
    with open(path, encoding="latin-1") as stream:  # noqa: PTH123 - pathlib costs a start-up
        return stream.read()


def _processes() -> list[str]:
    try:
        return [entry for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _tasks_of_user() -> int:
    count = 0
    for pid in _processes():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():  # noqa: PTH116 - as above
                count += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    return count


class _Stopped(BaseException):
    """The harness says that the time is over."""


def _stop(number: int, frame: Any) -> None:
    raise _Stopped


def _wait(second: int, first: int) -> dict[str, Any]:
    """Wait for the judge, end everything else, and say how both ended."""
    found: dict[str, Any] = {"judge": None, "candidate": None, "cpu_sec": 0.0}
    waiting = {second: "judge", first: "candidate"}
    try:
        signal.signal(signal.SIGTERM, _stop)
        while second in waiting:
            _reap(waiting, found, 0)
        # What ended the candidate ended the judge too: let the kernel finish with the first.
        deadline = time.monotonic() + _LAST_STEPS_SEC
        while first in waiting and time.monotonic() < deadline:
            if not _reap(waiting, found, os.WNOHANG):
                time.sleep(0.0005)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    found["candidate_ended"] = first not in waiting
    _sweep(set(waiting), found, waiting)
    return found


def _sweep(known: set[int], found: dict[str, Any], waiting: dict[int, str] | None = None) -> None:
    deadline = time.monotonic() + _SWEEP_SEC
    pause = 0.0005
    waiting = {} if waiting is None else waiting
    while time.monotonic() < deadline:
        for pid in _children(known):
            _kill(pid)
        try:
            while _reap(waiting, found, os.WNOHANG):
                known &= set(waiting)
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _kill(pid: int) -> None:
    if pid > 1:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _reap(waiting: dict[int, str], found: dict[str, Any], options: int) -> bool:
    pid, status, usage = os.wait4(-1, options)
    if not pid:
        return False
    name = waiting.pop(pid, "")
    if name:
        found[name] = os.waitstatus_to_exitcode(status)
    if name != "judge" and found:
        found["cpu_sec"] += usage.ru_utime + usage.ru_stime
    return True


def _children(known: set[int]) -> set[int]:
    """The children of this process, adopted ones included."""
    me = str(os.getpid())
    found = set(known)
    try:
        found.update(map(int, _text_of(f"/proc/self/task/{me}/children").split()))
        return found
    except (OSError, ValueError):
        pass
    for pid in _processes():
        try:
            parent = _text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent == me:
            found.add(int(pid))
    return found
