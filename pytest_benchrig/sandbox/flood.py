"""Bounds what a program writes in all, where its private folder is no file system of its own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pytest_benchrig.sandbox import reaper
from pytest_benchrig.sandbox.launch import Limits

_MOST_ENTRIES = 20_000
_BLOCK = 512


class Flood:
    """Watches a private folder and the files without a name that a program holds open.

    Args:
        folder: The private folder; ``None`` where the file system has a size of its own.
        stem: The process below which the program runs.
        limits: Whose ``file_size_mb`` is the most that may lie there in all.
    """

    def __init__(self, folder: str | None, stem: int, limits: Limits) -> None:
        self._folder = folder
        self._stem = stem
        self._most = limits.file_size_mb << 20

    @property
    def watching(self) -> bool:
        """Whether there is something to watch."""
        return self._folder is not None

    def exceeded(self) -> bool:
        """Whether more lies there than may."""
        if self._folder is None:
            return False
        total = 0
        for count, blocks in enumerate(self._sizes(self._folder)):
            total += blocks * _BLOCK
            if total > self._most or count > _MOST_ENTRIES:
                return True
        return total + self._nameless() > self._most

    def _sizes(self, folder: str) -> list[int]:
        found: list[int] = []
        waiting = [folder]
        while waiting and len(found) <= _MOST_ENTRIES:
            # Folders come and go while they are looked at.
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        found.append(entry.stat(follow_symlinks=False).st_blocks)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return found

    def _nameless(self) -> int:
        total = 0
        for pid in reaper.descendants(self._stem, reaper.parents()):
            with contextlib.suppress(OSError):
                for link in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        facts = link.stat()
                        if not facts.st_nlink:
                            total += facts.st_blocks * _BLOCK
        return total
