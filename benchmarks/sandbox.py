"""Programs per second at each level of the sandbox, beside a bare interpreter.

Run from the repository root: ``python -m benchmarks.sandbox [--rounds N]``. Everything is measured
in turns within one run, and the ratios are of medians: to ``python -c pass`` in a virtual
environment without packages, and to ``python -I -S -c pass``. What belongs to the user's own
interpreter, such as ``.pth`` files that run code, is in neither.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
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
PASS = "python -c pass"
ISOLATED = "python -I -S -c pass"
BARE = "bare subprocess"

Action = Callable[[], None]


def command(*words: str) -> Action:
    """A command that must succeed."""

    def run() -> None:
        subprocess.run(words, check=True)

    return run


def bare_grader(python: str) -> Action:
    """The same program and assertions in a bare subprocess, as most graders run them."""

    def run() -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as stream:
            stream.write("\n".join((SOURCE, *ASSERTIONS)))
            stream.flush()
            subprocess.run([python, "-I", "-S", stream.name], check=True)

    return run


def graded(launcher: Launcher) -> Action:
    """One program through a launcher; a wrong verdict ends the benchmark."""

    def run() -> None:
        job = job_of("token", SOURCE, ASSERTIONS, ["merge"], site_packages=False)
        outcome = launcher.run(Program(job, Limits(wall_sec=60)))
        if outcome.reports.count(b'"passed": true') != len(ASSERTIONS):
            raise SystemExit(f"level {launcher.level} gave a wrong verdict: {outcome}")

    return run


def turn(action: Action, count: int, workers: int) -> float:
    """Wall seconds per program of one turn, with so many at once."""
    start = time.perf_counter()
    if workers == 1:
        for _ in range(count):
            action()
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda _: action(), range(count)))
    return (time.perf_counter() - start) / count


def measure(actions: dict[str, Action], rounds: int, workers: int) -> dict[str, float]:
    """The median of each over all rounds, each round taking every one in turn."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            taken[name].append(turn(action, 4 * workers, workers))
    return {name: statistics.median(values) for name, values in taken.items()}


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main() -> None:
    """Print one row for each way to run a program."""
    parser = argparse.ArgumentParser(description="Speed of the sandbox at each level.")
    parser.add_argument("--rounds", type=int, default=15, help="turns for each way (default 15)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, symlinks=True)
        python = str(Path(folder, "bin", "python"))
        actions: dict[str, Action] = {
            PASS: command(python, "-c", "pass"),
            ISOLATED: command(python, "-I", "-S", "-c", "pass"),
            BARE: bare_grader(python),
        }
        cold: dict[str, float] = {}
        launchers: list[Launcher] = []
        for name in LEVELS:
            launcher = choose(name)
            if isinstance(launcher, Unavailable):
                print(f"{name}: not measured: {launcher.reason}")
                continue
            launchers.append(launcher)
            # Whatever the probe has warmed is ended, so that the first program is a cold one.
            launcher.close()
            actions[name] = graded(launcher)
            cold[name] = turn(actions[name], 1, 1)
        alone = measure(actions, rounds, 1)
        together = measure(actions, max(3, rounds // 2), cores())
        for launcher in launchers:
            launcher.close()
    print(
        f"Python {sys.version.split()[0]}, {cores()} cores; {PASS}: {1000 * alone[PASS]:.1f} ms, "
        f"{ISOLATED}: {1000 * alone[ISOLATED]:.1f} ms"
    )
    print("ratios of wall time per program; cold is the first program, zygotes included")
    print(f"{'':<22}{'to -c pass':>11}{'to -I -S':>10}{'cold':>7}{'1 worker':>11}{'all':>9}")
    for name, seconds in alone.items():
        first = f"{cold[name] / alone[PASS]:.2f}" if name in cold else ""
        print(
            f"{name:<22}{seconds / alone[PASS]:>11.2f}{seconds / alone[ISOLATED]:>10.2f}"
            f"{first:>7}{1 / seconds:>9.0f}/s{1 / together[name]:>7.0f}/s"
        )


if __name__ == "__main__":
    if not Path("pytest_benchrig").is_dir():
        raise SystemExit("run it from the repository root: python -m benchmarks.sandbox")
    main()
