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
FEWEST_PAIRS = 3
"""Below this many pairs no timing difference is claimed, however large it looks."""
ASSURANCE = 0.8
"""Confidence of the upper bound of the spread that a wanted n is planned with."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tested:
    """What one paired test found.

    Attributes:
        effect: Relative change for timings (0.1 is 10 % more), difference in percentage points
            for rates.
        interval: Interval of the effect at the given confidence.
        p: Two-sided p value, not corrected.
        pairs: Pairs that entered.
        needed: Pairs (timings: per scenario; rates: scenarios) that would tell, ``None`` where
            that cannot be said.
        median_effect: The same effect by medians, ``None`` for rates.
    """

    effect: float
    interval: stats.Interval | None
    p: float
    pairs: int
    needed: int | None
    median_effect: float | None = None


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


def compare_rates(
    scenarios: Mapping[str, Sequence[tuple[Pair, float]]], confidence: float
) -> Tested:
    """Paired test of a proportion.

    Args:
        scenarios: Per scenario its runs, each ``((before, after), of)``: passes and the number
            of trials (1 for a verdict, the assertions for code).
        confidence: Of the interval.

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
    count = len(changes)
    centre = math.fsum(changes) / (count + 2)
    variance = (math.fsum(c * c for c in changes) + 1.0) / (count + 2) - centre * centre
    half = NormalDist().inv_cdf(0.5 + confidence / 2.0) * math.sqrt(variance / (count + 2))
    return Tested(
        effect=100.0 * above / below if below else 0.0,
        interval=(100.0 * max(-1.0, centre - half), 100.0 * min(1.0, centre + half)),
        p=sign_flip(flips),
        pairs=sum(len(runs) for runs in scenarios.values()),
        needed=_scenarios_needed(flips, 1.0 - confidence),
    )


def _scenarios_needed(flips: Sequence[int], level: float) -> int | None:
    """Scenarios that would tell if flips go on as seen: all one way, at the same frequency."""
    flipped = [f for f in flips if f]
    if not flipped or abs(sum(flips)) != sum(abs(f) for f in flips):
        return None
    enough = math.ceil(math.log2(2.0 / level))
    return math.ceil(enough * len(flips) / len(flipped))


def compare_timings(
    scenarios: Mapping[str, Sequence[Pair]], confidence: float, smallest: float
) -> Tested:
    """Paired bootstrap on the log ratios of means, per scenario.

    Each scenario's pairs are resampled within the scenario and the log ratio of its means is
    taken; the scenarios weigh the same. With a single pair per scenario the scenarios themselves
    are resampled. The percentile interval is widened for small samples (T. Hesterberg, "What
    teachers should know about the bootstrap", The American Statistician 69, 2015, section 5), the
    p value comes from the bootstrap's standard error and Student's t.

    Args:
        scenarios: Per scenario ``(before, after)`` of each run, all above 0.
        confidence: Of the interval.
        smallest: Smallest relative change that counts; the wanted n is planned for it.
    """
    strata = [list(pairs) for pairs in scenarios.values() if pairs]
    total = sum(len(pairs) for pairs in strata)
    effect = fmean(_log_ratio(pairs) for pairs in strata)
    middle = fmean(
        math.log(median(b for _, b in pairs) / median(a for a, _ in pairs)) for pairs in strata
    )
    repeated = [pairs for pairs in strata if len(pairs) > 1]
    if len(repeated) == len(strata):
        units, df, per = strata, total - len(strata), total / len(strata)
    else:
        units = [[pair for pairs in strata for pair in pairs]] if len(strata) == 1 else []
        df, per = len(strata) - 1, float(len(strata))
    if df < 1:
        return Tested(math.expm1(effect), None, 1.0, total, None, math.expm1(middle))
    draws = _draws_within(units) if units else _draws_between([_log_ratio(p) for p in strata])
    widen = math.sqrt(per / (per - 1.0)) if per > 1.0 else math.sqrt(2.0)
    error = pstdev(draws) * widen
    if error <= 1e-12:
        p = 0.0 if abs(effect) > 1e-12 else 1.0
    else:
        p = 2.0 * t_cdf(-abs(effect) / error, df)
    tail = NormalDist().cdf(-widen * t_quantile(0.5 + confidence / 2.0, df))
    low, high = stats.percentile(draws, tail), stats.percentile(draws, 1.0 - tail)
    averaged = len(strata) if units else 1
    deviation = error * math.sqrt(per * averaged)
    needed = pairs_needed(deviation, df, smallest, 1.0 - confidence, averaged)
    return Tested(
        effect=math.expm1(effect),
        interval=(math.expm1(low), math.expm1(high)),
        p=p,
        pairs=total,
        needed=needed if units else math.ceil(needed / len(strata)),
        median_effect=math.expm1(middle),
    )


def _log_ratio(pairs: Sequence[Pair]) -> float:
    return math.log(math.fsum(b for _, b in pairs) / math.fsum(a for a, _ in pairs))


def _draws_within(strata: Sequence[Sequence[Pair]]) -> list[float]:
    random = Random(stats.SEED)
    return [
        fmean(_log_ratio(random.choices(pairs, k=len(pairs))) for pairs in strata)
        for _ in range(RESAMPLES)
    ]


def _draws_between(ratios: Sequence[float]) -> list[float]:
    random = Random(stats.SEED)
    return [fmean(random.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)]


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
