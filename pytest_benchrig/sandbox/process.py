"""The level ``process``: limits and a cleaned environment, on any POSIX system; no containment."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path

from pytest_benchrig.sandbox.inventory import WARM_MODULES
from pytest_benchrig.sandbox.landlock import NOBODY
from pytest_benchrig.sandbox.launch import (
    OUTPUT_CAP,
    REPORT_CAP,
    Cause,
    Outcome,
    Program,
)
from pytest_benchrig.sandbox.supervise import DESCRIPTORS

_BOOT = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
sys.path.insert(0, {root!r})
from pytest_benchrig.sandbox import supervise
sys.path.remove({root!r})
for name in {warm!r}:
    __import__(name)
supervise.serve({control})
"""
_ROOT = str(Path(__file__).parents[2])
_MARK = "BENCHRIG_PROGRAM"
_GRACE_SEC = 3.0
_START_SEC = 30.0
_READ = 1 << 16


def environment(home: str) -> dict[str, str]:
    """The whole environment of a program: nothing of the user's, a fixed hash seed, UTF-8."""
    return {
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONSAFEPATH": "1",
        "PYTHONUTF8": "1",
        "TMPDIR": home,
        "TZ": "UTC",
    }


class Drain:
    """Reads several pipes at once, keeping no more of each than its cap.

    Args:
        ends: Descriptor to the number of bytes kept, and whether from the end.
    """

    def __init__(self, ends: dict[int, tuple[int, bool]]) -> None:
        self._ends = ends
        self._kept = {fd: bytearray() for fd in ends}
        self._selector = selectors.DefaultSelector()
        for fd in ends:
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)

    def until_begun(self, fd: int, deadline: float) -> None:
        """Read until one of them has said something or is closed."""
        while fd in self._selector.get_map() and not self._kept[fd]:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, _ in self._selector.select(left):
                self._read(key.fd)

    def until_closed(self, fd: int, deadline: float) -> bool:
        """Read until one of them is closed; whether that came before the deadline."""
        while fd in self._selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left):
                self._read(key.fd)
        return True

    def rest(self) -> None:
        """Read what is there and wait for nothing."""
        for fd in list(self._ends):
            while fd in self._selector.get_map() and self._read(fd):
                pass

    def kept(self, fd: int) -> bytes:
        """What was kept of one of them."""
        return bytes(self._kept[fd])

    def close(self) -> None:
        """Close every descriptor."""
        self._selector.close()
        for fd in self._ends:
            os.close(fd)

    def _read(self, fd: int) -> bool:
        try:
            part = os.read(fd, _READ)
        except BlockingIOError:
            return False
        if not part:
            self._selector.unregister(fd)
            return False
        cap, tail = self._ends[fd]
        kept = self._kept[fd]
        if tail:
            kept += part
            del kept[: max(0, len(kept) - cap)]
        else:
            kept += part[: cap - len(kept)]
        return True


class ProcessLauncher:
    """Forks each program from one warm server; limits, but no containment."""

    level = "process"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._mark = secrets.token_hex(16)
        self.folder = tempfile.gettempdir()

    def command(self, boot: str) -> list[str]:
        """The command line of the server."""
        return [sys.executable, "-s", "-S", "-B", "-c", boot]

    def run(self, program: Program) -> Outcome:
        """Run one program to its end or its limit."""
        home = tempfile.mkdtemp(prefix="benchrig-", dir=self.folder)
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        try:
            return self._run(program, home)
        finally:
            remove_tree(home)

    def close(self) -> None:
        """End the server and whatever a program has left."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            try:
                self._server.wait(_GRACE_SEC)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            sweep(self._mark)
        self._server = self._control = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        boot = _BOOT.format(root=_ROOT, warm=WARM_MODULES, control=theirs.fileno())
        self._mark = secrets.token_hex(16)
        with theirs:
            self._server = subprocess.Popen(
                self.command(boot),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment(self.folder), _MARK: self._mark},
                cwd=self.folder,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control = ours
        return ours

    def _ask(self, settings: dict[str, object], fds: list[int]) -> None:
        data = json.dumps(settings).encode("ascii")
        with self._lock:
            control = self._control
            if control is None or self._server is None or self._server.poll() is not None:
                self._stop()
                control = self._start()
            socket.send_fds(control, [data], fds)

    def _run(self, program: Program, home: str) -> Outcome:
        reading, writing = {}, {}
        for name in DESCRIPTORS:
            reading[name], writing[name] = os.pipe()
        job = writing["job"]
        reading["job"], writing["job"] = job, reading["job"]
        limits = program.limits
        settings: dict[str, object] = {
            "home": home,
            "limits": {**asdict(limits), "cpu_sec": limits.cpu_limit_sec},
            "site_packages": _site_packages() if limits.site_packages else [],
        }
        problem = ""
        try:
            self._ask(settings, [writing[name] for name in DESCRIPTORS])
        except OSError as fault:
            problem = f"{sys.executable} cannot be started: {fault}"
        for fd in writing.values():
            os.close(fd)
        drain = Drain(
            {
                fd: (REPORT_CAP, False) if name in ("report", "status") else (OUTPUT_CAP, True)
                for name, fd in reading.items()
                if name != "job"
            }
        )
        try:
            if problem:
                os.close(job)
                return Outcome(b"", setup_error=problem)
            drain.until_begun(reading["status"], time.monotonic() + _START_SEC)
            start = time.monotonic()
            deadline = start + limits.wall_sec
            _feed(job, program.job, deadline)
            ended = drain.until_closed(reading["status"], deadline)
            wall = time.monotonic() - start
            if not ended:
                _terminate(drain.kept(reading["status"]))
                drain.until_closed(reading["status"], time.monotonic() + _GRACE_SEC)
            drain.rest()
            return _outcome(drain, reading, wall, ended, limits.cpu_limit_sec)
        finally:
            drain.close()


def _terminate(status: bytes) -> None:
    """Tell a supervisor, which is alive as long as it has not closed its status, to end."""
    pid = status.partition(b"\n")[0]
    if pid.isdigit():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGTERM)


def _feed(fd: int, job: bytes, deadline: float) -> None:
    os.set_blocking(fd, False)
    view = memoryview(job)
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_WRITE)
        while view and time.monotonic() < deadline:
            selector.select(0.1)
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                break
    os.close(fd)


def _outcome(
    drain: Drain, reading: dict[str, int], wall: float, ended: bool, cpu_limit: float
) -> Outcome:
    status = drain.kept(reading["status"]).partition(b"\n")[2]
    found = json.loads(status) if status else {}
    cause: Cause = "" if ended else "wall"
    candidate = found.get("candidate") if found.get("candidate_ended") else None
    cpu = found.get("cpu_sec")
    killed = candidate == -signal.SIGKILL and cpu is not None and cpu >= cpu_limit
    if candidate == -signal.SIGXCPU or killed:
        cause = "cpu"
    return Outcome(
        reports=drain.kept(reading["report"]),
        stdout=drain.kept(reading["stdout"]),
        stderr=drain.kept(reading["stderr"]),
        judge_stderr=drain.kept(reading["judge_stderr"]),
        judge_exit=found.get("judge"),
        candidate_exit=candidate,
        ended_by=cause,
        wall_sec=wall,
        cpu_sec=cpu,
    )


def _site_packages() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def sweep(mark: str) -> None:
    """Kill what still carries the mark of a program in the environment it was started with."""
    needle = f"{_MARK}={mark}".encode("ascii")
    for _ in range(20):
        alive = False
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                marked = needle in entry.read_bytes()
            except OSError:
                continue
            if marked:
                alive = True
                with contextlib.suppress(OSError):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
        if not alive:
            return
        time.sleep(0.01)


def remove_tree(path: str) -> None:
    """Remove a directory of any depth: subdirectories are moved up before they are emptied."""
    top = Path(path)
    waiting = [top]
    count = 0
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False) and folder != top:
                    count += 1
                    raised = top / f".benchrig-{count}-{secrets.token_hex(4)}"
                    Path(entry.path).rename(raised)
                    waiting.append(raised)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    Path(entry.path).unlink()
            except OSError:
                continue
        if folder != top:
            with contextlib.suppress(OSError):
                folder.rmdir()
    with contextlib.suppress(OSError):
        top.rmdir()
