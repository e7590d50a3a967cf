"""What a fork of a zygote does to become one side of a program.

A fork is cheap as long as it touches little: each page that it writes to, and be it to count a
reference, is copied first. So whatever can be made ready before is made ready in the zygote, and
the rest goes straight to C functions, past the parts of the standard library that are in Python.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_benchrig.sandbox import candidate, judge, seccomp, syscalls
from pytest_benchrig.sandbox.inventory import USUAL_FILE_SIZE_MB
from pytest_benchrig.sandbox.judging import JudgePeer
from pytest_benchrig.sandbox.limits import apply_limits, ceilings, renew_cpu_limit
from pytest_benchrig.sandbox.wire import from_json

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.stem import Role

MESSAGE = 1 << 16
SPACE = socket.CMSG_SPACE(8 * 4)
"""Room for the descriptors of a program."""

set_handler: Callable[[int, Any], Any] = import_module("_signal").signal
"""``signal.signal`` without the translation of its answer."""

SIGINT, SIGKILL = int(signal.SIGINT), int(signal.SIGKILL)
PID_INSIDE = 2
READY = b"r"
"""What a judge says when it can take another program."""
_MOST_DESCRIPTORS = 256
_GROWTH_KB = 32 << 10
_MOST_PROGRAMS = 250
"""What the collector does not see, such as names that were kept for ever, is bounded by this."""
_CANDIDATE_KEEPS = 1
_interrupted = signal.default_int_handler


class Side:
    """One side of a program to be, made ready in the zygote before any fork.

    Args:
        role: Which side.
        nested: Whether a program has namespaces of its own.
        alone: Whether Landlock keeps signals inside; asked only without namespaces.

    Attributes:
        size: Address space in bytes that the zygote has.
    """

    def __init__(self, role: Role, *, nested: bool, alone: bool) -> None:
        self._is_candidate = role == "candidate"
        self._nested = nested
        self._alone = alone
        self._keep_signals_inside: Callable[[], None] | None = None
        if alone:
            from pytest_benchrig.sandbox.landlock import keep_signals_inside

            self._keep_signals_inside = keep_signals_inside
        self.size = 0
        self._filters: dict[bool, seccomp.Filter] = {}
        self._filter(False, PID_INSIDE)
        self._ceilings = ceilings()
        self._powerless = syscalls.Powerless()
        self._candidate = candidate.CandidatePeer() if self._is_candidate else None

    def _filter(self, allow_fork: bool, own_pid: int | None) -> seccomp.Filter:
        """The part of the filter that the zygote cannot put on itself, made ready once."""
        found = self._filters.get(allow_fork) if self._nested else None
        if found is None:
            found = seccomp.Filter(allow_fork=allow_fork, own_pid=own_pid, part="program")
            if self._nested:
                self._filters[allow_fork] = found
        return found

    def become(self, channel: Any) -> NoReturn:
        """Turn this fork into the side; only from here on is foreign code read."""
        status = 1
        try:
            os.setsid()
            set_handler(SIGINT, _interrupted)
            _close_all_but(channel.fileno())
            if self._nested:
                if self._is_candidate:
                    syscalls.unshare(syscalls.CLONE_NEWNS)
                    _mount_private(USUAL_FILE_SIZE_MB, 0)
                os.chdir("/tmp")
            else:
                syscalls.prctl(syscalls.PR_SET_PDEATHSIG, SIGKILL)
            if self._is_candidate:
                self._run_one(channel)
            else:
                self._judge_several(channel)
            status = 0
        except SystemExit as ended:
            status = _status_of(ended.code)
        except BaseException:
            import traceback

            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(status)

    def _run_one(self, channel: Any) -> None:
        wanted, fds = _receive(channel)
        channel.close()
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        del fds[_CANDIDATE_KEEPS:]
        _close_all_but(*fds)
        if self._nested:
            if wanted["file_size_mb"] != USUAL_FILE_SIZE_MB:
                _mount_private(wanted["file_size_mb"], syscalls.MS_REMOUNT)
            self._powerless.become()
        self._limit_and_filter(wanted)
        sys.path += wanted["packages"]
        candidate.main(fds[0], self._candidate)

    def _judge_several(self, channel: Any) -> None:
        """Judge one program, and more as long as nothing of one can be left for the next.

        That is so after a run of plain assertions that met only data, if no object of it is left
        either: as many are there before each program. Nor may a program have made it grow, since
        the next one needs the room.
        """
        one = judge.Judge(JudgePeer())
        wanted, fds = _receive(channel)
        _close_all_but(*fds, channel.fileno())
        if self._nested:
            self._powerless.become()
        self._limit_and_filter(wanted)
        before = _objects()
        most_kb = _peak_kb() + _GROWTH_KB
        judged = 0
        while _judge(channel, fds, one):
            judged += 1
            one = judge.Judge(JudgePeer())
            if _objects() != before or _peak_kb() > most_kb or judged == _MOST_PROGRAMS:
                return
            channel.send(READY)
            wanted, fds = _receive(channel)
            renew_cpu_limit(wanted["limits"]["RLIMIT_CPU"])

    def _limit_and_filter(self, wanted: dict[str, Any]) -> None:
        if self._is_candidate and not self._nested:
            # The launcher looks at what it holds open, to bound what it writes.
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        renewable = not self._is_candidate
        apply_limits(wanted["limits"], self.size, self._ceilings, renewable=renewable)
        allow_fork = wanted["allow_fork"]
        confined = self._nested or self._alone
        if self._keep_signals_inside is not None:
            self._keep_signals_inside()
        own_pid = None if allow_fork and confined else os.getpid()
        self._filter(allow_fork, own_pid).install()


def _receive(channel: Any) -> tuple[dict[str, Any], list[int]]:
    """What is wanted for a program, and its descriptors; without one, this process ends."""
    message, rights, _, _ = channel.recvmsg(MESSAGE, SPACE)
    if not message:
        os._exit(0)
    return from_json(message[1:].decode("ascii")), memoryview(rights[0][2]).cast("i").tolist()


def _judge(channel: Any, fds: list[int], one: judge.Judge) -> bool:
    """Judge a program and say so, unless it is to be the last one in this process."""
    os.dup2(fds[3], 2)
    os.close(fds[3])
    used = time.process_time()
    if not judge.main(fds[0], fds[1], fds[2], one):
        return False
    channel.send(b"%.6f" % (time.process_time() - used))
    # The candidate ends with its end of the socket, and nothing of it is to be kept open.
    os.dup2(0, 2)
    _close_all_but(channel.fileno())
    return True


def _objects() -> int:
    """How many objects there are that can hold others, apart from those frozen before the fork."""
    gc.collect()
    return len(gc.get_objects())


def _peak_kb() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _mount_private(size_mb: int, remount: int) -> None:
    """A fresh file system of this size for temporary files, or another size for it."""
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | remount
    options = f"size={size_mb}m,nr_inodes={size_mb * 256},mode=1777"
    syscalls.mount("tmpfs", "/tmp", "tmpfs", flags, options)


def _close_all_but(*kept: int) -> None:
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, _MOST_DESCRIPTORS))


def _status_of(code: object) -> int:
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
