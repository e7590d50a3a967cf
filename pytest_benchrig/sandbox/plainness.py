"""Assertions that can leave nothing behind in the process that evaluates them.

A judge whose assertions were all of this kind may be used for another program. They compute and
compare: they import nothing, set no attribute and no item, define no function or class by a
statement, read no name with an underscore in front, and call what the program offers, methods of
what it returned, and builtins that keep no state.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from pytest_benchrig.sandbox.names import BUILTIN_NAMES

_NODES = frozenset(
    (
        ast.Module,
        ast.Expr,
        ast.Assert,
        ast.Assign,
        ast.AugAssign,
        ast.For,
        ast.While,
        ast.If,
        ast.Pass,
        ast.Break,
        ast.Continue,
        ast.NamedExpr,
        ast.JoinedStr,
        ast.FormattedValue,
        ast.Lambda,
        ast.arguments,
        ast.arg,
        ast.BoolOp,
        ast.BinOp,
        ast.UnaryOp,
        ast.IfExp,
        ast.Dict,
        ast.Set,
        ast.List,
        ast.Tuple,
        ast.Compare,
        ast.Call,
        ast.keyword,
        ast.Starred,
        ast.Constant,
        ast.Attribute,
        ast.Subscript,
        ast.Slice,
        ast.Name,
        ast.ListComp,
        ast.SetComp,
        ast.DictComp,
        ast.GeneratorExp,
        ast.comprehension,
    )
)
_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
_BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "ascii",
        "bin",
        "bool",
        "bytearray",
        "bytes",
        "chr",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "frozenset",
        "hash",
        "hex",
        "int",
        "isinstance",
        "len",
        "list",
        "max",
        "min",
        "oct",
        "ord",
        "pow",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
    ]
)


def is_plain(nodes: Iterable[ast.AST]) -> bool:
    """Whether assertions of these nodes, and of no others, leave nothing behind."""
    return all(map(_is_plain, nodes))


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return not node.id.startswith("_") and (
            node.id in _BUILTINS
            or (node.id not in BUILTIN_NAMES and node.id not in sys.stdlib_module_names)
        )
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and not node.attr.startswith("_")
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    return type(node) in _NODES or isinstance(node, _OPERATORS)
