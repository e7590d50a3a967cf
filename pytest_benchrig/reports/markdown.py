"""Markdown: the summary for a repository, a pull request or a job page."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports import decisions, view
from pytest_benchrig.reports.escape import markdown, one_line
from pytest_benchrig.reports.facts import facts, formulas, remedies

FAILURES = 50
EXCERPT = 160


def render(run: RunFile) -> str:
    """The whole report, from the run file alone."""
    lines = ["# Benchmark summary", ""]
    lines += [f"- {markdown(text)}" for text in about(run)]
    for table in view.tables(run):
        lines += ["", f"## {markdown(table.title)}", "", *draw(table)]
        if table.title == "Scores":
            lines += ["", *(markdown(text) for text in formulas(run)), ""]
            lines += [f"- {markdown(line)}" for line in tallies(run)]
    lines += _decisions(run)
    lines += _failures(run)
    return "\n".join(lines).rstrip("\n") + "\n"


def about(run: RunFile) -> list[str]:
    """What run this is, and what the reader must know first."""
    found = []
    for title, key in (("run", "id"), ("started", "started_at"), ("version", "benchrig_version")):
        if run.run.get(key):
            found.append(f"{title}: {run.run[key]}")
    return [*found, *facts(run), *(f"warning: {text}" for text in remedies(run))]


def tallies(run: RunFile) -> list[str]:
    """Tasks, assertions and cut-off replies of each target."""
    found = []
    for card in run.scorecards:
        if card.coding_task_count:
            found.append(
                f"{card.target}: Tasks Passed: {card.coding_tasks_passed}/{card.coding_task_count} "
                f"({card.show('coding_task_pass_rate')}), Assertions: "
                f"{card.coding_assertions_passed}/{card.coding_assertion_count} "
                f"({card.show('coding_pass_rate')})"
            )
        if averaged := view.averaged_line(card):
            found.append(f"{card.target}: {averaged}")
        if card.truncated_runs:
            found.append(f"\u26a0 {card.target}: replies cut off: {card.truncated_runs}")
        found += [f"{card.target}: {text}" for text in view.unmeasured_lines(card)]
    return found


def draw(table: view.Table) -> list[str]:
    """A pipe table, and below it what its columns mean."""
    heads = [markdown(column.heading) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [_line(heads), _line(rule)]
    lines += [_line([markdown(text) for text in row]) for row in table.rows]
    meanings = [f"{markdown(c.heading)}: {markdown(c.meaning)}" for c in table.columns if c.meaning]
    notes = [markdown(note) for note in table.notes]
    if meanings or notes:
        lines += ["", *(f"- {text}" for text in (*meanings, *notes))]
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _decisions(run: RunFile) -> list[str]:
    lines: list[str] = []
    thresholds = decisions.as_json(None, run, "thresholds")
    if thresholds:
        lines += ["", "## Thresholds", ""]
        lines += [f"- {markdown(decisions.threshold_line(result))}" for result in thresholds]
    for comparison in decisions.as_json(None, run, "comparisons"):
        lines += ["", f"## Comparison: {markdown(decisions.comparison_title(comparison))}", ""]
        if comparison.get("refusal"):
            lines.append(markdown(str(comparison["refusal"])))
            continue
        table = decisions.comparison_table(comparison)
        lines += draw(table) if table else ["nothing to compare"]
        told = [*decisions.comparison_notes(comparison), *decisions.flip_lines(comparison)]
        lines += ["", *(f"- {markdown(text)}" for text in told)]
    return lines


def failed_records(run: RunFile) -> list[Record]:
    """Measured records that did not pass."""
    return [
        r
        for r in run.records
        if r.phase == "measured" and (r.passed is False or r.outcome in ("error", "skipped"))
    ]


def failure_row(record: Record) -> tuple[str, ...]:
    """One failed record as cells."""
    said = record.answer_excerpt or record.response_excerpt or record.response
    return (
        record.target,
        f"{record.suite}/{record.task_id}",
        str(record.run_index),
        record.verdict or record.outcome,
        one_line(record.detail or record.error, EXCERPT),
        one_line(said or "", EXCERPT),
    )


FAILURE_COLUMNS = (
    view.Column("target", numeric=False),
    view.Column("scenario", numeric=False),
    view.Column("run", "index of the repetition, from 0"),
    view.Column("verdict", numeric=False),
    view.Column("why", numeric=False),
    view.Column("reply (excerpt)", numeric=False),
)


def _failures(run: RunFile) -> list[str]:
    failed = failed_records(run)
    if not failed:
        return []
    shown = failed[:FAILURES]
    left = len(failed) - len(shown)
    table = view.Table(
        "Not passed",
        FAILURE_COLUMNS,
        tuple(failure_row(record) for record in shown),
        (f"{left} more are in the run file",) if left else (),
    )
    return ["", "## Not passed", "", *draw(table)]
