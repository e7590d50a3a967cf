"""Earlier runs: continue a journal, or judge its stored replies again without inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import RuntimeFault, Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile, latest_attempts, load_run
from pytest_benchrig.core.scenario import ContextSpec, Scenario, ToolUseSpec

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.execution import ItemResult

JUDGED_FIELDS = ("verdict", "passed", "passed_tests", "extracted_answer")


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A journal or run file with its records by item."""

    path: Path
    run: RunFile
    by_item: Mapping[tuple[str, str, str], Sequence[Record]]

    @classmethod
    def read(cls, path: Path) -> EarlierRun:
        """Load it.

        Raises:
            pytest.UsageError: It is not a journal or run file.
        """
        try:
            run = load_run(path.read_text("utf-8"), scored=False)
        except (OSError, ValueError) as problem:
            raise pytest.UsageError(f"{path}: {problem}") from None
        found: dict[tuple[str, str, str], list[Record]] = {}
        for record in latest_attempts(run.records):
            if record.phase == "measured":
                key = (record.suite, record.task_id, record.target)
                found.setdefault(key, []).append(record)
        return cls(path, run, found)

    def result_of(self, active: Active, scenario: Scenario, target: Target) -> ItemResult | None:
        """The item's earlier result: all its runs judged, the scenario unchanged; else ``None``."""
        from pytest_benchrig.core.files import scenario_digest
        from pytest_benchrig.execution import conclude
        from pytest_benchrig.stopping import enough

        records = self.by_item.get((scenario.suite, scenario.id, str(target)), ())
        if not records or any(r.outcome in ("error", "skipped") for r in records):
            return None
        if any(r.scenario_digest != scenario_digest(scenario) for r in records):
            return None
        if not enough(scenario, records, active.settings):
            return None
        note = f"from the journal {self.path.name}"
        kept = [r.replace(notes=[*(n for n in r.notes if n != note), note]) for r in records]
        return conclude(scenario, target, kept, None)


def refuse_other_fingerprint(active: Active) -> None:
    """A journal made under other conditions is not continued.

    Model and runtime of a target are compared when it is first connected.

    Raises:
        pytest.UsageError: Machine, sampling or versions differ, and nobody allowed that; the
            message prints the difference.
    """
    from pytest_benchrig.core.fingerprint import differences, refusal, refused
    from pytest_benchrig.environment import run_header

    if not active.earlier.run.records:
        return  # cut off before anything was measured, perhaps in its header
    found = differences(active.earlier.run.run, run_header(active), targets=())
    stopped = refused(found, active.settings.allow_difference)
    if stopped:
        raise pytest.UsageError(f"--benchrig-resume {active.earlier.path}: {refusal(stopped)}")


def model_difference(active: Active, target: Target) -> str:
    """What differs between the journal's model and the one that answers now; "" if nothing."""
    from pytest_benchrig.core.fingerprint import differences, refusal, refused
    from pytest_benchrig.environment import model_parts

    name = str(target)
    recorded = active.earlier.run.run.get("fingerprint") or {}
    facts = active.model_facts().get(name)
    before = {k: v for k, v in recorded.items() if k.endswith(f" {name}")}
    if facts is None or not before:
        return ""
    after = model_parts({name: facts})
    found = differences({"fingerprint": before}, {"fingerprint": after}, targets=(name,))
    stopped = refused(found, active.settings.allow_difference)
    return refusal(stopped) if stopped else ""


def recorded_targets(earlier: EarlierRun) -> tuple[Target, ...]:
    """The targets of a journal or run file, in the order of their records."""
    pairs = {(r.runtime, r.model): None for r in earlier.run.records}
    if not pairs:
        raise pytest.UsageError(
            f"{earlier.path} holds no record, so there is no target to take from it"
        )
    return tuple(Target(runtime, model) for runtime, model in pairs)


def replay_source(model: str, base: Path) -> tuple[EarlierRun, str]:
    """The run and the recorded target behind ``replay:PATH`` or ``replay:PATH#runtime:model``.

    Raises:
        pytest.UsageError: The file cannot be read, or it holds several targets and none is named.
    """
    name, _, wanted = model.partition("#")
    run = EarlierRun.read(base / name)
    targets = list(dict.fromkeys(r.target for r in run.run.records))
    if wanted and wanted in targets:
        return run, wanted
    if wanted or len(targets) != 1:
        raise pytest.UsageError(
            f"replay:{model}: name one of its targets, as in replay:{name}#{targets[0]}; it holds "
            + ", ".join(targets)
            if targets
            else f"replay:{model}: the file holds no record"
        )
    return run, targets[0]


def judge_again(active: Active, scenario: Scenario, target: Target) -> ItemResult:
    """Judge an item's stored replies by today's rules and scenario files."""
    from pytest_benchrig.core.matching import PatternTimeout
    from pytest_benchrig.execution import ItemResult, conclude, pattern_fault

    run, recorded = active.replayed(target)
    stored = run.by_item.get((scenario.suite, scenario.id, recorded), ())
    if not stored:
        return ItemResult((), "skipped", skipped=f"{run.path.name} holds no reply to this scenario")
    if recorded != str(target):
        stored = tuple(r.replace(target=str(target)) for r in stored)
    judged: list[Record] = []
    for record in stored:
        if record.outcome in ("error", "skipped"):
            judged.append(record)
            continue
        try:
            judged.append(_again(active, scenario, record))
        except (RuntimeFault, PatternTimeout) as problem:
            fault = (
                pattern_fault(problem, scenario, record.target, None)
                if isinstance(problem, PatternTimeout)
                else problem
            )
            judged.append(assemble.with_fault(record, fault))
            return conclude(scenario, target, judged, fault)
    bad = [r for r in judged if r.outcome in ("error", "skipped")]
    if bad:
        reason = f"the stored run has no reply: {bad[0].error or bad[0].detail}"
        return ItemResult(tuple(judged), "skipped", skipped=reason)
    return conclude(scenario, target, judged, None)


def _again(active: Active, scenario: Scenario, record: Record) -> Record:
    from pytest_benchrig.execution import Reply, judge

    expected = stored_prompt_problem(scenario, record)
    if expected:
        raise RuntimeFault(
            "http",
            f"the stored prompt no longer matches the scenario: {expected}",
            target=record.target,
            phase="replay",
            remedy="Run the scenario again, or replay with the scenario file of that run",
        )
    if isinstance(scenario.spec, ToolUseSpec):
        from pytest_benchrig.core.tool_calls import judge_stored

        verdict = judge_stored(scenario.spec, record.turns or [])
    else:
        split = active.parser.split(record.response, record.thinking)
        if record.truncated_thinking and not record.response:
            split = type(split)("", record.thinking, True, True)
        reply = Reply(
            split,
            arrived=bool(record.response or record.thinking),
            tokens=record.completion_tokens,
            cut_off=bool(record.truncated),
            budget="",
        )
        verdict = judge(active, scenario, reply)
    again = assemble.with_verdict(
        record, verdict, "failed" if verdict.passed is False else "passed"
    )
    moved = [
        f"{name}: {getattr(record, name)!r} is now {getattr(again, name)!r}"
        for name in JUDGED_FIELDS
        if getattr(record, name) != getattr(again, name)
    ]
    if moved:
        again = again.replace(flags=[*again.flags, "verdict_moved"], notes=[*again.notes, *moved])
    return again


def stored_prompt_problem(scenario: Scenario, record: Record) -> str:
    """What differs between the scenario's prompt and the stored one; "" if they agree.

    Built context prompts are compared through the scenario's digest.
    """
    from pytest_benchrig.core.files import scenario_digest

    if isinstance(scenario.spec, ContextSpec):
        same = record.scenario_digest == scenario_digest(scenario)
        return "" if same else "the context step was changed"
    if record.prompt != scenario.prompt:
        return f"stored {record.prompt[:80]!r}, now {scenario.prompt[:80]!r}"
    return ""
