"""What scorecards, thresholds, comparison and reports cost for 100,000 records.

    python benchmarks/scorecard.py [--records 100000] [--targets 10] [--runs 5]

Prints for each step the seconds of processor and of wall clock, and the highest memory so far;
for each report its size too. Nothing here needs a model.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pytest_benchrig.core.compare import compare
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile, load_run
from pytest_benchrig.core.scenario import Kind
from pytest_benchrig.core.scorecard import ScoreSettings, build_scorecard
from pytest_benchrig.core.thresholds import evaluate, parse_threshold
from pytest_benchrig.reports import csv, html, markdown
from pytest_benchrig.reports.terminal import render_summary

T = TypeVar("T")
KINDS: tuple[tuple[str, Kind, int], ...] = (
    ("reasoning", "answer", 8),
    ("coding", "coding", 6),
    ("speed", "speed", 2),
    ("context", "context", 2),
    ("sql", "answer", 2),
)
"""Suite, kind, and its part of twenty scenarios."""


def make_records(count: int, targets: int, runs: int) -> list[Record]:
    """Records of every kind, the same each time."""
    chance = random.Random(1)
    parts = [(suite, kind) for suite, kind, part in KINDS for _ in range(part)]
    records = []
    for number in range(count):
        target = f"ollama:model{number % targets}"
        scenario = number // targets // runs
        suite, kind = parts[scenario % len(parts)]
        passed = None if kind == "speed" else chance.random() < 0.7
        records.append(
            Record(
                task_id=f"{suite}_{scenario}",
                suite=suite,
                kind=kind,
                target=target,
                runtime="ollama",
                model=target.partition(":")[2],
                run_index=number // targets % runs,
                outcome="failed" if passed is False else "passed",
                passed=passed,
                verdict=None if passed is None else "pass" if passed else "fail",
                detail="" if passed else "expected 47, found 46",
                passed_tests=(4 if passed else 2) if kind == "coding" else None,
                total_tests=4 if kind == "coding" else None,
                context_size=1024 if kind == "context" else None,
                response="The answer follows from the rule above.\nFinal answer: 46",
                ttft_sec=chance.gauss(0.2, 0.01),
                eval_tok_per_sec=chance.gauss(80.0, 5.0),
                eval_tok_sec_floored=False,
                completion_tokens=chance.randint(20, 400),
                prefill_eff_tok_per_sec=chance.gauss(500.0, 30.0),
                cache_mode="cold",
                truncated=chance.random() < 0.02,
                hardware={"peak_rss_mb": 700.0, "rss_coverage": "client_and_server"},
            )
        )
    return records


def timed(name: str, step: Callable[[], T]) -> T:
    """Run a step and print its seconds and the highest memory so far."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = step()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{name:<24} cpu {cpu:7.2f} s, wall {wall:7.2f} s, peak {peak_mb():6.0f} MiB", flush=True)
    return result


def peak_mb() -> float:
    """The highest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)


def sized(name: str, step: Callable[[], str]) -> str:
    """Run a step that makes a text and print its size too."""
    text = timed(name, step)
    print(f"{'':<24} {len(text.encode()) / 1e6:.1f} MB")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args(arguments)
    print(
        f"{asked.records} records, {asked.targets} targets, {asked.runs} runs, "
        f"Python {sys.version.split()[0]}"
    )
    records = timed("make records", lambda: make_records(asked.records, asked.targets, asked.runs))
    by_target: dict[str, list[Record]] = {}
    for record in records:
        by_target.setdefault(record.target, []).append(record)
    settings = ScoreSettings(runs=asked.runs)
    cards = timed(
        "scorecards",
        lambda: tuple(build_scorecard(t, r, settings=settings) for t, r in by_target.items()),
    )
    thresholds = [
        parse_threshold(text)
        for text in ("coding_pass_rate >= 60", "speed.ttft_sec.p95 <= 1", "truncated_runs == 0")
    ]
    timed("thresholds", lambda: evaluate(thresholds, cards, records, policy="confident"))
    run = RunFile({"id": "benchmark", "fingerprint": {"machine": "x"}}, cards, tuple(records))
    timed("comparison with itself", lambda: compare(run, run))
    text = sized("run file", run.dumps)
    timed("load the run file", lambda: load_run(text))
    sized("markdown", lambda: markdown.render(run))
    sized("csv", lambda: csv.render(run))
    sized("html", lambda: html.render(run))
    sized("terminal", lambda: "\n".join(render_summary(run, width=120)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
