"""Reading the small files of /proc and /sys without ever waiting for one of them."""

# Paths are plain strings here: they are built for every process of every window.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from pathlib import Path

from pytest_benchrig.hardware.readings import SensorError

FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_ENOUGH = 65536


class KeptFile:
    """A file of /proc whose descriptor is kept, so that one reading is one system call.

    A kept descriptor of ``/proc/PID`` names that very process: once it is gone, reading fails even
    when its number was given to another.
    """

    __slots__ = ("_fd", "_room", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._room = 2048
        # Not blocking: a pipe in the place of a sensor must not stop us.
        self._fd = os.open(path, FLAGS)

    def read(self) -> bytes:
        """The whole text.

        Raises:
            OSError: It cannot be read, or its process is gone.
        """
        data = os.pread(self._fd, self._room, 0)
        while len(data) == self._room:
            # These files are made anew by each reading, so a second half would not fit the first.
            self._room *= 4
            data = os.pread(self._fd, self._room, 0)
        return data

    def fileno(self) -> int:
        """The descriptor, for who wants a part only; valid until :meth:`close`."""
        return self._fd

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def under(root: str, path: str) -> str:
    """The absolute ``path`` below another root directory."""
    return os.path.join(root, path.lstrip("/"))


def read_text(path: str | Path) -> str:
    """The text of a small file, stripped.

    Raises:
        SensorError: It is not there, may not be read, or has nothing to say; with the remedy.
    """
    try:
        fd = os.open(path, FLAGS)
        try:
            data = os.read(fd, _ENOUGH)
        finally:
            os.close(fd)
    except PermissionError:
        raise SensorError(
            f"{path}: permission denied", f"let this user read {path} (chmod a+r, or a udev rule)"
        ) from None
    except BlockingIOError:
        raise SensorError(f"{path}: gave nothing at once") from None
    except OSError as problem:
        raise SensorError(f"{path}: {problem.strerror or problem}") from None
    if not data.strip():
        raise SensorError(f"{path}: is empty")
    return data.decode("utf-8", "replace").strip()


def read_number(path: str | Path) -> float:
    """The number in a small file.

    Raises:
        SensorError: As for :func:`read_text`, or the text is no finite number.
    """
    text = read_text(path)
    try:
        value = float(text)
    except ValueError:
        raise SensorError(f"{path}: {text[:40]!r} is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise SensorError(f"{path}: {text[:40]!r} is not a finite number")
    return value


def listing(path: str | Path) -> list[Path]:
    """The entries of a directory in a natural order (card2 before card10), none where it is not."""
    try:
        entries = list(Path(path).iterdir())
    except OSError:
        return []
    return sorted(entries, key=lambda entry: (len(entry.name), entry.name))
