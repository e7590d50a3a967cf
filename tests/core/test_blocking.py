"""What blocks what: each flag of a record against each of its figures."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from pytest_benchrig.core.blocking import TIMING_FIELDS, blocked
from pytest_benchrig.core.record import Record
from tests.core.run_support import reply

PREFILL = {
    "ttft_sec",
    "answer_ttft_sec",
    "engine_ttft_sec",
    "prompt_tok_per_sec",
    "prefill_eff_tok_per_sec",
}
RATES = {
    "eval_tok_per_sec",
    "engine_eval_tok_per_sec",
    "prompt_tok_per_sec",
    "prefill_eff_tok_per_sec",
}
NO_TIMINGS_OF_THE_MODEL = {"execution_time_sec", "eval_tok_sec_floored", "gpu_fit_pct"}
"""The sandbox's own time, a flag, and a placement."""


def test_every_timing_of_a_record_can_be_blocked() -> None:
    names = {field.name for field in dataclasses.fields(Record)}
    timings = {n for n in names if re.search(r"(_sec|_ms|_drift_pct)$|tok_(per_)?sec", n)}
    assert timings - NO_TIMINGS_OF_THE_MODEL == TIMING_FIELDS


@pytest.mark.parametrize(
    ("flags", "figures", "reason"),
    [
        ({"disturbed": "other processes used 40 %"}, TIMING_FIELDS, "other processes used 40 %"),
        ({"concurrent": True}, TIMING_FIELDS, "concurrent"),
        ({"usage_estimated": True}, RATES, "estimates"),
        ({"cache_mode": "unverified"}, PREFILL, "cache state unknown"),
        ({"cache_mode": "warm"}, PREFILL, "came from the cache"),
        ({"cache_mode": "prefix_cached"}, set(), ""),
        ({"cpu_fallback": True}, set(), ""),
        ({"flags": ("unverified",)}, set(), ""),
        ({}, set(), ""),
    ],
)
def test_a_flag_blocks_its_figures_and_no_others(
    flags: dict[str, Any], figures: set[str], reason: str
) -> None:
    record = reply("a", **flags)
    reasons = {field.name: blocked(record, field.name) for field in dataclasses.fields(Record)}
    assert {name for name, why in reasons.items() if why} == figures
    assert all(reason in why for why in reasons.values() if why)


def test_allowing_disturbed_records_allows_nothing_else() -> None:
    record = reply("a", disturbed="load", concurrent=True)
    assert blocked(record, "ttft_sec").startswith("disturbed")
    assert blocked(record, "ttft_sec", allow_disturbed=True).startswith("concurrent")
    assert not blocked(reply("a", disturbed="load"), "ttft_sec", allow_disturbed=True)
