"""One block of a reply as Python: what it defines, binds and takes from elsewhere."""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

from pytest_benchrig.core.code_repairs import variants

DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
ASSIGNS = (ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, slots=True)
class Piece:
    """A block that parses, with the names it binds and loads at its top level.

    ``stubs`` are those of the functions it defines that have no body: signatures to look at.
    """

    text: str
    tree: ast.Module
    defines: frozenset[str]
    stubs: frozenset[str]
    binds: frozenset[str]
    loads: frozenset[str]


def parse(source: str) -> ast.Module | None:
    """The tree of a source, ``None`` if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def piece_of(text: str) -> Piece | None:
    """The block in the first reading that parses, ``None`` if none does or it is empty."""
    for variant in variants(text):
        tree = parse(variant)
        if tree is not None and tree.body:
            return Piece(
                variant,
                tree,
                frozenset(_defined(tree.body)),
                frozenset(s.name for s in tree.body if _is_stub(s)),
                frozenset(bound_names(tree.body)),
                _loaded(variant, tree),
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
        if isinstance(statement, DEFINES):
            yield statement.name
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            yield from (t.id for t in statement.targets if isinstance(t, ast.Name))


def _is_stub(statement: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Whether a function consists of its signature, and at most of a docstring."""
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in statement.body
    )


def bound_names(statements: Iterable[ast.stmt]) -> Iterable[str]:
    """The names that statements bind in the module's own scope."""
    for statement in _blocks_within(statements):
        if isinstance(statement, DEFINES):
            yield statement.name
        elif isinstance(statement, IMPORTS):
            yield from (a.asname or a.name.split(".")[0] for a in statement.names)
        elif isinstance(statement, ASSIGNS):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _loaded(source: str, tree: ast.Module) -> frozenset[str]:
    """Names that the code takes from its module's scope; parameters and locals are its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = [symtable.symtable(source, "reply", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Code that parses and does not compile, such as a return outside a function.
        return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    found: set[str] = set()
    top = tables[0]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found.update(
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (table is top or symbol.is_global())
        )
    return frozenset(found)
