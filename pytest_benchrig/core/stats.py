"""Intervals and estimators, in plain Python and exactly reproducible.

Every function is deterministic: the bootstrap draws from :class:`random.Random` with a fixed seed,
so a report rendered twice is the same to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from statistics import NormalDist, fmean

from pytest_benchrig.core.distributions import t_quantile

Interval = tuple[float, float]

Z95 = NormalDist().inv_cdf(0.975)
SEED = 20_231_107
RESAMPLES = 1000
BOOTSTRAP_CLUSTERS = 100
"""Above this many scenarios the bootstrap's own limit, the linearised cluster variance, is used."""


def wilson(passed: int, of: int, z: float = Z95) -> Interval:
    """Wilson's score interval of a proportion, 0 to 1.

    Source: E. B. Wilson, "Probable inference", JASA 22 (1927). Never empty at 0 or n of n.

    Raises:
        ValueError: No trials, or more successes than trials.
    """
    if of <= 0 or not 0 <= passed <= of:
        raise ValueError(f"{passed} of {of} is no proportion")
    share = passed / of
    spread = 1.0 + z * z / of
    centre = (share + z * z / (2 * of)) / spread
    half = z / spread * math.sqrt(share * (1.0 - share) / of + z * z / (4.0 * of * of))
    low = 0.0 if passed == 0 else max(0.0, centre - half)
    high = 1.0 if passed == of else min(1.0, centre + half)
    return low, high


def pass_at_k(runs: int, passed: int, k: int) -> float:
    """Probability that at least one of k runs passes, unbiased from ``passed`` of ``runs``.

    ``1 - C(n-c, k) / C(n, k)``: M. Chen et al., "Evaluating large language models trained on
    code" (2021).

    Raises:
        ValueError: k is not between 1 and ``runs``.
    """
    _check_k(runs, passed, k)
    return 1.0 - math.comb(runs - passed, k) / math.comb(runs, k)


def pass_hat_k(runs: int, passed: int, k: int) -> float:
    """Probability that all of k runs pass, ``C(c, k) / C(n, k)``, unbiased.

    S. Yao et al., "tau-bench" (2024).

    Raises:
        ValueError: k is not between 1 and ``runs``.
    """
    _check_k(runs, passed, k)
    return math.comb(passed, k) / math.comb(runs, k)


def _check_k(runs: int, passed: int, k: int) -> None:
    if not 1 <= k <= runs or not 0 <= passed <= runs:
        raise ValueError(f"k={k} of {runs} runs, {passed} passed")


def percentile(values: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan).

    Raises:
        ValueError: No values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def binomial_terms(trials: int, probability: float) -> list[float]:
    """P(X = i) for i from 0 to ``trials``."""
    if probability <= 0.0 or probability >= 1.0:
        sure = trials if probability >= 1.0 else 0
        return [1.0 if i == sure else 0.0 for i in range(trials + 1)]
    log_p, log_q = math.log(probability), math.log1p(-probability)
    base = math.lgamma(trials + 1)
    return [
        math.exp(
            base
            - math.lgamma(i + 1)
            - math.lgamma(trials - i + 1)
            + i * log_p
            + (trials - i) * log_q
        )
        for i in range(trials + 1)
    ]


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes), by summation of the exact terms."""
    if successes < 0:
        return 0.0
    return min(1.0, math.fsum(binomial_terms(trials, probability)[: successes + 1]))


def quantile_interval(
    values: Sequence[float], share: float = 0.5, confidence: float = 0.95
) -> Interval | None:
    """Distribution-free interval of a quantile from order statistics.

    The number of values below the quantile is binomial whatever the distribution, so two order
    statistics enclose it with a known probability (W. J. Conover, "Practical nonparametric
    statistics", section 3.2). Each tail gets half of the error; ``None`` where the sample is too
    small for the confidence (the median needs six values at 95 %).
    """
    ranks = _enclosing_ranks(len(values), share, confidence)
    if ranks is None:
        return None
    ordered = sorted(values)
    return ordered[ranks[0]], ordered[ranks[1]]


@lru_cache(maxsize=256)
def _enclosing_ranks(n: int, share: float, confidence: float) -> tuple[int, int] | None:
    """The order statistics that enclose a quantile; the same for every scenario of n runs."""
    tail = (1.0 - confidence) / 2.0
    below = list(accumulate(binomial_terms(n, share)))
    low = max((i for i in range(n) if below[i] <= tail), default=None)
    high = next((i for i in range(n) if 1.0 - below[i] <= tail), None)
    return None if low is None or high is None else (low, high)


def fewest_for_quantile(share: float, confidence: float = 0.95) -> int:
    """Fewest values from which :func:`quantile_interval` gives an interval."""
    tail = (1.0 - confidence) / 2.0
    rarer = max(share, 1.0 - share)
    return math.ceil(math.log(tail) / math.log(rarer) - 1e-9)


def cluster_interval(
    clusters: Sequence[tuple[float, float]],
    members: Sequence[tuple[float, float]],
    *,
    confidence: float = 0.95,
) -> Interval | None:
    """Interval of ``sum(numerators) / sum(denominators)`` by a bootstrap over clusters.

    It is the bootstrap's standard error, corrected by sqrt(n / (n - 1)), times Student's t. The
    bootstrap's percentiles are far too narrow with few clusters: of three they cover 75 % instead
    of 95 % (T. Hesterberg, "What teachers should know about the bootstrap", The American
    Statistician 69, 2015).

    Args:
        clusters: Per scenario the sum of numerators and of denominators.
        members: The same pairs per record; resampled when there is only one scenario.
        confidence: Wanted coverage.

    Returns:
        ``None`` with fewer than two units to draw from.
    """
    units = clusters if len(clusters) > 1 else members
    if len(units) < 2:
        return None
    of = math.fsum(below for _, below in units)
    if of <= 0.0:
        return None
    count = len(units)
    ratio = math.fsum(above for above, _ in units) / of
    few = count <= BOOTSTRAP_CLUSTERS
    error = _bootstrap_error(units) if few else _linearised_error(units, ratio, of)
    half = t_quantile(0.5 + confidence / 2.0, count - 1) * math.sqrt(count / (count - 1)) * error
    return ratio - half, ratio + half


def _bootstrap_error(units: Sequence[tuple[float, float]]) -> float:
    """Standard deviation of the ratio over the resamples."""
    random = Random(SEED)
    draws = []
    for _ in range(RESAMPLES):
        above, below = zip(*random.choices(units, k=len(units)), strict=True)
        of = math.fsum(below)
        if of > 0.0:
            draws.append(math.fsum(above) / of)
    mean = math.fsum(draws) / len(draws)
    return math.sqrt(math.fsum((draw - mean) ** 2 for draw in draws) / len(draws))


def _linearised_error(units: Sequence[tuple[float, float]], ratio: float, of: float) -> float:
    """Taylor-linearised error of a ratio of sums (W. G. Cochran, "Sampling techniques", 6.4)."""
    return math.sqrt(math.fsum((above - ratio * below) ** 2 for above, below in units)) / of


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's t interval of a mean; ``None`` with fewer than two values."""
    if len(values) < 2:
        return None
    mean = fmean(values)
    variance = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    half = t_quantile(0.5 + confidence / 2.0, len(values) - 1) * math.sqrt(variance / len(values))
    return mean - half, mean + half


def hull(first: Interval | None, second: Interval | None) -> Interval | None:
    """The smallest interval that holds both; the other where one is ``None``."""
    if first is None or second is None:
        return first or second
    return min(first[0], second[0]), max(first[1], second[1])


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Sample standard deviation over the mean; ``None`` with fewer than two values or mean 0."""
    if len(values) < 2:
        return None
    mean = fmean(values)
    if mean == 0.0:
        return None
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)) / abs(mean)


def runs_needed(
    cv: float, effect: float, *, error: float = 0.05, power: float = 0.8, floor: int = 3
) -> int:
    """Runs per side that show a relative ``effect`` at that coefficient of variation.

    ``n = 2 ((z_error/2 + z_power) CV / effect)^2``, never below ``floor``.

    Raises:
        ValueError: The effect is not above 0.
    """
    if effect <= 0.0:
        raise ValueError("the effect must be above 0")
    normal = NormalDist()
    z = normal.inv_cdf(1.0 - error / 2.0) + normal.inv_cdf(power)
    return max(floor, math.ceil(2.0 * (z * cv / effect) ** 2 - 1e-9))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted by Holm's step-down method, in the order given.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure" (1979); controls the
    probability of any false alarm among all comparisons.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def holm_levels(p_values: Sequence[float], level: float = 0.05) -> list[float]:
    """The error level of each comparison's own interval, to agree with :func:`holm`.

    Step k of m tests at ``level / (m - k)``; from the first that is not significant on, all share
    its level. An interval at that level then excludes "no change" exactly where Holm's test does.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    levels = [level] * len(p_values)
    current, stopped = level, False
    for rank, index in enumerate(order):
        if not stopped:
            current = level / (len(p_values) - rank)
            stopped = p_values[index] > current
        levels[index] = current
    return levels
