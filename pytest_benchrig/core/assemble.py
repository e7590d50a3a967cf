"""From request, generation and verdict to the record; each step returns a new record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pytest_benchrig.core.generation import Generation, JsonValue, RuntimeFault, Target
from pytest_benchrig.core.record import Outcome, Record
from pytest_benchrig.core.request import BUDGETED_KINDS, Plan
from pytest_benchrig.core.scenario import ContextSpec, Scenario, ToolUseSpec
from pytest_benchrig.core.thinking import Split
from pytest_benchrig.core.timing import Timings
from pytest_benchrig.core.verdict import Verdict

_RECORD_FIELDS = frozenset(f.name for f in dataclasses.fields(Record))


def begin(
    scenario: Scenario, target: Target, *, run_index: int, digest: str, started_at: str
) -> Record:
    """The record of a run before anything was asked."""
    spec = scenario.spec
    record = Record(
        task_id=scenario.id,
        suite=scenario.suite,
        kind=scenario.kind,
        target=str(target),
        runtime=target.runtime,
        model=target.model,
        name=scenario.name,
        system=scenario.system,
        prompt=scenario.prompt,
        run_index=run_index,
        started_at=started_at,
        scenario_digest=digest,
        min_pass_rate=scenario.min_pass_rate,
    )
    if isinstance(spec, ContextSpec):
        return record.replace(
            context_size=spec.context_size,
            fill_ratio=spec.fill_ratio if spec.needle else None,
            needle_depth=spec.needle_depth if spec.needle else None,
        )
    if isinstance(spec, ToolUseSpec):
        return record.replace(category=spec.category or None)
    return record


def with_plan(record: Record, plan: Plan) -> Record:
    """What was asked."""
    return record.replace(
        prompt=plan.prompt, marker=plan.request.marker, notes=[*record.notes, *plan.notes]
    )


def with_generation(
    record: Record, generation: Generation, split: Split, timings: Timings
) -> Record:
    """What came back, and how fast."""
    answered = record.replace(
        engine=generation.engine,
        endpoint=generation.endpoint,
        served_model=generation.served_model,
        response=generation.text if not split.in_band else split.answer,
        thinking=split.trace,
        tool_calls=[dataclasses.asdict(c) for c in generation.tool_calls] or None,
        options=dict(generation.options_sent),
        finish_reason=generation.finish_reason or None,
        observed_device=generation.device or record.observed_device,
        flags=_union(record.flags, generation.flags),
        notes=_union(record.notes, generation.notes),
        has_think_tags=split.has_think_tags,
        truncated_thinking=split.truncated_thinking,
        thinking_chars=len(split.trace),
    )
    return with_thinking_tokens(with_timings(answered, timings), split)


def with_thinking_tokens(record: Record, split: Split) -> Record:
    """Tokens of the trace and their share of the completion.

    The server's own count where it sends one (a 0 beside a trace is none), also for thinking that
    it does not show; else in proportion of characters, flagged ``thinking_tokens_estimated``.
    """
    completion = record.completion_tokens
    if not split.trace:
        unseen = record.thinking_tokens or 0
        share = min(unseen, completion) / completion if completion else None
        return record.replace(thinking_tokens=unseen, thinking_share=share)
    if completion is None:
        return record.replace(thinking_tokens=record.thinking_tokens or None)
    tokens, flags = record.thinking_tokens, record.flags
    if not tokens:
        characters = len(split.trace) + len(split.answer)
        tokens = round(completion * len(split.trace) / characters)
        flags = _union(flags, ["thinking_tokens_estimated"])
    tokens = min(tokens, completion)
    return record.replace(
        thinking_tokens=tokens,
        thinking_share=tokens / completion if completion else None,
        flags=flags,
    )


def with_timings(record: Record, timings: Timings) -> Record:
    """The figures of one request; what is missing is missing with its reason."""
    values = {
        f.name: getattr(timings, f.name)
        for f in dataclasses.fields(timings)
        if f.name in _RECORD_FIELDS and f.name not in ("flags", "notes", "unmeasured")
    }
    return record.replace(
        **values,
        flags=_union(record.flags, timings.flags),
        unmeasured={**record.unmeasured, **timings.unmeasured},
    )


def with_verdict(record: Record, verdict: Verdict, outcome: Outcome) -> Record:
    """What was decided."""
    fields = {k: v for k, v in verdict.fields.items() if k in _RECORD_FIELDS}
    return record.replace(
        **fields,
        verdict=verdict.kind,
        passed=verdict.passed,
        detail=verdict.detail,
        rule=verdict.rule,
        outcome=outcome,
    )


def with_fault(record: Record, fault: RuntimeFault) -> Record:
    """A request that gave no usable answer; what had arrived is kept."""
    partial = fault.partial
    if partial is not None:
        record = record.replace(
            response=partial.text,
            thinking=partial.thinking,
            endpoint=partial.endpoint,
            served_model=partial.served_model,
            options=dict(partial.options_sent),
            notes=_union(record.notes, partial.notes),
            flags=_union(record.flags, partial.flags),
        )
    return record.replace(
        outcome="skipped" if fault.kind == "unsupported" else "error",
        unsupported=fault.kind == "unsupported",
        error=str(fault),
        error_kind=fault.kind,
    )


def with_hardware(record: Record, hardware: Mapping[str, JsonValue]) -> Record:
    """The hardware window around the request."""
    return record.replace(hardware=dict(hardware))


def was_cut_off(scenario: Scenario, generation: Generation, budget: int | None) -> bool:
    """Whether the reply stopped at its budget; only kinds with a multiplied budget are checked."""
    if scenario.kind not in BUDGETED_KINDS:
        return False
    if generation.finish_reason:
        return generation.finish_reason == "length"
    used = generation.usage.completion_tokens
    return budget is not None and used is not None and used >= budget


def _union(first: list[str], second: tuple[str, ...] | list[str]) -> list[str]:
    return [*first, *(word for word in second if word not in first)]
