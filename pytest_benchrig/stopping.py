"""When an item has enough runs."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.request import TIMING_KINDS
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.settings import Settings


def enough(scenario: Scenario, records: Sequence[Record], settings: Settings) -> bool:
    """Whether the item stops here.

    Between MIN and MAX runs a judged item stops when its outcome against ``min_pass_rate`` is
    decided, a timing item when its rate is known to the set precision.
    """
    if len(records) < settings.runs_min:
        return False
    if len(records) >= settings.runs_max:
        return True
    from pytest_benchrig.core.aggregate import unblocked
    from pytest_benchrig.core.sequential import decided, precise_enough

    judged = [r for r in records if r.passed is not None]
    if judged:
        passes = sum(bool(r.passed) for r in judged)
        verdict_known = (
            decided(passes, len(judged), settings.runs_max, scenario.min_pass_rate) is not None
        )
        if scenario.kind not in TIMING_KINDS:
            return verdict_known
        if not verdict_known:
            return False
    # What is disturbed or concurrent is in no aggregate, so it cannot make one precise either.
    rates, _ = unblocked(records, "eval_tok_per_sec", allow_disturbed=settings.allow_disturbed)
    return precise_enough(rates, settings.precision)
