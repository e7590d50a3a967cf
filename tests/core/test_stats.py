"""Intervals and estimators against published or independently computed values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core import stats
from pytest_benchrig.core.distributions import chi2_quantile, t_cdf, t_quantile


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (1, 29, 0.0061, 0.1718),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_wilson(passed: int, of: int, low: float, high: float) -> None:
    assert stats.wilson(passed, of) == pytest.approx((low, high), abs=5e-5)


def test_wilson_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 of 0"):
        stats.wilson(0, 0)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_between_0_and_1(pair: tuple[int, int]) -> None:
    passed, of = pair
    low, high = stats.wilson(passed, of)
    assert 0.0 <= low <= passed / of <= high <= 1.0
    assert high > low


def test_pass_at_k_by_enumeration() -> None:
    for runs in range(1, 7):
        for passed in range(runs + 1):
            verdicts = [True] * passed + [False] * (runs - passed)
            for k in range(1, runs + 1):
                draws = list(itertools.combinations(verdicts, k))
                some = Fraction(sum(any(d) for d in draws), len(draws))
                every = Fraction(sum(all(d) for d in draws), len(draws))
                assert stats.pass_at_k(runs, passed, k) == pytest.approx(float(some))
                assert stats.pass_hat_k(runs, passed, k) == pytest.approx(float(every))


def test_pass_at_more_than_the_runs_is_an_error() -> None:
    with pytest.raises(ValueError, match="k=4 of 3 runs"):
        stats.pass_at_k(3, 1, 4)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([1.0, 2.0, 3.0, 4.0], 0.5, 2.5), ([1.0, 2.0, 3.0], 0.95, 2.9), ([7.0], 0.95, 7.0)],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert stats.percentile(values, share) == pytest.approx(expected)


@given(st.integers(0, 40), st.integers(0, 100))
def test_binomial_sums_are_exact(trials: int, percent: int) -> None:
    p = Fraction(percent, 100)
    exact = Fraction(0)
    for i in range(trials + 1):
        exact += math.comb(trials, i) * p**i * (1 - p) ** (trials - i)
        assert stats.binomial_cdf(i, trials, percent / 100) == pytest.approx(
            float(exact), abs=1e-12
        )


def test_the_median_interval_needs_six_values() -> None:
    assert stats.quantile_interval([1, 2, 3, 4, 5]) is None
    assert stats.quantile_interval([6, 1, 2, 3, 4, 5]) == (1, 6)
    assert stats.fewest_for_quantile(0.5) == 6
    # Conover, table A3: for n = 20 the 6th and the 15th value.
    assert stats.quantile_interval(list(range(1, 21))) == (6, 15)


def test_the_p95_interval_needs_seventy_two_values() -> None:
    assert stats.fewest_for_quantile(0.95) == 72
    assert stats.quantile_interval(list(range(71)), 0.95) is None
    assert stats.quantile_interval(list(range(72)), 0.95) is not None


def test_the_median_interval_covers_whatever_the_distribution() -> None:
    random = Random(11)
    hits = 0
    for _ in range(600):
        values = [random.expovariate(1.0) for _ in range(15)]
        interval = stats.quantile_interval(values)
        assert interval is not None
        hits += interval[0] <= math.log(2.0) <= interval[1]
    assert hits / 600 >= 0.95 - 0.02


def test_the_bootstrap_is_the_same_every_time() -> None:
    clusters = [(1.0, 3.0), (3.0, 3.0), (2.0, 3.0), (0.0, 3.0)]
    first = stats.cluster_interval(clusters, [])
    assert first == stats.cluster_interval(clusters, [])
    assert first is not None
    assert first[0] < 0.5 < first[1]


def test_the_linearised_interval_is_the_bootstraps_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = Random(5)
    clusters = [(float(random.randint(0, 5)), 5.0) for _ in range(150)]
    linear = stats.cluster_interval(clusters, [])
    monkeypatch.setattr(stats, "BOOTSTRAP_CLUSTERS", 1000)
    drawn = stats.cluster_interval(clusters, [])
    assert linear is not None
    assert drawn is not None
    assert drawn == pytest.approx(linear, abs=0.01)


def test_one_cluster_resamples_its_members() -> None:
    members = [(value, 1.0) for value in (9.0, 10.0, 11.0, 10.0, 10.0)]
    found = stats.cluster_interval([(50.0, 5.0)], members)
    assert found is not None
    assert 9.0 < found[0] < 10.0 < found[1] < 11.0
    assert stats.cluster_interval([(5.0, 1.0)], [(5.0, 1.0)]) is None


@pytest.mark.parametrize("scenarios", [3, 5, 12])
def test_the_clustered_interval_covers_as_often_as_it_says_with_few_scenarios(
    scenarios: int,
) -> None:
    random = Random(70 + scenarios)
    hits = 0
    for _ in range(200):
        clusters = []
        for _ in range(scenarios):
            mean = random.gauss(100.0, 20.0)
            clusters.append((sum(random.gauss(mean, 6.5) for _ in range(3)), 3.0))
        found = stats.cluster_interval(clusters, [])
        assert found is not None
        hits += found[0] <= 100.0 <= found[1]
    assert hits / 200 >= 0.95 - 0.04  # the bootstrap's percentiles: 0.75, 0.83 and 0.92


def test_clustered_intervals_are_wider_than_independent_ones() -> None:
    random = Random(3)
    scenarios = [random.random() < 0.5 for _ in range(20)]
    members = [(float(passed), 1.0) for passed in scenarios for _ in range(10)]
    clusters = [(10.0 * passed, 10.0) for passed in scenarios]
    wide = stats.cluster_interval(clusters, members)
    narrow = stats.wilson(round(sum(a for a, _ in members)), len(members))
    assert wide is not None
    assert wide[1] - wide[0] > 2.0 * (narrow[1] - narrow[0])


def test_coefficient_of_variation() -> None:
    assert stats.coefficient_of_variation([9.0, 11.0]) == pytest.approx(math.sqrt(2.0) / 10.0)
    assert stats.coefficient_of_variation([9.0]) is None
    assert stats.coefficient_of_variation([-1.0, 1.0]) is None


def test_runs_needed_grows_with_the_square_of_the_variation() -> None:
    assert stats.runs_needed(0.01, 0.05) == 3
    assert stats.runs_needed(0.065, 0.05) == 27
    assert stats.runs_needed(0.13, 0.05) == 107
    with pytest.raises(ValueError, match="above 0"):
        stats.runs_needed(0.05, 0.0)


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == []


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_the_levels_of_intervals_agree_with_holm(p_values: list[float]) -> None:
    adjusted = stats.holm(p_values)
    levels = stats.holm_levels(p_values)
    for p, corrected, level in zip(p_values, adjusted, levels, strict=True):
        if corrected < 0.05 - 1e-9:
            assert p <= level
        if corrected > 0.05 + 1e-9:
            assert p >= level


@pytest.mark.parametrize(
    ("probability", "df", "t"),
    [(0.975, 1, 12.706), (0.975, 4, 2.776), (0.975, 9, 2.262), (0.8, 8, 0.889), (0.05, 30, -1.697)],
)
def test_student_t(probability: float, df: int, t: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(t, abs=6e-4)
    assert t_cdf(t, df) == pytest.approx(probability, abs=1e-3)


@pytest.mark.parametrize(("df", "expected"), [(4, 1.649), (9, 5.380), (19, 13.716)])
def test_chi_square_is_good_enough(df: int, expected: float) -> None:
    assert chi2_quantile(0.2, df) == pytest.approx(expected, rel=0.02)
