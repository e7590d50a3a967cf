"""The two paired tests of a comparison: verdicts and timings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist, fmean, median, pstdev

from pytest_benchrig.core import stats
from pytest_benchrig.core.distributions import chi2_quantile, t_cdf, t_quantile

RESAMPLES = 1000
BOOTSTRAP_PAIRS = 300
"""Above this many pairs the bootstrap's own limit, the linearised error, is used."""
FEWEST_PAIRS = 3
"""Below this many pairs no timing difference is claimed, however large it looks."""
ASSURANCE = 0.8
"""Confidence of the upper bound of the spread that a wanted n is planned with."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RateTest:
    """Paired test of a proportion, per scenario.

    Attributes:
        effect: Difference over all trials, in percentage points.
        p: Two-sided exact p value, not corrected.
        pairs: Pairs of records.
        flips: Per scenario the change in passes.
        centre: Centre of the interval, as a share.
        error: Standard error of the same.
    """

    effect: float
    p: float
    pairs: int
    flips: tuple[int, ...]
    centre: float
    error: float

    def interval(self, level: float) -> stats.Interval:
        """Interval of the effect in percentage points, wrong with probability ``level``."""
        half = NormalDist().inv_cdf(1.0 - level / 2.0) * self.error
        return 100.0 * max(-1.0, self.centre - half), 100.0 * min(1.0, self.centre + half)

    def needed(self, level: float) -> int | None:
        """Scenarios that would tell if flips go on as seen, all one way and as often.

        ``None`` where nothing flipped, or both ways: more of the same would not tell.
        """
        flipped = [f for f in self.flips if f]
        if not flipped or abs(sum(flipped)) != sum(abs(f) for f in flipped):
            return None
        return math.ceil(fewest_flips(level) * len(self.flips) / len(flipped))


@dataclass(frozen=True, slots=True)
class TimingTest:
    """Paired bootstrap of timings.

    Attributes:
        log_effect: Mean over scenarios of the log ratio of means.
        median_effect: The relative change by medians.
        p: Two-sided p value, not corrected.
        pairs: Pairs of records.
        error: Standard error of the log effect; ``None`` with a single pair.
        df: Degrees of freedom behind it.
        deviation: Standard deviation of one log ratio.
        averaged: Scenarios whose runs are averaged; 1 where the scenarios are the units.
        units: Scenarios, where they are the units; else 1.
    """

    log_effect: float
    median_effect: float
    p: float
    pairs: int
    error: float | None = None
    df: int = 0
    deviation: float = 0.0
    averaged: int = 1
    units: int = 1

    @property
    def effect(self) -> float:
        """Relative change in percent."""
        return 100.0 * math.expm1(self.log_effect)

    def interval(self, level: float) -> stats.Interval | None:
        """Interval of the effect in percent, wrong with probability ``level``."""
        if self.error is None:
            return None
        half = self.error * t_quantile(1.0 - level / 2.0, self.df)
        return (
            100.0 * math.expm1(self.log_effect - half),
            100.0 * math.expm1(self.log_effect + half),
        )

    def needed(self, level: float, smallest: float) -> int | None:
        """Runs per side that would show a relative change of ``smallest``; ``None``: unknown."""
        if self.error is None:
            return None
        pairs = pairs_needed(self.deviation, self.df, smallest, level, self.averaged)
        return math.ceil(pairs / self.units)


def fewest_flips(level: float) -> int:
    """Fewest scenarios, all flipped one way, that are significant: 2 / 2^n <= level."""
    return math.ceil(math.log2(2.0 / level))


def sign_flip(differences: Sequence[int]) -> float:
    """Two-sided exact p value of a sum of integers under random flips of their signs.

    With differences of -1, 0 and 1 this is the exact McNemar test; with several runs it flips a
    scenario's runs together, because runs of one scenario are not independent evidence.
    """
    sizes = [abs(d) for d in differences if d]
    if not sizes:
        return 1.0
    ways: dict[int, int] = {0: 1}
    for size in sizes:
        following: dict[int, int] = {}
        for total, count in ways.items():
            for end in (total + size, total - size):
                following[end] = following.get(end, 0) + count
        ways = following
    observed = abs(sum(differences))
    extreme = sum(count for total, count in ways.items() if abs(total) >= observed)
    return float(min(1.0, extreme / 2 ** len(sizes)))


def compare_rates(scenarios: Mapping[str, Sequence[tuple[Pair, float]]]) -> RateTest:
    """Test a proportion on pairs.

    Args:
        scenarios: Per scenario its runs, each ``((before, after), of)``: passes and the number
            of trials (1 for a verdict, the assertions for code).

    The interval is Agresti and Min's adjusted Wald interval of a paired difference (Statistics in
    Medicine 24, 2005) with one value per scenario, so it is not empty when nothing flipped.
    """
    flips: list[int] = []
    changes: list[float] = []
    above = below = 0.0
    for runs in scenarios.values():
        change = sum(after - before for (before, after), _ in runs)
        of = sum(trials for _, trials in runs)
        flips.append(round(change))
        changes.append(change / of if of else 0.0)
        above += change
        below += of
    count = len(changes) + 2
    centre = math.fsum(changes) / count
    variance = (math.fsum(c * c for c in changes) + 1.0) / count - centre * centre
    return RateTest(
        effect=100.0 * above / below if below else 0.0,
        p=sign_flip(flips),
        pairs=sum(len(runs) for runs in scenarios.values()),
        flips=tuple(flips),
        centre=centre,
        error=math.sqrt(variance / count),
    )


def compare_timings(scenarios: Mapping[str, Sequence[Pair]]) -> TimingTest:
    """Paired bootstrap on the log ratios of means, per scenario.

    Each scenario's pairs are resampled within the scenario and the log ratio of its means is
    taken; the scenarios weigh the same. With a single pair per scenario the scenarios themselves
    are resampled. Interval and p value come from the bootstrap's standard error, corrected by
    sqrt(n / (n - 1)) for small samples, and Student's t: the percentiles themselves are too narrow
    with few runs (T. Hesterberg, "What teachers should know about the bootstrap", The American
    Statistician 69, 2015).

    Args:
        scenarios: Per scenario ``(before, after)`` of each run, all above 0; at least one pair.
    """
    strata = [list(pairs) for pairs in scenarios.values() if pairs]
    total = sum(len(pairs) for pairs in strata)
    effect = fmean(_log_ratio(pairs) for pairs in strata)
    middle = math.expm1(
        fmean(
            math.log(median(b for _, b in pairs) / median(a for a, _ in pairs)) for pairs in strata
        )
    )
    within = all(len(pairs) > 1 for pairs in strata)
    df = total - len(strata) if within else len(strata) - 1
    if df < 1:
        return TimingTest(effect, middle, 1.0, total)
    each = total / len(strata) if within else float(len(strata))
    units = strata if within else [[(1.0, math.exp(_log_ratio(pairs))) for pairs in strata]]
    spread = _bootstrap_error(units) if total <= BOOTSTRAP_PAIRS else _linearised_error(units)
    error = spread * math.sqrt(each / (each - 1.0))
    if error <= 1e-12:
        p = 0.0 if abs(effect) > 1e-12 else 1.0
    else:
        p = 2.0 * t_cdf(-abs(effect) / error, df)
    averaged, per_run = (len(strata), 1) if within else (1, len(strata))
    deviation = error * math.sqrt(each * averaged)
    return TimingTest(effect, middle, p, total, error, df, deviation, averaged, per_run)


def _log_ratio(pairs: Sequence[Pair]) -> float:
    before, after = zip(*pairs, strict=True)
    return math.log(math.fsum(after) / math.fsum(before))


def _bootstrap_error(strata: Sequence[Sequence[Pair]]) -> float:
    random = Random(stats.SEED)
    return pstdev(
        fmean(_log_ratio(random.choices(pairs, k=len(pairs))) for pairs in strata)
        for _ in range(RESAMPLES)
    )


def _linearised_error(strata: Sequence[Sequence[Pair]]) -> float:
    """What the bootstrap's error tends to: the log ratio's Taylor expansion, per stratum."""
    variance = 0.0
    for pairs in strata:
        before = fmean(a for a, _ in pairs)
        after = fmean(b for _, b in pairs)
        residuals = [b / after - a / before for a, b in pairs]
        variance += math.fsum(r * r for r in residuals) / len(pairs) ** 2
    return math.sqrt(variance) / len(strata)


def pairs_needed(
    deviation: float, df: int, smallest: float, level: float, scenarios: int, power: float = 0.8
) -> int:
    """Pairs per scenario that show a relative change of ``smallest`` with the given power.

    The spread is taken at its upper bound (confidence :data:`ASSURANCE`), because a spread seen
    in few runs is itself uncertain and would often ask for too few.

    Args:
        deviation: Standard deviation of one log ratio.
        df: Degrees of freedom behind it.
        smallest: Relative change, above 0.
        level: Two-sided error.
        scenarios: Scenarios that are averaged.
        power: Wanted probability of seeing it.
    """
    upper = deviation * math.sqrt(df / chi2_quantile(1.0 - ASSURANCE, df))
    change = abs(math.log1p(-min(smallest, 0.99)))
    n = FEWEST_PAIRS
    while n < 100_000:
        freedom = scenarios * (n - 1)
        t = t_quantile(1.0 - level / 2.0, freedom) + t_quantile(power, freedom)
        wanted = math.ceil((t * upper / change) ** 2 / scenarios)
        if wanted <= n:
            return n
        n = max(n + 1, min(wanted, 2 * n))
    return n
