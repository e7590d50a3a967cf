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
    braced = re.match(r"^\{\s*\.?([\w+-]+)", info)
    if braced:
        return braced[1].lower(), ""
    word, _, rest = info.partition(" ")
    name = re.split(r"[:,{;=]", word)[0].lower().lstrip(".")
    if name in PYTHON_WORDS:
        rest = rest.strip()
        code = rest if re.match(r"^(?:def|class|import|from|async def|@)\b", rest) else ""
        return name, code
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
            return plain
    return blocks


def _scan(lines: list[str], *, respect_strings: bool) -> list[Block]:
    blocks: list[Block] = []
    later = _later_quotes(lines) if respect_strings else {}
    position = 0
    while position < len(lines):
        opener = _OPENER.match(lines[position])
        if opener is None or (opener["fence"][0] == "`" and "`" in opener["info"]):
            single = _one_line(lines[position])
            if single is not None:
                blocks.append(single)
            position += 1
            continue
        language, first = language_of(opener["info"])
        body, position, closed = _body(lines, position + 1, opener["fence"], later)
        if first:
            body.insert(0, opener["margin"] + first)
        blocks.append(Block(language, _without_margin(body, opener["margin"]), closed))
    return blocks


def _one_line(line: str) -> Block | None:
    match = re.match(r"^\s*```+\s*(python3?|py)?\s+(\S.*?)```+\s*$", line, re.IGNORECASE)
    if match is None or not match[1]:
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
            if code.strip() and "`" not in code:
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
        found.append(Block(language, html.unescape(match["body"]).strip("\n"), source="pre"))
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
