"""An A/A of the real server for ``--benchrig-calibrate``: what differences it can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.settings import Settings

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


def measure_targets(
    config: pytest.Config, settings: Settings, say: Callable[[str], None]
) -> tuple[dict[str, JsonValue], bool]:
    """The A/A figures of every target, and whether all could be measured."""
    from pytest_benchrig.active import Active
    from pytest_benchrig.resolve import resolve_targets
    from pytest_benchrig.session import new_run_id, register_runtimes

    register_runtimes(config)
    active = Active(config, settings, run_id=new_run_id(), worker="")
    active.targets = resolve_targets(active)
    try:
        return _measure(active, say)
    finally:
        active.close()


def _measure(active: Active, say: Callable[[str], None]) -> tuple[dict[str, JsonValue], bool]:
    from pytest_benchrig.runtimes.calibrate import ab_of_target

    results: dict[str, JsonValue] = {}
    complete = True
    for target in active.targets:
        try:
            client = active.client(target)
            result = ab_of_target(client.runtime, target.model)
        except RuntimeFault as fault:
            say(f"{target}: {fault}")
            complete = False
            continue
        say(f"A/A of {target}")
        for line in result.lines():
            say(f"  {line}")
        results[str(target)] = result.to_json()
    return results, complete
