"""Host and processes from Linux's /proc, read by hand with kept descriptors.

Formats: proc(5). A whole tick (memory and one process) costs about 10 us this way against 70 us
with psutil, which is why this module exists.
"""

# Paths are plain strings here: they are built for every process of every window.
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import partial

from pytest_benchrig.hardware.files import KeptFile, under
from pytest_benchrig.hardware.readings import MIB, CpuTimes, Memory, ProcessSample

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PAGE_MB = _PAGE / MIB
_TICK_SEC = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_GONE = (ProcessLookupError, FileNotFoundError)
_STATM_BYTES = 48
"""Of ``statm`` only the second number is wanted; two of them never take more."""


class ProcProcess:
    """One process, held by the descriptors of its ``stat`` and ``statm`` files."""

    __slots__ = ("_read_rss", "_stat", "_statm", "pid")

    def __init__(self, pid: int, proc: str) -> None:
        self.pid = pid
        self._stat = KeptFile(f"{proc}/{pid}/stat")
        self._statm: KeptFile | None = None
        # Without it, which no Linux lacks, memory comes from stat as well.
        self._read_rss: Callable[[], object] = self._rss_of_stat
        with contextlib.suppress(OSError):
            self._statm = KeptFile(f"{proc}/{pid}/statm")
            # The bare system call: a frame of Python around it would cost as much again.
            self._read_rss = partial(os.pread, self._statm.fileno(), _STATM_BYTES, 0)

    def sample(self) -> ProcessSample:
        """Memory and processor time now.

        Raises:
            ProcessLookupError: The process is gone.
        """
        try:
            fields = stat_fields(self._stat.read())
            if fields[0] in (b"Z", b"X"):
                raise ProcessLookupError(self.pid)
            # proc(5) counts from 1 and the split begins at field 3 (state).
            cpu = sum(int(fields[i - 3]) for i in (14, 15, 16, 17)) * _TICK_SEC
            return ProcessSample(int(fields[24 - 3]) * _PAGE_MB, cpu)
        except _GONE:
            raise ProcessLookupError(self.pid) from None
        except (ValueError, IndexError, OSError) as problem:
            raise ProcessLookupError(f"{self._stat.path}: {problem}") from None

    @property
    def read_rss(self) -> Callable[[], object]:
        """Reads what the kernel says of the memory, for :meth:`rss_mb`; not after :meth:`close`."""
        return self._read_rss

    def _rss_of_stat(self) -> object:
        return self.sample().rss_mb

    def rss_mb(self, read: object) -> float | None:
        """The memory; ``None`` of a process that has ended and only waits to be reaped."""
        if isinstance(read, float):
            return read
        try:
            pages = int(bytes(read).split(b" ", 2)[1])  # type: ignore[call-overload]
        except (ValueError, IndexError):
            return None
        return pages * _PAGE_MB if pages else None

    def close(self) -> None:
        """Give the descriptors back."""
        self._stat.close()
        if self._statm is not None:
            self._statm.close()


class ProcHost:
    """The machine as ``ROOT/proc`` tells it.

    Raises:
        OSError: There is no readable ``stat`` or ``meminfo`` (the constructor).
    """

    source = "/proc"

    def __init__(self, root: str = "/") -> None:
        self._proc = under(root, "proc")
        self._kept: list[KeptFile] = []
        try:
            self._stat = self._keep("stat")
            self._meminfo = self._keep("meminfo")
            self._vmstat: KeptFile | None = None
            with contextlib.suppress(OSError):  # only swapping is then unknown, and said to be
                self._vmstat = self._keep("vmstat")
        except OSError:
            self.close()
            raise

    def _keep(self, name: str) -> KeptFile:
        kept = KeptFile(f"{self._proc}/{name}")
        self._kept.append(kept)
        return kept

    def memory(self) -> Memory:
        """Memory and swap.

        Raises:
            OSError: ``meminfo`` cannot be read or lacks the totals.
        """
        data = self._meminfo.read()
        total, available = _kilobytes(data, b"MemTotal:"), _kilobytes(data, b"MemAvailable:")
        swap_total, swap_free = _kilobytes(data, b"SwapTotal:"), _kilobytes(data, b"SwapFree:")
        if total is None or available is None:
            raise OSError(f"{self._meminfo.path}: MemTotal or MemAvailable is missing")
        swap = None if swap_total is None or swap_free is None else swap_total - swap_free
        return Memory(total, available, swap)

    def cpu(self) -> CpuTimes:
        """Processor time since boot.

        Raises:
            OSError: ``stat`` cannot be read or is not in its format.
        """
        whole: tuple[float, float, float] | None = None
        cores = []
        try:
            for line in self._stat.read().split(b"\n"):
                if not line.startswith(b"cpu"):
                    break
                name, *ticks = line.split()
                times = _times([int(t) for t in ticks])
                if name == b"cpu":
                    whole = times
                else:
                    cores.append(times[:2])
        except ValueError as problem:
            raise OSError(f"{self._stat.path}: {problem}") from None
        if whole is None:
            raise OSError(f"{self._stat.path}: has no cpu line")
        return CpuTimes(*whole, tuple(cores), _TICK_SEC)

    def swapped_mb(self) -> float:
        """Memory moved to or from swap since boot.

        Raises:
            OSError: ``vmstat`` cannot be read or does not count it.
        """
        if self._vmstat is None:
            raise OSError(f"{self._proc}/vmstat: cannot be read")
        data = b"\n" + self._vmstat.read()
        pages_in, pages_out = _counter(data, b"pswpin"), _counter(data, b"pswpout")
        if pages_in is None or pages_out is None:
            raise OSError(f"{self._vmstat.path}: has no pswpin and pswpout")
        return (pages_in + pages_out) * _PAGE_MB

    def process(self, pid: int) -> ProcProcess:
        """A handle of one process.

        Raises:
            ProcessLookupError: There is none.
        """
        try:
            return ProcProcess(pid, self._proc)
        except OSError:
            raise ProcessLookupError(pid) from None

    def tree(self, roots: Iterable[int]) -> set[int]:
        """These processes and all their descendants."""
        return process_tree(roots, self._proc)

    def close(self) -> None:
        """Give the descriptors back."""
        for kept in self._kept:
            kept.close()


def stat_fields(data: bytes) -> list[bytes]:
    """The fields of ``/proc/PID/stat`` from the third (state) on.

    The second is the program's name in parentheses, which may hold spaces and parentheses.
    """
    return data[data.rindex(b")") + 2 :].split()


def process_tree(roots: Iterable[int], proc: str) -> set[int]:
    """These processes and all their descendants; what ends meanwhile is left out.

    The kernel's lists of children are used where it keeps them (CONFIG_PROC_CHILDREN), since a
    walk over all processes costs a millisecond and more.
    """
    found: set[int] = set()
    waiting = list(roots)
    parents: dict[int, list[int]] | None = None
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        try:
            threads = os.listdir(f"{proc}/{pid}/task")
        except OSError:
            if parents is None:
                parents = _children_by_walk(proc)
            if os.path.exists(f"{proc}/{pid}"):
                found.add(pid)
                waiting += parents.get(pid, ())
            continue
        found.add(pid)
        for thread in threads:
            try:
                fd = os.open(f"{proc}/{pid}/task/{thread}/children", os.O_RDONLY)
            except FileNotFoundError:
                if not os.path.exists(f"{proc}/{pid}/task/{thread}"):
                    continue
                if parents is None:
                    parents = _children_by_walk(proc)
                waiting += parents.get(pid, ())
                break
            except OSError:
                continue
            try:
                waiting += map(int, os.read(fd, 65536).split())
            except OSError:
                continue  # the thread ended between the listing and the reading
            finally:
                os.close(fd)
    return found


def _children_by_walk(proc: str) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", "rb") as file:
                parent = int(stat_fields(file.read())[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended between the listing and the reading
        children.setdefault(parent, []).append(int(name))
    return children


def _kilobytes(data: bytes, name: bytes) -> float | None:
    """A line of meminfo in MiB; ``None`` where there is none."""
    begin = data.find(name)
    if begin < 0:
        return None
    begin += len(name)
    try:
        return int(data[begin : data.index(b"kB", begin)]) / 1024
    except ValueError:
        raise OSError(f"meminfo: {name.decode()} has no number in kB") from None


def _counter(data: bytes, name: bytes) -> int | None:
    """A line of vmstat; ``None`` where there is none."""
    begin = data.find(b"\n" + name + b" ")
    if begin < 0:
        return None
    begin += len(name) + 2
    end = data.find(b"\n", begin)
    try:
        return int(data[begin : end if end >= 0 else None])
    except ValueError:
        raise OSError(f"vmstat: {name.decode()} has no number") from None


def _times(ticks: list[int]) -> tuple[float, float, float]:
    """Busy, total and stolen seconds from one cpu line; guest time is part of user time."""
    user, nice, system = ticks[0], ticks[1], ticks[2]
    steal = ticks[7] if len(ticks) > 7 else 0
    busy = user + nice + system
    return busy * _TICK_SEC, sum(ticks[:8]) * _TICK_SEC, steal * _TICK_SEC
