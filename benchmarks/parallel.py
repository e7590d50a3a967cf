"""What workers change: speed results with and without ``-n 2``, and the time answers take.

Usage: ``python benchmarks/parallel.py [--repeat 3]`` (needs the extra ``embedded``)

The same small scenario set is run in turn without workers and with two, on the embedded engine
with two slots both times. Printed are the medians of the decode rate, which must not change, and
of the wall time of the answers, which must fall; the ratio is taken within one run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCENARIOS = {
    "speed.json": [
        {
            "id": f"decode{i}",
            "kind": "speed",
            "prompt": f"Tell a long story about {animal}.",
            "options": {"num_predict": 96, "temperature": 0.0},
        }
        for i, animal in enumerate(("a fox", "a bear", "an owl", "a whale"))
    ],
    "answers.json": [
        {
            "id": f"answer{i}",
            "prompt": f"What is {i} plus {i}? End with one line: Final answer: <answer>",
            "check_type": "final_answer",
            "expected_answer": str(2 * i),
            "accepted_patterns": [str(2 * i)],
            "options": {"num_predict": 96},
        }
        for i in range(1, 13)
    ],
}


def run(folder: Path, workers: int) -> tuple[float, float]:
    """Median decode rate of the speed suite, and seconds from the first answer to the last."""
    words = ["--benchrig-model", "embedded:smollm2-135m", "-o", "benchrig_embedded_slots=2"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"-n{workers}", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    records = json.loads((folder / "results/latest.json").read_text("utf-8"))["records"]
    rates = [r["eval_tok_per_sec"] for r in records if r["suite"] == "speed"]
    answers = [r for r in records if r["suite"] == "answers"]
    seconds = sum(r["total_time_sec"] for r in answers)
    return statistics.median(rates), seconds / max(1, workers)


def main() -> None:
    """Run both ways in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    taken: dict[int, list[tuple[float, float]]] = {0: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "scenarios").mkdir()
        for file, entries in SCENARIOS.items():
            (folder / "scenarios" / file).write_text(json.dumps(entries))
        for _ in range(repeat):
            for workers in taken:
                taken[workers].append(run(folder, workers))
    rate = {n: statistics.median(r for r, _ in values) for n, values in taken.items()}
    wall = {n: statistics.median(s for _, s in values) for n, values in taken.items()}
    for label, found, unit in (("decode", rate, "t/s"), ("answers", wall, "s")):
        print(
            f"{label:<8} alone {found[0]:6.1f} {unit}, -n 2 {found[2]:6.1f} {unit}, "
            f"ratio {found[2] / found[0]:.3f}"
        )


if __name__ == "__main__":
    main()
