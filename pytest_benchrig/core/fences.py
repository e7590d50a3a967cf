"""Finding the code blocks of a reply: a scanner of lines, linear in the reply's length."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

PYTHON_WORDS = frozenset(
    {"python", "py", "python3", "py3", "python2", "ipython", "pycon", "python-repl", "pyi"}
)
_OPENER = re.compile(
    r"^(?P<margin>[ \t>]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>.*)$"
)
_PYTHON_NAME = re.compile(r"^(?:python|py)[\d.]*(?:[-_].*)?$|^\S*\w\.py$")
_NEUTRAL = frozenset({"code", "source", "snippet", "solution", "answer"})
"""Words that models put where the language stands, and that name none."""

_MARKDOWN = frozenset({"markdown", "md"})
_CODE_START = re.compile(r"^\s*(?:(?:def|class|import|from|async\s+def)\s+\w|@\w)")
_INLINE_OPENER = re.compile(
    r"^[^`~]*\S[ \t]*(?P<fence>`{3,})(?P<info>(?:[A-Za-z][\w+#-]*)?)[ \t]*$"
)
_TAG = re.compile(r"</?(?:span|b|i|em|strong|font|a)\b[^>]*>", re.IGNORECASE)
_CODE_LIKE = re.compile(r"^(?:def|class|import|from|async|@|if|for|while|try|with)\b.*|.*[=(]")
_PRE = re.compile(
    r"<pre[^>]*>\s*(?:<code(?P<attributes>[^>]*)>)?(?P<body>.*?)(?:</code>\s*)?</pre>",
    re.IGNORECASE | re.DOTALL,
)
_PRE_LANGUAGE = re.compile(r"(?:language|lang)-([\w+-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a reply.

    Attributes:
        language: Lower-case language word, "" for none.
        text: The lines without the fence and without the margin of the opening fence.
        closed: Whether the end was found.
        source: ``fence``, ``pre``, ``indented`` or ``bare``.
    """

    language: str
    text: str
    closed: bool = True
    source: str = "fence"

    @property
    def is_python(self) -> bool:
        """Said to be Python."""
        return self.language in PYTHON_WORDS


def language_of(info: str) -> tuple[str, str]:
    """The language word of an info string, and code that stands where it should be.

    ``python title="a.py"``, ``{.python .numberLines}`` and ``py:main`` name a language; in
    ``def add(a, b):`` the first line of code was taken for one.
    """
    info = info.strip()
    if not info:
        return "", ""
    directive = re.match(r"^\{(?:code|code-cell|code-block)\}\s*([\w+-]*)", info)
    if directive:
        return directive[1].lower(), ""
    braced = re.match(r"^\{\s*\.?([\w+-]+)", info)
    if braced:
        return braced[1].lower(), ""
    word, _, rest = info.partition(" ")
    name = re.split(r"[:,{;=]", word)[0].lower().lstrip(".")
    if name in PYTHON_WORDS or _PYTHON_NAME.match(name):
        rest = rest.strip()
        code = rest if _CODE_START.match(rest) else ""
        return (name if name in PYTHON_WORDS else "python"), code
    if name in _NEUTRAL or (not name and word.startswith("{")) or re.match(r"^\w+=", word):
        return "", ""
    if _CODE_LIKE.match(info) and not re.fullmatch(r"[\w+#.-]+(?:\s+[\w-]+=\S+)*", info):
        return "", info
    return name or word.lower(), ""


class QuoteState:
    """Whether a line starts inside a triple-quoted string; fed line by line."""

    def __init__(self) -> None:
        self.open = ""

    def feed(self, line: str) -> None:
        """Go on over one line; a single-quoted string ends with its line."""
        position, length = 0, len(line)
        while position < length:
            if self.open:
                end = line.find(self.open, position)
                while end > 0 and _escaped(line, end):
                    end = line.find(self.open, end + 1)
                if end < 0:
                    return
                position, self.open = end + 3, ""
                continue
            char = line[position]
            if char == "#":
                return
            if char not in "'\"":
                position += 1
            elif line.startswith(char * 3, position):
                self.open, position = char * 3, position + 3
            else:
                position = _after_string(line, position)


def ends_in_string(code: str) -> bool:
    """Whether a triple-quoted string is still open at the end of the code."""
    state = QuoteState()
    for line in code.split("\n"):
        state.feed(line)
    return bool(state.open)


def _escaped(line: str, position: int) -> bool:
    slashes = 0
    while position - slashes > 0 and line[position - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _after_string(line: str, start: int) -> int:
    quote, position = line[start], start + 1
    while position < len(line) and line[position] != quote:
        position += 2 if line[position] == "\\" else 1
    return position + 1


def fenced_blocks(text: str) -> list[Block]:
    """Every fenced block, in order.

    A fence inside a triple-quoted string does not end a block, if the string is closed later in
    the reply; a reply in which that reading goes wrong is read again without it.
    """
    lines = text.split("\n")
    blocks = _scan(lines, respect_strings=True)
    if blocks and not blocks[-1].closed:
        plain = _scan(lines, respect_strings=False)
        if plain[-1].closed:
            blocks = plain
    return [inner for block in blocks for inner in _unwrapped(block)]


def _unwrapped(block: Block) -> list[Block]:
    """A whole answer in a Markdown fence: the blocks inside it."""
    if block.language not in _MARKDOWN or not block.closed:
        return [block]
    return _scan(block.text.split("\n"), respect_strings=True) or [block]


def _scan(lines: list[str], *, respect_strings: bool) -> list[Block]:
    blocks: list[Block] = []
    later = _later_quotes(lines) if respect_strings else {}
    position = 0
    while position < len(lines):
        opener = _opener(lines, position)
        if opener is None:
            single = _one_line(lines[position])
            if single is not None:
                blocks.append(single)
            position += 1
            continue
        again = _opener(lines, position + 1)
        if again is not None and again["info"].strip() in PYTHON_WORDS:
            # A fence opened twice; the second says more.
            opener, position = again, position + 1
        margin = opener.groupdict().get("margin", "")
        language, first = language_of(opener["info"])
        body, position, closed = _body(lines, position + 1, opener["fence"], later)
        if first:
            body.insert(0, margin + first)
        blocks.append(Block(language, _without_margin(body, margin), closed))
    return blocks


def _opener(lines: list[str], position: int) -> re.Match[str] | None:
    """The fence that a line opens, at its beginning or, a model's slip, behind a sentence."""
    if position >= len(lines):
        return None
    line = lines[position]
    found = _OPENER.match(line)
    if found is not None:
        return None if found["fence"][0] == "`" and "`" in found["info"] else found
    found = _INLINE_OPENER.match(line)
    if found is None:
        return None
    below = next((text for text in lines[position + 1 : position + 3] if text.strip()), "")
    if _OPENER.match(below):
        return None
    return found if found["info"] or _CODE_START.match(below) else None


def _one_line(line: str) -> Block | None:
    match = re.match(r"^\s*```+\s*(?:(python3?|py)\s+)?(\S.*?)```+\s*$", line, re.IGNORECASE)
    if match is None or not (match[1] or _CODE_START.match(match[2])):
        return None
    return Block("python", match[2])


def _later_quotes(lines: list[str]) -> dict[str, int]:
    """The last line on which each kind of triple quote occurs."""
    found: dict[str, int] = {}
    for index, line in enumerate(lines):
        for quote in ('"""', "'''"):
            if quote in line:
                found[quote] = index
    return found


def _body(
    lines: list[str], start: int, fence: str, later: dict[str, int]
) -> tuple[list[str], int, bool]:
    body: list[str] = []
    quotes = QuoteState()
    closer = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    for index in range(start, len(lines)):
        line = lines[index]
        in_string = quotes.open and later.get(quotes.open, -1) > index
        if not in_string and closer.match(line):
            return body, index + 1, True
        if not in_string and fence[0] == "`" and line.rstrip().endswith(fence):
            # A model's slip: the fence stands behind the last line of code.
            code = line.rstrip()[: -len(fence)]
            if code.strip() and "`" not in code and not code.lstrip().startswith("#"):
                return [*body, code], index + 1, True
        body.append(line)
        quotes.feed(line)
    return body, len(lines), False


def _without_margin(body: list[str], margin: str) -> str:
    quoted = ">" in margin
    width = len(re.sub(r"[^\s]", " ", margin).expandtabs(4))
    result = []
    for raw in body:
        line = re.sub(r"^[ \t]*(?:>[ ]?)+", "", raw) if quoted else raw
        indent = len(line) - len(line.lstrip(" \t"))
        if width and indent and not quoted:
            expanded = line[:indent].expandtabs(4)
            line = expanded[min(width, len(expanded)) :] + line[indent:]
        result.append(line)
    return "\n".join(result)


def pre_blocks(text: str) -> list[Block]:
    """HTML ``<pre><code>`` blocks, entities resolved."""
    if "<pre" not in text.lower():
        return []
    found = []
    for match in _PRE.finditer(text):
        named = _PRE_LANGUAGE.search(match["attributes"] or "")
        language = named[1].lower() if named else ""
        body = html.unescape(_TAG.sub("", match["body"]))
        found.append(Block(language, body.strip("\n"), source="pre"))
    return found


def indented_blocks(text: str) -> list[Block]:
    """Markdown's indented code: runs of lines indented by four spaces or a tab."""
    return [
        Block("", "\n".join(run), source="indented") for run in _indented_runs(text.split("\n"))
    ]


def _indented_runs(lines: list[str]) -> Iterator[list[str]]:
    run: list[str] = []
    after_blank = True
    for line in [*lines, "end"]:
        inside = line.startswith(("    ", "\t"))
        if inside and (run or after_blank):
            run.append(line[4:] if line.startswith("    ") else line[1:])
        elif not line.strip() and run:
            run.append("")
        elif run:
            yield run
            run = []
        after_blank = not line.strip()
