"""Programs per second at each level of the sandbox, beside a bare interpreter.

Run from the repository root: ``python -m benchmarks.sandbox [--programs N]``. The unit of the
ratio is the wall time of ``python -I -S -c pass`` on the same machine, in the same minute.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_benchrig.sandbox.isolation import LEVELS, choose
from pytest_benchrig.sandbox.judge import job_of
from pytest_benchrig.sandbox.launch import Launcher, Limits, Program, Unavailable

SOURCE = """\
def merge(intervals):
    out = []
    for low, high in sorted(intervals):
        if out and low <= out[-1][1]:
            out[-1][1] = max(out[-1][1], high)
        else:
            out.append([low, high])
    return out
"""
ASSERTIONS = ("assert merge([[1, 3], [2, 6]]) == [[1, 6]]", "assert merge([]) == []")


def bare(_: int) -> None:
    """The unit: an interpreter that starts and ends."""
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)


def subprocess_grader(_: int) -> None:
    """The same program and assertions in a bare subprocess, as most graders run them."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
        stream.write("\n".join((SOURCE, *ASSERTIONS)))
        stream.flush()
        subprocess.run([sys.executable, "-I", "-S", stream.name], check=True)


def graded(launcher: Launcher) -> Callable[[int], None]:
    """One program through a launcher; a wrong verdict ends the benchmark."""

    def run(number: int) -> None:
        job = job_of(f"token{number}", SOURCE, ASSERTIONS, ["merge"], site_packages=False)
        outcome = launcher.run(Program(job, Limits(wall_sec=60)))
        if outcome.reports.count(b'"passed": true') != len(ASSERTIONS):
            raise SystemExit(f"level {launcher.level} gave a wrong verdict: {outcome}")

    return run


def each(action: Callable[[int], None], count: int, workers: int) -> float:
    """Wall seconds per program, with so many at once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(action, range(count)))
    return (time.perf_counter() - start) / count


def main() -> None:
    """Print one row for each way to run a program."""
    parser = argparse.ArgumentParser(description="Speed of the sandbox at each level.")
    parser.add_argument("--programs", type=int, default=40, help="programs per row (default 40)")
    count = parser.parse_args().programs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    each(bare, 5, 1)
    unit = statistics.median(each(bare, max(5, count // 4), 1) for _ in range(4))
    machine = f"Python {sys.version.split()[0]}, {cores} cores"
    print(f"unit: python -I -S -c pass, {1000 * unit:.1f} ms ({machine})")
    head = f"{'way':<22}{'cold':>7}{'ratio':>8}{'programs/s':>12}"
    print(f"{head}{f'with {cores} at once':>20}")
    rows: list[tuple[str, Callable[[int], None]]] = [
        ("python -I -S -c pass", bare),
        ("bare subprocess", subprocess_grader),
    ]
    for name in LEVELS:
        launcher = choose(name)
        if isinstance(launcher, Unavailable):
            print(f"{name:<22}does not work here: {launcher.reason}")
        else:
            rows.append((name, graded(launcher)))
    for name, action in rows:
        cold = each(action, 1, 1)
        one = each(action, count, 1)
        many = each(action, count, cores)
        figures = f"{cold / unit:>7.2f}{one / unit:>8.2f}{1 / one:>12.1f}{1 / many:>20.1f}"
        print(f"{name:<22}{figures}")


if __name__ == "__main__":
    if not Path("pytest_benchrig").is_dir():
        raise SystemExit("run it from the repository root: python -m benchmarks.sandbox")
    main()
