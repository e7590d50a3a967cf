"""Getting the code out of a reply: which blocks are the answer, and what they are joined to.

The choice never depends on which candidate would pass: later definitions win, whatever they do.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_benchrig.core.fences import (
    PYTHON_WORDS,
    Block,
    fenced_blocks,
    indented_blocks,
    pre_blocks,
)

_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_ODD_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_STARTS_CODE = re.compile(r"^(?:(?:def|class|async\s+def|import|from)\s+\w|@\w)")
_CONTINUES_CODE = re.compile(
    r"^(?:[ \t]|#|@|\)|\]|\}|(?:def|class|async|import|from|if|elif|else|for|while|try|except|"
    r"finally|with|return|print|assert|raise|global|pass)\b|[A-Za-z_][\w.\[\]]*\s*(?:[:+*/|&-]?=|\())"
)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_ASSIGNS = (ast.Assign, ast.AnnAssign)
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block that parses, with the names it binds and loads at its top level."""

    text: str
    tree: ast.Module
    defines: frozenset[str]
    binds: frozenset[str]
    loads: frozenset[str]


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
    blocks = [*fenced_blocks(text), *pre_blocks(text)]
    complete = [b for b in blocks if b.closed and _may_be_python(b)]
    names = frozenset(wanted)
    if complete:
        code, defined = _join(complete, names)
        needed = names & _spoken_of(text)
        if code and (not cut_off or blocks[-1].closed or not needed or needed & defined):
            return Extraction("code", code)
    if cut_off:
        return Extraction("truncated", found=truncation_text(budget))
    unclosed = [b for b in blocks if not b.closed and _may_be_python(b)]
    for block in unclosed:
        piece = _piece_of(block.text)
        if piece is not None and piece.binds:
            joined, _ = _join([*complete, block], names)
            return Extraction("code", joined or piece.text)
    if not blocks or all(b.source == "pre" for b in blocks):
        bare = _bare_code(text)
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
    piece = _piece_of(block.text)
    if piece is not None:
        return bool(piece.binds)
    # Without a language a block that does not parse is code only if it looks like nothing else.
    return any(re.match(r"^\s*(?:def|class)\s+\w+", line) for line in block.text.split("\n"))


def _spoken_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _variants(text: str) -> Iterable[str]:
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


def _piece_of(text: str) -> _Piece | None:
    for variant in _variants(text):
        tree = _parse(variant)
        if tree is not None and tree.body:
            return _Piece(
                variant,
                tree,
                frozenset(_defined(tree.body)),
                frozenset(_bound(tree.body)),
                frozenset(_loaded(tree)),
            )
    return None


def _blocks_within(statements: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements of the module's own scope, those inside if, try, with and loops included."""
    waiting = list(statements)
    while waiting:
        statement = waiting.pop(0)
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
                continue
            for part in ("body", "orelse", "finalbody"):
                waiting += getattr(statement, part, [])
            for handler in getattr(statement, "handlers", []):
                waiting += handler.body


def _defined(statements: Iterable[ast.stmt]) -> Iterable[str]:
    for statement in _blocks_within(statements):
        if isinstance(statement, _DEFINES):
            yield statement.name
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            yield from (t.id for t in statement.targets if isinstance(t, ast.Name))


def _bound(statements: Iterable[ast.stmt]) -> Iterable[str]:
    for statement in _blocks_within(statements):
        if isinstance(statement, _DEFINES):
            yield statement.name
        elif isinstance(statement, _IMPORTS):
            yield from (a.asname or a.name.split(".")[0] for a in statement.names)
        elif isinstance(statement, _ASSIGNS):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _loaded(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


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


def _pieces(blocks: Sequence[Block]) -> tuple[list[_Piece], list[str]]:
    """Blocks that parse, an indented continuation joined to the block before it."""
    pieces: list[_Piece] = []
    broken: list[str] = []
    for block in blocks:
        if pieces and _is_indented(block.text):
            continued = pieces[-1].text.rstrip("\n") + "\n\n" + block.text
            tree = _parse(continued)
            if tree is not None and isinstance(pieces[-1].tree.body[-1], _DEFINES):
                again = _piece_of(continued)
                if again is not None:
                    pieces[-1] = again
                    continue
        piece = _piece_of(block.text)
        if piece is not None:
            pieces.append(piece)
        else:
            broken.append(block.text)
    return pieces, broken


def _is_indented(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and all(line[0] in " \t" for line in lines)


def _needed(pieces: Sequence[_Piece], wanted: frozenset[str]) -> list[_Piece]:
    """Definitions in order, superseded ones and pure examples left out."""
    alive = _without_superseded(pieces)
    everything = frozenset().union(*(p.binds for p in alive)) if alive else frozenset()
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
                missing |= (piece.loads & everything) - piece.binds
    return [piece for index, piece in enumerate(alive) if index in chosen]


def _serves(piece: _Piece, name: str, pieces: Sequence[_Piece]) -> bool:
    """A usage example that merely assigns a name does not supply it while a definition does."""
    return name in piece.defines or not any(name in p.defines for p in pieces)


def _is_import_only(piece: _Piece) -> bool:
    return all(isinstance(s, (*_IMPORTS, *_ASSIGNS)) for s in piece.tree.body)


def _without_superseded(pieces: Sequence[_Piece]) -> list[_Piece]:
    kept: list[_Piece] = []
    for index, piece in enumerate(pieces):
        later = frozenset().union(*(p.defines for p in pieces[index + 1 :]))
        if piece.defines and piece.defines <= later:
            rest = _prelude(piece, pieces[index + 1 :])
            if rest is not None:
                kept.append(rest)
        else:
            kept.append(piece)
    return kept


def _prelude(piece: _Piece, later: Sequence[_Piece]) -> _Piece | None:
    """Imports and constants of a superseded block that a later one relies on."""
    loads = frozenset().union(*(p.loads for p in later))
    binds = frozenset().union(*(p.binds for p in later))
    lines = []
    for statement in piece.tree.body:
        if isinstance(statement, (*_IMPORTS, *_ASSIGNS)):
            names = set(_bound([statement]))
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if future or names & loads - binds:
                lines.append(ast.unparse(statement))
    return _piece_of("\n".join(lines) + "\n") if lines else None


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


def _bare_code(text: str) -> str:
    """Code without a fence: the whole reply, an indented block, or a run of code lines."""
    whole = _piece_of(text)
    if whole is not None and whole.defines:
        return whole.text
    for block in reversed(indented_blocks(text)):
        piece = _piece_of(block.text)
        if piece is not None and piece.defines:
            return _join([b for b in indented_blocks(text) if _piece_of(b.text)], frozenset())[0]
    return _run_of_code(text.split("\n"))


def _run_of_code(lines: list[str]) -> str:
    starts = [i for i, line in enumerate(lines) if _STARTS_CODE.match(line)]
    for start in starts[:MAX_STARTS]:
        code = _longest_code(lines[start:])
        if code:
            return code
    return ""


def _longest_code(lines: list[str]) -> str:
    """The longest run of code lines from the first one that parses and defines something."""
    run: list[str] = []
    for line in lines:
        if line.strip() and not _CONTINUES_CODE.match(line):
            break
        run.append(line)
    for _ in range(MAX_TRIMS):
        piece = _piece_of("\n".join(run)) if run else None
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
