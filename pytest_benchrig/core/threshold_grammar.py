"""The grammar of thresholds.

``[target ](scorecard_field or suite.record_field.(mean, p50, p95 or max)) (>=, <=, >, <
or ==) number``. Targets contain colons, slashes and spaces; a record field may also be
``metrics.NAME`` (an author's own number) or ``hardware.NAME``.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS
from pytest_benchrig.core.record import Record

Operator: TypeAlias = Literal[">=", "<=", ">", "<", "=="]
Stat: TypeAlias = Literal["mean", "p50", "p95", "max"]
STATS: tuple[Stat, ...] = get_args(Stat)
OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
FREE_PREFIXES = ("metrics.", "hardware.")
RECORD_FIELDS: tuple[str, ...] = tuple(
    spec.name
    for spec in dataclasses.fields(Record)
    if re.search(r"\b(int|float|bool)\b", str(spec.type)) and "dict" not in str(spec.type)
)
"""Record fields with a number (a truth value counts as 1 or 0)."""

_EXAMPLE = (
    "'coding_pass_rate >= 80', 'speed.ttft_sec.p95 <= 1.5' or 'ollama:qwen3 error_count == 0'"
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PARTS = re.compile(r"(?s)(?P<left>.*?)\s*(?P<op>[<>=!≤≥~]+)\s*(?P<number>[^<>=!≤≥~]*)\Z")


@dataclass(frozen=True, slots=True)
class Threshold:
    """One parsed bound.

    Attributes:
        text: As the user wrote it.
        target: ``None``: it must hold for each.
        metric: The scorecard field, "" for a record field.
        suite: Suite of a record field, else "".
        field: Record field, else "".
        stat: Statistic of a record field, else ``None``.
        op: The comparison.
        bound: The number on the right.
    """

    text: str
    target: str | None
    metric: str
    suite: str
    field: str
    stat: Stat | None
    op: Operator
    bound: float

    @property
    def name(self) -> str:
        """What is bounded: the scorecard field or ``suite.field.stat``."""
        return self.metric or f"{self.suite}.{self.field}.{self.stat}"

    def holds(self, value: float) -> bool:
        """Whether a value is on the good side."""
        return OPERATORS[self.op](value, self.bound)


def parse_threshold(
    text: str,
    *,
    known_targets: Iterable[str] | None = None,
    known_suites: Iterable[str] | None = None,
) -> Threshold:
    """Parse one threshold.

    Args:
        text: The expression.
        known_targets: If given, a named target must be one of them.
        known_suites: If given, a named suite must be one of them.

    Raises:
        ValueError: What is wrong with which part, what exists, and the nearest name.
    """
    stripped = text.strip()
    match = _PARTS.fullmatch(stripped)
    if match is None:
        raise ValueError(
            f"{text!r}: no operator; expected METRIC OPERATOR NUMBER, such as {_EXAMPLE}; "
            f"operators: {' '.join(OPERATORS)}"
        )
    left, op, number = match["left"], match["op"], match["number"].strip()
    if op not in OPERATORS:
        raise ValueError(f"{text!r}: unknown operator {op!r}; choose one of {' '.join(OPERATORS)}")
    bound = _bound(text, number)
    words = left.split()
    if not words:
        raise ValueError(f"{text!r}: no metric before {op}; expected for example {_EXAMPLE}")
    name = words[-1]
    target = left[: left.rindex(name)].strip() or None
    suites = None if known_suites is None else sorted(set(known_suites))
    if known_targets is not None and target is not None:
        targets = sorted(set(known_targets))
        if target not in targets:
            raise ValueError(
                f"{text!r}: no target {target!r} in this run{_nearest(target, targets)}; "
                f"targets: {', '.join(targets) or 'none'}"
            )
    metric, suite, field, stat = _metric(text, name, suites)
    return Threshold(stripped, target, metric, suite, field, stat, op, bound)  # type: ignore[arg-type]


def _bound(text: str, number: str) -> float:
    if not _NUMBER.fullmatch(number):
        hint = "; percentages are plain numbers, 0 to 100" if number.endswith("%") else ""
        shown = repr(number) if number else "nothing"
        raise ValueError(f"{text!r}: expected a number on the right, found {shown}{hint}")
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{text!r}: the number {number} is too large")
    return value


def _metric(text: str, name: str, suites: list[str] | None) -> tuple[str, str, str, Stat | None]:
    if "." not in name:
        _check_scorecard_field(text, name, suites)
        return name, "", "", None
    rest, _, stat = name.rpartition(".")
    if stat not in STATS:
        raise ValueError(
            f"{text!r}: unknown statistic {stat!r}{_nearest(stat, STATS)}; "
            f"choose one of {', '.join(STATS)}, as in speed.ttft_sec.p95"
        )
    suite, field = _split_field(rest)
    if not suite or not field:
        raise ValueError(f"{text!r}: expected suite.record_field.statistic, found {name!r}")
    if suites is not None and suite not in suites:
        raise ValueError(
            f"{text!r}: unknown suite {suite!r}{_nearest(suite, suites)}; "
            f"suites: {', '.join(suites) or 'none'}"
        )
    if not field.startswith(FREE_PREFIXES) and field not in RECORD_FIELDS:
        raise ValueError(
            f"{text!r}: unknown record field {field!r}{_nearest(field, RECORD_FIELDS)}; "
            f"record fields: {', '.join(RECORD_FIELDS)}, metrics.NAME, hardware.NAME"
        )
    return "", suite, field, stat


def _split_field(rest: str) -> tuple[str, str]:
    for prefix in FREE_PREFIXES:
        suite, found, name = rest.partition(f".{prefix}")
        if found and name:
            return suite, prefix + name
    suite, _, field = rest.rpartition(".")
    return suite, field


def _check_scorecard_field(text: str, name: str, suites: list[str] | None) -> None:
    known = [m.name for m in METRICS.values() if m.kind not in ("text", "flag")]
    if name in known:
        return
    if name in METRICS:
        raise ValueError(f"{text!r}: {name} is not a number, so it cannot be bounded")
    suite = name.removesuffix(ACCURACY_SUFFIX)
    if suite and suite != name and (suites is None or suite in suites):
        return
    accuracies = [f"{s}{ACCURACY_SUFFIX}" for s in suites or ()]
    names = [*known, *(a for a in accuracies if a not in known)]
    raise ValueError(
        f"{text!r}: unknown metric {name!r}{_nearest(name, names)}; metrics: {', '.join(names)}, "
        f"or suite.record_field.({'|'.join(STATS)})"
    )


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""
