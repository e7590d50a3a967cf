"""Exceptions across the wire: real classes, arguments, attributes, and the program's own lines."""

from __future__ import annotations

import builtins
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_benchrig.sandbox.pristine import BUILTINS

if TYPE_CHECKING:
    from types import TracebackType

    from pytest_benchrig.sandbox.peer import Peer

__builtins__ = BUILTINS


REFERENCE = "__benchrig_reference__"
"""Where an exception of the other side carries its reference, in its instance dictionary."""

_TRACE_LINES = 30
_GROUP: Any = vars(builtins).get("BaseExceptionGroup")
_STATE = BaseException.__dict__["__dict__"].__get__
_ARGS: Any = BaseException.__dict__["args"]
_SLOTS: dict[type, tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("name", "path", "msg"),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text"),
    SystemExit: ("code",),
    StopIteration: ("value",),
    AttributeError: ("name",),
    NameError: ("name",),
}
"""What the builtin exceptions keep outside their arguments and instance dictionary."""


class FaultParts(NamedTuple):
    """What crosses of an exception besides its class."""

    meta: list[Any]
    needs: list[Any]
    later: list[Any]


def lines_of(trace: TracebackType | None, file: str) -> list[list[Any]]:
    """Line number and function of the frames that belong to a source file, outermost first."""
    found: list[list[Any]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == file:
            found.append([trace.tb_lineno, code.co_name])
        trace = trace.tb_next
    if len(found) > _TRACE_LINES:
        half = _TRACE_LINES // 2
        found = [*found[:half], *found[-half:]]
    return found


def _slots(fault: BaseException) -> tuple[tuple[type, str], ...]:
    return tuple(
        (cls, name)
        for cls, names in _SLOTS.items()
        if isinstance(fault, cls)
        for name in names
        if name in vars(cls)
    )


def dump_fault(fault: BaseException, file: str) -> FaultParts:
    """The parts of an exception: arguments, attributes, cause, context."""
    state = {
        name: value
        for name, value in _STATE(fault).items()
        if type(name) is str and name != REFERENCE
    }
    needs: list[Any] = []
    if _GROUP is not None and isinstance(fault, _GROUP):
        needs = [vars(_GROUP)["message"].__get__(fault), vars(_GROUP)["exceptions"].__get__(fault)]
    hidden = bool(fault.__suppress_context__)
    later = [
        tuple(_ARGS.__get__(fault)),
        tuple(state),
        tuple(state.values()),
        tuple(vars(cls)[name].__get__(fault) for cls, name in _slots(fault)),
        fault.__cause__,
        None if hidden else fault.__context__,
    ]
    return FaultParts([hidden, lines_of(fault.__traceback__, file)], needs, later)


def _new(cls: type) -> Any:
    return type.__getattribute__(cls, "__new__")


def make_fault(peer: Peer, meta: list[Any], needs: list[Any]) -> BaseException:
    """The exception without its contents, or the one that is already here."""
    handle, hidden, lines = meta
    cls = needs[0]
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        raise TypeError("an exception of no exception class")
    found = peer.fault_of(handle)
    if found is not None:
        return found
    if len(needs) == 3:
        fault: BaseException = _new(cls)(cls, needs[1], list(needs[2]))
    else:
        fault = _new(cls)(cls)
    fault.__suppress_context__ = bool(hidden)
    peer.adopt_fault(handle, fault, lines)
    return fault


def fill_fault(fault: BaseException, parts: list[Any]) -> None:
    """Arguments, attributes, cause and context of an exception made before."""
    args, names, values, slots, cause, context = parts
    hidden = fault.__suppress_context__
    _ARGS.__set__(fault, args)
    if isinstance(fault, UnicodeError):
        base = next(c for c in type(fault).__mro__ if c.__module__ == "builtins")
        with contextlib.suppress(TypeError):
            vars(base)["__init__"](fault, *args)
    for (cls, name), value in zip(_slots(fault), slots, strict=True):
        with contextlib.suppress(TypeError):
            vars(cls)[name].__set__(fault, value)
    state = _STATE(fault)
    for name, value in zip(names, values, strict=True):
        if type(name) is str and name != REFERENCE:
            state[name] = value
    fault.__cause__ = cause if isinstance(cause, BaseException) else None
    fault.__context__ = context if isinstance(context, BaseException) else None
    fault.__suppress_context__ = hidden
