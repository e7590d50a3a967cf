"""What is wrong with a scenario file, and how it is said."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

JsonPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices from an entry to a value in it."""

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault inside one entry: where in it, what was expected, and a remedy if there is one."""

    path: JsonPath
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a scenario file.

    Attributes:
        path: The file, as it is to be shown.
        line: 1-based; the field's line where it is known, else the entry's, else 1.
        entry_id: The entry's id, "" where it has none or the fault is the file's.
        field: The field, such as ``turns[0].expect.tool``; "" for the entry or file as a whole.
        message: What is wrong and what was expected.
        hint: What to do, such as ``did you mean "prompt"?``.
        index: 0-based position of the entry in its file, ``None`` for a fault of the file.
    """

    path: str
    line: int
    entry_id: str
    field: str
    message: str
    hint: str = ""
    index: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.path}:{self.line}"]
        if self.entry_id:
            parts.append(f'entry "{self.entry_id}"')
        elif self.index is not None:
            parts.append(f"entry number {self.index + 1}")
        if self.field:
            parts.append(f'field "{self.field}"')
        text = ": ".join([*parts, self.message])
        return one_line(f"{text}; {self.hint}" if self.hint else text)


def one_line(text: str) -> str:
    """The text without line breaks and control characters, which are shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value as JSON-like text of bounded length for a message."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def field_name(path: JsonPath) -> str:
    """``("turns", 0, "expect")`` as ``turns[0].expect``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean "prompt"?`` where a known name is near, else ""."""
    near = nearest(word, known)
    return f'did you mean "{near}"?' if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that is spelt most like the word, "" where none is near."""
    names = list(known)
    folded = word.lower().replace("-", "_").replace(" ", "_")
    for name in names:
        if name.replace("_", "") == folded.replace("_", ""):
            return name
    found = difflib.get_close_matches(folded, names, n=1, cutoff=0.6)
    return found[0] if found else ""


def listed(names: Collection[str]) -> str:
    """Names in a sentence: ``"a", "b" or "c"``."""
    quoted = [f'"{name}"' for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
