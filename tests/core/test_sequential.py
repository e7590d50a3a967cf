"""Stopping between MIN and MAX runs."""

from __future__ import annotations

import math
from random import Random

import pytest

from pytest_benchrig.core.sequential import decided, precise_enough, wrong_stop_probability


@pytest.mark.parametrize(
    ("passes", "runs", "most", "rate", "outcome"),
    [
        (3, 3, 10, 1.0, None),  # a later failure would still fail it
        (2, 3, 10, 1.0, False),
        (10, 10, 10, 1.0, True),
        (5, 5, 10, 0.5, True),  # nothing to come can make it fail
        (0, 5, 10, 0.5, None),
        (0, 6, 10, 0.5, False),
        (0, 0, 10, 0.5, None),
        (0, 1, 10, 0.0, True),
        (7, 9, 10, 0.8, None),
        (7, 10, 10, 0.8, False),
        (3, 4, 4, 0.75, True),
        (11, 11, 100, 0.5, True),  # 2 ** -11 is below 0.05 / 100
        (10, 10, 100, 0.5, None),
        (0, 11, 100, 0.5, False),
    ],
)
def test_when_the_outcome_is_known(
    passes: int, runs: int, most: int, rate: float, outcome: bool | None
) -> None:
    assert decided(passes, runs, most, rate) is outcome


def test_at_the_last_run_everything_is_decided() -> None:
    for most in range(1, 13):
        for passes in range(most + 1):
            for rate in (0.0, 0.1, 1 / 3, 0.5, 0.8, 0.95, 1.0):
                needed = math.ceil(rate * most - 1e-9)
                assert decided(passes, most, most, rate) is (passes >= needed)


def test_an_early_stop_agrees_with_the_share_seen() -> None:
    for most in (10, 40):
        for runs in range(1, most + 1):
            for passes in range(runs + 1):
                for rate in (0.3, 0.5, 0.8, 1.0):
                    outcome = decided(passes, runs, most, rate)
                    if outcome is not None:
                        assert (passes >= math.ceil(rate * runs - 1e-9)) is outcome


def test_counts_that_cannot_be_are_an_error() -> None:
    with pytest.raises(ValueError, match="4 passes in 3"):
        decided(4, 3, 10, 0.5)


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("most", [10, 30, 100])
def test_looking_after_every_run_is_wrong_at_most_one_time_in_twenty(
    rate: float, most: int
) -> None:
    for true in (rate, rate - 1e-9, rate - 0.02, rate + 0.02):
        assert wrong_stop_probability(true, 3, most, rate) <= 0.05


def test_the_exact_error_agrees_with_a_simulation() -> None:
    random = Random(1)
    wrong = 0
    for _ in range(4000):
        passes = 0
        for runs in range(1, 101):
            passes += random.random() < 0.5
            outcome = decided(passes, runs, 100, 0.5)
            if outcome is not None:
                early = passes < 50 <= passes + 100 - runs
                wrong += outcome is False and early
                break
    assert wrong / 4000 == pytest.approx(wrong_stop_probability(0.5, 1, 100, 0.5), abs=0.005)


def test_early_stops_save_runs() -> None:
    random = Random(2)
    used = 0
    for _ in range(200):
        passes = runs = 0
        while decided(passes, runs, 50, 0.5) is None:
            passes += random.random() < 0.95
            runs += 1
        used += runs
    assert used / 200 < 20


def test_a_timing_stops_when_its_median_is_known_well_enough() -> None:
    assert not precise_enough([100.0] * 5, 0.05)
    assert precise_enough([100.0] * 6, 0.05)
    assert precise_enough([96.0, 98.0, 100.0, 101.0, 103.0, 105.0], 0.05)
    assert not precise_enough([90.0, 98.0, 100.0, 101.0, 103.0, 105.0], 0.05)
    assert not precise_enough([], 0.05)
    assert not precise_enough([0.0] * 8, 0.05)
