"""Whose turn it is to talk, among the threads of one side.

This is a condition variable on the interpreter's own locks: importing ``threading`` would make each
fork of a zygote run that module's repair of its tables, which takes longer than all else in a fork.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS

_new_lock = _thread.allocate_lock


class Turn:
    """A lock that its owner may take again, and that can be left until something holds."""

    def __init__(self) -> None:
        lock: Any = _thread.RLock()
        self.acquire: Callable[[], bool] = lock.acquire
        self.release: Callable[[], None] = lock.release
        self._leave: Callable[[], Any] = lock._release_save
        self._return: Callable[[Any], None] = lock._acquire_restore
        self._waiting: list[Any] = []

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *fault: object) -> None:
        self.release()

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Let others have the turn until this holds; the caller has it before and after."""
        while not holds():
            mine = _new_lock()
            mine.acquire()
            self._waiting.append(mine)
            state = self._leave()
            try:
                mine.acquire()
            finally:
                self._return(state)

    def notify_all(self) -> None:
        """Have all who wait look again; the caller has the turn."""
        for lock in self._waiting:
            lock.release()
        self._waiting.clear()
