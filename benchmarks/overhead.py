"""What the harness itself costs per item: collection, running, memory, and how it grows.

    python benchmarks/overhead.py [--sizes 100,1000,10000] [--repeat 3]

Bare pytest on one trivial test, parametrized as often, is the reference: the cheapest items that
pytest has. The run cost is taken in replay mode, so that no engine and no network is in it: one
stored reply a scenario is read, judged again and journalled, and every report is written. Neither
side loads other plugins; both find their modules compiled, as installed ones are. Each figure is
the median of whole processes taken in turn; ``on top`` is the processor time over bare pytest's,
start-up included, and ``more`` the same per further item between two sizes, so without start-up.
Wall-clock time is shown beside it and says nothing on a busy machine.

The speed of shared machines varies by a factor of two from one hour to the next. So each line ends
with what an isolated interpreter that does nothing, ``python -I -S -c pass``, took at that time,
taken in turn with the rest in the same way, and each figure is also given in such starts: 0.048 of
a start is 0.3 ms where a start takes 6.25 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

START = "start"
_STARTS = 9
# Variables of containers and workplaces that make Python slower than it is for a user.
_UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one pytest process took: seconds of processor and of wall clock, peak MiB."""

    cpu: float
    wall: float
    memory: float


def scenario_file(size: int) -> str:
    """A file of ``size`` arithmetic questions."""
    entries = [
        {
            "id": f"sum{i}",
            "prompt": f"What is {i} + 1? End with one line: Final answer: <answer>",
            "check_type": "final_answer",
            "expected_answer": str(i + 1),
            "accepted_patterns": [str(i + 1)],
        }
        for i in range(size)
    ]
    return json.dumps({"suite": "sums", "scenarios": entries}, indent=1)


def journal(size: int) -> str:
    """The journal of a run that answered every question."""
    from pytest_benchrig.core.files import scenario_digest
    from pytest_benchrig.core.journal import header_line, record_line
    from pytest_benchrig.core.record import Record
    from pytest_benchrig.scenario_io import load_text

    lines = [header_line({"id": "benchmark"})]
    for scenario in load_text(scenario_file(size), "sums.json").scenarios:
        number = str(int(scenario.id.removeprefix("sum")) + 1)
        record = Record(
            task_id=scenario.id,
            suite="sums",
            kind="answer",
            target="openai:none",
            runtime="openai",
            model="none",
            prompt=scenario.prompt,
            response=f"Final answer: {number}",
            scenario_digest=scenario_digest(scenario),
            finish_reason="stop",
            verdict="pass",
            passed=True,
            correct=True,
            extracted_answer=number,
        )
        lines.append(record_line(record))
    return "".join(lines)


def project(folder: Path, size: int) -> None:
    """Write the bare tests, the scenario file and its journal."""
    (folder / "scenarios").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_bare.py").write_text(
        "import pytest\n"
        f"@pytest.mark.parametrize('n', range({size}))\n"
        "def test_sum(n): assert n + 1 == int(str(n + 1))\n"
    )
    (folder / "scenarios" / "sums.json").write_text(scenario_file(size))
    (folder / "run.jsonl").write_text(journal(size))


def environment(folder: Path) -> dict[str, str]:
    """The user's own, in which both sides find their modules compiled, as installed ones are."""
    kept = {k: v for k, v in os.environ.items() if k not in _UNUSUAL}
    compiled = str(folder.parent / "compiled")
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": compiled}


def measure(words: list[str], folder: Path) -> Cost:
    """The cost of one pytest process, its own processor time alone."""
    return cost([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], folder)


def start(folder: Path) -> Cost:
    """The cost of an isolated interpreter that does nothing, the median of several."""
    interpreter = os.path.realpath(sys.executable)
    words = [interpreter, "-I", "-S", "-c", "pass"]
    return middle([cost(words, folder) for _ in range(_STARTS)])


def middle(taken: list[Cost]) -> Cost:
    """The medians of several costs."""
    return Cost(*map(statistics.median, zip(*map(astuple, taken), strict=True)))


def cost(words: list[str], folder: Path) -> Cost:
    """The cost of one process, its own processor time alone."""
    begin = time.perf_counter()
    done = subprocess.Popen(
        words,
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, status, usage = os.wait4(done.pid, 0)
    wall = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) != 0:
        problem = done.stderr.read().decode() if done.stderr else ""
        raise SystemExit(f"{' '.join(words)} failed: {problem}")
    scale = 1024 if sys.platform != "darwin" else 1024 * 1024
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / scale)


def costs(size: int, repeat: int) -> dict[str, Cost]:
    """The median cost of each job at one size; the jobs are taken in turn."""
    ours = ["-p", "pytest_benchrig.plugin", "scenarios"]
    jobs = {
        "bare collect": ["test_bare.py", "--co"],
        "ours collect": [*ours, "--benchrig-model", "openai:none", "--co"],
        "bare run": ["test_bare.py"],
        "ours run": [*ours, "--benchrig-replay", "run.jsonl"],
    }
    taken: dict[str, list[Cost]] = {job: [] for job in [START, *jobs]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        project(folder, size)
        for words in jobs.values():
            measure(words, folder)  # compiles the modules
        for _ in range(repeat):
            for job, words in jobs.items():
                taken[START].append(start(folder))
                taken[job].append(measure(words, folder))
    return {job: middle(found) for job, found in taken.items()}


def show(size: int, found: dict[str, Cost], before: tuple[int, dict[str, Cost]] | None) -> None:
    """Print one size's figures."""
    unit = found[START].cpu
    for kind in ("collect", "run"):
        bare, ours = found[f"bare {kind}"], found[f"ours {kind}"]
        line = (
            f"{size:>6} items, {kind:<7}: cpu bare {bare.cpu:6.2f} s, ours {ours.cpu:6.2f} s, "
            f"ratio {ours.cpu / bare.cpu:4.2f}, on top {(ours.cpu - bare.cpu) / size * 1e3:6.3f} "
            f"ms an item ({(ours.cpu - bare.cpu) / size / unit:.3f} starts)"
        )
        if before is not None:
            smaller, figures = before
            items = (size - smaller) / 1e3
            more_ours = (ours.cpu - figures[f"ours {kind}"].cpu) / items
            more_bare = (bare.cpu - figures[f"bare {kind}"].cpu) / items
            more = more_ours - more_bare
            line += (
                f", more {more:6.3f} ms ({more / 1e3 / unit:.3f} starts; bare {more_bare:.3f} ms)"
            )
        print(
            f"{line}, wall {bare.wall:.2f} and {ours.wall:.2f} s, "
            f"peak {bare.memory:.0f} and {ours.memory:.0f} MiB, "
            f"ours in all {ours.cpu / unit:.0f} starts of {unit * 1e3:.1f} ms",
            flush=True,
        )


def main() -> None:
    """Run every size."""
    parser = argparse.ArgumentParser(description="Cost of the harness per item.")
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--repeat", type=int, default=3)
    wanted = parser.parse_args()
    print(f"Python {sys.version.split()[0]} on {sys.platform}, {os.cpu_count()} processors")
    before: tuple[int, dict[str, Cost]] | None = None
    for size in map(int, wanted.sizes.split(",")):
        found = costs(size, wanted.repeat)
        show(size, found, before)
        before = size, found


if __name__ == "__main__":
    main()
