"""Telling the reasoning trace of a reply from its answer.

The trace is what stands between ``<think>`` and ``</think>``; a bare ``</think>`` makes all that
stands before it trace (the chat template had opened it), and an unclosed ``<think>`` means that
there is no answer. Tags in code spans and code blocks of the answer are text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_benchrig.core.code_regions import CodeRegions

DEFAULT_THINK_TAGS = ("think", "thinking", "thought", "|begin_of_thought|")
"""Names of the opening tags. ``|begin_of_x|`` is closed by ``<|end_of_x|>``, ``x`` by ``</x>``."""

CUTS_OFF = "think"
"""The tag that leaves no answer when it is never closed; any other is then ordinary text."""

_MOST_SPACES = 8
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")


@dataclass(frozen=True, slots=True)
class Split:
    """A reply taken apart.

    Attributes:
        answer: The only text that is judged.
        trace: What the model thought, blocks joined by a line break.
        has_think_tags: A tag stood in the text.
        truncated_thinking: The text stops inside the trace, so that there is no answer.
        in_band: The trace was cut out of the text, not separated by the server.
    """

    answer: str
    trace: str
    has_think_tags: bool
    truncated_thinking: bool
    in_band: bool = False


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    closes: bool
    start: int
    end: int


def tag_pair(name: str) -> tuple[str, str]:
    """The opening and the closing tag, lower case, for an entry of the list of tags.

    Raises:
        ValueError: The entry has no letter in it.
    """
    core = name.strip().strip("<>").lower()
    if not any(c.isalpha() for c in core):
        raise ValueError(f"{name!r} is not a tag: write its name, such as think")
    if core.startswith("|begin_"):
        return f"<{core}>", f"<|end_{core[len('|begin_') :]}>"
    if core.startswith("|") and core.endswith("|"):
        return f"<{core}>", f"<|/{core[1:]}>"
    return f"<{core}>", f"</{core}>"


class _Grammar:
    """The tags as one pattern, spaces before ``>`` allowed, any case."""

    def __init__(self, tags: Iterable[str]) -> None:
        self.pairs = tuple(dict.fromkeys(tag_pair(t) for t in tags))
        self._meaning: dict[str, tuple[str, bool]] = {}
        for opening, closing in self.pairs:
            name = opening.strip("<>|")
            self._meaning[opening] = (name, False)
            self._meaning[closing] = (name, True)
        shapes = "|".join(
            re.escape(tag[:-1]) for tag in sorted(self._meaning, key=len, reverse=True)
        )
        self.pattern = re.compile(rf"(?P<tag>{shapes})\s{{0,{_MOST_SPACES}}}>", re.IGNORECASE)
        self.longest = max(map(len, self._meaning), default=0) + _MOST_SPACES

    def read(self, match: re.Match[str]) -> _Tag:
        name, closes = self._meaning[match["tag"].lower() + ">"]
        return _Tag(name, closes, match.start(), match.end())

    def may_start(self, text: str) -> bool:
        """Whether ``text`` is the beginning of a tag that is not complete yet."""
        if len(text) >= self.longest:
            return False
        bare = text.lower()
        tight = bare.rstrip()
        return any(
            tag.startswith(bare) or (tight == tag[:-1] and len(bare) - len(tight) <= _MOST_SPACES)
            for tag in self._meaning
        )


def _quoted(text: str, tag: _Tag) -> bool:
    """Whether backticks stand right before and behind the tag."""
    return text[tag.start - 1 : tag.start] == "`" == text[tag.end : tag.end + 1]


def _in_html_code(text: str, tag: _Tag) -> bool:
    """Whether an HTML code span holds the tag and nothing else."""
    before, after = text[max(0, tag.start - 6) : tag.start], text[tag.end : tag.end + 7]
    return before.lower() == "<code>" and after.lower() == "</code>"


class ReasoningParser:
    """Splits whole replies.

    Args:
        tags: Names of the opening tags, as in :data:`DEFAULT_THINK_TAGS`; ``<x>`` is read as
            ``x``.
    """

    def __init__(self, tags: Iterable[str] = DEFAULT_THINK_TAGS) -> None:
        self._grammar = _Grammar(tags)

    def split(self, text: str, separated: str = "") -> Split:
        """Take a reply apart.

        Args:
            text: The content as received.
            separated: The trace that the server itself separated. The content is then the
                answer; what it still holds of complete blocks is trace, a tag that is never
                closed is text unless the content begins with it, and a closing tag with
                nothing behind it is dropped.
        """
        tags = self._tags(text) if "<" in text else []
        if not tags:
            return Split(text, separated, has_think_tags=False, truncated_thinking=False)
        return _Walk(text, tags, separated).result()

    def _tags(self, text: str) -> list[_Tag]:
        return [self._grammar.read(m) for m in self._grammar.pattern.finditer(text)]


class _Walk:
    """One pass over the tags of a reply."""

    def __init__(self, text: str, tags: list[_Tag], separated: str) -> None:
        self._text = text
        self._tags = tags
        self._separated = separated
        self._code = CodeRegions(text)
        self._answer: list[str] = []
        self._trace: list[str] = []
        self._seen = False
        self._cut = False
        self._closing: dict[str, list[int]] = {}
        for index, tag in enumerate(tags):
            if tag.closes and not _quoted(text, tag):
                self._closing.setdefault(tag.name, []).append(index)

    def result(self) -> Split:
        position = index = 0
        while index < len(self._tags):
            tag = self._tags[index]
            index += 1
            self._code.begin(position)
            if self._is_text(tag):
                continue
            self._seen = True
            if tag.closes and self._separated and not self._text[tag.end :].strip():
                self._cut = True
                self._answer.append(self._text[position : tag.start])
                position = tag.end
                continue
            if tag.closes:
                self._all_trace(self._text[position : tag.start])
                position = tag.end
                continue
            close = self._close_of(tag, index)
            if close is not None:
                closing = self._tags[close]
                self._answer.append(self._text[position : tag.start])
                self._take(self._text[tag.end : closing.start])
                position, index = closing.end, close + 1
            elif tag.name == CUTS_OFF and self._leaves_no_answer(position, tag):
                self._take(self._text[tag.end :])
                return self._made("", truncated=True)
        self._answer.append(self._text[position:])
        return self._made(_joined(self._answer), truncated=False)

    def _is_text(self, tag: _Tag) -> bool:
        """Whether the tag is text.

        A trace whose opening tag is missing may leave a code block open. Its closing tag then
        seems to stand in a block; it counts if it begins its line and the blocks do not add up.
        """
        if self._code.in_block(tag.start):
            line = self._text[self._text.rfind("\n", 0, tag.start) + 1 : tag.start]
            return not (tag.closes and not self._code.well_formed and not line.strip())
        return self._code.in_span(tag.start, tag.end) or _in_html_code(self._text, tag)

    def _close_of(self, tag: _Tag, index: int) -> int | None:
        candidates = self._closing.get(tag.name, [])
        place = bisect_left(candidates, index)
        return candidates[place] if place < len(candidates) else None

    def _leaves_no_answer(self, position: int, tag: _Tag) -> bool:
        if not self._separated:
            return True
        return not "".join(self._answer).strip() and not self._text[position : tag.start].strip()

    def _all_trace(self, piece: str) -> None:
        before = [*self._answer, piece]
        self._answer = []
        self._take("\n".join(p.strip() for p in before if p.strip()))

    def _take(self, piece: str) -> None:
        self._cut = True
        if piece.strip():
            self._trace.append(piece.strip())

    def _made(self, answer: str, *, truncated: bool) -> Split:
        if self._cut:
            blank = _BLANK_LINES.match(answer)
            answer = answer[blank.end() :] if blank else answer
        parts = [self._separated] if self._separated else []
        trace = "\n".join([*parts, *self._trace])
        return Split(answer, trace, self._seen, truncated, in_band=self._cut)


def _joined(pieces: list[str]) -> str:
    """The answer without its traces; what was apart does not grow together."""
    answer = ""
    for piece in pieces:
        apart = answer and piece and not answer[-1].isspace() and not piece[0].isspace()
        answer = f"{answer} {piece}" if apart else answer + piece
    return answer


class StreamSplitter:
    """Says of each piece of a stream whether it is thinking or answer, in bounded memory.

    The verdict of :class:`ReasoningParser` on the whole text is the one that counts; this one
    serves the timing marks. A piece that holds both is ``answer``, since the first answer token
    is in it.

    Attributes:
        bare_close: A closing tag came that nothing had opened: all earlier pieces, whatever was
            said of them, were thinking.
    """

    def __init__(self, tags: Iterable[str] = DEFAULT_THINK_TAGS) -> None:
        self._grammar = _Grammar(tags)
        self._held = ""
        self._inside = ""
        self._ticks = 0
        self._fence = ""
        self._code = ""
        self._line_start = True
        self.bare_close = False

    def feed(self, piece: str) -> Literal["thinking", "answer"] | None:
        """Judge a piece; ``None`` while it holds only tags, white space or an undecided start."""
        said: set[str] = set()
        text, self._held = self._held + piece, ""
        position = 0
        for match in self._hits(text):
            if match.start() < position:
                continue
            self._pass(text[position : match.start()], said)
            tag = self._grammar.read(match)
            if self._counts(tag):
                self._switch(tag, said)
            else:
                self._pass(match[0], said)
            position = match.end()
        rest = text[position:]
        cut = rest.rfind("<")
        if cut >= 0 and self._grammar.may_start(rest[cut:]):
            rest, self._held = rest[:cut], rest[cut:]
        self._pass(rest, said)
        if "answer" in said:
            return "answer"
        return "thinking" if said else None

    def _hits(self, text: str) -> Iterator[re.Match[str]]:
        return self._grammar.pattern.finditer(text) if "<" in text else iter(())

    def _counts(self, tag: _Tag) -> bool:
        if self._inside:
            return tag.closes and tag.name == self._inside
        self._settle_ticks()
        return not self._fence and not self._code

    def _switch(self, tag: _Tag, said: set[str]) -> None:
        if tag.closes:
            if not self._inside:
                self.bare_close = True
                if "answer" in said:
                    said.remove("answer")
                    said.add("thinking")
            self._inside = ""
        else:
            self._inside = tag.name
        self._ticks, self._fence, self._code, self._line_start = 0, "", "", True

    def _pass(self, text: str, said: set[str]) -> None:
        if not text:
            return
        if text.strip():
            said.add("thinking" if self._inside else "answer")
        if self._inside:
            return
        if self._ticks or "`" in text:
            for char in text:
                self._step(char)
        elif "\n" in text:
            self._code = ""
            self._line_start = not text[text.rfind("\n") + 1 :].strip()
        elif text.strip():
            self._line_start = False

    def _step(self, char: str) -> None:
        if char == "`":
            self._ticks += 1
            return
        self._settle_ticks()
        if char == "\n":
            self._line_start, self._code = True, ""
        elif not char.isspace():
            self._line_start = False

    def _settle_ticks(self) -> None:
        """A run of backticks is complete: it opens or closes a block or a span."""
        if not self._ticks:
            return
        run, self._ticks = "`" * self._ticks, 0
        if self._fence:
            if self._line_start and len(run) >= len(self._fence):
                self._fence = ""
        elif self._code:
            if run == self._code:
                self._code = ""
        elif self._line_start and len(run) >= 3:
            self._fence = run
        else:
            self._code = run
        self._line_start = False
