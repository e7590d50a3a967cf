"""The level ``process``: limits and a cleaned environment, on any POSIX system; no containment."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from pytest_benchrig.sandbox.launch import OUTPUT_CAP, REPORT_CAP, Cause, Outcome, Program

_BOOT = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
sys.path.insert(0, {root!r})
import json
from pytest_benchrig.sandbox import candidate, judge, supervise
sys.path.remove({root!r})
supervise.main(json.loads(sys.stdin.buffer.readline()))
"""
_ROOT = str(Path(__file__).parents[2])
_MARK = "BENCHRIG_PROGRAM"
_GRACE_SEC = 3.0
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
    """Runs each program under a supervisor of its own; limits, but no containment."""

    level = "process"

    def run(self, program: Program) -> Outcome:
        """Run one program to its end or its limit."""
        home = tempfile.mkdtemp(prefix="benchrig-")
        try:
            return self._run(program, home)
        finally:
            remove_tree(home)

    def close(self) -> None:
        """Nothing is kept warm."""

    def _run(self, program: Program, home: str) -> Outcome:
        names = ("report", "status", "stdout", "stderr", "judge_stderr")
        reading, writing = {}, {}
        for name in names:
            reading[name], writing[name] = os.pipe()
        job_read, job_write = os.pipe()
        writing["job"] = job_read
        limits = program.limits
        settings = {
            **writing,
            "limits": {**asdict(limits), "cpu_sec": limits.cpu_limit_sec},
            "site_packages": _site_packages() if limits.site_packages else [],
        }
        mark = secrets.token_hex(16)
        start = time.monotonic()
        try:
            process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-B", "-c", _BOOT.format(root=_ROOT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=writing["judge_stderr"],
                env={**environment(home), _MARK: mark},
                cwd=home,
                pass_fds=tuple(writing.values()),
                start_new_session=True,
            )
        except OSError as problem:
            for fd in (*reading.values(), *writing.values(), job_write):
                os.close(fd)
            return Outcome(b"", setup_error=f"{sys.executable} cannot be started: {problem}")
        for fd in writing.values():
            os.close(fd)
        keep = {
            reading["report"]: (REPORT_CAP, False),
            reading["status"]: (OUTPUT_CAP, False),
            reading["stdout"]: (OUTPUT_CAP, True),
            reading["stderr"]: (OUTPUT_CAP, True),
            reading["judge_stderr"]: (OUTPUT_CAP, True),
        }
        drain = Drain(keep)
        try:
            _tell(process, settings)
            deadline = start + limits.wall_sec
            _feed(job_write, program.job, deadline)
            ended = drain.until_closed(reading["status"], deadline)
            wall = time.monotonic() - start
            if not ended:
                process.terminate()
                drain.until_closed(reading["status"], time.monotonic() + _GRACE_SEC)
            process.kill()
            process.wait()
            sweep(mark)
            drain.rest()
            return _outcome(drain, reading, wall, ended, limits.cpu_limit_sec)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            drain.close()


def _tell(process: subprocess.Popen[bytes], settings: dict[str, object]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stream:
        stream.write(json.dumps(settings).encode("ascii") + b"\n")


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
    status = drain.kept(reading["status"])
    found = json.loads(status) if status else {}
    cause: Cause = "" if ended else "wall"
    candidate = found.get("candidate")
    cpu = found.get("cpu_sec")
    if candidate in (-signal.SIGXCPU, -signal.SIGKILL) and cpu is not None and cpu >= cpu_limit:
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
