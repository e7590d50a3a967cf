"""Finds and ends every descendant of a process through ``/proc``, where no namespace does it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PATIENCE_SEC = 5.0


def parents(proc: Path = Path("/proc")) -> dict[int, int]:
    """Each process with its parent; those that end meanwhile are left out."""
    found = {}
    for entry in proc.glob("[0-9]*/stat"):
        try:
            text = entry.read_text("utf-8", "replace")
        except OSError:
            continue
        # The name is in parentheses and may hold spaces and parentheses itself.
        fields = text.rpartition(")")[2].split()
        if len(fields) > 1:
            found[int(entry.parent.name)] = int(fields[1])
    return found


def descendants(root: int, table: dict[int, int]) -> set[int]:
    """All processes below one, in a table of parents."""
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def kill(pid: int) -> bool:
    """Kill one process; never a group, and never everything. Whether it was there."""
    if pid <= 1:
        raise ValueError(f"no single process has the number {pid}")
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_children_of_this_process() -> None:
    """End and reap every child, adopted ones included, until there is none.

    The caller must be a child subreaper, so that whatever leaves its session is adopted by it.
    """
    deadline = time.monotonic() + _PATIENCE_SEC
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid(), parents()):
            kill(pid)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.002)
            continue
        return
