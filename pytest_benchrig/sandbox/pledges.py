"""Asserts that must have held by the time their assertion string has ended.

A context manager of the candidate can swallow the failure of an ``assert`` in its body, an event
loop that it replaced can leave a coroutine of the assertions unrun, and a function that calls back
can drop what the callback raised. In one interpreter all three pass; here they do not.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any

from pytest_benchrig.sandbox.trees import Assertion, walk

HELD = "@held"
"""The function that notes that an ``assert`` held; no source can spell its name."""

_METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EXPECTING = ("suppress", "raises", "expect", "ignor", "swallow")
"""Parts of the names of context managers whose purpose is an exception in the block."""

_WITH = (ast.With, ast.AsyncWith)
_SCOPES = (*_METHODS, ast.Lambda, ast.ClassDef)


class Pledges:
    """The asserts of all assertion strings, and which of them have held.

    Attributes:
        candidates: The names that the candidate's module defines.
    """

    def __init__(self) -> None:
        self.candidates: Collection[str] = ()
        self._tests: dict[tuple[str, int], ast.expr] = {}
        self._count = 0
        self._open: dict[int, int] = {}
        self._dropped: dict[int, BaseException] = {}
        self._called: frozenset[str] = frozenset()

    def begin(self, assertion: Assertion, file: str) -> None:
        """Note the asserts of a string, and make those that must hold report that they did."""
        self._open.clear()
        self._dropped.clear()
        tree, nodes = assertion
        functions = False
        for node in nodes:
            if isinstance(node, ast.Assert):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    self._tests[file, line] = node.test
            elif isinstance(node, _METHODS):
                functions = True
        self._called = _called(tree) if functions else frozenset()
        for statement in tree.body:
            if isinstance(statement, ast.AsyncFunctionDef) and statement.name in self._called:
                self._oblige(statement.body)
        for block in [s.body for s in tree.body if isinstance(s, _WITH) and not _ends_early(s)]:
            self._oblige(block)

    def require(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Count the asserts of a method that the string calls and the candidate runs."""
        if method.name in self._called:
            for _, statement in _certain(method.body):
                self._count += 1
                self._open[self._count] = statement.lineno

    def held_at(self, line: int) -> None:
        """An ``assert`` that the candidate came to has held."""
        for number in [number for number, place in self._open.items() if place == line]:
            del self._open[number]

    def held(self, number: int) -> None:
        """An ``assert`` that must hold has held."""
        self._open.pop(number, None)

    def broken(self) -> str:
        """Why the string does not hold although nothing was raised, "" if it does."""
        if self._dropped:
            lines = sorted({_place(fault.__traceback__)[1] for fault in self._dropped.values()})
            return f"line {lines[0]}: the program swallowed the failure of this assert"
        if self._open:
            line = min(self._open.values())
            return f"line {line}: this assert was not reached, or its failure was swallowed"
        return ""

    def handed_over(self, fault: BaseException, *, to_exit: bool) -> None:
        """A failure goes to the candidate; unless it comes back, it was swallowed there."""
        if type(fault) is AssertionError and self._matters(fault, to_exit):
            self._dropped[id(fault)] = fault

    def came_back(self, fault: BaseException) -> None:
        """The candidate let a failure through."""
        self._dropped.pop(id(fault), None)

    def _matters(self, fault: BaseException, to_exit: bool) -> bool:
        """Whether the failed ``assert`` is about the candidate and not a failure on purpose."""
        code, line = _place(fault.__traceback__)
        names = _names_in(self._tests.get((getattr(code, "co_filename", ""), line)))
        if not names or to_exit:
            return bool(names)
        local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        return bool(names & local or names.intersection(self.candidates))

    def _oblige(self, body: list[ast.stmt]) -> None:
        """Make the asserts of a block that runs from its beginning to its end report."""
        for block, statement in list(_certain(body)):
            block.insert(block.index(statement) + 1, self._mark(statement))

    def _mark(self, statement: ast.Assert) -> ast.stmt:
        self._count += 1
        self._open[self._count] = statement.lineno
        call = ast.Call(ast.Name(HELD, ast.Load()), [ast.Constant(self._count)], [])
        mark = ast.Expr(call)
        for node in walk(mark):
            ast.copy_location(node, statement)
        return mark


def _names_in(test: ast.expr | None) -> set[str]:
    """The names in a test, without those that the judge has added."""
    nodes = [] if test is None else walk(test)
    return {n.id for n in nodes if isinstance(n, ast.Name) and not n.id.startswith("@")}


def _certain(body: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], ast.Assert]]:
    """The asserts of a block that are reached whenever it runs to its end, each with its block."""
    for statement in body:
        if isinstance(statement, _WITH) and not _ends_early(statement):
            yield from _certain(statement.body)
        elif isinstance(statement, ast.Assert) and _about_something(statement):
            yield body, statement
        if isinstance(statement, ast.Raise) or any(
            isinstance(inner, ast.Return) for inner in _own_scope(statement)
        ):
            return


def _about_something(statement: ast.Assert) -> bool:
    return any(isinstance(node, ast.Name) for node in walk(statement.test))


def _ends_early(statement: ast.With | ast.AsyncWith) -> bool:
    """Whether the block says itself that it may not run to its end."""
    names = [
        (node.id if isinstance(node, ast.Name) else node.attr).lower()
        for item in statement.items
        for node in walk(item.context_expr)
        if isinstance(node, ast.Name | ast.Attribute)
    ]
    return any(part in name for part in _EXPECTING for name in names)


def _own_scope(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that are not inside a function or class of its own."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SCOPES):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def _called(tree: ast.Module) -> frozenset[str]:
    """Names of functions and methods that the string itself calls, outside its functions."""
    functions = [
        node.func
        for statement in tree.body
        for node in _own_scope(statement)
        if isinstance(node, ast.Call)
    ]
    names = [function.id for function in functions if isinstance(function, ast.Name)]
    return frozenset(names + [f.attr for f in functions if isinstance(f, ast.Attribute)])


def _place(trace: TracebackType | None) -> tuple[Any, int]:
    """Code and line in which an exception was raised."""
    code, line = None, 0
    while trace is not None:
        code, line = trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next
    return code, line
