"""Starts the two sides of a program as two contained commands, watches and ends them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from pytest_benchrig.sandbox.inside import Settings
from pytest_benchrig.sandbox.landlock import NOBODY
from pytest_benchrig.sandbox.launch import OUTPUT_CAP, REPORT_CAP, Cause, Limits, Outcome, Program
from pytest_benchrig.sandbox.process import Drain

Role = Literal["candidate", "judge"]

JUDGE_MEMORY_MB = 1024
_JUDGE_TASKS = 16
_END_SEC = 5.0
_LAST_WORDS_SEC = 1.0
_FLUSH_SEC = 0.1
_LOOK_SEC = 0.2
_MOST_ENTRIES = 20_000
_SYS_PIDFD_OPEN = 434


@dataclass(slots=True)
class Side:
    """One started side.

    Attributes:
        process: The command; its end is the end of everything it started.
        init: Descriptor of the first process inside, to end the side by; -1 for the command itself.
        exit: As in ``subprocess``, once it was waited for.
        cpu_sec: CPU time of all that was waited for.
    """

    process: subprocess.Popen[bytes]
    init: int = -1
    exit: int | None = None
    cpu_sec: float = 0.0
    closed: bool = field(default=False)


class PairLauncher(ABC):
    """What the launchers of contained sides share."""

    level: str
    name: str

    def __init__(self) -> None:
        # Imported here so that their compiled form is at hand for interpreters that write none.
        from pytest_benchrig.sandbox import candidate, judge

        self._warm = (candidate, judge)

    @abstractmethod
    def _start(
        self, role: Role, limits: Limits, settings: Settings, home: str, streams: Streams
    ) -> Side:
        """Start one side."""

    def _end(self, side: Side) -> None:
        """Tell a side to end, with everything it started."""
        with contextlib.suppress(ProcessLookupError):
            if side.init >= 0:
                signal.pidfd_send_signal(side.init, signal.SIGKILL)
            else:
                side.process.terminate()

    @contextlib.contextmanager
    def _home(self) -> Iterator[str]:
        """A folder for one run, where the level needs one outside."""
        yield ""

    def close(self) -> None:  # noqa: B027 - there is nothing to end unless a level keeps something
        """Nothing is kept warm."""

    def run(self, program: Program) -> Outcome:
        """Run one program to its end or its limit."""
        with self._home() as home, contextlib.ExitStack() as stack:
            return self._run(program, home, stack)

    def _run(self, program: Program, home: str, stack: contextlib.ExitStack) -> Outcome:
        limits = program.limits
        ends = {}
        writing = {}
        for name in ("report", "stdout", "stderr", "judge_stderr"):
            ends[name], writing[name] = os.pipe()
        theirs, ours = socket.socketpair()
        job = _job_file(program.job)
        lifeline, held = os.pipe()
        stack.callback(os.close, held)
        drain = Drain(
            {
                fd: (REPORT_CAP, False) if name == "report" else (OUTPUT_CAP, True)
                for name, fd in ends.items()
            }
        )
        stack.callback(drain.close)
        sides: list[Side] = []
        stack.callback(lambda: self._finish(sides))
        start = time.monotonic()
        try:
            settings = self._settings("candidate", (theirs.fileno(),), lifeline, limits)
            streams = Streams(writing["stdout"], writing["stderr"])
            sides.append(self._start("candidate", limits, settings, home, streams))
            fds = (ours.fileno(), writing["report"], job.fileno())
            settings = self._settings("judge", fds, lifeline, limits)
            streams = Streams(subprocess.DEVNULL, writing["judge_stderr"])
            sides.append(self._start("judge", limits, settings, home, streams))
        except OSError as problem:
            return Outcome(b"", setup_error=f"level {self.level} cannot start: {problem}")
        finally:
            for fd in writing.values():
                os.close(fd)
            os.close(lifeline)
            theirs.close()
            ours.close()
            job.close()
        ended, cause = self._watch(drain, ends["report"], start + limits.wall_sec, home, limits)
        wall = time.monotonic() - start
        self._finish(sides, killed=not ended)
        drain.rest()
        kept = {name: drain.kept(fd) for name, fd in ends.items()}
        return _outcome(kept, sides, cause, wall, limits)

    def _watch(
        self, drain: Drain, report: int, deadline: float, home: str, limits: Limits
    ) -> tuple[bool, Cause]:
        """Wait for the judge's end; where a folder outside is written to, for its size too."""
        if not home:
            ended = drain.until_closed(report, deadline)
            return ended, "" if ended else "wall"
        while time.monotonic() < deadline:
            if drain.until_closed(report, min(deadline, time.monotonic() + _LOOK_SEC)):
                return True, ""
            if _larger(home, limits.file_size_mb << 20):
                return False, "file_size"
        return False, "wall"

    def _settings(
        self, role: Role, fds: tuple[int, ...], lifeline: int, limits: Limits
    ) -> Settings:
        judge = role == "judge"
        return Settings(
            role=role,
            descriptors=fds,
            lifeline=lifeline,
            memory_mb=JUDGE_MEMORY_MB if judge else limits.memory_mb,
            cpu_sec=limits.wall_sec + 2 if judge else limits.cpu_limit_sec,
            tasks=tasks_of_user() + (_JUDGE_TASKS if judge else limits.processes),
            open_files=limits.open_files,
            file_size_mb=limits.file_size_mb,
            allow_fork=limits.allow_fork and not judge,
        )

    def _finish(self, sides: list[Side], killed: bool = True) -> None:
        """End what still runs, and reap it: the judge first, unless it ends by itself."""
        for side in reversed(sides):
            if side.closed:
                continue
            side.closed = True
            own_end = side is not sides[0] and not killed
            if own_end:
                _wait(side, _LAST_WORDS_SEC)
            elif side is sides[0] and not killed:
                _wait(side, _FLUSH_SEC)
            if side.exit is None:
                self._end(side)
                _wait(side, _END_SEC)
                side.exit = None
            if side.process.returncode is None:
                side.process.kill()
                _wait(side, None)
                side.exit = None
            if side.init >= 0:
                os.close(side.init)


@dataclass(frozen=True, slots=True)
class Streams:
    """Where a side's output goes."""

    stdout: int
    stderr: int


def spawn(
    command: list[str],
    fds: tuple[int, ...],
    streams: Streams,
    *,
    env: dict[str, str],
    cwd: str = "/",
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with these descriptors and nothing else."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=streams.stdout,
        stderr=streams.stderr,
        env=env,
        cwd=cwd,
        pass_fds=fds,
        start_new_session=True,
    )


def settings_text(settings: Settings) -> str:
    """The settings as they stand on the command line."""
    return json.dumps(asdict(settings))


def pidfd_open(pid: int) -> int:
    """A descriptor that stands for a process, whatever becomes of its number.

    Raises:
        OSError: The process is gone, or the kernel is older than 5.3.
    """
    fd = ctypes.CDLL(None, use_errno=True).syscall(_SYS_PIDFD_OPEN, pid, 0)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)


def tasks_of_user() -> int:
    """Processes and threads of the user that a side runs as: the limit on them counts all."""
    count = 0
    me = os.getuid() or NOBODY
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == me:
                count += entry.joinpath("task").stat().st_nlink - 2
    return count


def _larger(folder: str, size: int) -> bool:
    """Whether files take more than so many bytes, or are too many or too deep to be counted."""
    waiting = [folder]
    count = 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    found = entry.stat(follow_symlinks=False)
                    size -= found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, PermissionError):
            continue
        except OSError as problem:
            if problem.errno != errno.ENAMETOOLONG:
                raise
            return True
        if size < 0 or count > _MOST_ENTRIES:
            return True
    return False


def _job_file(job: bytes) -> BinaryIO:
    """The job in a file that has no name."""
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - closed when both sides have started
    stream.write(job)
    stream.seek(0)
    return stream


def _wait(side: Side, seconds: float | None) -> None:
    """Wait for the side's command, and for its first process, at most so long."""
    deadline = None if seconds is None else time.monotonic() + seconds
    process = side.process
    if process.returncode is None:
        watched = pidfd_open(process.pid)
        try:
            if not _ready(watched, deadline):
                return
        finally:
            os.close(watched)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        side.cpu_sec = usage.ru_utime + usage.ru_stime
    code = process.returncode
    side.exit = 128 - code if code > 128 else code
    if side.init >= 0:
        _ready(side.init, deadline)


def _ready(fd: int, deadline: float | None) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return bool(selector.select(left))


def _outcome(
    kept: dict[str, bytes], sides: list[Side], cause: Cause, wall: float, limits: Limits
) -> Outcome:
    candidate, judge = sides
    if not cause:
        over = candidate.cpu_sec >= limits.cpu_limit_sec and candidate.exit != 0
        if candidate.exit == -signal.SIGXCPU or over:
            cause = "cpu"
        elif candidate.exit == -signal.SIGXFSZ:
            cause = "file_size"
    return Outcome(
        reports=kept["report"],
        stdout=kept["stdout"],
        stderr=kept["stderr"],
        judge_stderr=kept["judge_stderr"],
        judge_exit=judge.exit,
        candidate_exit=candidate.exit,
        ended_by=cause,
        wall_sec=wall,
        cpu_sec=candidate.cpu_sec,
    )
