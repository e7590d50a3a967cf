"""What the workers of one session share: endpoint locks, requests in flight, broken targets.

Everything lives in one directory that the controller makes and removes. Without xdist there is no
directory and every call here is free.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Coordination:
    """Shared state of the workers of one session.

    Args:
        directory: The session's own directory, ``None`` when there is only one process.
        worker: The worker's id, for messages and file names.
    """

    def __init__(self, directory: Path | None, worker: str) -> None:
        self._directory = directory
        self._worker = worker
        self._broken: dict[str, str] = {}
        self._consecutive: dict[str, int] = {}

    @contextlib.contextmanager
    def endpoint(self, url: str, *, exclusive: bool) -> Iterator[None]:
        """Hold the endpoint: alone for timings, shared for answers.

        The operating system releases the lock of a worker that dies.
        """
        if self._directory is None:
            yield
            return
        from filelock import ReadWriteLock

        lock = ReadWriteLock(self._directory / f"{_key(url)}.lock", is_singleton=False)
        # A writer would starve behind a stream of readers: it announces itself by holding the
        # gate, and readers pass through the gate before they enter.
        gate = ReadWriteLock(self._directory / f"{_key(url)}.gate", is_singleton=False)
        with contextlib.ExitStack() as stack:
            with gate.write_lock() if exclusive else gate.read_lock():
                stack.enter_context(lock.write_lock() if exclusive else lock.read_lock())
            try:
                yield
            finally:
                stack.close()
                lock.close()
                gate.close()

    @contextlib.contextmanager
    def request_in_flight(self, url: str) -> Iterator[InFlight]:
        """Around one request; the yielded value tells afterwards whether others overlapped it."""
        if self._directory is None:
            yield InFlight()
            return
        folder = self._directory / f"{_key(url)}.inflight"
        folder.mkdir(exist_ok=True)
        started = folder / "started"
        mine = folder / f"{os.getpid()}-{self._worker}.now"
        mine.touch()
        with started.open("ab") as log:
            log.write(b".")
        before = started.stat().st_size
        flight = InFlight(overlapped=_others_alive(folder, mine))
        try:
            yield flight
        finally:
            if started.stat().st_size > before:
                flight.overlapped = True
            mine.unlink(missing_ok=True)

    def broken(self, name: str) -> str:
        """Why the target or endpoint was given up, "" while it is in use."""
        if name in self._broken:
            return self._broken[name]
        if self._directory is not None:
            marker = self._directory / f"{_key(name)}.broken"
            if marker.exists():
                self._broken[name] = marker.read_text("utf-8").partition("\n")[2]
        return self._broken.get(name, "")

    def break_circuit(self, name: str, reason: str) -> None:
        """Give the target or endpoint up, in every worker."""
        self._broken[name] = reason
        if self._directory is not None:
            marker = self._directory / f"{_key(name)}.broken"
            temporary = marker.with_suffix(f".{os.getpid()}")
            temporary.write_text(f"{name}\n{reason}", "utf-8")
            temporary.replace(marker)

    def given_up(self) -> dict[str, str]:
        """Targets and endpoints that any worker gave up, sorted by name, each with the reason."""
        found = dict(self._broken)
        if self._directory is not None:
            for marker in self._directory.glob("*.broken"):
                name, _, reason = marker.read_text("utf-8").partition("\n")
                found[name] = reason
        return dict(sorted(found.items()))

    def publish(self, name: str, text: str) -> None:
        """Tell the workers something under a name; what was told before is replaced."""
        if self._directory is not None:
            file = self._directory / f"{_key(name)}.said"
            temporary = file.with_suffix(f".{os.getpid()}")
            temporary.write_text(text, "utf-8")
            temporary.replace(file)

    def published(self, name: str) -> str:
        """What was told last under a name, "" where nothing was."""
        if self._directory is None:
            return ""
        try:
            return (self._directory / f"{_key(name)}.said").read_text("utf-8")
        except FileNotFoundError:
            return ""

    def count_failure(self, name: str) -> int:
        """One more consecutive failure of the target, in any worker; their number so far."""
        if self._directory is not None:
            with self._failures(name).open("ab") as log:
                log.write(b".")
                return log.tell()
        self._consecutive[name] = self._consecutive.get(name, 0) + 1
        return self._consecutive[name]

    def count_success(self, name: str) -> None:
        """The target answered: its consecutive failures start anew."""
        if self._directory is not None:
            self._failures(name).unlink(missing_ok=True)
        self._consecutive.pop(name, None)

    def _failures(self, name: str) -> Path:
        return (self._directory or Path()) / f"{_key(name)}.failures"

    def first(self, name: str) -> bool:
        """``True`` exactly once per session for each name, whichever worker asks first."""
        if self._directory is None:
            marker = f"first:{name}"
            if marker in self._consecutive:
                return False
            self._consecutive[marker] = 1
            return True
        try:
            (self._directory / f"{_key(name)}.first").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class InFlight:
    """Whether other requests to the same endpoint were in flight during this one."""

    __slots__ = ("overlapped",)

    def __init__(self, overlapped: bool = False) -> None:
        self.overlapped = overlapped


def _others_alive(folder: Path, mine: Path) -> bool:
    for path in folder.glob("*.now"):
        if path == mine:
            continue
        pid = int(path.name.split("-")[0])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except OSError:
            return True
        else:
            return True
    return False
