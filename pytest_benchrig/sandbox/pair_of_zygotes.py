"""The launcher's end of two zygotes: start them, run one program at a time, watch it, end it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from pytest_benchrig.sandbox import reaper
from pytest_benchrig.sandbox.flood import Flood
from pytest_benchrig.sandbox.launch import OUTPUT_CAP, REPORT_CAP, Cause, Outcome, Program
from pytest_benchrig.sandbox.limits import resource_limits
from pytest_benchrig.sandbox.stem import Role, StemSettings

START_SEC = 30.0
_GRACE_SEC = 0.25
_END_SEC = 5.0
_FLOOD_TICK_SEC = 0.05
_LISTEN_SEC = 0.02
_READ = 1 << 16
_MESSAGE = 1 << 16
_ROLES: tuple[Role, Role] = ("candidate", "judge")

Spawn = Callable[[StemSettings, tuple[int, ...], IO[bytes]], "subprocess.Popen[bytes]"]


class ZygoteLostError(Exception):
    """A zygote ended or does not answer; the message says what it said last."""


class ZygotePair:
    """A candidates' zygote and a judges' zygote under one stem.

    Args:
        spawn: Starts the stem with its settings and the descriptors it inherits.
        settings: Everything but the descriptors.
        base_tasks: What to add to the limit on processes.
        packages: Folders of installed packages for the candidate.
    """

    def __init__(
        self,
        spawn: Spawn,
        settings: Mapping[str, Any],
        base_tasks: int,
        packages: tuple[str, ...] = (),
    ) -> None:
        self._base_tasks = base_tasks
        self._packages = packages
        self._homes: dict[Role, str] = settings["homes"]
        self._said = _unnamed_file()
        self._ready = False
        self.usable = True
        ours: dict[Role, socket.socket] = {}
        theirs: dict[Role, socket.socket] = {}
        for role in _ROLES:
            ours[role], theirs[role] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._channels = ours
        try:
            controls = {role: end.fileno() for role, end in theirs.items()}
            whole = StemSettings(controls=controls, proc=proc, **settings)
            self._stem = spawn(whole, (*controls.values(), proc), self._said)
        except OSError:
            for channel in ours.values():
                channel.close()
            self._said.close()
            raise
        finally:
            os.close(proc)
            for end in theirs.values():
                end.close()

    def run(self, program: Program) -> Outcome:
        """Run one program.

        Raises:
            ZygoteLostError: There is no outcome; this pair is of no use any more.
        """
        self._be_ready()
        try:
            with _Run(self._channels, self._packages, self._base_tasks, program) as run:
                flood = Flood(self._homes.get("candidate"), self._stem.pid, program.limits)
                outcome = run.watch(flood)
        except (OSError, ValueError) as problem:
            self.usable = False
            raise ZygoteLostError(f"{problem}. {self.last_words()}".strip()) from problem
        if not run.clean:
            # Something left its session where no namespace holds it: the whole tree goes.
            self.usable = False
        for home in self._homes.values():
            try:
                _empty(home)
            except OSError:
                # Somebody tidied the folder for temporary files: the next program gets another.
                self.usable = False
        return outcome

    def _be_ready(self) -> None:
        if self._ready:
            return
        deadline = time.monotonic() + START_SEC
        for role, channel in self._channels.items():
            channel.settimeout(max(0.0, deadline - time.monotonic()))
            try:
                message = channel.recv(_MESSAGE)
            except OSError as problem:
                message = b""
                reason = str(problem)
            else:
                reason = "it ended"
            said = json.loads(message) if message else {"error": reason}
            if "error" in said:
                self.usable = False
                words = self.last_words()
                raise ZygoteLostError(
                    f"the {role}s' zygote did not start: {said['error']}"
                    + (f" ({words})" if words else "")
                )
            channel.settimeout(_END_SEC)
        self._ready = True

    def last_words(self) -> str:
        """The last line that the stem wrote on its stderr."""
        with contextlib.suppress(ValueError, subprocess.TimeoutExpired):
            self._stem.wait(0.2)
            self._said.seek(0)
            lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def close(self) -> None:
        """End both zygotes and everything below them; wait until nothing of it is left."""
        self.usable = False
        for channel in self._channels.values():
            channel.close()
        # At the level without namespaces the stem cleans up behind the zygotes when they hang up.
        deadline = time.monotonic() + _END_SEC
        while self._stem.poll() is None and time.monotonic() < deadline:
            if not self._homes:
                self._stem.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._stem.wait(0.05)
        if self._stem.poll() is None:
            for pid in reaper.descendants(self._stem.pid, reaper.parents()):
                reaper.kill(pid)
            self._stem.kill()
            self._stem.wait()
        self._said.close()
        from pytest_benchrig.sandbox.process import remove_tree

        for home in self._homes.values():
            remove_tree(home)


class _Run:
    """One program under way: its pipes, its deadline, what came out of it."""

    def __init__(
        self,
        channels: dict[Role, socket.socket],
        packages: tuple[str, ...],
        base_tasks: int,
        program: Program,
    ) -> None:
        self._channels = channels
        self._limits = program.limits
        self._ends: dict[str, int] = {}
        self._kept: dict[int, bytearray] = {}
        self._answers: dict[Role, dict[str, Any]] = {}
        self._killed: set[Role] = set()
        self.clean = True
        self._start_both(program, packages, base_tasks)

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *fault: object) -> None:
        for fd in self._ends.values():
            os.close(fd)

    def _start_both(self, program: Program, packages: tuple[str, ...], base_tasks: int) -> None:
        theirs: list[int] = []
        try:
            for name in ("report", "stdout", "stderr", "judge_stderr"):
                self._ends[name], writing = os.pipe()
                theirs.append(writing)
            report, stdout, stderr, judge_stderr = theirs
            one, other = socket.socketpair()
            theirs += [one.detach(), other.detach()]
            job = os.memfd_create("job", os.MFD_CLOEXEC)
            theirs.append(job)
            _write_all(job, program.job)
            os.lseek(job, 0, os.SEEK_SET)
            limits = program.limits
            self.started = time.monotonic()
            for role, fds in (
                ("candidate", [theirs[4], stdout, stderr]),
                ("judge", [theirs[5], report, job, judge_stderr]),
            ):
                judge = role == "judge"
                message = {
                    "limits": resource_limits(limits, judge=judge, base_tasks=base_tasks),
                    "file_size_mb": limits.file_size_mb,
                    "allow_fork": limits.allow_fork and not judge,
                    "packages": [] if judge else packages,
                }
                # Whether it may start processes is also the first byte, for the zygote.
                first = "f" if message["allow_fork"] else "-"
                text = f"{first}{json.dumps(message)}".encode("ascii")
                socket.send_fds(self._channels[role], [text], fds)  # type: ignore[index]
        except BaseException:
            self.__exit__()
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    def watch(self, flood: Flood) -> Outcome:
        """Follow the program to its end.

        Raises:
            OSError: A zygote does not answer, or is gone.
        """
        poll = select.poll()
        for name, fd in self._ends.items():
            os.set_blocking(fd, False)
            self._kept[fd] = bytearray()
            if name != "report":
                poll.register(fd, select.POLLIN)
        roles = {channel.fileno(): role for role, channel in self._channels.items()}
        for fd in roles:
            poll.register(fd, select.POLLIN)
        deadline = self.started + self._limits.wall_sec
        cause: Cause = ""
        wall: float | None = None
        look = self.started + _FLOOD_TICK_SEC if flood.watching else float("inf")
        # Most programs are over before that, and being woken for each report costs them time.
        listen = self.started + _LISTEN_SEC
        while len(self._answers) < len(_ROLES):
            now = time.monotonic()
            if now >= look and wall is None:
                if flood.exceeded():
                    cause, deadline = "file_size", now
                look = time.monotonic() + _FLOOD_TICK_SEC
            if now >= listen:
                poll.register(self._ends["report"], select.POLLIN)
                listen = float("inf")
            for fd, _ in poll.poll(max(0.0, min(deadline, look, listen) - now) * 1000):
                if fd in roles:
                    self._hear(roles[fd])
                    poll.unregister(fd)
                elif not self._read(fd):
                    poll.unregister(fd)
            now = time.monotonic()
            if "judge" in self._answers and wall is None:
                wall = now - self.started
                look = float("inf")
                # A candidate that has nothing more to do ends by itself when the judge is gone.
                deadline = now + _GRACE_SEC
            elif now >= deadline:
                if wall is None:
                    wall = now - self.started
                    look = float("inf")
                    cause = cause or "wall"
                elif self._killed:
                    raise TimeoutError("a zygote does not end its program")
                self._kill_rest()
                deadline = now + _END_SEC
        for fd in self._ends.values():
            while self._read(fd):
                pass
        return self._outcome(cause, time.monotonic() - self.started if wall is None else wall)

    def _hear(self, role: Role) -> None:
        message = self._channels[role].recv(_MESSAGE)
        if not message:
            raise ConnectionError(f"the {role}s' zygote is gone")
        answer = json.loads(message)
        self._answers[role] = answer
        self.clean = self.clean and answer["clean"]

    def _kill_rest(self) -> None:
        for role, channel in self._channels.items():
            if role not in self._answers:
                self._killed.add(role)
                channel.send(b"k")

    def _read(self, fd: int) -> bool:
        """Read once; whether there may be more."""
        try:
            part = os.read(fd, _READ)
        except BlockingIOError:
            return False
        if not part:
            return False
        kept = self._kept[fd]
        if fd == self._ends["report"]:
            kept += part[: REPORT_CAP - len(kept)]
        else:
            kept += part
            del kept[: max(0, len(kept) - OUTPUT_CAP)]
        return True

    def _outcome(self, cause: Cause, wall: float) -> Outcome:
        candidate, judge = self._answers["candidate"], self._answers["judge"]
        ended, cpu = candidate["exit"], candidate["cpu_sec"]
        if not cause and (
            ended == -signal.SIGXCPU
            or (ended == -signal.SIGKILL and cpu >= self._limits.cpu_limit_sec)
        ):
            cause = "cpu"
        kept = {name: bytes(self._kept[fd]) for name, fd in self._ends.items()}
        return Outcome(
            reports=kept["report"],
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            judge_stderr=kept["judge_stderr"],
            judge_exit=judge["exit"],
            candidate_exit=ended,
            ended_by=cause,
            wall_sec=wall,
            cpu_sec=cpu,
        )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _unnamed_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("stderr", os.MFD_CLOEXEC), "w+b", buffering=0)


def _empty(folder: str) -> None:
    """Leave nothing in a private folder, however deep it is."""
    from pytest_benchrig.sandbox.process import remove_tree

    for entry in list(Path(folder).iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(str(entry))
        else:
            entry.unlink()


def settings_text(settings: StemSettings) -> str:
    """The settings as they stand on the stem's command line."""
    return json.dumps(settings._asdict())
