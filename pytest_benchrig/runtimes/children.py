"""Starting a process of our own that runs one module of this package and nothing of the user's."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.runtimes.models import cache_dir

_STOP_SEC = 5.0
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 12
_KEPT_LOGS = 20
_NEW_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)
# The folders go in front of the installed packages, where the parent found them, and behind the
# standard library, which nothing in them may hide.
_BOOT = """\
import importlib, json, sys
wanted = json.loads(sys.argv[2])
at = next((i for i, p in enumerate(sys.path) if p.endswith("-packages")), len(sys.path))
sys.path[at:at] = wanted["paths"]
importlib.import_module("pytest_benchrig.runtimes." + sys.argv[1]).main(wanted)
"""


def package_folder(name: str) -> str | None:
    """The folder from which a top-level package would be imported, found without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return str(Path(spec.origin).parent.parent) if spec and spec.origin else None


class ChildProcess:
    """A child that runs ``main`` of one module and reports in JSON lines.

    It runs isolated from the user's environment variables and working folder, in a session of its
    own so that the terminal's Ctrl-C does not reach it, and ends with its parent.

    Args:
        module: Under ``pytest_benchrig.runtimes``.
        wanted: What its ``main`` is given; ``parent``, ``bound`` and ``paths`` are added.
        packages: Top-level packages that it imports, wherever they are found here.
        log: Where its standard error goes.
        environment: Variables to add.

    Raises:
        OSError: It could not be started.
    """

    def __init__(
        self,
        module: str,
        wanted: Mapping[str, JsonValue],
        *,
        packages: Sequence[str],
        log: IO[bytes],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folders = [folder for name in packages if (folder := package_folder(name))]
        told = {
            **wanted,
            "parent": os.getpid(),
            # Linux ties the death signal to the thread that started the child.
            "bound": threading.current_thread() is threading.main_thread(),
            "paths": [*folders, str(Path(__file__).parents[2])],
        }
        self._owner = os.getpid()
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, module, json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            creationflags=_NEW_GROUP,
        )
        self.pid = self._popen.pid
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    def read(self, timeout_sec: float) -> Mapping[str, JsonValue] | None:
        """The next report; ``None`` once the child has ended.

        Raises:
            TimeoutError: None came in time.
        """
        try:
            line = self._lines.get(timeout=max(0.0, timeout_sec))
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            self._lines.put(b"")
            return None
        value = json.loads(line)
        return value if isinstance(value, dict) else {}

    def write(self, value: Mapping[str, JsonValue]) -> None:
        """Send one JSON line.

        Raises:
            OSError: The child is gone.
        """
        pipe = self._popen.stdin
        if pipe is None:
            raise BrokenPipeError("the child has no standard input")
        pipe.write(json.dumps(value).encode("ascii") + b"\n")
        pipe.flush()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    def wait(self, timeout_sec: float | None) -> bool:
        """Wait for its end, for ever with ``None``; whether it has ended."""
        try:
            self._popen.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            return False
        return True

    def how_it_ended(self) -> str:
        """Exit status or signal, for people."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_STOP_SEC)
        code = self._popen.returncode
        if code is None:
            return "it closed its output"
        if code in (-9, 137):
            return "killed, signal 9: the system may have run out of memory"
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def stop(self) -> None:
        """End it; harmless when it has ended, and in a fork of this process."""
        if os.getpid() != self._owner:
            return
        self._popen.terminate()
        try:
            self._popen.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()

    def _pump(self) -> None:
        pipe = self._popen.stdout
        if pipe is not None:
            with pipe:
                for line in pipe:
                    self._lines.put(line)
        self._lines.put(b"")


def open_log(name: str, folder: Path | None = None) -> tuple[Path, IO[bytes]]:
    """A new log file for a child.

    Args:
        name: The beginning of its name.
        folder: Where; default ``logs`` in the user's cache directory, where the newest 20 of each
            name are kept. The folder for temporary files is taken where it cannot be written.

    Raises:
        OSError: Neither can be written.
    """
    prefix = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-"
    wanted = folder or cache_dir() / "logs"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=prefix, suffix=".log", dir=wanted)
    except OSError:
        handle, path = tempfile.mkstemp(prefix=prefix, suffix=".log")
    else:
        if folder is None:
            for old in sorted(wanted.glob(f"{name}-*.log"))[:-_KEPT_LOGS]:
                old.unlink(missing_ok=True)
    return Path(path), os.fdopen(handle, "wb")


def log_tail(path: Path) -> str:
    """The end of a log, a dozen lines at most; "" where it cannot be read."""
    try:
        text = path.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])
