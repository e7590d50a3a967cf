"""Warm-up requests: untimed for results, kept with ``phase: warmup``, in no aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import Message, Request, RuntimeFault, Sampling
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import Scenario, SpeedSpec
from pytest_benchrig.core.thinking import Split

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.client import TargetClient

WARM_UP = Scenario(
    id="warmup",
    suite="warmup",
    kind="speed",
    spec=SpeedSpec(),
    prompt="Name three colours.",
    name="Warm-up request",
)
WARM_UP_TOKENS = 16


def warm_up(active: Active, client: TargetClient) -> list[Record]:
    """The warm-up records of a target; a fault here is left to the first item to meet."""
    from pytest_benchrig.core.timing import timings_of
    from pytest_benchrig.execution import now, with_window

    records: list[Record] = []
    for index in range(active.settings.warmup_runs):
        marker = "" if client.refuses_cache else active.marker()
        request = Request(
            model=client.target.model,
            messages=(Message("user", marker + WARM_UP.prompt),),
            sampling=Sampling(temperature=0.0, num_predict=WARM_UP_TOKENS),
            marker=marker,
            cache_prompt=False,
            timeout_sec=active.settings.request_timeout,
            stall_timeout_sec=active.settings.stall_timeout,
        )
        record = assemble.begin(
            WARM_UP, client.target, run_index=index, digest="", started_at=now()
        ).replace(phase="warmup", worker=active.worker, marker=marker)
        try:
            measured = client.measure(request)
        except RuntimeFault as fault:
            records.append(assemble.with_fault(record, fault))
            return records
        generation = measured.generation
        split = Split(generation.text, generation.thinking, False, False)
        record = assemble.with_generation(
            record, generation, split, timings_of(generation, request)
        )
        # Other load is held against the cold start too.
        record = with_window(record, measured)
        if index == 0 and client.load_sec is not None and record.load_time_sec is None:
            record = record.replace(load_time_sec=client.load_sec)
        records.append(record)
    return with_cold_start(records)


def with_cold_start(records: list[Record]) -> list[Record]:
    """``cold_start_sec``: the load as reported, else the first request minus a warm one."""
    if not records:
        return records
    first, *later = records
    if first.load_time_sec is not None:
        cold: float | None = first.load_time_sec
    elif later and first.total_time_sec is not None and later[-1].total_time_sec is not None:
        cold = max(0.0, first.total_time_sec - later[-1].total_time_sec)
    else:
        cold = None
    if cold is None:
        reason = "the engine reports no load time; two warm-up runs would measure it"
        return [
            first.replace(unmeasured={**first.unmeasured, "cold_start_sec": reason}),
            *later,
        ]
    return [first.replace(cold_start_sec=cold), *later]
