"""What every report shows, as tables of text: the formats only differ in how they draw them.

No figure is computed here; everything comes from the run file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS, NOT_MEASURED, Metric, metric_of
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.scorecard import Scorecard

SCORES = (
    "composite_score",
    "coding_pass_rate",
    "coding_task_pass_rate",
    "reasoning_accuracy",
    "polish_accuracy",
    "context_retrieval_pct",
)
FINISHED = (
    "coding_pass_rate_finished",
    "coding_task_pass_rate_finished",
    "reasoning_accuracy_finished",
    "polish_accuracy_finished",
)
TIMINGS = (
    "avg_eval_tok_sec",
    "avg_eval_tok_sec_mean",
    "avg_ttft_sec",
    "p95_ttft_sec",
    "avg_answer_ttft_sec",
    "avg_prefill_eff_tok_sec",
    "avg_prompt_tok_sec",
    "cold_start_sec",
    "thinking_share",
)
AVERAGED = ("avg_eval_tok_sec", "avg_ttft_sec", "avg_prefill_eff_tok_sec")
HARDWARE = (
    "peak_vram_mb",
    "vram_baseline_mb",
    "vram_model_mb",
    "peak_rss_mb",
    "rss_coverage",
    "avg_power_w",
    "tokens_per_joule",
    "joules_per_solved_task",
    "energy_source",
    "gpu_fit_pct",
    "context_spill_at",
)
TOOLS = (
    "tool_task_success",
    "tool_selection_accuracy",
    "tool_argument_accuracy",
    "tool_structured_call_rate",
    "tool_abstention_accuracy",
    "tool_false_call_rate",
    "tool_skipped_turns",
    "tool_error_turns",
)
COUNTS = (
    "total_runs",
    "error_count",
    "skipped_count",
    "unsupported_count",
    "truncated_runs",
    "disturbed_runs",
    "concurrent_runs",
    "estimated_runs",
    "coding_delegated_count",
)
SUITE_TIMINGS = (
    "avg_eval_tok_sec",
    "avg_ttft_sec",
    "avg_answer_ttft_sec",
    "avg_prefill_eff_tok_sec",
    "avg_prompt_tok_sec",
)
SCENARIOS = 500
"""Scenarios that a report lists; the run file has them all."""
SPREAD_MEANING = "in brackets: lowest and highest of the single runs"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and a sentence on what it means ("" where the heading says it)."""

    heading: str
    meaning: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells; cells may hold untrusted text and are escaped by each format.

    ``drop`` lists column headings in the order in which a narrow terminal leaves them out.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def without(self, headings: Iterable[str]) -> Table:
        """The table without the named columns."""
        gone = set(headings)
        keep = [i for i, column in enumerate(self.columns) if column.heading not in gone]
        return Table(
            self.title,
            tuple(self.columns[i] for i in keep),
            tuple(tuple(row[i] for i in keep) for row in self.rows),
            self.notes,
            self.drop,
        )


def column_of(metric: Metric) -> Column:
    """The column of a metric."""
    heading = metric.title
    if metric.unit and metric.unit != "%":
        heading += f" {metric.unit}"
    return Column(heading, metric.meaning, metric.kind != "text")


def cell(card: Scorecard, name: str, *, spread: bool = True) -> str:
    """A figure as text: ``98.0% [94.1-100.0]`` with a spread over runs, ``n/a`` without one."""
    metric = metric_of(name)
    value = card.get(name)
    text = card.show(name)
    if metric.unit and metric.unit != "%" and isinstance(value, int | float) and "~" not in text:
        text = metric.show(value, unit=False)
    if spread and name in card.spread and metric.kind != "ratio":
        low, high = card.spread[name]
        text += f" [{metric.show(low, unit=False)}-{metric.show(high, unit=False)}]"
    return text


def unmeasured_lines(card: Scorecard) -> list[str]:
    """What is n/a and why, metrics with the same reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in card.unmeasured.items():
        if name != "composite_score" and name in METRICS:
            names.setdefault(reason, []).append(METRICS[name].title)
    return [f"n/a ({', '.join(titles)}): {reason}" for reason, titles in names.items()]


def averaged_line(card: Scorecard) -> str:
    """How many records each average of timings is over, as other records may be blocked."""
    found = {
        name: card.samples[name] for name in AVERAGED if card.samples.get(name) and card.total_runs
    }
    counts = ", ".join(f"{METRICS[name].title} {count}" for name, count in found.items())
    return f"averaged records: {counts} of {card.total_runs}" if counts else ""


def runs_cell(card: Scorecard) -> str:
    """``n=3``: the repetitions asked for."""
    return f"n={card.runs}"


def measured(cards: Sequence[Scorecard], names: Iterable[str]) -> list[str]:
    """The metrics that at least one target has."""
    return [name for name in names if any(card.get(name) is not None for card in cards)]


def user_metrics(cards: Iterable[Scorecard]) -> list[str]:
    """``<suite>_accuracy`` of every user suite, sorted."""
    return sorted({f"{suite}{ACCURACY_SUFFIX}" for card in cards for suite in card.suite_accuracy})


def metric_table(
    title: str,
    cards: Sequence[Scorecard],
    names: Sequence[str],
    *,
    runs: bool = True,
    notes: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Table:
    """One row per target, one column per metric."""
    columns = [Column("target", numeric=False), *(column_of(metric_of(name)) for name in names)]
    if runs:
        columns.append(Column("runs", "repetitions asked for; n=1 gives no interval"))
    rows = [
        (
            card.target,
            *(cell(card, name) for name in names),
            *((runs_cell(card),) if runs else ()),
        )
        for card in cards
    ]
    told = list(notes)
    spreads = (n for card in cards for n in card.spread if metric_of(n).kind != "ratio")
    if not set(names).isdisjoint(spreads):
        told.append(SPREAD_MEANING)
    return Table(
        title,
        tuple(columns),
        tuple(rows),
        tuple(told),
        tuple(column_of(metric_of(name)).heading for name in drop if name in names),
    )


def score_table(cards: Sequence[Scorecard]) -> Table:
    """The scores."""
    names = [*SCORES, *user_metrics(cards)]
    names = [SCORES[0], *measured(cards, names[1:])]
    drop = ["polish_accuracy", "coding_task_pass_rate", "context_retrieval_pct"]
    return metric_table("Scores", cards, names, drop=[*user_metrics(cards)[::-1], *drop])


def timing_table(cards: Sequence[Scorecard]) -> Table | None:
    """The timings over all suites."""
    names = measured(cards, TIMINGS)
    if not names:
        return None
    notes = []
    if any(card.eval_tok_sec_floored for card in cards):
        notes.append("~ marks a rate over windows under 1.5 ms: an artefact, not a speed")
    drop = ("thinking_share", "avg_eval_tok_sec_mean", "avg_prompt_tok_sec", "p95_ttft_sec")
    return metric_table(
        "Timing",
        cards,
        names,
        notes=notes,
        drop=(*drop, "cold_start_sec", "avg_answer_ttft_sec", "avg_prefill_eff_tok_sec"),
    )


def suite_table(cards: Sequence[Scorecard]) -> Table | None:
    """Timing averages per suite."""
    entries = [(card, suite, card.suites[suite]) for card in cards for suite in card.suites]
    if not entries:
        return None
    names = [n for n in SUITE_TIMINGS if any(e.get(n) is not None for _, _, e in entries)]
    columns = [
        Column("target", numeric=False),
        Column("suite", numeric=False),
        Column("records", "replies of the suite, of all runs"),
        *(column_of(metric_of(name)) for name in names),
        Column("median TTFT s", "median, its distribution-free 95 % interval, and n"),
        Column("median decode tok/s", "the same for the decode rate"),
    ]
    rows = [
        (
            card.target,
            suite,
            str(entry.get("records", NOT_MEASURED)),
            *(metric_of(name).show(entry.get(name), unit=False) for name in names),
            median_cell(entry.get("median_ttft_sec"), ".3f"),
            median_cell(entry.get("median_eval_tok_per_sec"), ".1f"),
        )
        for card, suite, entry in entries
    ]
    return Table("Timing per suite", tuple(columns), tuple(rows))


def median_cell(found: JsonValue, fmt: str) -> str:
    """``31.2 [30.1-32.0] n=9``; without an interval only the figure and n."""
    if not isinstance(found, Mapping):
        return NOT_MEASURED
    text = format(found["median"], fmt)
    if found.get("ci95"):
        low, high = found["ci95"]
        text += f" [{low:{fmt}}-{high:{fmt}}]"
    return f"{text} n={found['n']}"


def interval_table(cards: Sequence[Scorecard], names: Iterable[str] = ()) -> Table | None:
    """Headline figures with spread, 95 % interval and n; all unless ``names`` says which."""
    wanted = set(names)
    rows = [
        (
            card.target,
            name,
            card.show(name),
            _range(metric_of(name), card.spread.get(name)),
            _range(metric_of(name), card.ci95.get(name)),
            str(card.samples.get(name, NOT_MEASURED)),
        )
        for card in cards
        for name in (*card.ci95, *(n for n in card.spread if n not in card.ci95))
        if not wanted or name in wanted
    ]
    if not rows:
        return None
    return Table(
        "Uncertainty",
        (
            Column("target", numeric=False),
            Column("metric", numeric=False),
            Column("value"),
            Column("min-max", "lowest and highest of the single runs"),
            Column(
                "95 % interval",
                "bootstrap clustered by scenario, never narrower than Wilson (rates) or "
                "Student's t over the runs (timings)",
            ),
            Column("n", "records behind the figure"),
        ),
        tuple(rows),
    )


def _range(metric: Metric, found: tuple[float, float] | None) -> str:
    if found is None:
        return NOT_MEASURED
    return f"{metric.show(found[0], unit=False)}-{metric.show(found[1], unit=False)}"


def scenario_table(
    cards: Sequence[Scorecard], *, only: Sequence[str] = (), limit: int = SCENARIOS
) -> Table | None:
    """Per scenario: passes, interval, class; ``only`` keeps some classes."""
    rows = [
        (
            card.target,
            f"{row['suite']}/{row['task_id']}",
            f"{row['passed']}/{row['runs']}",
            metric_of("reasoning_accuracy").show(row.get("pass_rate")),
            _range(metric_of("reasoning_accuracy"), _pair(row.get("ci95"))),
            str(row.get("class") or "n=1"),
        )
        for card in cards
        for row in card.scenarios
        if row.get("runs") and (not only or row.get("class") in only)
    ]
    if not rows:
        return None
    more = len(rows) - limit
    return Table(
        "Scenarios",
        (
            Column("target", numeric=False),
            Column("scenario", numeric=False),
            Column("passed", "runs passed of runs judged"),
            Column("pass rate"),
            Column("95 % interval", "Wilson's interval of the pass rate"),
            Column(
                "class",
                "stable: every run passed; flaky: some; broken: none; n=1: one run cannot tell",
                numeric=False,
            ),
        ),
        tuple(rows[:limit]),
        (f"and {more} more, in the run file",) if more > 0 else (),
    )


def _pair(value: JsonValue) -> tuple[float, float] | None:
    return (value[0], value[1]) if value else None


def pass_at_table(cards: Sequence[Scorecard]) -> Table | None:
    """pass@k and pass^k."""
    rows = [
        (card.target, f"k={k}", f"{found['pass_at_k']:.1f}%", f"{found['pass_hat_k']:.1f}%")
        for card in cards
        for k, found in card.pass_at_k.items()
    ]
    if not rows:
        return None
    return Table(
        "Repeated attempts",
        (
            Column("target", numeric=False),
            Column("k", numeric=False),
            Column("pass@k", "chance that at least one of k runs passes, mean over scenarios"),
            Column("pass^k", "chance that all k runs pass, mean over scenarios"),
        ),
        tuple(rows),
    )


def tables(run: RunFile) -> list[Table]:
    """Every table of a run but thresholds, comparisons and records."""
    cards = run.scorecards
    if not cards:
        return []
    finished = measured(cards, FINISHED) if any(card.truncated_runs for card in cards) else []
    hardware = measured(cards, HARDWARE)
    tools = measured(cards, TOOLS)
    found = [
        score_table(cards),
        metric_table("Scores over finished replies", cards, finished) if finished else None,
        timing_table(cards),
        suite_table(cards),
        interval_table(cards),
        pass_at_table(cards),
        scenario_table(cards),
        metric_table("Tool use", cards, tools) if tools else None,
        metric_table("Memory and power", cards, hardware, runs=False) if hardware else None,
        metric_table("Counts", cards, COUNTS, runs=False),
    ]
    return [table for table in found if table is not None]
