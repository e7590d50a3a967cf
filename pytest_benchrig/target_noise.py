"""An A/A of the real server for ``--benchrig-calibrate``: what differences it can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.settings import Settings

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


WANTED_PCT = 5.0
"""The change a user usually wants to see."""


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
        say(f"  decode {result.decode_tok_per_sec:.1f} t/s, CV {result.decode_cv_pct:.1f} %")
        say(f"  two halves of the same differ by {result.aa_difference_pct:+.1f} %")
        say(f"  smallest change that 5 runs a side would show: {result.smallest_gate_pct:.1f} %")
        say(f"  runs a side that a 5 % change needs: {result.runs_for_5_pct}")
        if result.smallest_gate_pct > WANTED_PCT:
            say(
                f"  WARNING: too noisy for a {WANTED_PCT:g} % comparison with 5 runs; take "
                f"--benchrig-runs {result.runs_for_5_pct}, or quieten the machine"
            )
        results[str(target)] = result.to_json()
    return results, complete
