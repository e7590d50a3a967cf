r"""Reading LaTeX as the plain text a reader sees: ``\boxed{\dfrac{1}{6}}`` is ``1/6``."""

from __future__ import annotations

import re

_UNWRAPPED = frozenset(
    [
        "boxed",
        "fbox",
        "framebox",
        "text",
        "textbf",
        "textit",
        "textrm",
        "textsf",
        "texttt",
        "textnormal",
        "textup",
        "mathbf",
        "mathrm",
        "mathit",
        "mathsf",
        "mathtt",
        "mathcal",
        "mathbb",
        "mathnormal",
        "boldsymbol",
        "bm",
        "mbox",
        "hbox",
        "operatorname",
        "underline",
        "emph",
        "overline",
        "ensuremath",
        "section",
        "subsection",
        "subsubsection",
        "paragraph",
    ]
)
_BOXES = frozenset({"boxed", "fbox", "framebox"})
_SWITCHES = frozenset(
    [
        "bf",
        "it",
        "rm",
        "sf",
        "tt",
        "em",
        "bfseries",
        "itshape",
        "ttfamily",
        "small",
        "large",
        "Large",
        "LARGE",
        "huge",
        "Huge",
        "color",
    ]
)
"""They change the look of the rest of their group; ``\\bf{x}`` is written too."""
_FRACTIONS = frozenset({"frac", "dfrac", "tfrac", "cfrac", "nicefrac", "sfrac", "flatfrac"})
_SILENT = frozenset(
    [
        "big",
        "Big",
        "bigg",
        "Bigg",
        "bigl",
        "bigr",
        "Bigl",
        "Bigr",
        "biggl",
        "biggr",
        "displaystyle",
        "textstyle",
        "scriptstyle",
        "limits",
        "nolimits",
        "middle",
        "centering",
    ]
)
_PARAMETERS = frozenset({"begin", "end", "textcolor"})
_SYMBOLS = {
    "times": "×",
    "cdot": "·",
    "div": "÷",
    "pm": "±",
    "mp": "∓",
    "approx": "≈",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "lt": "<",
    "gt": ">",
    "pi": "π",
    "infty": "∞",
    "circ": "°",
    "degree": "°",
    "euro": "€",
    "pounds": "£",
    "to": "→",
    "rightarrow": "→",
    "Rightarrow": "⇒",
    "implies": "⇒",
    "ldots": "...",
    "dots": "...",
    "cdots": "...",
    "quad": " ",
    "qquad": " ",
    "enspace": " ",
    "thinspace": " ",
    "space": " ",
    "newline": "\n",
    "therefore": "∴",
    "minus": "-",
    "textminus": "-",
    "textdollar": "",
    "dollar": "",
    "percent": "%",
    "lbrace": "{",
    "rbrace": "}",
}
_PUNCTUATION = {
    ",": " ",
    ";": " ",
    ":": " ",
    " ": " ",
    "\n": "\n",
    ">": " ",
    "!": "",
    "(": "",
    ")": "",
    "[": "",
    "]": "",
    "\\": "\n",
    "$": "$",
    "-": "-",
    "/": "",
}
_ESCAPABLE = frozenset("%&#_{}*+.~`<|=\"'?@^")
_NAME = re.compile(r"[A-Za-z]+\*?")
_DOLLARS = re.compile(r"\$+")
_BRACED_EXPONENT = re.compile(r"\^\{([^{}]*)\}")
_DEGREE = re.compile(r"\^ ?°")
_SIMPLE = re.compile(r"[-+]?[\w.,]+")
_TIE = re.compile(r"(?<=[\w)}])~(?=[\w\\(])")
_SWITCH = re.compile(rf"\\(?:{'|'.join(sorted(_SWITCHES))})(?![A-Za-z])")
_OPENING = re.compile(r" *(\.|[(\[|<]|\\[{|])? *")
_DEEPEST = 40


def simplify_latex(text: str) -> str:
    r"""Replace LaTeX by the text it stands for, and take the dollar signs out.

    A box that is never closed stays as it is: what it would hold is not known. Fractions read as
    ``a/b``, a whole number right before one is kept apart from it (``2\frac12`` is ``2 1/2``).
    """
    if "{,}" in text:
        text = text.replace("{,}", ",")
    if "\\" in text:
        if "~" in text:
            text = _TIE.sub(" ", text)
        text = _Reader(text).read(0, len(text), 0)
    if "^" in text:
        text = _DEGREE.sub("°", _BRACED_EXPONENT.sub(r"^\1", text))
    return without_dollars(text)


def without_dollars(text: str) -> str:
    """Dollar signs go; words and numbers that they kept apart stay apart."""
    if "$" not in text:
        return text

    def gap(match: re.Match[str]) -> str:
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        return " " if before.isalnum() and after.isalnum() else ""

    return _DOLLARS.sub(gap, text)


def boxes(text: str) -> list[str]:
    r"""The raw contents of each complete ``\boxed``, outermost first, in order."""
    if "\\" not in text:
        return []
    return _Reader(text).boxes()


class _Reader:
    """One text and its matching braces."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closing = _matching_braces(text)

    def boxes(self) -> list[str]:
        """The raw contents of each complete box."""
        found = []
        for match in re.finditer(r"\\(boxed|fbox|framebox)(?![A-Za-z])", self._text):
            argument = self._argument(match.end(), len(self._text), bare_number=True)
            if argument is not None:
                found.append(self._text[argument[0] : argument[1]])
        return found

    def read(self, start: int, end: int, depth: int) -> str:
        """The plain text of a stretch."""
        if depth > _DEEPEST:
            return self._text[start:end]
        out: list[str] = []
        position = start
        while True:
            slash = self._text.find("\\", position, end)
            if slash < 0 or slash + 1 >= end:
                out.append(self._text[position:end])
                return "".join(out)
            close = self._group_of_switch(position, slash, end)
            if close is not None:
                out += (self._text[position : slash - 1], self.read(slash, close, depth + 1))
                position = close + 1
                continue
            out.append(self._text[position:slash])
            position = self._command(slash, end, depth, out)

    def _group_of_switch(self, position: int, slash: int, end: int) -> int | None:
        r"""Where a group like ``{\bf 42}`` closes, whose braces nobody sees."""
        if slash <= position or self._text[slash - 1] != "{":
            return None
        close = self._closing.get(slash - 1, -1)
        if not slash < close < end or _SWITCH.match(self._text, slash) is None:
            return None
        return close

    def _command(self, slash: int, end: int, depth: int, out: list[str]) -> int:
        """Append what the command at ``slash`` stands for; where it ends."""
        name_match = _NAME.match(self._text, slash + 1, end)
        if name_match is None:
            char = self._text[slash + 1]
            if char in _ESCAPABLE:
                out.append(char)
            else:
                out.append(_PUNCTUATION.get(char, "\\" + char))
            return slash + 2
        name, after = name_match[0].rstrip("*"), name_match.end()
        if name in _FRACTIONS:
            return self._fraction(slash, after, end, depth, out)
        if name in _UNWRAPPED:
            return self._unwrapped(name, slash, after, end, depth, out)
        if name in _SYMBOLS:
            out.append(_SYMBOLS[name])
            return after
        if name in _SWITCHES:
            return self._switch(name, after, end, depth, out)
        if name in _SILENT:
            return after
        if name == "left":
            opening = _OPENING.match(self._text, after, end)
            if opening is None:
                return after
            out.append((opening[1] or "").strip(".\\"))
            return opening.end()
        if name == "right":
            while out and not out[-1].strip(" "):
                out.pop()
            if out:
                out[-1] = out[-1].rstrip(" ")
            return after + (self._text[after : after + 1] == ".")
        if name in _PARAMETERS:
            parameter = self._argument(after, end, bare_number=False)
            if parameter is not None:
                if name == "textcolor":
                    return self._unwrapped(name, slash, parameter[2], end, depth, out)
                return parameter[2]
        out.append(self._text[slash:after])
        return after

    def _switch(self, name: str, after: int, end: int, depth: int, out: list[str]) -> int:
        argument = self._argument(after, end, bare_number=False)
        if argument is None:
            return after
        if name != "color":
            out.append(self.read(argument[0], argument[1], depth + 1))
        return argument[2]

    def _unwrapped(
        self, name: str, slash: int, after: int, end: int, depth: int, out: list[str]
    ) -> int:
        argument = self._argument(after, end, bare_number=True)
        if argument is None:
            out.append(self._text[slash:after])
            return after
        inner = self.read(argument[0], argument[1], depth + 1)
        if name in _BOXES:
            inner = inner.strip()
            _keep_apart(out, inner)
        out.append(inner)
        return argument[2]

    def _fraction(self, slash: int, after: int, end: int, depth: int, out: list[str]) -> int:
        above = self._operand(after, end)
        below = self._operand(above[2], end) if above else None
        if above is None or below is None:
            out.append(self._text[slash:after])
            return after
        top = self.read(above[0], above[1], depth + 1).strip()
        bottom = self.read(below[0], below[1], depth + 1).strip()
        if bottom.startswith("-") and _SIMPLE.fullmatch(bottom) and _SIMPLE.fullmatch(top):
            top, bottom = top[1:] if top.startswith("-") else f"-{top}", bottom[1:]
        text = f"{_grouped(top)}/{_grouped(bottom)}"
        _keep_apart(out, text)
        out.append(text)
        if self._text[below[2] : below[2] + 1].isdigit():
            out.append(" ")
        return below[2]

    def _operand(self, position: int, end: int) -> tuple[int, int, int] | None:
        """A braced argument or a single character: start, end, where to go on."""
        argument = self._argument(position, end, bare_number=False)
        if argument is not None:
            return argument
        while position < end and self._text[position] == " ":
            position += 1
        if position < end and self._text[position].isalnum():
            return position, position + 1, position + 1
        return None

    def _argument(
        self, position: int, end: int, *, bare_number: bool
    ) -> tuple[int, int, int] | None:
        while position < end and self._text[position] in " \n":
            position += 1
        if position >= end:
            return None
        if self._text[position] == "{":
            close = self._closing.get(position, -1)
            if not 0 <= close < end:
                return None
            first, last = position + 1, close
            while self._closing.get(first) == last - 1 and first < last:
                first, last = first + 1, last - 1
            return first, last, close + 1
        if bare_number:
            number = re.compile(r"[-+]?[0-9][0-9.,]*(?<![.,])").match(self._text, position, end)
            if number:
                return number.start(), number.end(), number.end()
        return None


def _keep_apart(out: list[str], text: str) -> None:
    for piece in reversed(out):
        if piece:
            if piece[-1].isalnum() and text[:1].isalnum():
                out.append(" ")
            return


def _grouped(operand: str) -> str:
    """Parentheses around what would read differently beside a slash."""
    return operand if _SIMPLE.fullmatch(operand) or not operand else f"({operand})"


def _matching_braces(text: str) -> dict[int, int]:
    closing: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            closing[opened.pop()] = match.start()
    return closing
