"""Charts as inline SVG: no script, nothing from outside, and every value stands as text too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_benchrig.reports.escape import html, one_line

WIDTH = 860
LABEL = 190
VALUE = 190
BAR = 16
GAP = 6
GROUP_GAP = 16
SERIES = 8
"""Number of series colours in the style sheet; more targets start over."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: which series (target), how long, its interval, and the text beside it.

    ``value`` is ``None`` for "not measured": no bar, only the text.
    """

    series: int
    value: float | None
    text: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one metric."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point of a series."""

    series: int
    x: float
    y: float
    text: str


def bar_chart(title: str, groups: Sequence[Group], limit: float | None = None) -> str:
    """Horizontal bars with whiskers; ``limit`` fixes the scale's end (100 for percentages)."""
    ends = [e for g in groups for b in g.bars for e in (b.value, b.high) if e is not None]
    scale = limit if limit is not None else nice_limit(max(ends, default=1.0))
    room = WIDTH - LABEL - VALUE
    parts: list[str] = []
    y = 4.0
    for group in groups:
        middle = y + (len(group.bars) * (BAR + GAP) - GAP) / 2.0 + 4.0
        parts.append(_text(LABEL - 10, middle, one_line(group.label, 28), "label", anchor="end"))
        for bar in group.bars:
            parts.append(_bar(bar, y, room, scale))
            y += BAR + GAP
        y += GROUP_GAP - GAP
    return _svg(title, WIDTH, y, parts)


def _bar(bar: Bar, y: float, room: float, scale: float) -> str:
    def at(value: float) -> float:
        return LABEL + room * min(1.0, max(0.0, value / scale if scale > 0.0 else 0.0))

    parts = [f'<rect class="track" x="{LABEL}" y="{_n(y)}" width="{_n(room)}" height="{BAR}"/>']
    if bar.value is not None:
        parts.append(
            f'<rect class="s{bar.series % SERIES}" x="{LABEL}" y="{_n(y)}" '
            f'width="{_n(at(bar.value) - LABEL)}" height="{BAR}"/>'
        )
    if bar.low is not None and bar.high is not None:
        low, high, middle = at(bar.low), at(bar.high), y + BAR / 2.0
        parts.append(
            f'<path class="whisker" d="M{_n(low)} {_n(middle)}H{_n(high)}'
            f"M{_n(low)} {_n(y + 3)}V{_n(y + BAR - 3)}M{_n(high)} {_n(y + 3)}"
            f'V{_n(y + BAR - 3)}"/>'
        )
    parts.append(_text(LABEL + room + 8, y + BAR - 4, one_line(bar.text, 34), "value"))
    return "".join(parts)


def scatter(title: str, points: Sequence[Point], x_title: str, y_title: str) -> str:
    """Points on a logarithmic x axis (context sizes) and a linear y axis from 0."""
    left, bottom, top, right = 70.0, 46.0, 12.0, 20.0
    height = 280.0
    xs = sorted({p.x for p in points if p.x > 0.0})
    if not xs:
        return ""
    low, high = math.log2(xs[0]), math.log2(xs[-1])
    span = (high - low) or 1.0
    y_limit = nice_limit(max(p.y for p in points))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log2(x) - low) / span if high > low else 0.5
        return (
            left + across * (WIDTH - left - right - 30) + 15,
            top + (1.0 - y / y_limit) * (height - top - bottom),
        )

    parts: list[str] = []
    for step in range(5):
        value = y_limit * step / 4.0
        _, y = place(xs[0], value)
        parts.append(f'<path class="grid" d="M{_n(left)} {_n(y)}H{_n(WIDTH - right)}"/>')
        parts.append(_text(left - 8, y + 4, f"{value:.3g}", "value", anchor="end"))
    for x in xs:
        across, _ = place(x, 0.0)
        parts.append(_text(across, height - bottom + 18, f"{x:g}", "value", anchor="middle"))
    for point in points:
        if point.x > 0.0:
            across, down = place(point.x, point.y)
            parts.append(
                f'<circle class="s{point.series % SERIES}" cx="{_n(across)}" cy="{_n(down)}" '
                f'r="4.5"><title>{html(one_line(point.text))}</title></circle>'
            )
    parts.append(_text(WIDTH / 2.0, height - 8, x_title, "label", anchor="middle"))
    parts.append(
        f'<text class="label" text-anchor="middle" transform="translate(16 {_n(height / 2.0)}) '
        f'rotate(-90)">{html(y_title)}</text>'
    )
    return _svg(title, WIDTH, height, parts)


def nice_limit(value: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below ``value``."""
    if value <= 0.0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= value * 0.999999)


def _text(x: float, y: float, text: str, style: str, *, anchor: str = "start") -> str:
    return (
        f'<text class="{style}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{html(text)}</text>'
    )


def _svg(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{html(title)}">'
        f"<title>{html(title)}</title>{''.join(parts)}</svg>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
