"""Inside the throw-away process of the ``process`` level: fork both sides, wait, sweep, tell.

The candidate's parent is this process and never the harness, so killing its parent harms nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_SWEEP_SEC = 2.0
_JUDGE_MEMORY_MB = 1024
_LAST_JUDGE_SEC = 1.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(settings: dict[str, Any]) -> None:
    """Run one program with the descriptors and limits of ``settings``; end this process."""
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ours, theirs = socket.socketpair()
    candidate = _fork(
        lambda: _candidate(theirs.fileno(), settings),
        keep=(theirs.fileno(), settings["stdout"], settings["stderr"]),
        prctl=prctl,
    )
    theirs.close()
    judge = _fork(
        lambda: _judge(ours.fileno(), settings),
        keep=(ours.fileno(), settings["report"], settings["job"], settings["judge_stderr"]),
        prctl=prctl,
    )
    ours.close()
    for name in ("report", "job", "stdout", "stderr", "judge_stderr"):
        os.close(settings[name])
    found = _wait(judge, candidate)
    os.write(settings["status"], json.dumps(found).encode("ascii"))
    os._exit(0)


def _prctl() -> Callable[[int, int], int]:
    if not sys.platform.startswith("linux"):
        return lambda option, value: 0
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: int(function(option, value, 0, 0, 0))


def _fork(body: Callable[[], None], keep: tuple[int, ...], prctl: Callable[[int, int], int]) -> int:
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
        for fd in _open_files() - {0, 1, 2, *keep}:
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
        return set(map(int, os.listdir("/dev/fd")))
    except OSError:
        return set(range(256))


def _candidate(rpc_fd: int, settings: dict[str, Any]) -> None:
    os.dup2(settings["stdout"], 1)
    os.dup2(settings["stderr"], 2)
    for name in ("stdout", "stderr"):
        os.close(settings[name])
    sys.path.extend(settings["site_packages"])
    _limit(settings["limits"])
    from pytest_benchrig.sandbox import candidate

    del sys.argv[1:]
    candidate.main(rpc_fd)


def _judge(rpc_fd: int, settings: dict[str, Any]) -> None:
    os.dup2(settings["judge_stderr"], 2)
    os.close(settings["judge_stderr"])
    _limit({"memory_mb": _JUDGE_MEMORY_MB})
    from pytest_benchrig.sandbox import judge

    judge.main(rpc_fd, settings["report"], settings["job"])


def _limit(limits: dict[str, Any]) -> None:
    """Set what the platform lets us set; what it does not is no error."""
    import resource

    wanted: list[tuple[str, int, int]] = [("RLIMIT_CORE", 0, 0)]
    memory = _address_space() + (int(limits["memory_mb"]) << 20)
    wanted.append(("RLIMIT_AS", memory, memory))
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
        try:
            resource.setrlimit(kind, (soft, hard))
        except (ValueError, OSError):
            continue


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
        return [entry for entry in os.listdir("/proc") if entry.isdigit()]
    except OSError:
        return []


def _tasks_of_user() -> int:
    count = 0
    for pid in _processes():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return count


class _Stopped(BaseException):
    """The harness says that the time is over."""


def _stop(number: int, frame: Any) -> None:
    raise _Stopped


def _wait(judge: int, candidate: int) -> dict[str, Any]:
    found: dict[str, Any] = {"judge": None, "candidate": None, "cpu_sec": 0.0}
    waiting = {judge: "judge", candidate: "candidate"}
    signal.signal(signal.SIGTERM, _stop)
    try:
        while judge in waiting:
            _reap(waiting, found, 0)
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(judge, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + _SWEEP_SEC
    pause = 0.0005
    while time.monotonic() < deadline:
        for pid in _children(set(waiting)):
            if pid > 1:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
        try:
            while _reap(waiting, found, os.WNOHANG):
                pass
        except ChildProcessError:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return found


def _reap(waiting: dict[int, str], found: dict[str, Any], options: int) -> bool:
    pid, status, usage = os.wait4(-1, options)
    if not pid:
        return False
    name = waiting.pop(pid, "")
    if name:
        found[name] = os.waitstatus_to_exitcode(status)
    if name != "judge":
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
