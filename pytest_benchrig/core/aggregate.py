"""Which records enter which metric: the samples behind every headline figure of a scorecard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.blocking import answered, blocked
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.samples import Samples, accuracy, most_common, pooled, timing
from pytest_benchrig.core.tool_metrics import tool_samples

CUT_OFF_KINDS = frozenset({"coding", "answer"})
NAMED_SUITES = {"reasoning": "reasoning_accuracy", "polish": "polish_accuracy"}


@dataclass(frozen=True, slots=True)
class Pools:
    """The records of one target, sorted by what they may enter.

    Attributes:
        measured: Everything but warm-ups.
        answered: Measured replies of every kind but ``tool_use``.
        coding: Judged coding replies, of any suite.
        context: Judged context steps, of any suite.
        rated: Where decode and prefill are read: the speed replies where there are any, else all
            of ``answered``.
        tools: Measured ``tool_use`` records, errors and unsupported ones included.
    """

    measured: tuple[Record, ...]
    answered: tuple[Record, ...]
    coding: tuple[Record, ...]
    context: tuple[Record, ...]
    rated: tuple[Record, ...]
    tools: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Pools:
        """Sort the records of one target."""
        measured = tuple(r for r in records if r.phase == "measured")
        replies = tuple(r for r in measured if answered(r) and r.kind != "tool_use")
        speed = tuple(r for r in replies if r.kind == "speed")
        return cls(
            measured=measured,
            answered=replies,
            coding=tuple(r for r in replies if r.kind == "coding" and r.passed is not None),
            context=tuple(r for r in replies if r.kind == "context" and r.passed is not None),
            rated=speed or replies,
            tools=tuple(r for r in measured if r.kind == "tool_use"),
        )

    def suite(self, name: str) -> tuple[Record, ...]:
        """The judged replies of one suite; a timing suite judges nothing."""
        return tuple(
            r
            for r in self.answered
            if r.suite == name and r.passed is not None and r.kind != "speed"
        )

    def user_suites(self) -> tuple[str, ...]:
        """Suites whose judged replies no named field covers, sorted."""
        return tuple(
            sorted(
                {
                    r.suite
                    for r in self.answered
                    if r.passed is not None
                    and r.kind != "speed"
                    and r.suite not in NAMED_SUITES
                    and r.suite != r.kind
                }
            )
        )


def headline_samples(pools: Pools, *, allow_disturbed: bool = False) -> dict[str, Samples]:
    """The samples of every headline metric but the composite, by name."""

    def timed(records: Sequence[Record], name: str, *, weighted: bool = False) -> Samples:
        return timing(records, name, weighted=weighted, allow_disturbed=allow_disturbed)

    finished = [r for r in pools.coding if not r.truncated]
    found = {
        "coding_pass_rate": assertions(pools.coding),
        "coding_task_pass_rate": accuracy(pools.coding),
        "coding_pass_rate_finished": assertions(finished),
        "coding_task_pass_rate_finished": accuracy(finished),
        "context_retrieval_pct": accuracy(pools.context),
        "avg_ttft_sec": timed(pools.answered, "ttft_sec"),
        "avg_answer_ttft_sec": timed(pools.answered, "answer_ttft_sec"),
        "avg_eval_tok_sec": timed(pools.rated, "eval_tok_per_sec", weighted=True),
        "avg_eval_tok_sec_mean": timed(pools.rated, "eval_tok_per_sec"),
        "avg_prefill_eff_tok_sec": timed(pools.rated, "prefill_eff_tok_per_sec"),
        "avg_prompt_tok_sec": timed(pools.rated, "prompt_tok_per_sec"),
    }
    for suite, name in NAMED_SUITES.items():
        judged = pools.suite(suite)
        found[name] = accuracy(judged)
        found[f"{name}_finished"] = accuracy([r for r in judged if not r.truncated])
    for suite in pools.user_suites():
        found[f"{suite}_accuracy"] = accuracy(pools.suite(suite))
    return found | tool_samples(pools.tools)


def assertions(records: Iterable[Record]) -> Samples:
    """Assertions passed of all assertions."""
    return pooled(
        records, lambda r: float(r.passed_tests or 0), lambda r: float(r.total_tests or 0)
    )


def unblocked(
    records: Iterable[Record], field: str, *, allow_disturbed: bool = False
) -> tuple[list[float], str]:
    """The values of a timing field that nothing blocks, and else why there is none."""
    values: list[float] = []
    reasons: Counter[str] = Counter()
    for record in records:
        value = getattr(record, field)
        if value is None:
            continue
        reason = blocked(record, field, allow_disturbed=allow_disturbed)
        if reason:
            reasons[reason] += 1
        else:
            values.append(float(value))
    return values, "" if values else most_common(reasons)


def composite(
    values: Mapping[str, float | None], weights: Mapping[str, float], reference: float
) -> float | None:
    """The composite score, ``None`` when one of its parts was not run."""
    coding, reasoning = values.get("coding_pass_rate"), values.get("reasoning_accuracy")
    rate = values.get("avg_eval_tok_sec")
    if coding is None or reasoning is None or rate is None:
        return None
    performance = min(100.0, rate / reference * 100.0)
    return (
        weights["coding"] * coding
        + weights["reasoning"] * reasoning
        + weights["performance"] * performance
    )
