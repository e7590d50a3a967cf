"""One self-contained HTML file: style and charts inside, nothing loaded, no script.

It reads the same on paper, without colours (every mark has its value as text) and in dark mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import METRICS, metric_of
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.scorecard import Scorecard
from pytest_benchrig.reports import decisions, view
from pytest_benchrig.reports.charts import Bar, Group, Point, bar_chart, scatter
from pytest_benchrig.reports.escape import html, one_line
from pytest_benchrig.reports.facts import all_flags, formulas
from pytest_benchrig.reports.markdown import about, failed_records, tallies
from pytest_benchrig.reports.style import STYLE

RATES = (
    "coding_pass_rate",
    "coding_task_pass_rate",
    "reasoning_accuracy",
    "polish_accuracy",
    "context_retrieval_pct",
    "tool_task_success",
)
RECORDS = 200
"""Records shown in full; the rest are counted and lie in the run file."""
TEXT = 4000
"""Characters of a prompt or reply that are shown."""
FOLDED = frozenset({"Scenarios", "Uncertainty", "Timing per suite"})
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(run: RunFile) -> str:
    """The page, from the run file alone."""
    title = f"Benchmark report {one_line(str(run.run.get('id') or ''), 80)}".strip()
    body = [
        f"<h1>{html(title)}</h1>",
        _list(about(run)),
        *_scores(run),
        *_charts(run),
        *_decisions(run),
    ]
    for table in view.tables(run)[1:]:
        body.append(_section(table))
    body += _failures(run)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _list(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return "<ul>" + "".join(f"<li>{html(one_line(text))}</li>" for text in texts) + "</ul>"


def _scores(run: RunFile) -> list[str]:
    if not run.scorecards:
        return ["<p>Nothing was measured.</p>"]
    table = view.score_table(run.scorecards)
    return [
        "<h2>Scores</h2>",
        _table(table),
        *(f"<p class=formula>{html(text)}</p>" for text in formulas(run)),
        _list(tallies(run)),
    ]


def _table(table: view.Table) -> str:
    heads = "".join(
        f"<th scope=col{' class=num' if c.numeric else ''}>{html(one_line(c.heading))}</th>"
        for c in table.columns
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=num' if column.numeric else ''}>{html(one_line(text))}</td>"
            for column, text in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    meanings = "".join(
        f"<dt>{html(one_line(c.heading))}</dt><dd>{html(one_line(c.meaning))}</dd>"
        for c in table.columns
        if c.meaning
    )
    return (
        f"<div class=scroll><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"</div>{f'<dl>{meanings}</dl>' if meanings else ''}{_list(table.notes)}"
    )


def _section(table: view.Table) -> str:
    if table.title in FOLDED:
        return f"<details><summary><h2>{html(table.title)}</h2></summary>{_table(table)}</details>"
    return f"<h2>{html(table.title)}</h2>\n{_table(table)}"


def _charts(run: RunFile) -> list[str]:
    cards = run.scorecards
    charts = []
    rates = view.measured(cards, (*RATES, *view.user_metrics(cards)))
    if rates:
        groups = [_group(cards, name) for name in rates]
        charts.append(_figure("Pass rates in percent", bar_chart("Pass rates", groups, 100.0)))
    for name in view.measured(cards, ("avg_eval_tok_sec", "avg_ttft_sec")):
        metric = METRICS[name]
        title = f"{metric.title} in {metric.unit} ({metric.direction} is better)"
        charts.append(_figure(title, bar_chart(title, [_group(cards, name)])))
    points = _context_points(run)
    if points:
        title = "Time to first token per context step, each run a point"
        charts.append(_figure(title, scatter(title, points, "context size, tokens", "TTFT, s")))
    if not charts:
        return []
    return ["<h2>Charts</h2>", _legend(cards), *charts]


def _figure(caption: str, chart: str) -> str:
    return f"<figure><figcaption>{html(caption)}</figcaption>{chart}</figure>"


def _legend(cards: Sequence[Scorecard]) -> str:
    names = "".join(
        f'<li><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
        f'<rect class="s{i % 8}" width="12" height="12"/></svg> {html(one_line(c.target, 80))}</li>'
        for i, c in enumerate(cards)
    )
    whiskers = "whiskers: 95 % interval, else lowest and highest run; none with a single run"
    return f"<ul class=legend>{names}<li>{whiskers}</li></ul>"


def _group(cards: Sequence[Scorecard], name: str) -> Group:
    metric = metric_of(name)
    bars = []
    for number, card in enumerate(cards):
        ends = card.ci95.get(name) or card.spread.get(name) or (None, None)
        value = metric.number(card.get(name))
        text = card.show(name)
        if ends[0] is not None and ends[1] is not None:
            low, high = (metric.show(end, unit=False) for end in ends)
            text += f" [{low}-{high}]"
        elif value is not None:
            text += f" {view.runs_cell(card)}"
        bars.append(Bar(number, value, text, *ends))
    return Group(metric.title, tuple(bars))


def _context_points(run: RunFile) -> list[Point]:
    number = {card.target: i for i, card in enumerate(run.scorecards)}
    return [
        Point(
            number[r.target],
            float(r.context_size),
            r.ttft_sec,
            f"{r.target} {r.context_size} tokens, run {r.run_index}: {r.ttft_sec:.3f} s"
            + (f" ({', '.join(all_flags(r))})" if all_flags(r) else ""),
        )
        for r in run.records
        if r.kind == "context"
        and r.phase == "measured"
        and r.context_size
        and r.ttft_sec is not None
        and r.target in number
    ]


def _decisions(run: RunFile) -> list[str]:
    parts: list[str] = []
    thresholds = decisions.as_json(None, run, "thresholds")
    if thresholds:
        rows = "".join(_threshold(result) for result in thresholds)
        parts += ["<h2>Thresholds</h2>", f"<ul class=decided>{rows}</ul>"]
    for comparison in decisions.as_json(None, run, "comparisons"):
        title = one_line(decisions.comparison_title(comparison))
        parts.append(f"<h2>Comparison: {html(title)}</h2>")
        if comparison.get("refusal"):
            parts.append(f"<p>{html(one_line(str(comparison['refusal'])))}</p>")
            continue
        table = decisions.comparison_table(comparison)
        parts.append(_table(table) if table else "<p>Nothing to compare.</p>")
        parts.append(
            _list([*decisions.comparison_notes(comparison), *decisions.flip_lines(comparison)])
        )
    return parts


def _threshold(result: Mapping[str, JsonValue]) -> str:
    style = "good" if result.get("held") else "bad"
    if result.get("decided") is False:
        style = "open"
    return f"<li class={style}>{html(one_line(decisions.threshold_line(result)))}</li>"


def _failures(run: RunFile) -> list[str]:
    failed = failed_records(run)
    if not failed:
        return []
    parts = [f"<h2>Not passed ({len(failed)})</h2>"]
    parts += [_record(record) for record in failed[:RECORDS]]
    if len(failed) > RECORDS:
        parts.append(f"<p>{len(failed) - RECORDS} more are in the run file.</p>")
    return parts


def _record(record: Record) -> str:
    head = (
        f"{record.suite}/{record.task_id} [{record.target}] run {record.run_index}: "
        f"{record.verdict or record.outcome}"
    )
    facts = [
        f"rule: {record.rule}" if record.rule else "",
        f"expected: {record.expected_answer}" if record.expected_answer else "",
        f"extracted: {record.extracted_answer}" if record.extracted_answer else "",
        f"finish reason: {record.finish_reason}" if record.finish_reason else "",
        f"flags: {', '.join(all_flags(record))}" if all_flags(record) else "",
        *record.notes,
    ]
    texts = (
        ("why", record.detail or record.error),
        ("prompt", record.prompt),
        ("reply", record.response),
        ("thinking", record.thinking),
        ("code", record.extracted_code or ""),
    )
    body = _list([fact for fact in facts if fact]) + "".join(
        f"<h3>{name}</h3><pre>{_cut(text)}</pre>" for name, text in texts if text
    )
    return f"<details class=record><summary>{html(one_line(head, 200))}</summary>{body}</details>"


def _cut(text: str) -> str:
    if len(text) <= TEXT:
        return html(text)
    return f"{html(text[:TEXT])}\n<em>{len(text) - TEXT} more characters are in the run file</em>"
