"""Single facts about another process: its parent, its name, whether it lives, its environment."""

# Paths are plain strings here: they are built for every process of every window.
# ruff: noqa: PTH110, PTH115, PTH123

from __future__ import annotations

import os
import sys

from pytest_benchrig.hardware.files import under
from pytest_benchrig.hardware.procfs import stat_fields

_FIRST_PID_NAMESPACE = 0xEFFFFFFC


def has_proc(root: str = "/") -> bool:
    """Whether there is a Linux /proc below ``root``."""
    return os.path.exists(under(root, "proc/stat"))


def parent(pid: int, root: str = "/") -> int | None:
    """The parent's pid; ``None`` once the process is gone."""
    if has_proc(root):
        fields = _stat(pid, root)
        return int(fields[1]) if len(fields) > 1 else None
    import psutil

    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def name(pid: int, root: str = "/") -> str:
    """The program's name, "" where it cannot be had; Linux cuts it at 15 characters."""
    if has_proc(root):
        return _bytes(pid, "comm", root).decode("utf-8", "replace").strip()
    import psutil

    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def alive(pid: int, root: str = "/") -> bool:
    """Whether the process exists and is not merely waiting to be reaped."""
    if has_proc(root):
        fields = _stat(pid, root)
        return bool(fields) and fields[0] not in (b"Z", b"X")
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def variable(pid: int, key: str, root: str = "/") -> tuple[str | None, bool]:
    """An environment variable that the process was started with, ``None`` if it is not set.

    The second value says whether the environment could be read at all.
    """
    if pid == os.getpid():
        return os.environ.get(key), True
    if has_proc(root):
        data = _bytes(pid, "environ", root)
        for entry in data.split(b"\0"):
            left, equals, right = entry.partition(b"=")
            if equals and left.decode("utf-8", "replace") == key:
                return right.decode("utf-8", "replace"), True
        return None, bool(data)
    import psutil

    try:
        return psutil.Process(pid).environ().get(key), True
    except (psutil.Error, OSError):
        return None, False


def first_pid_namespace() -> bool:
    """Whether process numbers here are the machine's own, as outside every container.

    The kernel gives its first pid namespace a fixed number (``PROC_PID_INIT_INO``).
    """
    try:
        return os.readlink("/proc/self/ns/pid") == f"pid:[{_FIRST_PID_NAMESPACE}]"
    except OSError:
        return sys.platform in ("win32", "darwin")


def user_name(uid: int) -> str:
    """``name (uid N)``, or the number alone where it has no name."""
    try:
        import pwd

        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except (ImportError, KeyError):
        return f"uid {uid}"


def _stat(pid: int, root: str) -> list[bytes]:
    try:
        return stat_fields(_bytes(pid, "stat", root))
    except ValueError:
        return []  # gone, or not in the format


def _bytes(pid: int, file: str, root: str) -> bytes:
    """A file of /proc/PID, empty where the process is gone or the file is not for this user."""
    try:
        with open(f"{under(root, 'proc')}/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return b""
