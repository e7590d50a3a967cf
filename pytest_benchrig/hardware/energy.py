"""Energy from counters that wrap."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_WATTS = 5000.0
"""More than any single GPU or processor package draws; a larger step is no consumption."""


class EnergyMeter:
    """The energy that one counter has counted since its first reading.

    A reading below the last one is a wrap where the wrapped difference is one that the device can
    have drawn in that time; else the counter was set back and nothing can be said.

    Args:
        ranges_j: The values at which the counter may start again at 0, in joules.
    """

    __slots__ = ("_ranges", "broken", "count", "first_at", "joules", "last", "last_at")

    def __init__(self, ranges_j: Sequence[float]) -> None:
        self._ranges = tuple(ranges_j)
        self.joules = 0.0
        self.count = 0
        self.first_at = self.last_at = self.last = 0.0
        self.broken = ""

    def add(self, at: float, counter_j: float) -> None:
        """Take one more reading, ``at`` in seconds of one monotonic clock."""
        if self.count == 0:
            self.first_at = at
        else:
            step = counter_j - self.last
            allowed = _MOST_WATTS * (at - self.last_at + 1.0)
            if step < 0:
                steps = [step + span for span in self._ranges if 0 <= step + span <= allowed]
                if not steps:
                    self.broken = "the energy counter was set back"
                step = steps[0] if steps else 0.0
            elif step > allowed:
                self.broken = f"the energy counter jumped by {step:.0f} J"
            self.joules += step
        self.count += 1
        self.last, self.last_at = counter_j, at

    @property
    def span_sec(self) -> float:
        """Seconds between the first and the last reading."""
        return self.last_at - self.first_at
