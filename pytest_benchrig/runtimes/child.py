"""What a child process of the plugin does so that it never outlives its parent."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Report = Callable[[Mapping[str, Any]], None]

_PARENT_POLL_SEC = 0.5
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def tie_to_parent(parent: int, *, bound: bool) -> None:
    """End this process when the parent is gone, however it went.

    On Linux the kernel is asked to (prctl(2), ``PR_SET_PDEATHSIG``), which also works while native
    code runs; everywhere on POSIX the parent's pid is looked at twice a second. The caller also
    watches for the end of standard input, which is all that Windows offers.

    Args:
        parent: Its pid.
        bound: Whether the parent's main thread started us: the kernel's signal follows the thread.
    """
    if bound and sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.name == "posix":
        _leave_if_orphan(parent)
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def leave_when_stdin_ends() -> None:
    """For a child that is sent nothing: the parent holds the other end, and its end is ours."""
    threading.Thread(target=_watch_stdin, daemon=True).start()


def take_stdout() -> Report:
    """Keep the real standard output for reports, a JSON line each; all else goes to the log."""
    private = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)

    def report(event: Mapping[str, Any]) -> None:
        private.write(json.dumps(event) + "\n")
        private.flush()

    return report


def _leave_if_orphan(parent: int) -> None:
    if os.getppid() != parent:
        os._exit(0)


def _watch_parent(parent: int) -> None:
    while True:
        time.sleep(_PARENT_POLL_SEC)
        _leave_if_orphan(parent)


def _watch_stdin() -> None:
    while os.read(0, 4096):
        continue
    os._exit(0)
