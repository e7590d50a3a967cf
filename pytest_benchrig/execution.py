"""One item: its runs, each requested, measured and judged before the next."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_benchrig.client import Measured, TargetClient
from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import Generation, RuntimeFault, Target
from pytest_benchrig.core.matching import PatternTimeout
from pytest_benchrig.core.record import Outcome, Record
from pytest_benchrig.core.request import TIMING_KINDS, Plan, plan_request
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Scenario,
    SpeedSpec,
    ToolUseSpec,
)
from pytest_benchrig.core.thinking import Split
from pytest_benchrig.core.verdict import Verdict

if TYPE_CHECKING:
    from pytest_benchrig.active import Active

CIRCUIT_KINDS = frozenset(
    {"unreachable", "out_of_memory", "start", "fetch", "auth", "model_not_found"}
)
"""Faults that end a target after a number of consecutive ones."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What an item came to: its records and how pytest shall report it.

    Attributes:
        records: One per run, in order.
        outcome: The item's outcome.
        message: The explanation of a failure.
        fault: The infrastructure's fault, if one ended the item.
        skipped: Why the item was skipped, "" otherwise.
    """

    records: tuple[Record, ...]
    outcome: Outcome
    message: str = ""
    fault: RuntimeFault | None = None
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What of a reply its verdict depends on, fresh or stored.

    Attributes:
        split: Trace and answer.
        arrived: Whether any token came.
        tokens: Completion tokens, where they are known.
        cut_off: Whether it stopped at its budget.
        budget: The effective budget as text.
    """

    split: Split
    arrived: bool
    tokens: int | None
    cut_off: bool
    budget: str


def now() -> str:
    """Wall-clock time for people; no duration is ever taken from it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def run_item(active: Active, scenario: Scenario, target: Target) -> ItemResult:
    """All runs of one item."""
    from pytest_benchrig.stopping import enough

    refusal = cannot_run(active, scenario, target)
    if refusal:
        return ItemResult((), "skipped", skipped=refusal)
    records: list[Record] = []
    while not enough(scenario, records, active.settings):
        try:
            client = active.client(target)
            records.append(run_once(active, client, scenario, len(records)))
        except RuntimeFault as fault:
            records.append(faulty_record(active, scenario, target, len(records), fault))
            trip_breaker(active, target, fault)
            return conclude(scenario, target, records, fault)
        active.coordination.count_success(str(target))
    return conclude(scenario, target, records, None)


def cannot_run(active: Active, scenario: Scenario, target: Target) -> str:
    """Why the item is skipped without a request, "" where it can run."""
    broken = active.coordination.broken(str(target))
    if broken:
        return f"{target} was given up: {broken}"
    if scenario.kind == "coding" and not active.sandbox.available:
        return active.sandbox.remedy
    return ""


def conclude(
    scenario: Scenario, target: Target, records: Sequence[Record], fault: RuntimeFault | None
) -> ItemResult:
    """What the runs of an item come to."""
    from pytest_benchrig.explain import failure_text

    if fault is not None and fault.kind == "unsupported":
        return ItemResult(
            tuple(records), "skipped", skipped=f"{target} cannot do this: {fault.message}"
        )
    if fault is not None:
        return ItemResult(tuple(records), "error", fault=fault)
    outcome = item_outcome(records, scenario.min_pass_rate)
    message = failure_text(scenario, target, records) if outcome == "failed" else ""
    return ItemResult(tuple(records), outcome, message=message)


def item_outcome(records: Sequence[Record], min_pass_rate: float) -> Outcome:
    """Judged runs against the entry's ``min_pass_rate``; nothing judged passes."""
    judged = [r for r in records if r.passed is not None]
    if not judged:
        return "passed"
    needed = math.ceil(min_pass_rate * len(judged) - 1e-9)
    return "passed" if sum(bool(r.passed) for r in judged) >= needed else "failed"


def trip_breaker(active: Active, target: Target, fault: RuntimeFault) -> None:
    """Give a target up after the set number of consecutive failures of its infrastructure."""
    if fault.kind not in CIRCUIT_KINDS:
        return
    failures = active.coordination.count_failure(str(target))
    if failures >= active.settings.breaker_failures:
        active.coordination.break_circuit(
            str(target), f"{failures} consecutive failures, the last one {fault}"
        )


def faulty_record(
    active: Active, scenario: Scenario, target: Target, run_index: int, fault: RuntimeFault
) -> Record:
    """The record of a request that gave no usable answer."""
    from pytest_benchrig.core.files import scenario_digest

    kept = getattr(fault, "record", None)
    if isinstance(kept, Record):
        return kept
    record = assemble.begin(
        scenario,
        target,
        run_index=run_index,
        digest=scenario_digest(scenario),
        started_at=now(),
    )
    return assemble.with_fault(record.replace(worker=active.worker), fault)


def run_once(active: Active, client: TargetClient, scenario: Scenario, run_index: int) -> Record:
    """One run: request, generation, verdict, record; elsewhere where its endpoint is dead.

    Raises:
        RuntimeFault: The request gave no usable answer, unless that is itself the finding (a
            window that the engine refuses).
    """
    return client.wherever_alive(lambda: _run(active, client, scenario, run_index))


def _run(active: Active, client: TargetClient, scenario: Scenario, run_index: int) -> Record:
    from pytest_benchrig.core.files import scenario_digest

    record = assemble.begin(
        scenario,
        client.target,
        run_index=run_index,
        digest=scenario_digest(scenario),
        started_at=now(),
    ).replace(worker=active.worker)
    if isinstance(scenario.spec, ToolUseSpec):
        from pytest_benchrig.conversation import converse

        return converse(active, client, scenario, record)
    plan = plan_run(active, client, scenario, run_index)
    record = assemble.with_plan(record, plan)
    try:
        if scenario.kind == "context":
            record = record.replace(load_time_sec=client.window(plan.request.sampling.num_ctx))
        measured = client.measure(plan.request)
    except RuntimeFault as fault:
        if scenario.kind == "context" and fault.kind in ("context_window", "out_of_memory"):
            verdict = Verdict(
                "fail", str(fault), rule="context window refused", fields={"retrieved": False}
            )
            return assemble.with_verdict(assemble.with_fault(record, fault), verdict, "failed")
        raise
    return judge_run(active, scenario, record, plan, measured)


def plan_run(active: Active, client: TargetClient, scenario: Scenario, run_index: int) -> Plan:
    """The request of one run, with a context prompt sized by the engine's own tokenizer."""
    from pytest_benchrig.core.context_text import build_file_prompt, build_window_prompt

    spec = scenario.spec
    prompt: str | None = None
    notes: tuple[str, ...] = ()
    if isinstance(spec, ContextSpec):
        runtime = client.runtime

        def count(text: str) -> int | None:
            return runtime.count_tokens(client.target.model, text)

        build = build_window_prompt if spec.needle else build_file_prompt
        built = build(scenario.id, spec, count)
        prompt, notes = built.text, built.notes
    timing = scenario.kind in TIMING_KINDS
    uncached = timing or run_index > 0
    can_think = client.target.runtime == "ollama" and bool(client.supports("thinking"))
    plan = plan_request(
        scenario,
        client.target.model,
        active.request_settings,
        run_index=run_index,
        marker=active.marker() if uncached and not client.refuses_cache else "",
        cache_prompt=not uncached,
        prompt=prompt,
        model_context=client.model_context,
        can_think=can_think,
        fixed_context=client.fixed_context,
    )
    return Plan(plan.request, plan.budget, plan.prompt, (*plan.notes, *notes))


def judge_run(
    active: Active, scenario: Scenario, record: Record, plan: Plan, measured: Measured
) -> Record:
    """From what came back to the finished record."""
    from pytest_benchrig.core.timing import timings_of

    generation = measured.generation
    split = active.parser.split(generation.text, generation.thinking)
    timings = timings_of(generation, measured.request)
    record = assemble.with_generation(record, generation, split, timings)
    record = with_window(record, measured)
    cut_off = assemble.was_cut_off(scenario, generation, plan.request.sampling.num_predict)
    if scenario.kind in ("coding", "answer"):
        record = record.replace(truncated=cut_off)
    try:
        reply = Reply(
            split,
            arrived=generation.marks.first_token_ns is not None,
            tokens=generation.usage.completion_tokens,
            cut_off=cut_off,
            budget=plan.budget,
        )
        verdict = judge(active, scenario, reply)
    except PatternTimeout as slow:
        raise pattern_fault(slow, scenario, record.target, generation) from None
    outcome: Outcome = "failed" if verdict.passed is False else "passed"
    return assemble.with_verdict(record, verdict, outcome)


def pattern_fault(
    slow: PatternTimeout, scenario: Scenario, target: str, partial: Generation | None
) -> RuntimeFault:
    """The error that stands in for a verdict, since a pattern of the scenario has no end."""
    return RuntimeFault(
        "judging",
        f"the pattern {slow.pattern!r} of scenario {scenario.id} ran out of time on this reply",
        target=target,
        phase="judging",
        remedy=f"Rewrite it without nested repetition ({scenario.path}:{scenario.line})",
        partial=partial,
    )


def with_window(record: Record, measured: Measured) -> Record:
    """Add the hardware window and what it says about the timings."""
    from pytest_benchrig.hardware.placement import placed

    window = measured.window
    where = placed(measured.placement, gpu_present=bool(window.gpus) or None)
    notes = [*record.notes, *(n for n in window.notes if n not in record.notes)]
    flags = list(record.flags)
    if window.disturbed:
        flags.append("disturbed")
    if window.unverified:
        flags.append("unverified")
    if measured.concurrent:
        flags.append("concurrent")
    record = assemble.with_hardware(record, window.to_json()).replace(
        disturbed=window.disturbed,
        concurrent=measured.concurrent,
        flags=flags,
        notes=notes,
        requested_device=where.requested_device,
        observed_device=record.observed_device or where.observed_device,
        gpu_fit_pct=where.gpu_fit_pct,
        cpu_fallback=where.cpu_fallback,
    )
    if record.kind == "context":
        return record.replace(memory_growth_mb=window.memory_growth_mb)
    return record


def judge(active: Active, scenario: Scenario, reply: Reply) -> Verdict:
    """The verdict on one reply; only the answer counts, never the trace."""
    spec, split = scenario.spec, reply.split
    answer = "" if split.truncated_thinking else split.answer
    if isinstance(spec, AnswerSpec):
        from pytest_benchrig.core.answers import judge_answer

        return judge_answer(
            spec,
            answer,
            truncated_thinking=split.truncated_thinking,
            truncated=reply.cut_off,
            budget=reply.budget,
            tokens_used=reply.tokens,
            extra_checks=active.extra_checks,
        )
    if isinstance(spec, CodingSpec):
        from pytest_benchrig.sandbox.verdicts import judge_code

        return judge_code(
            spec, answer, cut_off=reply.cut_off, budget=reply.budget, runner=active.sandbox
        )
    if isinstance(spec, ContextSpec):
        from pytest_benchrig.core.context_text import judge_context

        return judge_context(spec, answer)
    if isinstance(spec, SpeedSpec):
        if not reply.arrived:
            return Verdict("fail", "no token arrived", rule="speed: a token must arrive")
        return Verdict(None)
    raise TypeError(f"{scenario.kind} is judged turn by turn")
