"""Which record pairs enter the comparison of which metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_benchrig.core.aggregate import NAMED_SUITES, Pools
from pytest_benchrig.core.blocking import answered, blocked
from pytest_benchrig.core.compare_tests import Pair
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.samples import key_of, most_common

RATES = (
    "coding_pass_rate",
    "coding_task_pass_rate",
    "reasoning_accuracy",
    "polish_accuracy",
    "context_retrieval_pct",
    "tool_task_success",
)
TIMINGS: Mapping[str, str] = {
    "avg_ttft_sec": "ttft_sec",
    "avg_answer_ttft_sec": "answer_ttft_sec",
    "avg_eval_tok_sec": "eval_tok_per_sec",
    "avg_prefill_eff_tok_sec": "prefill_eff_tok_per_sec",
    "avg_prompt_tok_sec": "prompt_tok_per_sec",
}
"""Compared timings and the record field behind each; means of repetitions decide."""

RecordPair = tuple[Record, Record]


@dataclass(frozen=True, slots=True)
class MetricPairs:
    """The pairs of one metric, by scenario.

    Attributes:
        metric: The metric's name.
        pairs: Per scenario ``(before, after)`` of each run.
        of: Per scenario the number of trials of each run, for rates; empty for timings.
        before: The baseline's figure over these pairs.
        after: This run's figure over these pairs.
        missing: Why there is no pair.
    """

    metric: str
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    of: Mapping[str, Sequence[float]] = field(default_factory=dict)
    before: float | None = None
    after: float | None = None
    missing: str = ""


def pair_records(
    before: Iterable[Record], after: Iterable[Record]
) -> tuple[dict[str, list[RecordPair]], int]:
    """Pair measured replies by suite, scenario, target and run.

    Returns:
        The pairs by target, and how many records have no partner.
    """
    old = {_key(r): r for r in before if answered(r)}
    new = {_key(r): r for r in after if answered(r)}
    found: dict[str, list[RecordPair]] = {}
    for key, record in new.items():
        if key in old:
            found.setdefault(record.target, []).append((old[key], record))
    return found, len(old.keys() ^ new.keys())


def _key(record: Record) -> tuple[str, str, str, int]:
    return record.target, record.suite, record.task_id, record.run_index


def compared_metrics(before: Pools, after: Pools) -> list[str]:
    """The metrics that either side has, in the registry's order, user suites last."""
    names: list[str] = []
    sides = (before, after)
    if any(side.coding for side in sides):
        names += ["coding_pass_rate", "coding_task_pass_rate"]
    names += [name for suite, name in NAMED_SUITES.items() if any(s.suite(suite) for s in sides)]
    if any(side.context for side in sides):
        names.append("context_retrieval_pct")
    if any(r.passed is not None for side in sides for r in side.tools):
        names.append("tool_task_success")
    for name, source in TIMINGS.items():
        if any(getattr(r, source) is not None for side in sides for r in side.answered):
            names.append(name)
    suites = dict.fromkeys(s for side in sides for s in side.user_suites())
    return names + [f"{suite}{ACCURACY_SUFFIX}" for suite in sorted(suites)]


def metric_pairs(
    metric: str, pairs: Sequence[RecordPair], allow_disturbed: bool = False
) -> MetricPairs:
    """The pairs of one metric among the record pairs of one target."""
    if metric in TIMINGS:
        return timing_pairs(metric, pairs, allow_disturbed)
    return rate_pairs(metric, pairs)


def rate_pairs(metric: str, pairs: Sequence[RecordPair]) -> MetricPairs:
    """Pairs of verdicts, or of assertion counts."""
    found: dict[str, list[Pair]] = {}
    trials: dict[str, list[float]] = {}
    for old, new in pairs:
        if old.passed is None or new.passed is None or not _enters(metric, new):
            continue
        before, after, of = float(old.passed), float(new.passed), 1.0
        if metric == "coding_pass_rate":
            if not new.total_tests or old.total_tests != new.total_tests:
                continue
            before, after = float(old.passed_tests or 0), float(new.passed_tests or 0)
            of = float(new.total_tests)
        found.setdefault(key_of(new), []).append((before, after))
        trials.setdefault(key_of(new), []).append(of)
    if not found:
        return MetricPairs(metric, missing="no judged record has a partner in the other run")
    total = math.fsum(of for runs in trials.values() for of in runs)
    return MetricPairs(
        metric,
        found,
        trials,
        before=100.0 * math.fsum(b for runs in found.values() for b, _ in runs) / total,
        after=100.0 * math.fsum(a for runs in found.values() for _, a in runs) / total,
    )


def _enters(metric: str, record: Record) -> bool:
    if metric in ("coding_pass_rate", "coding_task_pass_rate"):
        return record.kind == "coding"
    if metric == "context_retrieval_pct":
        return record.kind == "context"
    if metric == "tool_task_success":
        return record.kind == "tool_use"
    return record.suite == metric.removesuffix(ACCURACY_SUFFIX) and record.kind not in (
        "tool_use",
        "speed",
    )


def timing_pairs(
    metric: str, pairs: Sequence[RecordPair], allow_disturbed: bool = False
) -> MetricPairs:
    """Pairs of timings that nothing blocks on either side."""
    source = TIMINGS[metric]
    replies = [(old, new) for old, new in pairs if new.kind != "tool_use"]
    if metric not in ("avg_ttft_sec", "avg_answer_ttft_sec"):
        speed = [pair for pair in replies if pair[1].kind == "speed"]
        replies = speed or replies
    found: dict[str, list[Pair]] = {}
    reasons: Counter[str] = Counter()
    for old, new in replies:
        before, after = getattr(old, source), getattr(new, source)
        if before is None or after is None:
            continue
        reason = next(
            filter(None, (blocked(r, source, allow_disturbed=allow_disturbed) for r in (old, new))),
            "",
        )
        if not reason and source == "eval_tok_per_sec":
            artefact = old.eval_tok_sec_floored or new.eval_tok_sec_floored
            reason = "decode windows too short for a rate" if artefact else ""
        if not reason and (before <= 0.0 or after <= 0.0):
            reason = "a figure of 0 has no ratio"
        if reason:
            reasons[reason] += 1
        else:
            found.setdefault(key_of(new), []).append((before, after))
    if not found:
        why = most_common(reasons) or "no timed record has a partner in the other run"
        return MetricPairs(metric, missing=why)
    values = [pair for runs in found.values() for pair in runs]
    return MetricPairs(
        metric,
        found,
        before=math.fsum(b for b, _ in values) / len(values),
        after=math.fsum(a for _, a in values) / len(values),
    )
