"""Header and terminal summary: the plugin's only lines on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports.escape import plain

if TYPE_CHECKING:
    from pytest_benchrig.active import Active

MISSED_SHOWN = 20
SKIPS_SHOWN = 8


def header(active: Active) -> list[str]:
    """Targets, scenarios and containment."""
    if active.selfcheck:
        return ["benchrig: self-check of the scenarios, no model is asked"]
    targets = ", ".join(plain(str(t)) for t in active.targets) or "none"
    settings = active.settings
    runs = (
        str(settings.runs_min)
        if settings.runs_min == settings.runs_max
        else f"{settings.runs_min}..{settings.runs_max}"
    )
    lines = [f"benchrig: {targets}; runs {runs}, warm-up {settings.warmup_runs}"]
    if settings.replay is not None:
        lines = [f"benchrig: replay of {settings.replay.name}, no inference; {targets}"]
    places = active.named_files or active.directories
    lines.append("benchrig scenarios: " + ", ".join(plain(active.display(p)) for p in places))
    if settings.replay is not None or settings.resume is not None:
        earlier = active.earlier
        lines += [f"benchrig: {plain(earlier.path.name)}: {w}" for w in earlier.run.warnings]
    if not active.config.option.collectonly and any(
        s.kind == "coding" and active.wants_suite(s.suite)
        for loaded in active.loaded_files()
        for s in loaded.scenarios
    ):
        sandbox = active.sandbox
        level = sandbox.level if sandbox.available else f"none works here ({sandbox.reason})"
        lines.append(f"benchrig sandbox: {level}")
    return lines


def write_summary(
    terminal: pytest.TerminalReporter,
    active: Active,
    run: RunFile | None,
    *,
    thresholds: Sequence[Any],
    comparisons: Sequence[Any],
    missed: Mapping[str, str],
    files: Sequence[Path],
    problems: Sequence[str],
) -> None:
    """Scorecards, thresholds, comparisons, and where the files lie."""
    config = active.config
    if config.option.collectonly or active.selfcheck or getattr(config.option, "no_summary", False):
        return
    if run is None:
        return
    from pytest_benchrig.reports.terminal import render_summary

    terminal.section("benchrig")
    quiet = config.option.verbose < 0
    for line in render_summary(
        run,
        width=terminal._tw.fullwidth,
        thresholds=thresholds,
        comparisons=comparisons,
        quiet=quiet,
    ):
        terminal.write_line(line)
    if missed and not quiet:
        terminal.write_line("")
        terminal.write_line(f"missed answers ({len(missed)}):")
        for nodeid, reason in list(missed.items())[:MISSED_SHOWN]:
            first = reason.removeprefix("MISSED: ").splitlines()[0]
            terminal.write_line(f"  {plain(nodeid)}: {plain(first)}")
        if len(missed) > MISSED_SHOWN:
            terminal.write_line(f"  and {len(missed) - MISSED_SHOWN} more, in the run file")
    reasons = Counter(r.detail or r.error for r in run.records if r.outcome == "skipped")
    for reason, count in reasons.most_common(SKIPS_SHOWN):
        terminal.write_line(f"skipped {count}: {plain(reason)}")
    moved = [r for r in run.records if "verdict_moved" in r.flags]
    if moved:
        terminal.write_line("")
        terminal.write_line(f"verdicts that moved ({len(moved)}):")
        for record in moved:
            changes = [note for note in record.notes if " is now " in note]
            terminal.write_line(
                f"  {record.suite}/{record.task_id} [{plain(record.target)}]: "
                + plain("; ".join(changes))
            )
    if files and not quiet:
        terminal.write_line("")
        root = active.config.invocation_params.dir
        shown = (p.relative_to(root) if root in p.parents else p for p in files)
        terminal.write_line("reports: " + ", ".join(str(p) for p in shown))
    if run.run.get("interrupted"):
        journal = f"{run.run.get('id')}.jsonl"
        path = plain(active.display(active.settings.output_dir / "runs" / journal))
        terminal.write_line(f"to go on: pytest --benchrig-resume={path}")
    for problem in problems:
        terminal.write_line(f"WARNING: {problem}", yellow=True)
