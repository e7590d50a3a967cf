"""Interleaving: the targets of one scenario alternate run by run.

On a machine that drifts only what was measured side by side can be compared. The first of a
scenario's items runs all of them in turn and keeps the others' results for their own items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import RuntimeFault, Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.execution import (
    ItemResult,
    cannot_run,
    conclude,
    faulty_record,
    run_once,
    trip_breaker,
)
from pytest_benchrig.stopping import enough

if TYPE_CHECKING:
    from pytest_benchrig.active import Active

RESULTS = pytest.StashKey[dict[tuple[str, str, str], ItemResult]]()


def run_interleaved(
    active: Active, scenario: Scenario, target: Target, item: pytest.Item
) -> ItemResult:
    """This item's result, made together with those of the scenario's other targets."""
    results = item.session.stash.setdefault(RESULTS, {})
    key = (scenario.suite, scenario.id, str(target))
    if key not in results:
        targets = _partners(scenario, item)
        for name, result in alternate(active, scenario, targets).items():
            results[scenario.suite, scenario.id, name] = result
    return results.pop(key)


def _partners(scenario: Scenario, item: pytest.Item) -> list[Target]:
    from pytest_benchrig.collection import scenario_of
    from pytest_benchrig.items import target_of

    found = []
    for other in item.session.items:
        theirs = scenario_of(other)
        target = target_of(other)
        if (
            theirs is not None
            and target is not None
            and (theirs.suite, theirs.id)
            == (
                scenario.suite,
                scenario.id,
            )
        ):
            found.append(target)
    return found


def alternate(active: Active, scenario: Scenario, targets: list[Target]) -> dict[str, ItemResult]:
    """A B, B A, A B, ...: the order turns with each round, so that drift hits both alike."""
    records: dict[str, list[Record]] = {str(t): [] for t in targets}
    faults: dict[str, RuntimeFault] = {}
    refused = {t: reason for t in targets if (reason := cannot_run(active, scenario, t))}
    waiting = [t for t in targets if t not in refused]
    turn = 0
    while waiting:
        for target in waiting if turn % 2 == 0 else waiting[::-1]:
            mine = records[str(target)]
            try:
                mine.append(run_once(active, active.client(target), scenario, len(mine)))
            except RuntimeFault as fault:
                mine.append(faulty_record(active, scenario, target, len(mine), fault))
                faults[str(target)] = fault
                trip_breaker(active, target, fault)
            else:
                active.coordination.count_success(str(target))
        turn += 1
        waiting = [
            t
            for t in waiting
            if str(t) not in faults and not enough(scenario, records[str(t)], active.settings)
        ]
    return {
        str(t): ItemResult((), "skipped", skipped=refused[t])
        if t in refused
        else conclude(scenario, t, records[str(t)], faults.get(str(t)))
        for t in targets
    }
