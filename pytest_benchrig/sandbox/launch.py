"""The seam between what runs (judge and candidate) and how it is contained (launchers).

A launcher starts two processes that share one socket pair and nothing else:

* the candidate, ``candidate.main(rpc_fd)``, which owns the model's code;
* the judge, ``judge.main(rpc_fd, report_fd)``, which first reads one job (a frame, see
  :func:`job_frame`) from its report socket and then writes JSON lines to it, each with the job's
  token. The model's source travels inside the job; the judge hands it to the candidate.

The report socket is never open in the candidate, and the candidate's standard output and error
are pipes of their own that decide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

OUTPUT_TAIL_BYTES = 65536
REPORT_LIMIT_BYTES = 16 * 1024 * 1024
WALL_MARGIN_SEC = 2.0
"""How much longer than the program's own limit a launcher waits before it kills everything."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use.

    Attributes:
        memory_mb: Address space on top of what the process has when the program starts.
        cpu_sec: CPU time; ``None`` follows the wall time.
        processes: Processes and threads, where a limit on them has an effect.
        open_files: Descriptors.
        file_size_mb: Largest file.
        allow_fork: Let the program start processes.
        site_packages: Let the program import installed packages.

    Raises:
        ValueError: A limit is not above zero.
    """

    memory_mb: int = 512
    cpu_sec: float | None = None
    processes: int = 64
    open_files: int = 128
    file_size_mb: int = 32
    allow_fork: bool = False
    site_packages: bool = False

    def __post_init__(self) -> None:
        for name in ("memory_mb", "processes", "open_files", "file_size_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"sandbox limit {name} must be above 0, not {getattr(self, name)}")
        if self.cpu_sec is not None and self.cpu_sec <= 0:
            raise ValueError(f"sandbox limit cpu_sec must be above 0, not {self.cpu_sec}")


@dataclass(frozen=True, slots=True)
class Program:
    """One program with its assertions, as the judge gets it."""

    source: str
    assertions: tuple[str, ...]
    entry_points: tuple[str, ...] = ()
    wall_sec: float = 10.0
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pair of processes ended.

    Attributes:
        report: What the judge wrote, at most :data:`REPORT_LIMIT_BYTES`.
        stdout: Tail of the candidate's standard output.
        stderr: Tail of its standard error.
        candidate: ``exit 0``, ``signal 9`` and the like; "" where it was still running and had to
            be killed.
        judge: The same of the judge.
        timed_out: Whether the launcher's own deadline passed.
        cpu_sec: CPU time of the candidate, where known.
        wall_sec: From start to the judge's end.
    """

    report: bytes
    stdout: bytes = b""
    stderr: bytes = b""
    candidate: str = ""
    judge: str = ""
    timed_out: bool = False
    cpu_sec: float | None = None
    wall_sec: float = 0.0


class Launcher(Protocol):
    """Starts a contained pair, waits for the judge, and leaves nothing behind."""

    level: str

    def run(self, program: Program, token: str) -> Ended:
        """Run one program to its end; safe to call from several threads.

        Raises:
            OSError: The pair could not be started.
        """
        ...

    def close(self) -> None:
        """End whatever is kept warm."""
        ...


def job_frame(program: Program, token: str) -> bytes:
    """The judge's first message: four bytes of length, then JSON."""
    body = json.dumps(
        {
            "token": token,
            "source": program.source,
            "assertions": list(program.assertions),
            "entry_points": list(program.entry_points),
            "wall_sec": program.wall_sec,
        }
    ).encode("ascii")
    return len(body).to_bytes(4, "big") + body


def environment(names: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """The fixed environment of both processes; nothing of the user's is in it."""
    fixed = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    fixed.update(names)
    return fixed
