"""Tool use: a planned conversation, turn by turn, with inert tools."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_benchrig.client import TargetClient
from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import Message, RuntimeFault, ToolCall
from pytest_benchrig.core.record import Outcome, Record
from pytest_benchrig.core.scenario import Scenario, ToolUseSpec

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.core.tool_calls import TurnVerdict


class ConversationBroken(RuntimeFault):
    """A fault in the middle of a conversation; ``record`` keeps the turns as evidence."""

    def __init__(self, fault: RuntimeFault, record: Record) -> None:
        super().__init__(
            fault.kind,
            fault.message,
            target=fault.target,
            url=fault.url,
            phase=fault.phase,
            remedy=fault.remedy,
            status=fault.status,
            partial=fault.partial,
        )
        self.record = record


def converse(active: Active, client: TargetClient, scenario: Scenario, record: Record) -> Record:
    """Play the planned turns; the first wrong one stops the conversation.

    Raises:
        RuntimeFault: A request gave no usable answer; ``unsupported`` where the target cannot
            call tools at all.
    """
    from pytest_benchrig.core.matching import PatternTimeout
    from pytest_benchrig.core.timing import timings_of
    from pytest_benchrig.core.tool_calls import judge_conversation, judge_turn, result_text
    from pytest_benchrig.execution import pattern_fault, plan_run, with_window

    spec = scenario.spec
    if not isinstance(spec, ToolUseSpec):
        raise TypeError(f"{scenario.id} plans no tool turns")
    if client.supports("tools") is False:
        raise RuntimeFault(
            "unsupported",
            "the runtime says that this model cannot call tools",
            target=str(client.target),
            url=client.endpoint,
            phase="request",
            remedy="Choose a model whose chat template has tools",
        )
    plan = plan_run(active, client, scenario, record.run_index)
    record = assemble.with_plan(record, plan)
    messages = list(plan.request.messages)
    verdicts: list[TurnVerdict] = []
    calls: list[ToolCall] = []
    latency = 0.0
    for turn in spec.turns:
        if turn.prompt:
            messages.append(Message("user", turn.prompt))
        request = dataclasses.replace(
            plan.request, messages=tuple(messages), tools=spec.tools, stream=False
        )
        try:
            measured = client.measure(request)
        except RuntimeFault as fault:
            if fault.kind == "unsupported":
                raise
            raise _broken(spec, verdicts, record, fault) from fault
        generation = measured.generation
        split = active.parser.split(generation.text, generation.thinking)
        timings = timings_of(generation, request)
        record = with_window(assemble.with_generation(record, generation, split, timings), measured)
        latency += (generation.marks.end_ns - generation.marks.start_ns) / 1e9
        calls += generation.tool_calls
        answer = "" if split.truncated_thinking else split.answer
        try:
            verdicts.append(judge_turn(turn, spec.tools, answer, generation.tool_calls))
        except PatternTimeout as slow:
            endless = pattern_fault(slow, scenario, record.target, generation)
            raise _broken(spec, verdicts, record, endless) from None
        if not verdicts[-1].passed:
            break
        if turn.tool is not None:
            call = generation.tool_calls[0]
            messages.append(Message("assistant", generation.text, tool_calls=(call,)))
            messages.append(
                Message(
                    "tool",
                    result_text(turn.tool_result),
                    tool_call_id=call.id,
                    tool_name=call.name,
                )
            )
        else:
            messages.append(Message("assistant", answer))
    verdict = judge_conversation(spec, verdicts)
    outcome: Outcome = "passed" if verdict.passed else "failed"
    record = record.replace(
        tool_calls=[dataclasses.asdict(call) for call in calls] or None, total_time_sec=latency
    )
    return assemble.with_verdict(record, verdict, outcome)


def _broken(
    spec: ToolUseSpec, verdicts: list[TurnVerdict], record: Record, fault: RuntimeFault
) -> ConversationBroken:
    """The fault with the turns so far as evidence; it stands in for the next one's reply."""
    from pytest_benchrig.core.tool_calls import judge_conversation

    failed = judge_conversation(spec, verdicts, error=str(fault))
    kept = record.replace(turns=list(failed.fields["turns"]))
    return ConversationBroken(fault, assemble.with_fault(kept, fault))
