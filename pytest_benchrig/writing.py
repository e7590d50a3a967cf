"""Write every report; what cannot be written is said, and the others are written all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_benchrig.core.runfile import RunFile

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


def write_reports(
    active: Active, run: RunFile, comparisons: Sequence[Any]
) -> tuple[list[Path], list[str]]:
    """The files written, and a sentence for each that could not be."""
    from pytest_benchrig.reports import csv, markdown
    from pytest_benchrig.reports import json as json_report
    from pytest_benchrig.reports.files import write_text

    settings = active.settings
    out = settings.output_dir
    jobs: list[tuple[Path, Callable[[RunFile], str]]] = [
        (out / "runs" / f"{active.run_id}.json", json_report.render),
        (out / "latest.json", json_report.render),
        (out / "latest.csv", csv.render),
        (out / "LATEST_SUMMARY.md", markdown.render),
    ]
    extra: tuple[tuple[Path | None, Callable[[RunFile], str]], ...] = (
        (settings.csv, csv.render),
        (settings.json, json_report.render),
        (settings.markdown, markdown.render),
    )
    jobs += [(path, render) for path, render in extra if path is not None]
    if settings.html is not None:
        from pytest_benchrig.reports import html

        jobs.append((settings.html, html.render))
    for offered in active.config.hook.pytest_benchrig_reports(config=active.config):
        jobs += [(out / name, render) for name, render in (offered or {}).items()]
    written: list[Path] = []
    problems: list[str] = []
    texts: dict[int, str] = {}
    for path, render in jobs:
        try:
            if id(render) not in texts:
                texts[id(render)] = render(run)
            write_text(path, texts[id(render)])
            written.append(path)
        except OSError as problem:
            problems.append(f"{path} could not be written: {problem}")
    return written, problems
