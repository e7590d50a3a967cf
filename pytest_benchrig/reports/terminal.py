"""The terminal summary: tables that fit the width, then decisions, one line each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from pytest_benchrig.core.compare import Comparison
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import METRICS
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.scorecard import Scorecard
from pytest_benchrig.core.thresholds import ThresholdResult
from pytest_benchrig.reports import decisions, view
from pytest_benchrig.reports.escape import no_commands, one_line
from pytest_benchrig.reports.facts import facts, formulas, remedies

MANY = 12
"""Flipped or flaky scenarios that are listed by name."""


def render_summary(
    run: RunFile,
    *,
    width: int = 100,
    thresholds: Iterable[ThresholdResult] | None = None,
    comparisons: Iterable[Comparison] | None = None,
    quiet: bool = False,
) -> list[str]:
    """The summary's lines; no line has a control character or can be read as a CI command.

    Args:
        run: The run.
        width: Columns of the terminal. Tables leave out columns, in a stated order, until they
            fit; what was left out is said.
        thresholds: Decided thresholds; those kept in the run file where not given.
        comparisons: Comparisons; those kept in the run file where not given.
        quiet: Only the headline of each target, and what failed or could not be decided.
    """
    decided = decisions.as_json(thresholds, run, "thresholds")
    compared = decisions.as_json(comparisons, run, "comparisons")
    if quiet:
        return _quiet(run, decided, compared)
    lines: list[str] = []
    for fact in facts(run):
        lines += _wrapped(fact, width)
    for table in _shown(run):
        lines += ["", *draw(table, width)]
    for formula in formulas(run):
        lines += _wrapped(formula, width)
    for card in run.scorecards:
        lines += ["", *headline(card)]
    for text in remedies(run):
        lines += _wrapped(f"\u26a0 {text}", width)
    lines += _decisions(decided, compared, width)
    return lines[1:] if lines and not lines[0] else lines


def _shown(run: RunFile) -> list[view.Table]:
    cards = run.scorecards
    if not cards:
        return []
    left_out = {"Scenarios", "Counts", "Timing per suite", "Uncertainty"}
    found = [t for t in view.tables(run) if t.title not in left_out]
    names = (*view.SCORES, *view.user_metrics(cards), "avg_eval_tok_sec", "avg_ttft_sec")
    for table in (
        view.interval_table(cards, names),
        view.scenario_table(cards, only=("flaky", "broken"), limit=MANY),
    ):
        if table is not None:
            title = "Flaky and broken scenarios" if table.title == "Scenarios" else table.title
            found.append(view.Table(title, table.columns, table.rows, table.notes, table.drop))
    return found


def headline(card: Scorecard) -> list[str]:
    """Tasks, assertions and what the reader must not miss about one target."""
    lines = [one_line(card.target)]
    if card.coding_task_count:
        lines.append(
            f"  Tasks Passed: {card.coding_tasks_passed}/{card.coding_task_count} "
            f"({card.show('coding_task_pass_rate')})"
        )
        lines.append(
            f"  Assertions: {card.coding_assertions_passed}/{card.coding_assertion_count} "
            f"({card.show('coding_pass_rate')})"
        )
    counts = [
        f"{METRICS[name].title}: {card.get(name)}"
        for name in view.COUNTS
        if card.get(name) and name not in ("total_runs", "truncated_runs")
    ]
    lines.append("  " + ", ".join([f"records: {card.total_runs}", *counts]))
    if averaged := view.averaged_line(card):
        lines.append(f"  {averaged}")
    if card.truncated_runs:
        replies = "reply was" if card.truncated_runs == 1 else "replies were"
        lines.append(
            f"  \u26a0 {card.truncated_runs} {replies} cut off at the token budget; raise "
            "num_predict or the thinking multiplier"
        )
    lines += [f"  {one_line(text, 300)}" for text in view.unmeasured_lines(card)]
    return lines


def draw(table: view.Table, width: int) -> list[str]:
    """A table within ``width``, its title above, what its columns mean below.

    Columns are left out in the table's own order until it fits; a table that still does not is
    written as one block per row, nothing left out.
    """
    fitting, dropped = _fit(table, width)
    lines = [f"{one_line(table.title)}:"]
    if _width(fitting) > width:
        fitting, dropped = table, []
        for row in table.rows:
            lines += _block(table, row, width)
    else:
        lines += _grid(fitting)
    meanings = [f"{c.heading}: {c.meaning}" for c in fitting.columns if c.meaning]
    notes = [*table.notes]
    if dropped:
        notes.append(f"left out for the width: {', '.join(dropped)}")
    for text in (*meanings, *notes):
        lines += _wrapped(text, width, indent="  ")
    return lines


def _block(table: view.Table, row: Sequence[str], width: int) -> list[str]:
    lines = _wrapped(row[0], width)
    for column, text in zip(table.columns[1:], row[1:], strict=True):
        lines += _wrapped(f"{column.heading}: {text or '-'}", width, indent="  ")
    return lines


def _fit(table: view.Table, width: int) -> tuple[view.Table, list[str]]:
    dropped: list[str] = []
    fitting = table
    order = [h for h in table.drop if any(c.heading == h for c in table.columns)]
    while order and _width(fitting) > width:
        dropped.append(order.pop(0))
        fitting = table.without(dropped)
    return fitting, dropped


def _width(table: view.Table) -> int:
    return max(len(line) for line in _grid(table))


def _nothing(card: Scorecard) -> str:
    """That there is no figure, and what became of the runs."""
    counts = ("disturbed_runs", "concurrent_runs", "error_count", "skipped_count")
    reasons = [f"{METRICS[name].title}: {card.get(name)}" for name in counts if card.get(name)]
    return f"nothing measured ({', '.join(reasons)})" if reasons else "nothing measured"


def _grid(table: view.Table) -> list[str]:
    from tabulate import tabulate

    rows = [[one_line(text) for text in row] for row in table.rows]
    text: str = tabulate(
        rows,
        headers=[one_line(column.heading) for column in table.columns],
        tablefmt="simple",
        disable_numparse=True,
        colalign=["right" if column.numeric else "left" for column in table.columns],
    )
    return [line.rstrip() for line in text.splitlines()]


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    lines = textwrap.wrap(
        one_line(text),
        max(40, width),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )
    # A command in the middle of the text may have become the start of a line.
    return [no_commands(line) for line in lines]


def _decisions(
    thresholds: Sequence[JsonValue], comparisons: Sequence[JsonValue], width: int
) -> list[str]:
    lines: list[str] = []
    for comparison in comparisons:
        lines += ["", *_comparison(comparison, width)]
    if thresholds:
        lines += ["", "Thresholds:"]
        lines += [f"  {one_line(decisions.threshold_line(result))}" for result in thresholds]
    return lines


def _comparison(comparison: Mapping[str, JsonValue], width: int) -> list[str]:
    title = f"Comparison: {decisions.comparison_title(comparison)}"
    if comparison.get("refusal"):
        return _wrapped(f"{title}: {comparison['refusal']}", width)
    lines: list[str] = []
    table = decisions.comparison_table(comparison)
    if table is None:
        lines += _wrapped(f"{title}: nothing to compare", width)
    else:
        lines += draw(view.Table(title, table.columns, table.rows, table.notes, table.drop), width)
    for note in decisions.comparison_notes(comparison):
        lines += _wrapped(note, width, indent="  ")
    flips = decisions.flip_lines(comparison)
    lines += [f"  {one_line(line)}" for line in flips[:MANY]]
    if len(flips) > MANY:
        lines.append(f"  and {len(flips) - MANY} more flipped scenarios, in the other reports")
    return lines


def _quiet(
    run: RunFile, thresholds: Sequence[JsonValue], comparisons: Sequence[JsonValue]
) -> list[str]:
    lines = []
    for card in run.scorecards:
        figures = [
            f"{METRICS[name].title} {view.cell(card, name)}"
            for name in (*view.SCORES, "avg_eval_tok_sec", "avg_ttft_sec")
            if card.get(name) is not None
        ]
        own = (f"{suite}_accuracy" for suite in sorted(card.suite_accuracy))
        figures += [
            f"{one_line(name)} {view.cell(card, name)}"
            for name in own
            if card.get(name) is not None
        ]
        lines.append(f"{one_line(card.target)}: {', '.join(figures) or _nothing(card)}")
    lines += [
        one_line(decisions.threshold_line(result))
        for result in thresholds
        if not result.get("held") or result.get("decided") is False
    ]
    for comparison in comparisons:
        title = decisions.comparison_title(comparison)
        if comparison.get("refusal"):
            lines.append(one_line(f"{title}: {comparison['refusal']}"))
        lines += [
            one_line(f"{title}: {row['metric']} [{row['target']}] {row['sentence']}")
            for row in comparison.get("rows") or ()
            if row["change"] in ("better", "worse")
        ]
    return lines
