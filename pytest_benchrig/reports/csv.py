"""CSV: a row per target, columns in a fixed order.

First every metric of the registry in its order; a ratio takes two columns, ``NAME_passed`` and
``NAME_of``. Then, per headline metric, ``NAME_min`` and ``NAME_max`` (over runs), and its interval,
``NAME_ci95_low`` and ``NAME_ci95_high``. Last the user suites' ``SUITE_accuracy``, sorted by name.
What was not measured is an empty cell. Percentages are 0 to 100.
"""

from __future__ import annotations

import csv
import io

from pytest_benchrig.core.metrics import METRICS
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.scorecard import Scorecard
from pytest_benchrig.reports.escape import csv_cell
from pytest_benchrig.reports.view import user_metrics


def columns(run: RunFile) -> list[str]:
    """The header row."""
    names: list[str] = []
    for metric in METRICS.values():
        names += _ratio_columns(metric.name) if metric.kind == "ratio" else [metric.name]
    for metric in METRICS.values():
        if metric.headline:
            names += [f"{metric.name}_{end}" for end in ("min", "max", "ci95_low", "ci95_high")]
    return names + user_metrics(run.scorecards)


def _ratio_columns(name: str) -> list[str]:
    return [f"{name}_passed", f"{name}_of"]


def render(run: RunFile) -> str:
    """The CSV text: RFC 4180 quoting, LF line ends, UTF-8 without a byte order mark."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = columns(run)
    writer.writerow([csv_cell(name) for name in names])
    for card in run.scorecards:
        values = _values(card)
        writer.writerow([_cell(values.get(name)) for name in names])
    return stream.getvalue()


def _values(card: Scorecard) -> dict[str, object]:
    values: dict[str, object] = {}
    for metric in METRICS.values():
        value = card.get(metric.name)
        if metric.kind == "ratio":
            passed, of = _ratio_columns(metric.name)
            values[passed], values[of] = (value["passed"], value["of"]) if value else (None, None)
        else:
            values[metric.name] = value
        if metric.headline:
            ends = (*card.spread.get(metric.name, (None, None)),)
            values[f"{metric.name}_min"], values[f"{metric.name}_max"] = ends
            low, high = card.ci95.get(metric.name, (None, None))
            values[f"{metric.name}_ci95_low"], values[f"{metric.name}_ci95_high"] = low, high
    for name in user_metrics([card]):
        values[name] = card.get(name)
    return values


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, int) else csv_cell(str(value))
