"""``METRIC:PCT``: from which effect on a change for the worse counts as a regression."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

from pytest_benchrig.core.compare_metrics import RATES, TIMINGS
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS

DEFAULT_TIMING_PCT = 5.0


@dataclass(frozen=True, slots=True)
class Regression:
    """The limit of one metric: percent for timings, percentage points for rates."""

    metric: str
    percent: float


def parse_regression(text: str) -> Regression:
    """Parse one setting.

    Raises:
        ValueError: The metric is not one that is compared, or the number is none; the message
            lists what is compared.
    """
    metric, colon, number = text.strip().rpartition(":")
    metric, number = metric.strip(), number.strip().removesuffix("%").strip()
    if not colon or not metric:
        raise ValueError(f"{text!r}: expected METRIC:PCT, such as avg_eval_tok_sec:5")
    known = [*RATES, *TIMINGS]
    own = metric.endswith(ACCURACY_SUFFIX) and metric not in METRICS and metric != ACCURACY_SUFFIX
    if metric not in known and not own:
        close = difflib.get_close_matches(metric, known, n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"{text!r}: {metric!r} is not compared{hint}; compared are {', '.join(known)} and "
            f"<suite>{ACCURACY_SUFFIX}"
        )
    try:
        percent = float(number)
    except ValueError:
        percent = math.nan
    if not 0.0 <= percent < math.inf or "_" in number:
        raise ValueError(f"{text!r}: expected a percentage of at least 0, found {number!r}")
    return Regression(metric, percent)
