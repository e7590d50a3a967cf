"""The seam between what a program means and where it runs: limits, one run, its outcome.

A launcher starts two fresh processes for each program and joins them by one stream socket:

* the candidate, which does nothing but ``candidate.main(rpc_fd)``,
* the judge, which does nothing but ``judge.main(rpc_fd, report_fd, job_fd)``.

Descriptors: the candidate holds 0 (empty), 1 and 2 (captured) and its end of the socket; the judge
holds its end of the socket, the reading end of the job, the writing end of the reports, and a
captured 2. Nothing else is open in either. The job (source, assertions, token) is read by the judge
alone and must never have been in the memory of a process that the candidate is forked from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol, TypeAlias

from pytest_benchrig.sandbox.inventory import USUAL_FILE_SIZE_MB

REPORT_CAP = 4 << 20
"""Most bytes of reports that are read; an honest judge stays far below."""

OUTPUT_CAP = 64 << 10
"""Bytes kept, from the end, of each of the candidate's stdout and stderr; the rest is dropped."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one program.

    Attributes:
        memory_mb: Address space of the candidate on top of what the fresh process already has.
        wall_sec: From the start of the candidate to the judge's end; loading included.
        cpu_sec: CPU time of the candidate; ``None`` is ``wall_sec`` plus one second.
        processes: Processes and threads, where forking is allowed at all.
        open_files: Descriptors.
        file_size_mb: Largest file; also the size of the private temporary file systems.
        allow_fork: Whether the candidate may start processes.
        site_packages: Whether the candidate sees the installed packages.

    Raises:
        ValueError: A limit that is not a positive number.
    """

    memory_mb: int = 512
    wall_sec: float = 10.0
    cpu_sec: float | None = None
    processes: int = 64
    open_files: int = 128
    file_size_mb: int = USUAL_FILE_SIZE_MB
    allow_fork: bool = False
    site_packages: bool = False

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, bool) or value is None:
                continue
            if not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ValueError(f"sandbox limit {entry.name} must be positive, not {value!r}")

    @property
    def cpu_limit_sec(self) -> float:
        """The CPU limit in force."""
        return self.wall_sec + 1.0 if self.cpu_sec is None else self.cpu_sec


@dataclass(frozen=True, slots=True)
class Program:
    """One run: what the judge reads from its job descriptor up to its end, and the limits."""

    job: bytes
    limits: Limits


Cause: TypeAlias = Literal["", "wall", "cpu", "memory", "processes", "file_size", "output"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen of one run from outside.

    Attributes:
        reports: What the judge wrote on its report descriptor, at most ``REPORT_CAP`` bytes.
        stdout: The end of what the candidate wrote, at most ``OUTPUT_CAP`` bytes.
        stderr: The same of its stderr.
        judge_stderr: The end of the judge's own stderr: empty unless the judge itself failed.
        judge_exit: As in ``subprocess``: negative for a signal; ``None`` if it had to be killed.
        candidate_exit: The same; the launcher kills the candidate when the judge has ended, and
            that is ``None`` as well.
        ended_by: The limit that ended the run, "" if none did.
        wall_sec: From the start of the candidate to the end of the judge.
        cpu_sec: CPU time of the candidate's process tree, ``None`` where it is not known.
        setup_error: Why the program could not be started at all, else "".
    """

    reports: bytes
    stdout: bytes = b""
    stderr: bytes = b""
    judge_stderr: bytes = b""
    judge_exit: int | None = None
    candidate_exit: int | None = None
    ended_by: Cause = ""
    wall_sec: float = 0.0
    cpu_sec: float | None = None
    setup_error: str = ""


class Launcher(Protocol):
    """Runs programs at one level of containment; ``run`` may be called from several threads."""

    level: str
    """``namespace``, ``landlock``, ``seatbelt`` or ``process``."""

    def run(self, program: Program) -> Outcome:
        """Run one program to its end or its limit.

        When the judge ends, or at the wall limit, every process of the run is killed and reaped
        before this returns, also those that left their session, and no file of it is left.
        The judge ends by itself soon after the candidate has died.
        """
        ...

    def close(self) -> None:
        """End whatever was kept warm."""
        ...


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why no launcher of the wanted level works here, and the way out."""

    reason: str
    remedy: str
