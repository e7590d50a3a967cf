"""What a name in an assertion means: the assertions' own, a builtin, or the candidate's."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pytest_benchrig.sandbox.trees import walk

BUILTIN_NAMES = frozenset(vars(builtins))
_DECIDING = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "callable",
        "dict",
        "frozenset",
        "hasattr",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "list",
        "max",
        "min",
        "repr",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "type",
        "zip",
    ]
)
"""Builtins that assertions judge with; where several could be meant, these are the builtins."""


class Names(dict[str, Any]):
    """The one namespace in which all assertions of a program run.

    Args:
        own: Names that are there from the beginning.
        lookup: Finds a name of the candidate's module, or raises ``NameError``.
        module: Finds a module of the standard library.
        hidden: What only the harness's own additions to an assertion can name.

    Attributes:
        candidates: The names that the candidate's module defines, each with whether it is a module.
        shadowing: Builtin names that mean the candidate's in the assertion being run.
    """

    def __init__(
        self,
        own: dict[str, Any],
        lookup: Callable[[str], Any],
        module: Callable[[str], Any],
        hidden: dict[str, Any],
    ) -> None:
        super().__init__(own)
        self._hidden = hidden
        self.candidates: dict[str, bool] = {}
        self.shadowing: frozenset[str] = frozenset()
        self._lookup = lookup
        self._module = module

    def __missing__(self, name: str) -> Any:
        if name in self.shadowing:
            return self._lookup(name)
        if name in BUILTIN_NAMES:
            raise KeyError(name)
        if name.startswith("@"):
            return self._hidden[name]
        is_module = self.candidates.get(name)
        if name in sys.stdlib_module_names and is_module is not False:
            return self._module(name)
        try:
            return self._lookup(name)
        except NameError:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.candidates

    def rebinds(self, name: str, bound: Collection[str]) -> bool:
        """Whether a builtin name means something else in an assertion that binds these names."""
        return name in self.shadowing or dict.__contains__(self, name) or name in bound

    def get(self, name: str, default: Any = None) -> Any:
        """As for any mapping, the candidate's names included."""
        try:
            return self[name]
        except KeyError:
            return default


class Shadows:
    """Decides, assertion by assertion, which builtin names mean the candidate's."""

    def __init__(self, candidates: Iterable[str], entry_points: Iterable[str]) -> None:
        self._defined = frozenset(candidates)
        self._always = frozenset(entry_points) & self._defined & BUILTIN_NAMES
        self._tainted: set[str] = set()

    def of(self, used: set[str], bound: set[str]) -> frozenset[str]:
        """The builtin names that mean the candidate's where these are read and bound."""
        possible = used & self._defined & BUILTIN_NAMES
        others = used & ((self._defined - BUILTIN_NAMES) | self._tainted)
        chosen = self._always
        if possible and not others and not possible & self._always:
            chosen = chosen | (possible if len(possible) == 1 else possible - _DECIDING or possible)
        if others or used & chosen:
            self._tainted |= bound
        return chosen


def names_in(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that code of these nodes reads, and those that it binds."""
    used: set[str] = set()
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return used, bound


def free_names(tree: ast.AST) -> set[str]:
    """Names that a piece of code reads, without the builtins."""
    return {
        node.id
        for node in walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    } - BUILTIN_NAMES
