"""From the records of one target to its scorecard.

Counts pool all measured runs; errors and skips are in no denominator and are counted beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_benchrig.core import stats
from pytest_benchrig.core.aggregate import (
    CUT_OFF_KINDS,
    Pools,
    composite,
    headline_samples,
    unblocked,
)
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.hardware_metrics import cold_start, context_spill, hardware_fields
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.samples import Samples, timing
from pytest_benchrig.core.scenario_stats import pass_at, scenario_stats, timing_stats
from pytest_benchrig.core.scorecard_types import Scorecard, ScoreSettings
from pytest_benchrig.core.tool_metrics import as_ratio, turn_counts

PARTS = ("coding_pass_rate", "reasoning_accuracy", "avg_eval_tok_sec")
SUITE_TIMINGS = {
    "avg_ttft_sec": ("ttft_sec", False),
    "avg_answer_ttft_sec": ("answer_ttft_sec", False),
    "avg_eval_tok_sec": ("eval_tok_per_sec", True),
    "avg_eval_tok_sec_mean": ("eval_tok_per_sec", False),
    "avg_prefill_eff_tok_sec": ("prefill_eff_tok_per_sec", False),
    "avg_prompt_tok_sec": ("prompt_tok_per_sec", False),
}


def build_scorecard(
    target: str, records: Sequence[Record], *, settings: ScoreSettings
) -> Scorecard:
    """The scorecard of one target.

    Args:
        target: ``runtime:model``.
        records: That target's records, warm-ups included (they enter no aggregate but tell the
            cold start).
        settings: Weights, reference rate and the repetitions asked for.
    """
    pools = Pools.of(records)
    samples = headline_samples(pools)
    values = {name: found.value for name, found in samples.items()}
    values["composite_score"] = composite(values, settings.weights, settings.reference_tok_per_sec)
    ttft, _ = unblocked(pools.answered, "ttft_sec")
    spread, ci95 = _uncertainty(samples, settings)
    spill_at, spill_evidence = context_spill(pools.measured)
    replies = [r for r in pools.measured if r.outcome not in ("error", "skipped")]
    scenarios = scenario_stats(replies)
    plain = {
        name: value
        for name, value in values.items()
        if name in METRICS and METRICS[name].kind != "ratio"
    }
    user = {f"{suite}{ACCURACY_SUFFIX}": suite for suite in pools.user_suites()}
    runtime, _, model = target.partition(":")
    fields: dict[str, Any] = {
        **plain,
        **_coding_counts(pools),
        **_tool_fields(pools, samples),
        **hardware_fields(pools.answered),
        **_counts(pools, settings),
        "runtime": next((r.runtime for r in records), runtime),
        "engine": next((r.engine for r in reversed(records) if r.engine), ""),
        "model": next((r.model for r in records), model),
        "p95_ttft_sec": stats.percentile(ttft, 0.95) if ttft else None,
        "eval_tok_sec_floored": _floored(pools),
        "thinking_share": _thinking_share(pools.answered),
        "cold_start_sec": None if only_tools(pools) else cold_start(records),
        "context_spill_at": spill_at,
        "context_spill_evidence": spill_evidence,
        "suite_accuracy": {suite: values[name] for name, suite in user.items()},
        "spread": spread,
        "ci95": ci95,
        "samples": _sample_counts(samples, values),
        "suites": _suites(pools),
        "scenarios": tuple(found.to_json() for found in scenarios),
        "pass_at_k": pass_at(scenarios),
        "unmeasured": _unmeasured(samples, values),
        "formula": settings.formula,
        "weights": dict(settings.weights),
        "reference_tok_per_sec": settings.reference_tok_per_sec,
    }
    return Scorecard(target=target, **fields)


def _sample_counts(
    samples: Mapping[str, Samples], values: Mapping[str, float | None]
) -> dict[str, int]:
    counts = {name: len(found.rows) for name, found in samples.items() if found.rows}
    if values["composite_score"] is not None:
        counts["composite_score"] = sum(counts[part] for part in PARTS)
    return counts


def only_tools(pools: Pools) -> bool:
    """Whether nothing but tool use was measured, so that no other field applies."""
    return bool(pools.tools) and len(pools.tools) == len(pools.measured)


def _uncertainty(
    samples: Mapping[str, Samples], settings: ScoreSettings
) -> tuple[dict[str, stats.Interval], dict[str, stats.Interval]]:
    spread = {name: s for name, found in samples.items() if (s := found.spread) is not None}
    ci95 = {name: i for name, found in samples.items() if (i := found.interval) is not None}
    per_run = composite_by_run(samples, settings)
    if len(per_run) > 1:
        spread["composite_score"] = (min(per_run), max(per_run))
    if all(part in ci95 for part in PARTS):
        # Each part at its own end: wider than any joint interval, never narrower.
        ends = [
            composite(
                {part: ci95[part][side] for part in PARTS},
                settings.weights,
                settings.reference_tok_per_sec,
            )
            for side in (0, 1)
        ]
        if ends[0] is not None and ends[1] is not None:
            ci95["composite_score"] = (max(0.0, ends[0]), ends[1])
    return spread, ci95


def composite_by_run(samples: Mapping[str, Samples], settings: ScoreSettings) -> list[float]:
    """The composite of each run that has all of its parts."""
    runs = sorted({row.run for part in PARTS for row in samples[part].rows})
    found = []
    for run in runs:
        values = {
            part: Samples(
                tuple(row for row in samples[part].rows if row.run == run), samples[part].percent
            ).value
            for part in PARTS
        }
        score = composite(values, settings.weights, settings.reference_tok_per_sec)
        if score is not None:
            found.append(score)
    return found


def _coding_counts(pools: Pools) -> dict[str, int | None]:
    coding = pools.coding
    if not coding:
        return {}
    return {
        "coding_tasks_passed": sum(bool(r.passed) for r in coding),
        "coding_task_count": len(coding),
        "coding_assertions_passed": sum(r.passed_tests or 0 for r in coding),
        "coding_assertion_count": sum(r.total_tests or 0 for r in coding),
        "coding_delegated_count": sum(r.assurance == "delegated" for r in coding),
    }


def _tool_fields(pools: Pools, samples: Mapping[str, Samples]) -> dict[str, JsonValue]:
    if not pools.tools:
        return {}
    fields: dict[str, JsonValue] = {
        name: as_ratio(found)
        for name, found in samples.items()
        if name in METRICS and METRICS[name].kind == "ratio"
    }
    fields["tool_skipped_turns"], fields["tool_error_turns"] = turn_counts(pools.tools)
    return fields


def _counts(pools: Pools, settings: ScoreSettings) -> dict[str, int | None]:
    checked = [r for r in pools.answered if r.kind in CUT_OFF_KINDS]
    timed = pools.answered
    return {
        "truncated_runs": sum(bool(r.truncated) for r in checked) if checked else None,
        "error_count": sum(r.outcome == "error" for r in pools.measured),
        "skipped_count": sum(r.outcome == "skipped" and not r.unsupported for r in pools.measured),
        "unsupported_count": sum(r.unsupported for r in pools.measured),
        "disturbed_runs": sum(bool(r.disturbed) for r in timed) if timed else None,
        "concurrent_runs": sum(r.concurrent for r in timed) if timed else None,
        "estimated_runs": sum(r.usage_estimated for r in timed) if timed else None,
        "total_runs": len(pools.measured),
        "runs": settings.runs,
    }


def _floored(pools: Pools) -> bool | None:
    rates, _ = unblocked(pools.rated, "eval_tok_per_sec")
    if not rates:
        return None
    real = [r for r in pools.rated if not r.eval_tok_sec_floored]
    return not unblocked(real, "eval_tok_per_sec")[0]


def _thinking_share(records: Iterable[Record]) -> float | None:
    weighed = [
        (r.thinking_share, r.completion_tokens or 0)
        for r in records
        if r.thinking_share is not None
    ]
    tokens = sum(weight for _, weight in weighed)
    return sum(share * weight for share, weight in weighed) / tokens if tokens else None


def _suites(pools: Pools) -> dict[str, dict[str, JsonValue]]:
    found: dict[str, dict[str, JsonValue]] = {}
    groups: dict[str, list[Record]] = {}
    for record in pools.answered:
        groups.setdefault(record.suite, []).append(record)
    for suite, records in groups.items():
        entry: dict[str, JsonValue] = {"records": len(records)}
        for name, (field, weighted) in SUITE_TIMINGS.items():
            entry[name] = timing(records, field, weighted=weighted).value
        for field in ("ttft_sec", "eval_tok_per_sec"):
            statistics = timing_stats(records, field)
            entry[f"median_{field}"] = statistics.to_json() if statistics else None
        found[suite] = entry
    return found


def _unmeasured(
    samples: Mapping[str, Samples], values: Mapping[str, float | None]
) -> dict[str, str]:
    reasons = {
        name: found.missing
        for name, found in samples.items()
        if found.missing and values.get(name) is None
    }
    if values["composite_score"] is None:
        absent = [part for part in PARTS if values.get(part) is None]
        reasons["composite_score"] = "not measured: " + ", ".join(absent)
    if "avg_ttft_sec" in reasons:
        reasons["p95_ttft_sec"] = reasons["avg_ttft_sec"]
    return reasons


__all__ = ["ScoreSettings", "Scorecard", "build_scorecard"]
