"""When an item between MIN and MAX runs has enough of them.

Verdicts stop for one of two reasons. Curtailment: no outcome of the runs still to come could
change how MAX runs would be judged; this adds no error at all. Evidence: an exact binomial bound
puts the true pass rate on one side of ``min_pass_rate``; each of the at most MAX looks may be wrong
with probability 0.05 / MAX, so over all looks together the outcome is wrong with at most 5 %
(Bonferroni; :func:`wrong_stop_probability` gives the exact figure, which is lower).

Timings stop when the distribution-free interval of their median is narrow enough. Looking again
after every run makes such an interval cover less often than the nominal 95 %, so it is a rule for
effort; the interval that is reported is that of the final sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from pytest_benchrig.core.stats import binomial_cdf, quantile_interval

ERROR = 0.05
_EPSILON = 1e-9


@lru_cache(maxsize=8192)
def decided(passes: int, runs: int, max_runs: int, min_pass_rate: float) -> bool | None:
    """Whether the item's outcome is known after ``passes`` of ``runs``.

    Returns:
        ``True`` (passes), ``False`` (fails), or ``None``: go on.

    Raises:
        ValueError: Counts that cannot be.
    """
    if not 0 <= passes <= runs <= max_runs or max_runs < 1:
        raise ValueError(f"{passes} passes in {runs} of at most {max_runs} runs")
    needed = math.ceil(min_pass_rate * max_runs - _EPSILON)
    if passes >= needed:
        return True
    if passes + (max_runs - runs) < needed:
        return False
    level = ERROR / max_runs
    if binomial_cdf(passes, runs, min_pass_rate) <= level:
        return False
    if runs and 1.0 - binomial_cdf(passes - 1, runs, min_pass_rate) <= level:
        return True
    return None


@lru_cache(maxsize=256)
def wrong_stop_probability(
    pass_rate: float, min_runs: int, max_runs: int, min_pass_rate: float
) -> float:
    """Exact probability that stopping early gives another outcome than the true rate deserves.

    A scenario deserves to pass when ``pass_rate >= min_pass_rate``. Computed by following the
    distribution of passes from look to look; stops by curtailment are what MAX runs would have
    given and so are not counted as errors of stopping early.
    """
    deserved = pass_rate >= min_pass_rate
    alive = {0: 1.0}
    wrong = 0.0
    for runs in range(1, max_runs + 1):
        following: dict[int, float] = {}
        for passes, weight in alive.items():
            for more, chance in ((1, pass_rate), (0, 1.0 - pass_rate)):
                following[passes + more] = following.get(passes + more, 0.0) + weight * chance
        alive = {}
        for passes, weight in following.items():
            outcome = decided(passes, runs, max_runs, min_pass_rate) if runs >= min_runs else None
            if outcome is None:
                alive[passes] = weight
            elif outcome is not deserved and _by_evidence(passes, runs, max_runs, min_pass_rate):
                wrong += weight
    return wrong


def _by_evidence(passes: int, runs: int, max_runs: int, min_pass_rate: float) -> bool:
    needed = math.ceil(min_pass_rate * max_runs - _EPSILON)
    return passes < needed <= passes + (max_runs - runs)


def precise_enough(values: Sequence[float], precision: float) -> bool:
    """Whether the half-width of the median's 95 % interval is at most ``precision`` of the median.

    Args:
        values: One figure per run; fewer than six have no such interval.
        precision: Relative half-width, such as 0.05.
    """
    interval = quantile_interval(values)
    middle = median(values) if values else 0.0
    if interval is None or middle <= 0.0:
        return False
    return (interval[1] - interval[0]) / 2.0 <= precision * middle
