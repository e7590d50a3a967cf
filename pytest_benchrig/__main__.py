"""``python -m pytest_benchrig report RUN...``: render the reports again from run files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_benchrig.core.compare import compare
from pytest_benchrig.core.runfile import RunFile, load_run, merge_runs, with_decisions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 done, 1 a file could not be read or written, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m pytest_benchrig", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser(
        "report",
        help="render every report again from run files or journals",
        description="Render reports from stored runs, byte for byte as when they were made; "
        "several runs stand side by side, and the later ones are compared with the first.",
    )
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run file or journal")
    report.add_argument(
        "--output-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="write SUMMARY.md, scorecards.csv, run.json and report.html there; default: only "
        "print the summary",
    )
    parsed = parser.parse_args(arguments)
    try:
        runs = [_read(path) for path in parsed.runs]
        run = runs[0] if len(runs) == 1 else _merged(runs)
        _show(run)
        sys.stdout.flush()
        if parsed.output_dir is not None:
            _write(run, parsed.output_dir)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. What is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201 - a command line
        return 1
    return 0


def _read(path: Path) -> RunFile:
    try:
        return load_run(path.read_text("utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def _merged(runs: Sequence[RunFile]) -> RunFile:
    """All runs side by side; each that shares a target with the first is compared with it."""
    first, *others = runs
    known = {record.target for record in first.records}
    name = str(first.run.get("id") or "the first run")
    comparisons = [
        compare(first, other, name=name).to_json()
        for other in others
        if any(record.target in known for record in other.records)
    ]
    return with_decisions(merge_runs(runs), [], comparisons)


def _show(run: RunFile) -> None:
    import shutil

    from pytest_benchrig.reports.terminal import render_summary

    width = shutil.get_terminal_size((100, 24)).columns
    for line in render_summary(run, width=width):
        print(line)  # noqa: T201 - a command line


def _write(run: RunFile, directory: Path) -> None:
    from pytest_benchrig.reports import csv, html, markdown
    from pytest_benchrig.reports import json as json_report
    from pytest_benchrig.reports.files import write_text

    for name, render in (
        ("SUMMARY.md", markdown.render),
        ("scorecards.csv", csv.render),
        ("run.json", json_report.render),
        ("report.html", html.render),
    ):
        write_text(directory / name, render(run))
        print(f"wrote {directory / name}")  # noqa: T201 - a command line


if __name__ == "__main__":
    raise SystemExit(main())
