"""What one side does when the other asks: calls, attributes, operators.

Every function used is taken when this module is imported, before any code of a model has run.
"""

from __future__ import annotations

import copy
import math
import operator
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_benchrig.sandbox.pristine import BUILTINS

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.peer import Peer

__builtins__ = BUILTINS


_BATCH_SEC = 0.005
_clock = time.perf_counter
_PLAIN = (type(None), bool, int, float, str, bytes)


def _special(name: str) -> Callable[..., Any]:
    def call(thing: Any, *args: Any) -> Any:
        return getattr(type(thing), name)(thing, *args)

    return call


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda thing, other: function(other, thing)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "matmul": operator.matmul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "divmod": divmod,
    "pow": pow,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
TABLE: dict[str, Callable[..., Any]] = {
    **_BINARY,
    **{f"r{name}": _reflected(function) for name, function in _BINARY.items()},
    "iadd": operator.iadd,
    "isub": operator.isub,
    "imul": operator.imul,
    "imatmul": operator.imatmul,
    "itruediv": operator.itruediv,
    "ifloordiv": operator.ifloordiv,
    "imod": operator.imod,
    "ipow": operator.ipow,
    "ilshift": operator.ilshift,
    "irshift": operator.irshift,
    "iand": operator.iand,
    "ior": operator.ior,
    "ixor": operator.ixor,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "bytes": bytes,
    "str": str,
    "repr": repr,
    "format": format,
    "hash": hash,
    "len": len,
    "iter": iter,
    "next": next,
    "reversed": reversed,
    "contains": operator.contains,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "missing": _special("__missing__"),
    "enter": _special("__enter__"),
    "exit": _special("__exit__"),
    "aenter": _special("__aenter__"),
    "aexit": _special("__aexit__"),
    "aiter": _special("__aiter__"),
    "anext": _special("__anext__"),
    "await": _special("__await__"),
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "fspath": os.fspath,
    "length_hint": operator.length_hint,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def perform(peer: Peer, verb: str, extra: Any, roots: list[Any]) -> Any:
    """Do one thing that both sides may ask for.

    Raises:
        ProtocolError: It is nothing that can be asked for.
        BaseException: Whatever the object itself raises.
    """
    if verb == "call":
        method, names = extra
        positional = len(roots) - len(names)
        function = peer.attribute_here(roots[0], method) if method else roots[0]
        return function(*roots[1:positional], **dict(zip(names, roots[positional:], strict=True)))
    if verb == "op":
        return TABLE[extra](*roots)
    if verb == "get":
        return peer.attribute_here(roots[0], extra)
    if verb == "batch":
        return _batch(peer, roots[0], extra)
    if verb == "set":
        return peer.set_here(roots[0], extra, roots[1])
    if verb == "del":
        return peer.delete_here(roots[0], extra)
    if verb == "dir":
        return dir(roots[0])
    if verb == "id":
        return id(roots[0])
    if verb == "type":
        return type(roots[0])
    if verb == "isinstance":
        return isinstance(roots[0], roots[1])
    if verb == "issubclass":
        return issubclass(roots[0], roots[1])
    raise peer.violation(f"an unknown request {str(verb)[:40]!r}")


def _batch(peer: Peer, iterator: Any, most: int) -> tuple[list[Any], BaseException | None]:
    """The next items, and what came after them, as long as they are plain and come fast.

    A batch also ends where the iterator asked the other side something, so that no effect of a
    callback is seen earlier than in one interpreter.
    """
    items: list[Any] = []
    asked, start = peer.asked, _clock()
    try:
        while len(items) < most and peer.asked == asked and _clock() - start < _BATCH_SEC:
            items.append(next(iterator))
            if type(items[-1]) not in _PLAIN:
                break
    except BaseException as problem:
        return items, problem
    return items, None
