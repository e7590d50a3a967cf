"""How a scenario's item gets its result: asked, resumed, replayed, checked, or interleaved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import RuntimeFault, Target
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.execution import ItemResult, run_item
from pytest_benchrig.replaying import model_difference

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


def run_scenario(
    active: Active, scenario: Scenario, target: Target, item: pytest.Item
) -> ItemResult:
    """The result of one item, wherever it comes from."""
    if active.selfcheck:
        from pytest_benchrig.selfchecking import check_scenario

        return check_scenario(active, scenario, target)
    if active.replays(target):
        from pytest_benchrig.replaying import judge_again

        return judge_again(active, scenario, target)
    if active.settings.resume is not None:
        other = model_difference(active, target)
        if other:
            fault = RuntimeFault(
                "unsupported",
                f"{active.earlier.path.name} was made under other conditions: {other}",
                target=str(target),
                phase="resume",
            )
            return ItemResult((), "error", fault=fault)
        earlier = active.resumable(scenario, target)
        if earlier is not None:
            return earlier
    if active.settings.interleave:
        from pytest_benchrig.interleaving import run_interleaved

        return run_interleaved(active, scenario, target, item)
    return run_item(active, scenario, target)
