"""What a fork of a zygote does to become one side of a program.

A fork is cheap as long as it touches little: each page that it writes to, and be it to count a
reference, is copied first. So whatever can be made ready before is made ready in the zygote, and
the rest goes straight to C functions, past the parts of the standard library that are in Python.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_benchrig.sandbox import candidate, judge, seccomp, syscalls
from pytest_benchrig.sandbox.inventory import USUAL_FILE_SIZE_MB
from pytest_benchrig.sandbox.judging import JudgePeer
from pytest_benchrig.sandbox.limits import apply_limits, ceilings
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
_MOST_DESCRIPTORS = 256
_CANDIDATE_KEEPS, _JUDGE_KEEPS = 1, 3
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
        self.size = 0
        self._filters: dict[bool, seccomp.Filter] = {}
        self._filter(False, PID_INSIDE)
        self._ceilings = ceilings()
        self._powerless = syscalls.Powerless()
        self._candidate = candidate.CandidatePeer() if self._is_candidate else None
        self._judge = None if self._is_candidate else judge.Judge(JudgePeer())

    def _filter(self, allow_fork: bool, own_pid: int | None) -> seccomp.Filter:
        """The part of the filter that the zygote cannot put on itself, made ready once."""
        found = self._filters.get(allow_fork) if self._nested else None
        if found is None:
            found = seccomp.Filter(allow_fork=allow_fork, own_pid=own_pid, part="program")
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
            message, rights, _, _ = channel.recvmsg(MESSAGE, SPACE)
            channel.close()
            if not message:
                os._exit(0)
            fds = memoryview(rights[0][2]).cast("i").tolist()
            self._begin(from_json(message[1:].decode("ascii")), fds)
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

    def _begin(self, wanted: dict[str, Any], fds: list[int]) -> None:
        if self._is_candidate:
            os.dup2(fds[1], 1)
            os.dup2(fds[2], 2)
            del fds[_CANDIDATE_KEEPS:]
        else:
            os.dup2(fds[3], 2)
            del fds[_JUDGE_KEEPS:]
        _close_all_but(*fds)
        if self._nested:
            if self._is_candidate and wanted["file_size_mb"] != USUAL_FILE_SIZE_MB:
                _mount_private(wanted["file_size_mb"], syscalls.MS_REMOUNT)
            self._powerless.become()
        self._limit_and_filter(wanted)
        sys.path += wanted["packages"]
        if self._is_candidate:
            candidate.main(fds[0], self._candidate)
        else:
            judge.main(fds[0], fds[1], fds[2], self._judge)

    def _limit_and_filter(self, wanted: dict[str, Any]) -> None:
        if self._is_candidate and not self._nested:
            # The launcher looks at what it holds open, to bound what it writes.
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        apply_limits(wanted["limits"], self.size, self._ceilings)
        allow_fork = wanted["allow_fork"]
        confined = self._nested or self._alone
        if self._alone:
            from pytest_benchrig.sandbox import landlock

            landlock.keep_signals_inside()
        own_pid = None if allow_fork and confined else os.getpid()
        self._filter(allow_fork, own_pid).install()


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
