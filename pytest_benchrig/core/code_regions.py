"""Where code stands in a reply: fenced blocks and code spans of its Markdown."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

_FENCE = re.compile(
    r"(?m)(?:^|(?<=>))[ \t>]{0,40}(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?P<run>`{3,}|~{3,})"
    r"(?P<info>[^\n]*)$"
)
_TICKS = re.compile("`+")


class CodeRegions:
    """Where code stands in the answer that begins at a position; found when first asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        fenced = "```" in text or "~~~" in text
        self._fences = list(_FENCE.finditer(text)) if fenced else []
        self._starts = [m.start("run") for m in self._fences]
        self._from = -1
        self._blocks: list[tuple[int, int]] = []
        self._line = (-1, -1)
        self._spans: list[tuple[int, int]] = []
        self.well_formed = True

    def begin(self, position: int) -> None:
        """The answer begins here: what stood open before it does not matter."""
        if position == self._from:
            return
        self._from, self._blocks, self.well_formed = position, [], True
        opener: re.Match[str] | None = None
        for match in self._fences[bisect_left(self._starts, position) :]:
            run, info = match["run"], match["info"].strip()
            if opener is None:
                if run[0] == "~" or "`" not in info:
                    opener = match
            elif run[0] != opener["run"][0] or len(run) < len(opener["run"]):
                continue
            elif info:
                self.well_formed = False
            else:
                self._blocks.append((opener.start("run"), match.end()))
                opener = None
        if opener is not None:
            self.well_formed = False
            self._blocks.append((opener.start("run"), len(self.text)))

    def in_block(self, position: int) -> bool:
        """Whether a fenced block holds the position."""
        index = bisect_right(self._blocks, (position, len(self.text))) - 1
        return index >= 0 and position < self._blocks[index][1]

    def in_span(self, first: int, last: int) -> bool:
        """Whether a code span on its own line holds the stretch from ``first`` to ``last``."""
        if "`" not in self.text:
            return False
        start = max(self.text.rfind("\n", 0, first) + 1, self._from)
        end = self.text.find("\n", last)
        line = (start, len(self.text) if end < 0 else end)
        if line != self._line:
            self._line, self._spans = line, _code_spans(self.text, *line)
        index = bisect_right(self._spans, (first, len(self.text))) - 1
        return index >= 0 and first < self._spans[index][1]


def _code_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Code spans of a line: a run of backticks up to the next run of the same length."""
    runs = [m.span() for m in _TICKS.finditer(text, start, end)]
    later: dict[int, list[int]] = {}
    for index, (left, right) in enumerate(runs):
        later.setdefault(right - left, []).append(index)
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        left, right = runs[index]
        same = later[right - left]
        place = bisect_right(same, index)
        if place < len(same):
            index = same[place]
            spans.append((left, runs[index][1]))
        index += 1
    return spans
