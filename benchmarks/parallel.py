"""What workers change: the figures of the speed suite, and the time that answers take.

Usage: ``python benchmarks/parallel.py [--repeat 3] [--embedded]``

The same small scenario set is run in turn without workers and with two: against the scripted
server, whose token rate is known and which answers any number of requests side by side, or on the
embedded engine with two slots (needs the extra ``embedded``). Per pair of runs the ratio of the
decode rate is taken, among answers that the other worker wants meanwhile, which must stay 1. In
sessions of answers alone it is the ratio of the time from the first answer's start to the last
one's end, which must fall towards 0.5. The answers of the embedded engine can only get faster where
processor cores are idle with one request.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

WORKERS = 2
TRUE_RATE = 125.0
SCHEDULE = f"ttft200-itl{1000 / TRUE_RATE:g}-n60"
"""What the scripted server plays: 200 ms to the first token, then one each 8 ms."""


def scenarios(speeds: int, answers: int) -> dict[str, list[dict[str, Any]]]:
    """The two scenario files by name."""
    animals = ("a fox", "a bear", "an owl", "a whale", "a hare", "a crow")
    return {
        "speed.json": [
            {
                "id": f"decode{i}",
                "kind": "speed",
                "prompt": f"Tell a long story about {animal}.",
                "options": {"num_predict": 96, "temperature": 0.0},
            }
            for i, animal in enumerate(animals[:speeds])
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
            for i in range(1, answers + 1)
        ],
    }


@dataclass(frozen=True, slots=True)
class Figures:
    """One way to run: median decode rate (tokens/s) and TTFT (s), the answers' wall time (s)."""

    rate: float
    ttft: float
    wall: float
    concurrent_speeds: int


def measure(folder: Path, workers: int, words: Sequence[str]) -> Figures:
    """Both sessions with that many workers."""
    speeds = [r for r in session(folder, workers, words) if r["suite"] == "speed"]
    answers = session(folder, workers, [*words, "--benchrig-suite", "answers"])
    return Figures(
        rate=statistics.median(r["eval_tok_per_sec"] for r in speeds),
        ttft=statistics.median(r["ttft_sec"] for r in speeds),
        wall=wall_time(answers),
        concurrent_speeds=sum(r["concurrent"] for r in speeds),
    )


def session(folder: Path, workers: int, words: Sequence[str]) -> list[dict[str, Any]]:
    """The measured records of one session in a process of its own.

    Raises:
        RuntimeError: It left no run file, or requests failed; the message holds why.
    """
    latest = folder / "results/latest.json"
    latest.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"-n{workers}", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if not latest.is_file():
        raise RuntimeError(f"the session wrote no results:\n{done.stdout}{done.stderr}")
    records = [
        r for r in json.loads(latest.read_text("utf-8"))["records"] if r["phase"] == "measured"
    ]
    failed = [r["error"] for r in records if r["outcome"] == "error"]
    if failed:
        raise RuntimeError(f"{len(failed)} requests failed, the first: {failed[0]}")
    return records


def wall_time(records: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the first record's start to the last one's end."""
    starts = [datetime.fromisoformat(r["started_at"]).timestamp() for r in records]
    ends = [start + float(r["total_time_sec"]) for start, r in zip(starts, records, strict=True)]
    return max(ends) - min(starts)


@contextlib.contextmanager
def scripted() -> Iterator[list[str]]:
    """The scripted server's words for pytest, while it runs."""
    server = Path(__file__).parent / "scripted_server.py"
    with subprocess.Popen(
        [sys.executable, str(server), SCHEDULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the server's pipes are missing")
        port = int(process.stdout.readline())
        try:
            url = f"http://127.0.0.1:{port}/v1"
            yield ["--benchrig-model", f"openai:{SCHEDULE}", "--benchrig-base-url", url]
        finally:
            process.stdin.close()


def main() -> None:
    """Run both ways in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="pairs of runs (3)")
    parser.add_argument("--embedded", action="store_true", help="ask the real engine")
    parser.add_argument("--speeds", type=int, default=4, help="speed scenarios (4, at most 6)")
    parser.add_argument("--answers", type=int, default=12, help="answer scenarios (12)")
    chosen = parser.parse_args()
    taken: dict[int, list[Figures]] = {0: [], WORKERS: []}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if chosen.embedded:
            words = ["--benchrig-model", "embedded:smollm2-135m", "-o", "benchrig_embedded_slots=2"]
        else:
            words = stack.enter_context(scripted())
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "scenarios").mkdir()
        for file, entries in scenarios(chosen.speeds, chosen.answers).items():
            (folder / "scenarios" / file).write_text(json.dumps(entries))
        for _ in range(chosen.repeat):
            for workers, found in taken.items():
                found.append(measure(folder, workers, words))
    if not chosen.embedded:
        show(f"the server's true rate is {TRUE_RATE:g} t/s")
    for name, unit in (("rate", "t/s"), ("ttft", "s"), ("wall", "s")):
        alone, side = ([getattr(f, name) for f in found] for found in taken.values())
        ratio = statistics.median(b / a for a, b in zip(alone, side, strict=True))
        show(
            f"{name:<5} alone {statistics.median(alone):8.3f} {unit}, "
            f"-n {WORKERS} {statistics.median(side):8.3f} {unit}, ratio {ratio:.3f}"
        )
    disturbed = sum(f.concurrent_speeds for f in taken[WORKERS])
    show(f"speed records with another request in flight: {disturbed}")


def show(line: str) -> None:
    """Print one line of the result."""
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
