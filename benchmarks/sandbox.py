"""Programs per second at each level of the sandbox, beside a bare interpreter.

Run from the repository root: ``python -m benchmarks.sandbox [--rounds N]``. Everything is measured
in turns within one run. Ratios of wall time are medians of the ratios within each round: to
``python -c pass`` in a virtual environment without packages, and to ``python -I -S -c pass``. What
belongs to the user's own interpreter, such as ``.pth`` files that run code, is in neither.

On a machine that others use, wall times and programs per second say little. The ratio of CPU time
says what a program costs wherever it runs: everything that was spent for it, by this process, by
those kept warm and by those of the program, over what ``python -c pass`` takes. Where there is no
``/proc`` to read it from, it is left out.

The target at namespace level is 0.5 of ``python -c pass`` per program warm, about 1.25 times as
many programs a second as ``python -I -S -c pass`` reaches with as many workers, and 2.5 for the
first program. The first two are reached, the last is not. Taken twice on a quiet shared 2-core
machine (Linux 6.18, CPython 3.11.7), 8 rounds: wall time 0.39 and 0.49 (bwrap), 0.41 and 0.48
(own), 0.48 and 0.53 (landlock), CPU time 0.53 to 0.63 of ``python -c pass``; the first program 4.2
and 4.8, 6.0 and 6.4, 6.9 and 7.3 times it. 112 to 138 programs a second with one worker, 174 to
201 with two, where ``python -I -S -c pass`` reached 72 and 76, 124 and 147. The assertions here
are plain ones, so that judges are used again; a program that needs a judge of its own takes about
one and a half times as long. By samples (``perf``), half of the CPU time is the candidate's
process: page faults, most of them copies of pages that forks share, its own Python, and its end.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pytest_benchrig.sandbox import reaper
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
COLD_STARTS = 5
PER_WORKER = 12
"""Programs in a turn; with fewer, the end of a turn, when one worker has nothing to do, counts."""

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


@dataclass(slots=True)
class Taken:
    """Seconds per program: wall time of each round, CPU time of all programs together."""

    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0
    programs: int = 0


def spent() -> float:
    """CPU seconds of this process and of everything that it has started, as far as it is known."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + used.ru_utime + used.ru_stime
    for pid in reaper.descendants(os.getpid(), reaper.parents()):
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            continue
        ticks = map(int, text.rpartition(")")[2].split()[11:15])
        total += sum(ticks) / os.sysconf("SC_CLK_TCK")
    return total


def turn(action: Action, count: int, workers: int, taken: Taken) -> None:
    """One turn of so many programs, with so many at once."""
    before = spent()
    start = time.perf_counter()
    if workers == 1:
        for _ in range(count):
            action()
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda _: action(), range(count)))
    taken.wall.append((time.perf_counter() - start) / count)
    taken.cpu += spent() - before
    taken.programs += count


def measure(actions: dict[str, Action], rounds: int, workers: int) -> dict[str, Taken]:
    """Every way in turn, and that so many times."""
    taken = {name: Taken() for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            turn(action, PER_WORKER * workers, workers, taken[name])
    return taken


def ratio(taken: Taken, to: Taken) -> float:
    """The median of the ratios of wall time within each round."""
    return statistics.median(a / b for a, b in zip(taken.wall, to.wall, strict=True))


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
        first: dict[str, float] = {}
        launchers: list[Launcher] = []
        for name in LEVELS:
            launcher = choose(name)
            if isinstance(launcher, Unavailable):
                print(f"{name}: not measured: {launcher.reason}")
                continue
            launchers.append(launcher)
            actions[name] = graded(launcher)
            cold, bare = Taken(), Taken()
            for _ in range(COLD_STARTS):
                # Whatever has been warmed is ended, so that the program is the first.
                launcher.close()
                turn(actions[PASS], 1, 1, bare)
                turn(actions[name], 1, 1, cold)
            first[name] = ratio(cold, bare)
        alone = measure(actions, rounds, 1)
        together = measure(actions, max(3, rounds // 2), cores())
        for launcher in launchers:
            launcher.close()
    wall = {name: statistics.median(taken.wall) for name, taken in alone.items()}
    print(
        f"Python {sys.version.split()[0]}, {cores()} cores; {PASS}: {1000 * wall[PASS]:.1f} ms, "
        f"{ISOLATED}: {1000 * wall[ISOLATED]:.1f} ms"
    )
    print("ratios per program; cold is the first program, zygotes included")
    for words in (
        ("wall to", "wall to", "CPU to", "cold to", "one", "all"),
        ("-c pass", "-I -S", "-c pass", "-c pass", "worker", "cores"),
    ):
        print(f"{'':<22}" + "".join(f"{word:>10}" for word in words))
    for name, taken in alone.items():
        cpu = taken.cpu / taken.programs / (alone[PASS].cpu / alone[PASS].programs)
        all_cores = statistics.median(together[name].wall)
        cells = (
            f"{ratio(taken, alone[PASS]):.2f}",
            f"{ratio(taken, alone[ISOLATED]):.2f}",
            f"{cpu:.2f}" if Path("/proc/self/stat").exists() else "",
            f"{first[name]:.2f}" if name in first else "",
            f"{1 / wall[name]:.0f}/s",
            f"{1 / all_cores:.0f}/s",
        )
        print(f"{name:<22}" + "".join(f"{cell:>10}" for cell in cells))


if __name__ == "__main__":
    if not Path("pytest_benchrig").is_dir():
        raise SystemExit("run it from the repository root: python -m benchmarks.sandbox")
    main()
