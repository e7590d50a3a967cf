"""Launchers over warm zygotes: containment once for many programs, and again for each."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from pytest_benchrig.sandbox import boot
from pytest_benchrig.sandbox.launch import Outcome, Program
from pytest_benchrig.sandbox.limits import base_tasks
from pytest_benchrig.sandbox.namespaces import SOURCES_INSIDE, is_real_root
from pytest_benchrig.sandbox.outer_bwrap import outer_command
from pytest_benchrig.sandbox.pair_of_zygotes import ZygoteLostError, ZygotePair, settings_text
from pytest_benchrig.sandbox.stem import StemSettings, Way
from pytest_benchrig.sandbox.syscalls import NOBODY
from pytest_benchrig.sandbox.visible import visible

_FIXED = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONSAFEPATH": "1",
    "PYTHONUTF8": "1",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
}


class WarmLauncher:
    """Runs programs on zygotes that are kept warm, one pair for each program at a time.

    Args:
        way: ``bwrap`` or ``own`` for namespaces, ``landlock`` without.
        bwrap: The path of ``bwrap``, for that way.
    """

    def __init__(self, way: Way, bwrap: str = "") -> None:
        self._way = way
        self._bwrap = bwrap
        self.level = "landlock" if way == "landlock" else "namespace"
        self.name = way if way == "landlock" else f"namespace-{way}"
        self._idle: dict[bool, list[ZygotePair]] = {False: [], True: []}
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._starter = _starter()
        # For those who forget to close; the zygotes end with this process in any case.
        weakref.finalize(self, _close_idle, self._idle, self._owner)
        # Compiled here where that is possible, because nothing inside may write.
        from pytest_benchrig.sandbox import candidate, judge, zygote

        del candidate, judge, zygote

    def run(self, program: Program) -> Outcome:
        """Run one program to its end or its limit; a lost zygote is replaced once."""
        said = ""
        for _ in range(2):
            try:
                pair = self._take(program.limits.site_packages)
            except OSError as problem:
                said = str(problem)
                break
            try:
                outcome = pair.run(program)
            except ZygoteLostError as problem:
                said = str(problem)
                continue
            finally:
                self._put_back(program.limits.site_packages, pair)
            return outcome
        return Outcome(b"", setup_error=said)

    def close(self) -> None:
        """End all zygotes; a later run starts new ones."""
        with self._lock:
            _close_idle(self._idle, self._owner)

    def _take(self, packages: bool) -> ZygotePair:
        if os.getpid() != self._owner:
            # After a fork the zygotes are the parent's.
            self._idle = {False: [], True: []}
            self._lock = threading.Lock()
            self._owner = os.getpid()
            self._starter = _starter()
        with self._lock:
            kept = self._idle[packages]
            if kept:
                return kept.pop()
        return self._starter.submit(self._start, packages).result()

    def _put_back(self, packages: bool, pair: ZygotePair) -> None:
        with self._lock:
            if pair.usable:
                self._idle[packages].append(pair)
                return
        pair.close()

    def _start(self, packages: bool) -> ZygotePair:
        shown = visible(packages=packages)
        real_root = is_real_root()
        homes = self._homes(real_root) if self._way == "landlock" else {}
        settings: dict[str, Any] = {
            "way": self._way,
            "sources": str(boot.SOURCES),
            "shown": shown._asdict(),
            "homes": homes,
            "real_root": real_root,
        }
        if self._way == "bwrap":
            settings["sources"] = SOURCES_INSIDE
        counted = base_tasks(
            own_user_namespace=self._way != "landlock",
            release=os.uname().release,
            uid=NOBODY if real_root else os.geteuid(),
        )
        return ZygotePair(self._spawn, settings, counted, shown.packages)

    def _homes(self, real_root: bool) -> dict[str, str]:
        found = {}
        for role in ("candidate", "judge"):
            home = tempfile.mkdtemp(prefix="benchrig-")
            if real_root:
                os.chown(home, NOBODY, NOBODY)
            found[role] = home
        return found

    def _spawn(
        self, settings: StemSettings, fds: tuple[int, ...], said: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        folder = SOURCES_INSIDE if self._way == "bwrap" else str(boot.SOURCES)
        inside = folder if self._way == "landlock" else SOURCES_INSIDE
        with os.fdopen(os.memfd_create("bundle", os.MFD_CLOEXEC), "wb", buffering=0) as bundle:
            bundle.write(boot.bundle(inside))
            command = boot.stem_command(folder, settings_text(settings), bundle.fileno())
            if self._way == "bwrap":
                command = outer_command(self._bwrap, settings, str(boot.SOURCES), command)
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=_FIXED,
                cwd="/",
                pass_fds=(*fds, bundle.fileno()),
                start_new_session=True,
            )


def _close_idle(idle: dict[bool, list[ZygotePair]], owner: int) -> None:
    if os.getpid() != owner:
        return
    for kept in idle.values():
        while kept:
            kept.pop().close()


def _starter() -> ThreadPoolExecutor:
    """One thread that lives as long as this process.

    A sandbox dies with the thread that started it, and the threads that run programs come and go.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="benchrig-sandbox")
