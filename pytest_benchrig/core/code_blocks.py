"""Getting the code out of a reply: which blocks are the answer, and what they are joined to.

The choice never depends on which candidate would pass: later definitions win, whatever they do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_benchrig.core.code_pieces import (
    ASSIGNS,
    DEFINES,
    IMPORTS,
    Piece,
    bound_names,
    parse,
    piece_of,
)
from pytest_benchrig.core.code_repairs import (
    without_edge_markers,
    without_prose_edges,
    without_stop_tokens,
)
from pytest_benchrig.core.fences import (
    Block,
    ends_in_string,
    fenced_blocks,
    indented_blocks,
    pre_blocks,
)

_STARTS_CODE = re.compile(r"^(?:(?:def|class|async\s+def|import|from)\s+\w|@\w)")
_CONTINUES_CODE = re.compile(
    r"^(?:[ \t]|#|@|\)|\]|\}|(?:def|class|async|import|from|if|elif|else|for|while|try|except|"
    r"finally|with|return|print|assert|raise|global|pass)\b|[A-Za-z_][\w.\[\]]*\s*(?:[:+*/|&-]?=|\())"
)
_LONE_FENCE = re.compile(r"(?m)^[ \t]*(?:`{3,}|~{3,})[ \t]*$")
MAX_TRIMS = 40
MAX_STARTS = 20


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found.

    Attributes:
        kind: ``code``, ``no_code`` or ``truncated``.
        code: The source, exactly as the model wrote it where it is one block.
        found: What was found instead, for the failure's text.
    """

    kind: Literal["code", "no_code", "truncated"]
    code: str = ""
    found: str = ""


def extract_code(
    answer: str, *, cut_off: bool, budget: str = "", wanted: Sequence[str] = ()
) -> Extraction:
    """The code of a reply.

    Args:
        answer: The answer, without any trace.
        cut_off: Whether the reply stopped at the token limit.
        budget: The effective ``num_predict`` in words, for the message.
        wanted: Names that the assertions use or the entry points give.
    """
    text = answer.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    text = without_stop_tokens(text)
    blocks = [*fenced_blocks(text), *pre_blocks(text)]
    complete = [b for b in blocks if b.closed and _may_be_python(b)]
    names = frozenset(wanted)
    if complete:
        code, defined = _join(complete, names)
        needed = names & _spoken_of(text)
        enough = blocks[-1].closed or not needed or needed & defined
        if code and (not cut_off or (enough and not ends_in_string(code))):
            return Extraction("code", code)
    if cut_off:
        return Extraction("truncated", found=truncation_text(budget))
    unclosed = [b for b in blocks if not b.closed and _may_be_python(b)]
    for block in unclosed:
        # A fence that is shorter than the opening one was meant as its end.
        part = _LONE_FENCE.split(block.text)[0]
        piece = piece_of(part)
        if piece is not None and piece.binds:
            joined, _ = _join([*complete, replace(block, text=part)], names)
            return Extraction("code", joined or piece.text)
    if all(b.source == "pre" or not (b.closed or b.language) for b in blocks):
        bare = _bare_code(_LONE_FENCE.sub("", text), names)
        if bare:
            return Extraction("code", bare)
    return Extraction("no_code", found=_what_was_found(text, blocks))


def truncation_text(budget: str) -> str:
    """The words of a reply that was cut off before its code was complete."""
    limit = f" at num_predict={budget}" if budget else ""
    return f"Response truncated{limit} before the code was complete"


def _may_be_python(block: Block) -> bool:
    if block.is_python:
        return bool(block.text.strip())
    if block.language:
        return False
    piece = piece_of(block.text)
    if piece is not None:
        return bool(piece.binds)
    # Without a language a block that does not parse is code only if it looks like nothing else.
    return any(re.match(r"^\s*(?:def|class)\s+\w+", line) for line in block.text.split("\n"))


def _spoken_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def _join(blocks: Sequence[Block], wanted: frozenset[str]) -> tuple[str, frozenset[str]]:
    """The code of the blocks and the names it defines; "" if none of them is code."""
    pieces, broken = _pieces(blocks)
    defining = [p for p in pieces if p.defines]
    if not pieces and broken:
        return broken[-1], frozenset(re.findall(r"(?:def|class)\s+(\w+)", broken[-1]))
    if not defining:
        binding = [p for p in pieces if p.binds & wanted]
        if not binding and broken:
            return broken[-1], frozenset()
        if binding:
            return binding[-1].text, binding[-1].binds
        bare = [p for p in pieces if p.binds and not wanted]
        return (bare[-1].text, bare[-1].binds) if bare else ("", frozenset())
    if broken and wanted and not any(p.binds & wanted for p in defining):
        named = [b for b in broken if wanted & set(re.findall(r"(?:def|class)\s+(\w+)", b))]
        if named:
            return named[-1], wanted
    kept = _needed(pieces, wanted)
    if len(kept) == 1:
        return kept[0].text, kept[0].binds
    text = _with_future_first("\n\n".join(p.text.strip("\n") for p in kept) + "\n")
    return text, frozenset().union(*(p.binds for p in kept))


def _pieces(blocks: Sequence[Block]) -> tuple[list[Piece], list[str]]:
    """Blocks that parse, an indented continuation joined to the block before it."""
    pieces: list[Piece] = []
    broken: list[str] = []
    for block in blocks:
        if pieces and _goes_on(block.text):
            continued = pieces[-1].text.rstrip("\n") + "\n\n" + block.text
            tree = parse(continued)
            if tree is not None and isinstance(pieces[-1].tree.body[-1], DEFINES):
                again = piece_of(continued)
                if again is not None:
                    pieces[-1] = again
                    continue
        piece = piece_of(block.text)
        if piece is None:
            piece = piece_of(without_prose_edges(block.text))
            piece = piece if piece is not None and piece.defines else None
        if piece is not None:
            pieces.append(piece)
        else:
            broken.append(block.text)
    full = frozenset().union(*(p.defines - p.stubs for p in pieces))
    return [p for p in pieces if not p.stubs or p.defines != p.stubs or p.stubs - full], broken


def _goes_on(text: str) -> bool:
    """Whether a block begins inside another: it is indented, or would not parse alone."""
    lines = [line for line in text.split("\n") if line.strip()]
    inside = [line[0] in " \t" for line in lines]
    return bool(inside) and inside[0] and (all(inside) or piece_of(text) is None)


def _needed(pieces: Sequence[Piece], wanted: frozenset[str]) -> list[Piece]:
    """Definitions in order, superseded ones and pure examples left out."""
    alive = _without_superseded(pieces)
    everything = frozenset().union(*(p.binds for p in alive)) if alive else frozenset()
    defined = frozenset().union(*(p.defines for p in alive)) if alive else frozenset()
    goals = wanted & everything
    if not goals:
        return [p for p in alive if p.defines or _is_import_only(p)] or alive[-1:]
    chosen: set[int] = set()
    missing = set(goals)
    while missing:
        name = missing.pop()
        for index, piece in enumerate(alive):
            if name in piece.binds and index not in chosen and _serves(piece, name, alive):
                chosen.add(index)
                # What it defines itself may have been corrected by a later block.
                missing |= (piece.loads & everything) - (piece.binds - defined)
    return [piece for index, piece in enumerate(alive) if index in chosen]


def _serves(piece: Piece, name: str, pieces: Sequence[Piece]) -> bool:
    """A usage example that merely assigns a name does not supply it while a definition does."""
    return name in piece.defines or not any(name in p.defines for p in pieces)


def _is_import_only(piece: Piece) -> bool:
    return all(isinstance(s, (*IMPORTS, *ASSIGNS)) for s in piece.tree.body)


def _without_superseded(pieces: Sequence[Piece]) -> list[Piece]:
    kept: list[Piece] = []
    for index, piece in enumerate(pieces):
        later = frozenset().union(*(p.defines for p in pieces[index + 1 :]))
        if piece.defines and piece.defines <= later:
            rest = _prelude(piece, pieces[index + 1 :])
            if rest is not None:
                kept.append(rest)
        else:
            kept.append(piece)
    return kept


def _prelude(piece: Piece, later: Sequence[Piece]) -> Piece | None:
    """Imports and constants of a superseded block that a later one relies on."""
    loads = frozenset().union(*(p.loads for p in later))
    binds = frozenset().union(*(p.binds for p in later))
    lines = []
    for statement in piece.tree.body:
        if isinstance(statement, (*IMPORTS, *ASSIGNS)):
            names = set(bound_names([statement]))
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if future or names & loads - binds:
                lines.append(ast.unparse(statement))
    return piece_of("\n".join(lines) + "\n") if lines else None


def _with_future_first(text: str) -> str:
    """``from __future__`` imports of joined blocks stand first, where Python wants them."""
    tree = ast.parse(text, feature_version=None) if "__future__" in text else None
    if tree is None:
        return text
    lines = text.split("\n")
    moved = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            moved.append(ast.unparse(statement))
            for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                lines[number] = ""
    return "\n".join([*moved, *lines]) if moved else text


def _bare_code(text: str, wanted: frozenset[str]) -> str:
    """Code without a fence: the whole reply, its indented blocks, or its runs of code lines."""
    text = without_edge_markers(text)
    whole = piece_of(text)
    if whole is not None and whole.defines and not any(map(_says_nothing, whole.tree.body)):
        return whole.text
    indented = [block for block in indented_blocks(text) if piece_of(block.text)]
    for blocks in (indented, _runs_of_code(text.split("\n"))):
        if any(piece.defines for piece in _pieces(blocks)[0]):
            return _join(blocks, wanted)[0]
    return ""


def _says_nothing(statement: ast.stmt) -> bool:
    """Words and list items of prose that happen to parse, as ``- simple`` does."""
    return isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Name | ast.UnaryOp | ast.BinOp | ast.Compare | ast.Tuple
    )


def _runs_of_code(lines: list[str]) -> list[Block]:
    """What stands between the sentences of a reply and parses."""
    found: list[Block] = []
    position = 0
    for start in [i for i, line in enumerate(lines) if _STARTS_CODE.match(line)][:MAX_STARTS]:
        code = _longest_code(lines[start:]) if start >= position else ""
        if code:
            found.append(Block("", code, source="bare"))
            position = start + code.count("\n") + 1
    return found


def _longest_code(lines: list[str]) -> str:
    """The longest run of code lines from the first one that parses and defines something."""
    run: list[str] = []
    for line in lines:
        if line.strip() and not _CONTINUES_CODE.match(line):
            break
        run.append(line)
    for _ in range(MAX_TRIMS):
        piece = piece_of("\n".join(run)) if run else None
        if piece is not None and piece.defines:
            return piece.text
        if not run:
            return ""
        run.pop()
        while run and (not run[-1].strip() or run[-1][0] in " \t"):
            run.pop()
    return ""


def _what_was_found(text: str, blocks: Sequence[Block]) -> str:
    if not text.strip():
        return "the reply is empty"
    if any(not b.closed for b in blocks):
        return "an unclosed code fence whose content is not complete Python"
    others = sorted({b.language for b in blocks if b.language and not b.is_python})
    if others:
        return f"only code blocks of other languages: {', '.join(others)}"
    if blocks:
        return "code blocks without any definition"
    return f"prose without code ({len(text.strip())} characters)"
