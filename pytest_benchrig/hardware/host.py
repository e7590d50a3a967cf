"""The fast sensors: host and processes, by hand from /proc or through psutil."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pytest_benchrig.hardware.readings import CpuTimes, Memory, ProcessSample


class HostProcess(Protocol):
    """A handle of one process; never of a later one with the same number."""

    pid: int

    def sample(self) -> ProcessSample:
        """Memory and processor time now; ``ProcessLookupError`` once it is gone."""
        ...

    @property
    def read_rss(self) -> Callable[[], object]:
        """Reads memory alone, for :meth:`rss_mb`; it raises ``OSError`` once the process is gone.

        Asked for once and called in every tick, so that a tick costs no more than the call.
        """
        ...

    def rss_mb(self, read: object) -> float | None:
        """The memory that was read; ``None`` if the process had ended."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Host(Protocol):
    """What is cheap enough to be read in every tick; every method may raise ``OSError``."""

    source: str

    def memory(self) -> Memory:
        """Memory and swap."""
        ...

    def cpu(self) -> CpuTimes:
        """Processor time since boot."""
        ...

    def swapped_mb(self) -> float:
        """A counter of swap traffic, in MiB."""
        ...

    def process(self, pid: int) -> HostProcess:
        """A handle of one process; ``ProcessLookupError`` where there is none."""
        ...

    def tree(self, roots: Iterable[int]) -> set[int]:
        """These processes and all their descendants."""
        ...

    def close(self) -> None:
        """Give back what is kept open."""
        ...


def open_host(root: str = "/") -> Host:
    """The host below ``root``: its /proc, else this machine through psutil.

    Raises:
        OSError: There is neither.
    """
    from pytest_benchrig.hardware.procfs import ProcHost

    try:
        return ProcHost(root)
    except OSError as problem:
        try:
            import psutil  # noqa: F401
        except ImportError:
            raise OSError(f"{problem}; and psutil is not installed") from None
    from pytest_benchrig.hardware.portable import PsutilHost

    return PsutilHost()
