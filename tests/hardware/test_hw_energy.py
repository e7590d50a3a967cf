"""Energy: counters that wrap, and means over uneven samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.energy import EnergyMeter
from pytest_benchrig.hardware.readings import Series


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 900)), min_size=1, max_size=30),
    st.floats(0, 1000),
)
def test_a_wrapping_counter_counts_what_was_used(
    steps: list[tuple[float, float]], begin: float
) -> None:
    range_j = 1000.0
    meter = EnergyMeter([range_j])
    at, used = 0.0, begin
    meter.add(at, used % range_j)
    for duration, joules in steps:
        at += duration
        used += joules
        meter.add(at, used % range_j)
    assert not meter.broken
    assert meter.joules == pytest.approx(used - begin, abs=1e-6)
    assert meter.span_sec == pytest.approx(at)


def test_a_counter_that_is_set_back_is_broken() -> None:
    meter = EnergyMeter([2**32 / 1000])
    meter.add(0.0, 1_000_000.0)
    meter.add(0.1, 3.0)
    assert "set back" in meter.broken


def test_a_counter_that_jumps_is_broken() -> None:
    meter = EnergyMeter([1e9])
    meter.add(0.0, 0.0)
    meter.add(0.1, 1_000_000.0)
    assert "jumped" in meter.broken


def test_a_mean_weighs_by_time() -> None:
    series = Series()
    for at, value in ((0.0, 0.0), (1.0, 0.0), (1.0, 10.0), (2.0, 10.0), (4.0, 10.0)):
        series.add(at, value)
    assert series.mean == 7.5
    assert (series.peak, series.growth, series.count) == (10, 10, 5)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(-1e6, 1e6)), min_size=1))
def test_a_mean_lies_between_the_samples(steps: list[tuple[float, float]]) -> None:
    series = Series()
    at = 0.0
    for pause, value in steps:
        at += pause
        series.add(at, value)
    values = [value for _, value in steps]
    slack = 1e-6 * max(1.0, *map(abs, values))
    assert min(values) - slack <= series.mean <= max(values) + slack
    assert series.peak == max(values)
    assert series.growth == max(values) - values[0]
