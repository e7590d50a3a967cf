"""The registry of metrics: each scorecard field is declared here, once.

CSV columns, the tables of every report, thresholds and comparison loop over :data:`METRICS`. Rates,
accuracies and ``_pct`` are 0 to 100, shares 0 to 1, times seconds, memory MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue

Direction: TypeAlias = Literal["higher", "lower", "none"]
Kind: TypeAlias = Literal["text", "rate", "timing", "number", "count", "flag", "ratio"]

NOT_MEASURED = "n/a"


@dataclass(frozen=True, slots=True)
class Metric:
    """One field of a scorecard.

    Attributes:
        name: The field's name in JSON, CSV and thresholds.
        unit: What stands behind a shown value ("%", "s", "tok/s", "MiB", "" for a bare number).
        direction: Which way is better; ``none`` where neither is.
        source: Where the figure comes from, in a few words.
        fmt: Format specification of the number (:func:`format`).
        title: Column heading.
        meaning: One sentence for a reader of the table.
        kind: ``rate`` is a pooled percentage, ``timing`` an average of measured times or speeds,
            ``ratio`` an object ``{"passed": n, "of": m}``, ``count`` an exact number of records.
        headline: Whether it gets a spread over runs, a 95 % interval and a comparison.
    """

    name: str
    unit: str
    direction: Direction
    source: str
    fmt: str
    title: str
    meaning: str
    kind: Kind = "number"
    headline: bool = False

    def number(self, value: JsonValue) -> float | None:
        """The value as one number (a ratio as a percentage), ``None`` where it is none."""
        if isinstance(value, Mapping):
            of = value.get("of")
            return 100.0 * value["passed"] / of if of else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)

    def show(self, value: JsonValue, *, unit: bool = True) -> str:
        """The value as people read it; what was not measured is ``n/a``, never 0."""
        if value is None or value == "":
            return NOT_MEASURED
        if isinstance(value, Mapping):
            passed, of = value["passed"], value["of"]
            return f"{passed}/{of} ({100.0 * passed / of:.1f}%)" if of else NOT_MEASURED
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return str(value)
        text = format(value, self.fmt)
        if not unit or not self.unit:
            return text
        return f"{text}%" if self.unit == "%" else f"{text} {self.unit}"


def _rate(name: str, title: str, source: str, meaning: str, *, headline: bool = True) -> Metric:
    return Metric(name, "%", "higher", source, ".1f", title, meaning, "rate", headline)


def _count(name: str, title: str, meaning: str, direction: Direction = "none") -> Metric:
    return Metric(name, "", direction, "records", "d", title, meaning, "count")


def _text(name: str, title: str, meaning: str) -> Metric:
    return Metric(name, "", "none", "records", "", title, meaning, "text")


def _speed(name: str, title: str, source: str, meaning: str) -> Metric:
    return Metric(name, "tok/s", "higher", source, ".1f", title, meaning, "timing", True)


def _time(name: str, title: str, source: str, meaning: str, *, headline: bool = True) -> Metric:
    return Metric(name, "s", "lower", source, ".3f", title, meaning, "timing", headline)


def _ratio(name: str, title: str, meaning: str, direction: Direction = "higher") -> Metric:
    return Metric(name, "%", direction, "tool turns", ".1f", title, meaning, "ratio", True)


_IDENTITY = (
    _text("target", "target", "runtime:model, the pair every result belongs to."),
    _text("runtime", "runtime", "What serves the model."),
    _text("engine", "engine", "The engine behind the runtime, as it names itself."),
    _text("model", "model", "The model as the runtime names it."),
)

_JUDGED = (
    Metric(
        "composite_score",
        "",
        "higher",
        "coding_pass_rate, reasoning_accuracy, avg_eval_tok_sec",
        ".1f",
        "composite",
        "Weighted mean of coding, reasoning and performance by the formula below; n/a when a part "
        "was not run.",
        "rate",
        True,
    ),
    _rate(
        "coding_pass_rate",
        "assertions",
        "coding records",
        "Assertions passed of all assertions, over all coding scenarios and measured runs.",
    ),
    _rate(
        "coding_task_pass_rate",
        "tasks",
        "coding records",
        "Coding tasks of which every assertion passed.",
    ),
    _count("coding_tasks_passed", "tasks passed", "Coding tasks passed, all runs.", "higher"),
    _count("coding_task_count", "coding tasks", "Coding tasks judged, all runs."),
    _count(
        "coding_assertions_passed", "assertions passed", "Assertions passed, all runs.", "higher"
    ),
    _count("coding_assertion_count", "assertions run", "Assertions judged, all runs."),
    _count(
        "coding_delegated_count",
        "delegated",
        "Coding verdicts whose assertions ran in the candidate's own process (weaker assurance).",
        "lower",
    ),
    _rate("reasoning_accuracy", "reasoning", "suite reasoning", "Right answers of those judged."),
    _rate("polish_accuracy", "Polish", "suite polish", "Right answers of those judged."),
    _rate(
        "context_retrieval_pct",
        "context",
        "context records",
        "Context steps whose hidden value was retrieved; a refused window counts as not passed.",
    ),
    _rate(
        "coding_pass_rate_finished",
        "assertions (finished)",
        "coding records that were not cut off",
        "As coding_pass_rate, over replies that were not cut off at their token budget.",
        headline=False,
    ),
    _rate(
        "coding_task_pass_rate_finished",
        "tasks (finished)",
        "coding records that were not cut off",
        "As coding_task_pass_rate, over replies that were not cut off at their token budget.",
        headline=False,
    ),
    _rate(
        "reasoning_accuracy_finished",
        "reasoning (finished)",
        "reasoning records that were not cut off",
        "As reasoning_accuracy, over replies that were not cut off at their token budget.",
        headline=False,
    ),
    _rate(
        "polish_accuracy_finished",
        "Polish (finished)",
        "polish records that were not cut off",
        "As polish_accuracy, over replies that were not cut off at their token budget.",
        headline=False,
    ),
)

_TIMED = (
    _time(
        "avg_ttft_sec",
        "TTFT",
        "client, all suites but tool_use",
        "Mean time from the first byte of the request to the first token of any kind.",
    ),
    _time(
        "p95_ttft_sec",
        "TTFT p95",
        "client, all suites but tool_use",
        "95th percentile of the same times.",
        headline=False,
    ),
    _time(
        "avg_answer_ttft_sec",
        "answer TTFT",
        "client, all suites but tool_use",
        "Mean time to the first token of the answer, after any thinking.",
    ),
    _speed(
        "avg_eval_tok_sec",
        "decode",
        "client, speed records where there are any",
        "Decode rate after the first token, each reply weighted by its tokens.",
    ),
    _speed(
        "avg_eval_tok_sec_mean",
        "decode (mean)",
        "client, speed records where there are any",
        "The same rate, each reply with equal weight.",
    ),
    Metric(
        "eval_tok_sec_floored",
        "",
        "none",
        "client",
        "",
        "floored",
        "Every decode window was too short (under 1.5 ms) for a real rate; shown with ~.",
        "flag",
    ),
    _speed(
        "avg_prefill_eff_tok_sec",
        "prefill",
        "client, speed records where there are any",
        "Uncached prompt tokens divided by TTFT, the same definition on every runtime.",
    ),
    _speed(
        "avg_prompt_tok_sec",
        "prefill (engine)",
        "engine, speed records where there are any",
        "The engine's own prefill rate.",
    ),
    Metric(
        "thinking_share",
        "",
        "none",
        "records with thinking counted",
        ".2f",
        "thinking",
        "Share of the completion tokens that were thinking, 0 to 1.",
    ),
)


def _memory(name: str, title: str, meaning: str, direction: Direction = "lower") -> Metric:
    return Metric(name, "MiB", direction, "hardware sampler", ".0f", title, meaning)


_HARDWARE = (
    _memory("peak_vram_mb", "VRAM peak", "Highest device memory in use during a request."),
    _memory(
        "vram_baseline_mb", "VRAM baseline", "Device memory in use before the model loaded.", "none"
    ),
    _memory("vram_model_mb", "VRAM model", "Peak minus baseline."),
    _memory("peak_rss_mb", "RSS peak", "Highest resident memory of the processes in coverage."),
    _text("rss_coverage", "RSS of", "Which processes the resident memory covers."),
    Metric(
        "avg_power_w",
        "W",
        "lower",
        "hardware sampler",
        ".1f",
        "power",
        "Mean power of the devices in coverage during requests.",
    ),
    Metric(
        "tokens_per_joule",
        "tok/J",
        "higher",
        "hardware sampler",
        ".2f",
        "energy",
        "Completion tokens per joule of the devices in coverage.",
    ),
    Metric(
        "joules_per_solved_task",
        "J",
        "lower",
        "hardware sampler",
        ".1f",
        "J per task",
        "Energy of all judged runs, thinking included, divided by the tasks solved.",
    ),
    _text("energy_source", "energy of", "Where the energy figures come from."),
    _time(
        "cold_start_sec",
        "cold start",
        "engine, else first request minus a warm one",
        "Time to load the model.",
        headline=False,
    ),
    Metric(
        "gpu_fit_pct",
        "%",
        "higher",
        "engine",
        ".0f",
        "on GPU",
        "Share of the model that the engine holds in device memory, the lowest seen.",
    ),
    _text(
        "context_spill_at",
        "spill at",
        "First context size at which the model or its cache no longer fits the device memory.",
    ),
    _text("context_spill_evidence", "spill evidence", "What shows the spill."),
)

_COUNTS = (
    _count(
        "truncated_runs",
        "cut off",
        "Replies cut off at their token budget (coding and answers only).",
        "lower",
    ),
    _count("error_count", "errors", "Runs that the infrastructure failed; never judged.", "lower"),
    _count("skipped_count", "skipped", "Items skipped with a reason; in no denominator.", "lower"),
    _count("unsupported_count", "unsupported", "Runs that the target cannot do; not judged."),
    _count("disturbed_runs", "disturbed", "Runs whose timings are blocked by other load.", "lower"),
    _count(
        "concurrent_runs",
        "concurrent",
        "Runs measured while others were in flight; their timings are not averaged.",
    ),
    _count("estimated_runs", "estimated", "Runs whose token counts are estimates.", "lower"),
    _count("total_runs", "records", "Measured records, warm-ups apart."),
    _count("runs", "runs", "Repetitions asked for."),
)

_TOOLS = (
    _ratio("tool_task_success", "tool tasks", "Tool tasks of which every planned turn passed."),
    _ratio(
        "tool_selection_accuracy", "tool selected", "Planned call turns with the expected tool."
    ),
    _ratio(
        "tool_argument_accuracy",
        "tool arguments",
        "Planned call turns with the expected arguments.",
    ),
    _ratio(
        "tool_structured_call_rate",
        "structured calls",
        "Planned call turns answered by a structured call.",
    ),
    _ratio(
        "tool_abstention_accuracy",
        "abstention",
        "Planned no-call turns with no call and a right answer.",
    ),
    _ratio("tool_false_call_rate", "false calls", "Planned no-call turns with a call.", "lower"),
    _count("tool_skipped_turns", "turns skipped", "Planned turns never reached.", "lower"),
    _count("tool_error_turns", "turns in error", "Turns that the infrastructure failed.", "lower"),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_IDENTITY, *_JUDGED, *_TIMED, *_HARDWARE, *_COUNTS, *_TOOLS)
}
"""Every scorecard field with one value, in the order of reports and CSV columns."""

ACCURACY_SUFFIX = "_accuracy"


def suite_accuracy(suite: str) -> Metric:
    """The metric of a user's own suite, ``<suite>_accuracy``."""
    return _rate(
        suite + ACCURACY_SUFFIX, suite, f"suite {suite}", f"Right answers in suite {suite}."
    )


def metric_of(name: str) -> Metric:
    """The metric of that name.

    Raises:
        KeyError: No such metric.
    """
    if name in METRICS:
        return METRICS[name]
    if name.endswith(ACCURACY_SUFFIX) and name != ACCURACY_SUFFIX:
        return suite_accuracy(name.removesuffix(ACCURACY_SUFFIX))
    raise KeyError(name)


def with_suites(suites: Iterable[str]) -> tuple[Metric, ...]:
    """All metrics: the registry's in order, then one per user suite, sorted by name."""
    return (*METRICS.values(), *(suite_accuracy(name) for name in sorted(set(suites))))
