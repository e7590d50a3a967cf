"""Thresholds and comparisons as every report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import NOT_MEASURED, metric_of
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports.view import Column, Table


class _Decided(Protocol):
    def to_json(self) -> dict[str, JsonValue]: ...


def as_json(found: Iterable[_Decided] | None, run: RunFile, name: str) -> list[JsonValue]:
    """Decisions as JSON objects: those given, else those that the run file keeps."""
    if found is not None:
        return [one.to_json() for one in found]
    kept = run.run.get(name)
    return [one for one in kept if isinstance(one, Mapping)] if isinstance(kept, list) else []


def threshold_line(result: Mapping[str, JsonValue]) -> str:
    """``PASS coding_pass_rate >= 80: held, measured ... [ollama:qwen3]``."""
    word = "PASS" if result.get("held") else "FAIL"
    if result.get("decided") is False:
        word = "UNDECIDED"
    target = f" [{result['target']}]" if result.get("target") else ""
    return f"{word} {result.get('message', '')}{target}"


def comparison_title(comparison: Mapping[str, JsonValue]) -> str:
    """What is compared with what."""
    return f"{comparison.get('current', '')} against {comparison.get('baseline', '')}"


def comparison_notes(comparison: Mapping[str, JsonValue]) -> list[str]:
    """What the reader of a comparison must know."""
    notes = []
    if comparison.get("caveat"):
        notes.append(str(comparison["caveat"]))
    elif not comparison.get("refusal"):
        notes.append("interleaved: both were measured alternately, run by run")
    notes += [f"allowed difference: {text}" for text in comparison.get("allowed") or ()]
    if comparison.get("unpaired"):
        notes.append(f"{comparison['unpaired']} records have no partner and were left out")
    return notes


def comparison_table(comparison: Mapping[str, JsonValue]) -> Table | None:
    """One row per target and metric; ``None`` for a refused comparison."""
    rows = comparison.get("rows") or ()
    if not rows:
        return None
    return Table(
        comparison_title(comparison),
        (
            Column("target", numeric=False),
            Column("metric", numeric=False),
            Column("before", "the baseline, over the paired records"),
            Column("after", "this run, over the paired records"),
            Column("effect", "percent for timings, percentage points for rates"),
            Column("interval", "of the effect, corrected for the number of metrics compared"),
            Column("pairs", "records paired by suite, scenario, target and run"),
            Column(
                "verdict",
                "better or worse: significant after Holm's correction; means of repetitions "
                "decide, medians are only a flag",
                numeric=False,
            ),
            Column("note", numeric=False),
        ),
        tuple(_row(row) for row in rows),
        drop=("note", "pairs", "before", "after", "interval"),
    )


def _row(row: Mapping[str, JsonValue]) -> tuple[str, ...]:
    metric = metric_of(str(row["metric"]))
    effect, interval = row.get("effect"), row.get("interval")
    unit = "%" if row.get("unit") == "%" else " pt"
    return (
        str(row["target"]),
        metric.name,
        metric.show(row.get("before")),
        metric.show(row.get("after")),
        NOT_MEASURED if effect is None else f"{effect:+.1f}{unit}",
        f"{interval[0]:+.1f} to {interval[1]:+.1f}" if interval else NOT_MEASURED,
        str(row.get("pairs", 0)),
        str(row["change"]) + (" (regression)" if row.get("regressed") else ""),
        "; ".join(str(row[k]) for k in ("needed", "note") if row.get(k)),
    )


def flip_lines(comparison: Mapping[str, JsonValue]) -> list[str]:
    """The scenarios whose verdict changed, by name."""
    flips: Sequence[Mapping[str, JsonValue]] = comparison.get("flips") or ()
    return [
        f"{'lost' if flip['after'] < flip['before'] else 'gained'}: {flip['scenario']} "
        f"[{flip['target']}] {flip['before']}/{flip['runs']} -> {flip['after']}/{flip['runs']}"
        for flip in flips
    ]
