"""``--benchrig-selfcheck``: each scenario against its expected answer, near misses, nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import Target
from pytest_benchrig.core.scenario import CodingSpec, Scenario
from pytest_benchrig.core.selfcheck import SelfcheckCase, selfcheck_cases, verdict_of_case
from pytest_benchrig.core.verdict import Verdict
from pytest_benchrig.execution import ItemResult, now

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


def check_scenario(active: Active, scenario: Scenario, target: Target) -> ItemResult:
    """Judge every case of the scenario; a wrong verdict fails the item."""
    if isinstance(scenario.spec, CodingSpec) and not active.sandbox.available:
        return ItemResult((), "skipped", skipped=active.sandbox.remedy)
    problems: list[str] = []
    for case in selfcheck_cases(scenario):
        verdict = _judge(active, scenario, case)
        passed = verdict.passed is True
        if passed != case.must_pass:
            problems.append(_problem(case, verdict))
    record = assemble.begin(scenario, target, run_index=0, digest="", started_at=now())
    if not problems:
        return ItemResult((record.replace(outcome="passed"),), "passed")
    return ItemResult(
        (record.replace(outcome="failed", detail=problems[0]),),
        "failed",
        message=_message(scenario, problems),
    )


def _judge(active: Active, scenario: Scenario, case: SelfcheckCase) -> Verdict:
    spec = scenario.spec
    if isinstance(spec, CodingSpec):
        from pytest_benchrig.sandbox.verdicts import judge_code

        return judge_code(spec, case.reply, cut_off=False, budget="", runner=active.sandbox)
    return verdict_of_case(scenario, case)


def _problem(case: SelfcheckCase, verdict: Verdict) -> str:
    wanted = "pass" if case.must_pass else "fail"
    reply = case.reply if len(case.reply) <= 200 else case.reply[:200] + "..."
    return (
        f"{case.why}: must {wanted}, but the verdict is {verdict.kind or 'none'} "
        f"({verdict.detail or verdict.rule}); reply {reply!r}"
    )


def _message(scenario: Scenario, problems: Sequence[str]) -> str:
    head = f"{len(problems)} self-check case(s) of {scenario.id} are judged wrongly"
    place = f"{scenario.path}:{scenario.line}" if scenario.path else scenario.id
    return "\n".join([head, *(f"  - {p}" for p in problems), f"scenario: {place}"])
