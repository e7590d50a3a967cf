"""A warm interpreter that forks one process per program, each in namespaces of its own.

A judge gets no file system to write on: nothing of it could be left to the next one.

The candidates' zygote never reads a job; the judges' zygote never reads a model's code before it
has forked. Both run inside the outer sandbox and only one program at a time, so that whatever is
left below a zygote after a program belongs to that program.

Control messages, one packet each. To the zygote: a JSON object that starts a program, with its
descriptors; ``b"k"`` kills it. From the zygote: ``{"ready": true}`` once, then one object with
``exit``, ``cpu_sec`` and ``clean`` for each program.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_benchrig.sandbox import seccomp, syscalls
from pytest_benchrig.sandbox.launch import Limits
from pytest_benchrig.sandbox.limits import address_space, apply_limits

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.stem import Role, StemSettings

_MESSAGE = 1 << 16
_FDS = 8
_PID_INSIDE = 2
_MOST_DESCRIPTORS = 256
_USUAL_SIZE_MB = Limits().file_size_mb
_TICK_MS = 5


def main(settings: StemSettings, role: Role, control: int) -> None:
    """Serve programs until the launcher is gone; everything ends with this process."""
    channel = socket.socket(fileno=control)
    try:
        zygote = _Zygote(settings, role, channel)
    except OSError as problem:
        said = {"error": problem.strerror or str(problem), "errno": problem.errno}
        channel.send(json.dumps(said).encode("ascii"))
        return
    channel.send(b'{"ready": true}')
    zygote.serve()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A forked process that waits for its program on a channel of its own.

    ``init`` is the first process of its pid namespace, 0 where it has none.
    """

    pid: int
    init: int
    channel: socket.socket


class _Zygote:
    """One zygote and the program it is running."""

    def __init__(self, settings: StemSettings, role: Role, channel: socket.socket) -> None:
        self._role = role
        self._channel = channel
        self._home = settings.homes.get(role, "/tmp")
        self._nested = settings.way != "landlock"
        self._own_pids = -1
        self._alone = False
        self._ready: _Waiting | None = None
        parent = os.getppid()
        if self._nested:
            self._nest(settings)
        else:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            # What a program leaves behind is adopted here, where the next program waits for it.
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            if os.getppid() != parent:
                os._exit(1)
        self._statm = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=settings.proc)
        os.close(settings.proc)
        if not self._nested:
            self._restrict(settings)
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.share_heaps()
        os.environ.update(HOME=self._home, TMPDIR=self._home)
        self._empty = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for stream in (0, 1, 2):
            os.dup2(self._empty, stream)
        # Two, because the next program's starts while this one's is still there.
        self._sleepers = [syscalls.Sleeper(), syscalls.Sleeper()]
        self._filters: dict[bool, seccomp.Filter] = {}
        self._filter(False, _PID_INSIDE)
        seccomp.Filter(
            allow_fork=True, own_pid=None, shared_files=not self._nested, part="zygote"
        ).install()
        # The process that holds a pid namespace open shares this one's memory: whoever might
        # reach it must find it closed, and no handler of Python's may run in it.
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _nest(self, settings: StemSettings) -> None:
        """Step into a user namespace where this process may make namespaces for its programs."""
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(
            syscalls.CLONE_NEWUSER
            | syscalls.CLONE_NEWNS
            | syscalls.CLONE_NEWPID
            | syscalls.CLONE_NEWIPC
        )
        syscalls.map_single_user(settings.proc, uid, gid)
        if os.fork():
            os._exit(0)
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        self._own_pids = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=settings.proc)

    def _restrict(self, settings: StemSettings) -> None:
        from pytest_benchrig.sandbox import landlock
        from pytest_benchrig.sandbox.visible import Visible, without_hidden

        shown = Visible(**settings.shown)
        readable, listed = without_hidden(shown)
        os.chdir(self._home)
        landlock.restrict(
            [*readable, *shown.packages, settings.sources], [self._home], listed=listed
        )
        self._alone = landlock.scopes_signals(landlock.version())

    def _filter(self, allow_fork: bool, own_pid: int | None) -> seccomp.Filter:
        """The part of the filter that this process cannot put on itself, made ready once."""
        found = self._filters.get(allow_fork) if self._nested else None
        if found is None:
            found = seccomp.Filter(allow_fork=allow_fork, own_pid=own_pid, part="program")
            self._filters[allow_fork] = found
        return found

    def serve(self) -> None:
        """Run one program after the other until the launcher hangs up."""
        self._ready = self._prepare()
        while True:
            message, fds, _, _ = socket.recv_fds(self._channel, _MESSAGE, _FDS)
            if not message:
                return
            if message != b"k":
                self._program(message, fds)

    def _program(self, message: bytes, fds: list[int]) -> None:
        one = self._ready or self._prepare()
        self._ready = None
        with one.channel:
            try:
                socket.send_fds(one.channel, [message], fds)
            finally:
                for fd in fds:
                    os.close(fd)
        forks = json.loads(message)["allow_fork"]
        if self._nested or not forks:
            # The next one is made ready while this one runs. Without namespaces it must not be
            # taken for something that a program has left.
            self._ready = self._prepare()
        self._answer(one, self._watch(one.pid), forks)

    def _prepare(self) -> _Waiting:
        """Fork a process that is contained already and waits for its program."""
        init = 0
        if self._nested:
            syscalls.setns(self._own_pids, syscalls.CLONE_NEWPID)
            syscalls.unshare(syscalls.CLONE_NEWPID)
            init = self._sleepers[0].start()
            self._sleepers.reverse()
        size = address_space(os.pread(self._statm, 256, 0))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            self._become(theirs, size)
        theirs.close()
        return _Waiting(pid, init, ours)

    def _watch(self, pid: int) -> bool:
        """Wait for the end of the program, or the launcher's wish for it: true for the latter."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        try:
            watched = os.pidfd_open(pid)
        except OSError:
            # Before Linux 5.3, or where a container forbids it.
            watched = -1
        else:
            poll.register(watched, select.POLLIN)
        try:
            while True:
                for fd, _ in poll.poll(_TICK_MS if watched < 0 else None):
                    if fd == watched:
                        return False
                    return self._channel.recv(_MESSAGE) in (b"k", b"")
                if watched < 0 and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return False
        finally:
            if watched >= 0:
                os.close(watched)

    def _answer(self, one: _Waiting, killed: bool, forks: bool) -> None:
        """End all that the program started, reap it, and tell the launcher."""
        pid, init = one.pid, one.init
        done: tuple[int, int, resource.struct_rusage | None] = (0, 0, None)
        if killed:
            done = os.wait4(pid, os.WNOHANG)
            killed = not done[0]
        if self._nested:
            # The end of the first process of a pid namespace is the end of all the others.
            os.kill(init, signal.SIGKILL)
        elif not done[0]:
            os.kill(pid, signal.SIGKILL)
        if not done[0]:
            done = os.wait4(pid, 0)
        if self._nested:
            os.waitpid(init, 0)
        _, status, usage = done
        assert usage is not None
        answer = {
            "exit": None if killed else os.waitstatus_to_exitcode(status),
            "cpu_sec": usage.ru_utime + usage.ru_stime,
            "clean": self._nested or not forks or self._nothing_left(),
        }
        self._channel.send(json.dumps(answer).encode("ascii"))

    def _nothing_left(self) -> bool:
        """Whether no descendant is left, now that all adopted ones that could be are ended."""
        for _ in range(200):
            try:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return True
            if not self._alone:
                return False
            # The rules that this process is under let it signal its own descendants alone.
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
            select.select([], [], [], 0.001)
        return False

    def _become(self, channel: socket.socket, size: int) -> NoReturn:
        """Turn this fork into one side of a program; only from here on is foreign code read."""
        status = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _close_all_but([channel.fileno()])
            if self._nested:
                if self._role == "candidate":
                    syscalls.unshare(syscalls.CLONE_NEWNS)
                    _mount_private(_USUAL_SIZE_MB, 0)
                os.chdir("/tmp")
            else:
                syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            message, fds, _, _ = socket.recv_fds(channel, _MESSAGE, _FDS)
            channel.close()
            if not message:
                os._exit(0)
            wanted = json.loads(message)
            self._streams(fds)
            kept = fds[: 1 if self._role == "candidate" else 3]
            _close_all_but(kept)
            if self._nested:
                if self._role == "candidate" and wanted["file_size_mb"] != _USUAL_SIZE_MB:
                    _mount_private(wanted["file_size_mb"], syscalls.MS_REMOUNT)
                syscalls.drop_capabilities()
            self._limit_and_filter(wanted, size)
            sys.path.extend(wanted["packages"])
            self._serve(kept)
            status = 0
        except SystemExit as ended:
            status = _status_of(ended.code)
        except BaseException:
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(status)

    def _streams(self, fds: list[int]) -> None:
        if self._role == "candidate":
            os.dup2(fds[1], 1)
            os.dup2(fds[2], 2)
        else:
            os.dup2(fds[3], 2)

    def _limit_and_filter(self, wanted: dict[str, Any], size: int) -> None:
        if self._role == "candidate" and not self._nested:
            # The launcher looks at what it holds open, to bound what it writes.
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        apply_limits(wanted["limits"], size)
        allow_fork = wanted["allow_fork"]
        confined = self._nested or self._alone
        if self._alone:
            from pytest_benchrig.sandbox import landlock

            landlock.keep_signals_inside()
        own_pid = None if allow_fork and confined else os.getpid()
        self._filter(allow_fork, own_pid).install()

    def _serve(self, fds: list[int]) -> None:
        if self._role == "candidate":
            from pytest_benchrig.sandbox import candidate

            candidate.main(fds[0])
        else:
            from pytest_benchrig.sandbox import judge

            judge.main(fds[0], fds[1], fds[2])


def _mount_private(size_mb: int, remount: int) -> None:
    """A fresh file system of this size for temporary files, or another size for it."""
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | remount
    options = f"size={size_mb}m,nr_inodes={size_mb * 256},mode=1777"
    syscalls.mount("tmpfs", "/tmp", "tmpfs", flags, options)


def _close_all_but(kept: list[int]) -> None:
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, _MOST_DESCRIPTORS))


def _status_of(code: object) -> int:
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
