"""What stands around code in a reply and is none of it: prompts, markers, invisible characters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from pytest_benchrig.core.fences import PYTHON_WORDS

_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_ODD_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_STOP_TOKEN = re.compile(r"(?m)(?:<\|[\w ]{2,24}\|>|</s>)[ \t]*$")
_EDGE_MARKER = re.compile(r"^\[/?[A-Za-z][\w ]{2,20}\]$")
_SENTENCE = re.compile(r"^[A-Z][\w'\u2019-]*(?:,? [\w'\u2019\"`().,;/+*-]+){2,}[.:!?]?$")
_CELL_INPUT = re.compile(r"^\s*(?:In \[\d*\]: ?|\.\.\.: ?)")
_MAGIC = re.compile(r"^[!%]\s*\w")
_CELL_OUTPUT = re.compile(r"^\s*Out\[\d*\]:")


def without_stop_tokens(text: str) -> str:
    """The reply without the tokens that end a turn, where a server has left them in."""
    return _STOP_TOKEN.sub("", text) if "<|" in text or "</s>" in text else text


def without_edge_markers(text: str) -> str:
    """Bare code without a ``[PYTHON]`` before and a ``[DONE]`` behind it, which would parse."""
    lines = text.strip("\n").split("\n")
    while lines and (not lines[0].strip() or _EDGE_MARKER.match(lines[0].strip())):
        lines.pop(0)
    while lines and (not lines[-1].strip() or _EDGE_MARKER.match(lines[-1].strip())):
        lines.pop()
    return "\n".join(lines)


def without_prose_edges(text: str) -> str:
    """A block without the sentences before and behind its code."""
    lines = text.strip("\n").split("\n")
    while lines and (not lines[0].strip() or _SENTENCE.match(lines[0])):
        lines.pop(0)
    while lines and (not lines[-1].strip() or _SENTENCE.match(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def variants(text: str) -> Iterable[str]:
    """The block as written, then repaired step by step; the first that parses is taken."""
    lines = text.strip("\n").split("\n")
    if len(lines) > 1 and lines[0].strip().lower() in PYTHON_WORDS:
        # The language word on a line of its own would parse, as a name that nobody defined.
        lines = lines[1:]
        text = "\n".join(lines)
    yield text
    dedented = textwrap.dedent(text)
    if dedented != text:
        yield dedented
    if any(line.lstrip().startswith(">>>") for line in lines):
        yield _without_prompts(dedented)
    if any(_CELL_INPUT.match(line) for line in lines):
        yield _without_cells(lines)
    if any(_MAGIC.match(line) for line in lines):
        yield textwrap.dedent("\n".join(line for line in lines if not _MAGIC.match(line)))
    clean = _ODD_SPACES.sub(" ", _INVISIBLE.sub("", dedented))
    if clean != dedented:
        yield clean
        yield textwrap.dedent(clean)
    if "\t" in dedented:
        yield textwrap.dedent(text.expandtabs(4))
        yield textwrap.dedent(text.expandtabs(8))


def _without_prompts(text: str) -> str:
    """The input of an interactive session; its output is left out."""
    kept: list[str] = []
    open_statement = False
    for line in text.split("\n"):
        stripped = line.lstrip()
        if stripped.startswith(">>>"):
            kept.append(stripped[4:] if stripped.startswith(">>> ") else stripped[3:])
            open_statement = True
        elif stripped.startswith("...") and open_statement:
            kept.append(stripped[4:] if stripped.startswith("... ") else stripped[3:])
        else:
            open_statement = False
    return "\n".join(kept) + "\n"


def _without_cells(lines: list[str]) -> str:
    """The same of IPython, whose output goes on to the next prompt."""
    kept: list[str] = []
    inside = False
    for line in lines:
        prompt = _CELL_INPUT.match(line)
        if prompt:
            inside = True
            kept.append(line[prompt.end() :])
        elif _CELL_OUTPUT.match(line) or not line.strip():
            inside = False
        elif inside:
            kept.append(line)
    return "\n".join(kept) + "\n"
