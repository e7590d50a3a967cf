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
import gc
import json
import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_benchrig.sandbox import seccomp, syscalls
from pytest_benchrig.sandbox.forked import MESSAGE, READY, SIGINT, SIGKILL, SPACE, Side, set_handler
from pytest_benchrig.sandbox.inventory import FORKS_AHEAD, WARM_MODULES
from pytest_benchrig.sandbox.limits import address_space
from pytest_benchrig.sandbox.rehearse import rehearse

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.stem import Role, StemSettings

_TICK_MS = 5
_pair: Callable[..., tuple[Any, Any]] = import_module("_socket").socketpair
_PAIR_KIND = (int(socket.AF_UNIX), int(socket.SOCK_SEQPACKET))
_RIGHTS = (int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS))


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


def _warm_up() -> None:
    """Import what programs are likely to, rehearse, and keep the pages of it shared."""
    for name in WARM_MODULES:
        import_module(name)
    rehearse()
    gc.collect()
    gc.freeze()


class _Fork(NamedTuple):
    """A forked process that waits for its program, or runs it.

    Attributes:
        pid: Its process id, as seen from here.
        init: The first process of its pid namespace, 0 where it has none.
        channel: Where it is given its program.
        sleeper: On whose stack the first process sleeps.
    """

    pid: int
    init: int
    channel: Any
    sleeper: syscalls.Sleeper | None


_End = Literal["by itself", "on demand", "not yet"]
"""How a program ended: with its process, because the launcher wished it, or its process goes on."""


class _Zygote:
    """One zygote and the program it is running."""

    def __init__(self, settings: StemSettings, role: Role, channel: socket.socket) -> None:
        self._channel = channel
        self._home = settings.homes.get(role, "/tmp")
        self._nested = settings.way != "landlock"
        self._own_pids = -1
        self._alone = False
        self._ready: list[_Fork] = []
        self._used: tuple[_Fork, bytes] | None = None
        self._judges = role == "judge"
        self._ahead = 1
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
        empty = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for stream in (0, 1, 2):
            os.dup2(empty, stream)
        os.close(empty)
        # One more, because the next programs' start while this one's is still there.
        self._idle = [syscalls.Sleeper() for _ in range(FORKS_AHEAD + 1)]
        self._side = Side(role, nested=self._nested, alone=self._alone)
        self._measure()
        seccomp.Filter(
            allow_fork=True, own_pid=None, shared_files=not self._nested, part="zygote"
        ).install()
        # The process that holds a pid namespace open shares this one's memory: whoever might
        # reach it must find it closed, and no handler of Python's may run in it.
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        set_handler(SIGINT, int(signal.SIG_DFL))
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

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
        from pytest_benchrig.sandbox.sights import Visible, without_hidden

        shown = Visible(**settings.shown)
        readable, listed = without_hidden(shown)
        os.chdir(self._home)
        landlock.restrict(
            [*readable, *shown.packages, settings.sources], [self._home], listed=listed
        )
        self._alone = landlock.scopes_signals(landlock.version())

    def _measure(self) -> None:
        """Let limits on memory count from what this process has now."""
        self._side.size = address_space(os.pread(self._statm, 256, 0))

    def serve(self) -> None:
        """Run one program after the other until the launcher hangs up."""
        self._ready.append(self._prepare())
        fresh = True
        while True:
            message, rights, _, _ = self._channel.recvmsg(MESSAGE, SPACE)
            if not message:
                return
            if message == b"k":
                continue
            self._program(message, rights[0][2])
            if fresh:
                # Not before, so that the first program need not wait for it.
                fresh = False
                _warm_up()
                self._measure()
                if not self._judges:
                    self._ahead = FORKS_AHEAD

    def _program(self, message: bytes, fds: bytes) -> None:
        one = self._for_another(message)
        if one is None:
            one = self._ready.pop() if self._ready else self._prepare()
        forks = message[:1] == b"f"
        if forks and not self._nested:
            # Without namespaces they must not be taken for something that a program has left.
            while self._ready:
                self._reap(self._ready.pop())
        try:
            one.channel.sendmsg([message], [(*_RIGHTS, fds)])
        finally:
            if not self._judges:
                one.channel.close()
            for fd in memoryview(fds).cast("i"):
                os.close(fd)
        if not self._ready and (self._nested or not forks):
            # The next ones are made ready while this one runs.
            self._ready += [self._prepare() for _ in range(self._ahead)]
        end, cpu_sec = self._watch(one)
        if end == "not yet":
            self._used = one, message
            self._say(b"0", cpu_sec, clean=True)
        else:
            self._answer(one, end, forks)

    def _for_another(self, message: bytes) -> _Fork | None:
        """The judge of the last program, if it can judge one that is wanted in the same way."""
        if self._used is None:
            return None
        (one, last), self._used = self._used, None
        if message == last and one.channel.recv(MESSAGE) == READY:
            return one
        self._reap(one)
        return None

    def _prepare(self) -> _Fork:
        """Fork a process that is contained already and waits for its program."""
        init, sleeper = 0, None
        if self._nested:
            syscalls.setns(self._own_pids, syscalls.CLONE_NEWPID)
            syscalls.unshare(syscalls.CLONE_NEWPID)
            sleeper = self._idle.pop()
            init = sleeper.start()
        ours, theirs = _pair(*_PAIR_KIND)
        pid = os.fork()
        if not pid:
            self._side.become(theirs)
        theirs.close()
        return _Fork(pid, init, ours, sleeper)

    def _watch(self, one: _Fork) -> tuple[_End, bytes]:
        """Wait for the end of the program, or the launcher's wish for it.

        Returns:
            How it ended, and the CPU time of a judge that goes on.
        """
        poll = self._poll
        watched = told = -1
        # Before Linux 5.3, or where a container forbids it, there is no such descriptor.
        with contextlib.suppress(OSError):
            watched = os.pidfd_open(one.pid)
            poll.register(watched, select.POLLIN)
        if self._judges:
            told = one.channel.fileno()
            poll.register(told, select.POLLIN)
        try:
            while True:
                for fd, _ in poll.poll(_TICK_MS if watched < 0 else None):
                    if fd == watched:
                        return "by itself", b""
                    if fd != told:
                        wish = self._channel.recv(MESSAGE) in (b"k", b"")
                        return "on demand" if wish else "by itself", b""
                    cpu_sec = one.channel.recv(MESSAGE)
                    if cpu_sec:
                        return "not yet", cpu_sec
                    # It hung up, and is about to end.
                    poll.unregister(told)
                    told = -1
                if watched < 0 and os.waitid(
                    os.P_PID, one.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
                ):
                    return "by itself", b""
        finally:
            for fd in (told, watched):
                if fd >= 0:
                    poll.unregister(fd)
            if watched >= 0:
                os.close(watched)

    def _answer(self, one: _Fork, end: _End, forks: bool) -> None:
        """End all that the program started, reap it, and tell the launcher."""
        done: tuple[int, int, resource.struct_rusage | None] = (0, 0, None)
        if end == "on demand":
            done = os.wait4(one.pid, os.WNOHANG)
        killed = end == "on demand" and not done[0]
        _, status, usage = self._reap(one, done)
        ended = "null" if killed else str(os.waitstatus_to_exitcode(status))
        clean = self._nested or not forks or self._nothing_left()
        cpu_sec = b"%.6f" % (usage.ru_utime + usage.ru_stime)
        self._say(ended.encode("ascii"), cpu_sec, clean=clean)

    def _reap(
        self, one: _Fork, done: tuple[int, int, Any] = (0, 0, None)
    ) -> tuple[int, int, resource.struct_rusage]:
        """End a process, if it was not waited for yet, and all below it."""
        one.channel.close()
        if self._nested:
            # The end of the first process of a pid namespace is the end of all the others.
            os.kill(one.init, SIGKILL)
        elif not done[0]:
            os.kill(one.pid, SIGKILL)
        if not done[0]:
            done = os.wait4(one.pid, 0)
        if self._nested:
            os.waitpid(one.init, 0)
        if one.sleeper is not None:
            self._idle.append(one.sleeper)
        return done

    def _say(self, ended: bytes, cpu_sec: bytes, *, clean: bool) -> None:
        self._channel.send(
            b'{"exit": %b, "cpu_sec": %b, "clean": %b}'
            % (ended, cpu_sec, b"true" if clean else b"false")
        )

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
