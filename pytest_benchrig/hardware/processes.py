"""Processes with their children, followed through a window."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_benchrig.hardware.host import Host, HostProcess


class ProcessSet:
    """The memory and processor time of some processes and all their descendants.

    A reaped child's time has moved into its parent's count, so the sum over those alive does not
    lose it. A process whose parent ends before it leaves the tree and is no longer counted.
    """

    def __init__(self, host: Host, roots: Iterable[int], without: frozenset[int] = frozenset()):
        self._host = host
        self._roots = tuple(roots)
        self._without = without
        self._handles: dict[int, HostProcess] = {}
        self._base: dict[int, float] = {}
        self._last: dict[int, float] = {}

    @property
    def pids(self) -> frozenset[int]:
        """Every process that was ever seen here."""
        return frozenset(self._base)

    def open(self) -> None:
        """Find the processes; processor time counts from here."""
        self._adopt(new_since_open=False)

    def refresh(self) -> None:
        """Look for children that were born meanwhile; their time counts from their birth."""
        self._adopt(new_since_open=True)

    def _adopt(self, *, new_since_open: bool) -> None:
        for pid in self._host.tree(self._roots) - self._without - self._base.keys():
            try:
                handle = self._host.process(pid)
            except ProcessLookupError:
                continue  # it ended between the listing and the reading
            self._handles[pid] = handle
            self._base[pid] = self._last[pid] = 0.0
            self._read(pid)
            if not new_since_open:
                self._base[pid] = self._last[pid]

    @property
    def handles(self) -> tuple[HostProcess, ...]:
        """Those that had not ended at the last look."""
        return tuple(self._handles.values())

    def read_cpu(self) -> None:
        """Bring the processor time up to now."""
        for pid in tuple(self._handles):
            self._read(pid)

    def _read(self, pid: int) -> None:
        try:
            now = self._handles[pid].sample()
        except ProcessLookupError:
            self._handles.pop(pid).close()
            return
        self._last[pid] = max(self._last[pid], now.cpu_sec)

    def cpu_sec(self) -> float:
        """Processor time since :meth:`open`, up to the last :meth:`read_cpu`."""
        return sum(self._last[pid] - self._base[pid] for pid in self._base)

    @property
    def active(self) -> int:
        """How many of the processes have used any processor time since :meth:`open`."""
        return sum(self._last[pid] > self._base[pid] for pid in self._base)

    def close(self) -> None:
        """Let go of the processes."""
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()
