"""What the harness itself costs per item: collection, running, memory, and how it grows.

Usage: ``python benchmarks/overhead.py [--sizes 100,1000,10000] [--repeat 3]``

Bare pytest on as many trivial tests is the reference. The run cost is taken in replay mode, so
that no engine and no network is in it: one stored reply a scenario is judged again. Figures are
medians of whole processes, taken in turn in one run; the ratio compares with bare pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


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
        number = int(scenario.id.removeprefix("sum")) + 1
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
        )
        lines.append(record_line(record))
    return "".join(lines)


def measure(words: list[str], folder: Path) -> tuple[float, float]:
    """Wall seconds and peak MiB of one pytest process."""
    start = time.perf_counter()
    done = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, status, usage = os.wait4(done.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        problem = done.stderr.read().decode() if done.stderr else ""
        raise SystemExit(f"pytest {' '.join(words)} failed: {problem}")
    scale = 1024 if sys.platform != "darwin" else 1024 * 1024
    return seconds, usage.ru_maxrss / scale


def compare(size: int, repeat: int) -> None:
    """Print one size's figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_bare.py").write_text(
            "import pytest\n"
            f"@pytest.mark.parametrize('n', range({size}))\n"
            "def test_sum(n): assert n + 1 == int(str(n + 1))\n"
        )
        (folder / "scenarios").mkdir()
        (folder / "scenarios" / "sums.json").write_text(scenario_file(size))
        (folder / "run.jsonl").write_text(journal(size))
        jobs = {
            "bare collect": ["test_bare.py", "--co"],
            "ours collect": ["scenarios", "--benchrig-model", "openai:none", "--co"],
            "bare run": ["test_bare.py"],
            "ours run": ["scenarios", "--benchrig-replay", "run.jsonl"],
        }
        taken: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
        for _ in range(repeat):
            for job, words in jobs.items():
                taken[job].append(measure(words, folder))
    wall = {job: statistics.median(s for s, _ in values) for job, values in taken.items()}
    memory = {job: statistics.median(m for _, m in values) for job, values in taken.items()}
    for kind in ("collect", "run"):
        bare, ours = wall[f"bare {kind}"], wall[f"ours {kind}"]
        print(
            f"{size:>6} items, {kind:<7}: bare {bare:6.2f} s, ours {ours:6.2f} s, "
            f"{(ours - bare) / size * 1000:6.3f} ms an item on top, ratio {ours / bare:4.2f}, "
            f"peak {memory[f'ours {kind}']:.0f} MiB (bare {memory[f'bare {kind}']:.0f})"
        )


def main() -> None:
    """Run every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--repeat", type=int, default=3)
    wanted = parser.parse_args()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)
    print(f"{sys.version.split()[0]} on {sys.platform}, {os.cpu_count()} cores, files {soft[0]}")
    for size in wanted.sizes.split(","):
        compare(int(size), wanted.repeat)


if __name__ == "__main__":
    main()
