"""The text of a failed assertion: its own lines, the candidate's own lines, what was compared."""

from __future__ import annotations

import ast
import collections
import datetime
import decimal
import fractions
from typing import Any

from pytest_benchrig.sandbox.faults import REFERENCE
from pytest_benchrig.sandbox.proxy import RemoteMeta
from pytest_benchrig.sandbox.trees import Assertion

LEFT, RIGHT = "@left", "@right"
"""Names that hold the operands of the assertion being evaluated; no source can spell them."""

_BLOCKS = ("body", "orelse", "finalbody")
"""Where a node has statements."""

CLASS_OF = "@class_of"
"""What ``type(x)`` means in an assertion: a class of the candidate has its own metaclass."""

MAX_TEXT = 4_000
_MAX_VALUE = 240
_MAX_ITEMS = 12
_MAX_NESTING = 4
_ARGS: Any = BaseException.__dict__["args"]
_STATE = BaseException.__dict__["__dict__"].__get__
_SHOWN = (
    type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, type(...),
    decimal.Decimal, fractions.Fraction, datetime.date, datetime.datetime, datetime.time,
    datetime.timedelta,
)  # fmt: skip
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


def keep_operands(assertion: Assertion, *, own_type: bool) -> None:
    """Have each ``assert`` keep what it compares, so that a failure can show it.

    The operands of a single comparison get names, otherwise the whole test does; after the assert
    they are let go of. Where it is the last statement of the string, who runs the string does that.

    Args:
        assertion: The assertion, which is changed.
        own_type: The name ``type`` means something else here than the builtin.
    """
    tree, nodes = assertion
    for node in nodes:
        if isinstance(node, ast.expr):
            if isinstance(node, ast.Call) and not own_type:
                _let_type_see(node)
            continue
        for part in _BLOCKS:
            block = getattr(node, part, None)
            if type(block) is list:
                _keep_in(block, last=node is tree)


def _keep_in(block: list[Any], *, last: bool) -> None:
    """Do so for the asserts of one block, which ends the string or does not."""
    for index in reversed(range(len(block))):
        statement = block[index]
        if not isinstance(statement, ast.Assert):
            continue
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            test.left = _named(LEFT, test.left)
            test.comparators = [_named(RIGHT, test.comparators[0])]
        elif isinstance(test, ast.Call | ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
            statement.test = _named(LEFT, test)
        else:
            continue
        if not last or index + 1 < len(block):
            block.insert(index + 1, _forget(statement))


def _let_type_see(node: ast.Call) -> None:
    """Let ``type(x)`` see the class that the candidate sees."""
    function = node.func
    if (
        isinstance(function, ast.Name)
        and function.id == "type"
        and len(node.args) == 1
        and not node.keywords
    ):
        function.id = CLASS_OF


def _named(name: str, value: ast.expr) -> ast.expr:
    place = _place_of(value)
    return ast.NamedExpr(ast.Name(name, ast.Store(), **place), value, **place)


def _forget(statement: ast.stmt) -> ast.stmt:
    place = _place_of(statement)
    names: list[ast.expr] = [ast.Name(name, ast.Store(), **place) for name in (LEFT, RIGHT)]
    return ast.Assign(names, ast.Constant(None, **place), **place)


def _place_of(node: ast.stmt | ast.expr) -> dict[str, Any]:
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def show(value: Any, nesting: int = 0) -> str:
    """A value in words, bounded; nothing of the candidate's is run for it."""
    kind = type(value)
    if type(kind) is RemoteMeta:
        return f"<{kind.__name__} object of the candidate>"
    if kind in (str, bytes, bytearray) and len(value) > _MAX_VALUE:
        return f"{value[:_MAX_VALUE]!r}... ({len(value)} long)"
    if kind is int and value.bit_length() > 4 * _MAX_VALUE:
        return f"an int of {value.bit_length()} bits"
    if kind in _SHOWN:
        return repr(value)
    if nesting >= _MAX_NESTING and (kind in _BRACKETS or kind in _MAPPINGS):
        return "..."
    if kind in _BRACKETS:
        left, right = _BRACKETS[kind]
        items = [show(item, nesting + 1) for item in list(value)[:_MAX_ITEMS]]
        items += ["..."] if len(value) > _MAX_ITEMS else []
        comma = "," if kind is tuple and len(items) == 1 else ""
        return _cut(f"{left}{', '.join(items)}{comma}{right}")
    if kind in _MAPPINGS:
        pairs = [
            f"{show(key, nesting + 1)}: {show(item, nesting + 1)}"
            for key, item in list(value.items())[:_MAX_ITEMS]
        ]
        pairs += ["..."] if len(value) > _MAX_ITEMS else []
        return _cut(f"{{{', '.join(pairs)}}}")
    return f"<{kind.__name__} object>"


def _cut(text: str) -> str:
    return text if len(text) <= 4 * _MAX_VALUE else text[: 4 * _MAX_VALUE] + "..."


def message_of(fault: BaseException) -> str:
    """Type and message of an exception, from its arguments alone."""
    name = type(fault).__name__
    args = _ARGS.__get__(fault)
    if isinstance(fault, SyntaxError) and type(fault.lineno) is int:
        return _cut(f"{name}: {show(args[0]) if args else ''} (line {fault.lineno})")
    if isinstance(fault, OSError) and type(fault.strerror) is str:
        return _cut(f"{name}: [Errno {show(fault.errno)}] {fault.strerror}")
    if not args:
        return name
    texts = [arg if type(arg) is str else show(arg) for arg in args]
    return _cut(f"{name}: {texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'}")


def candidate_lines(fault: BaseException, source: list[str], file: str) -> list[str]:
    """Where in the candidate's source an exception came from, as a traceback shows it."""
    reference = _STATE(fault).get(REFERENCE)
    lines = getattr(reference, "lines", None)
    text: list[str] = []
    for entry in lines if type(lines) is list else ():
        if type(entry) is list and len(entry) == 2 and type(entry[0]) is int:
            number, function = entry
            text.append(f'  File "{file}", line {number}, in {str(function)[:80]}')
            if 0 < number <= len(source):
                text.append(f"    {source[number - 1].strip()[:_MAX_VALUE]}")
    return text


def explain(fault: BaseException, file: str, text: str, source: list[str], solution: str) -> str:
    """The traceback of a failed assertion, cut to the user's lines."""
    lines = ["Traceback (most recent call last):"]
    rows = text.splitlines()
    trace = fault.__traceback__
    operands: dict[str, Any] = {}
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == file:
            where = frame.f_code.co_name
            lines.append(f'  File "{file}", line {trace.tb_lineno}, in {where}')
            if 0 < trace.tb_lineno <= len(rows):
                lines.append(f"    {rows[trace.tb_lineno - 1].strip()[:_MAX_VALUE]}")
            operands = {k: v for k, v in frame.f_locals.items() if k in (LEFT, RIGHT)}
        trace = trace.tb_next
    lines += candidate_lines(fault, source, solution)
    lines.append(message_of(fault))
    if type(fault) is AssertionError and LEFT in operands:
        lines.append(
            f"  left:  {show(operands[LEFT])}"
            if RIGHT in operands
            else f"  value: {show(operands[LEFT])}"
        )
        if RIGHT in operands:
            lines.append(f"  right: {show(operands[RIGHT])}")
    whole = "\n".join(lines)
    return (
        whole
        if len(whole) <= MAX_TEXT
        else whole[: MAX_TEXT // 2] + "\n...\n" + whole[-MAX_TEXT // 2 :]
    )
