"""Immutable values of the standard library that cross by value, each with its exact type."""

from __future__ import annotations

import datetime as dt
import importlib
import sys
import types
from array import array
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any

from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS


Parts = list[Any]
_Dump = Callable[[Any], Parts]
_Load = Callable[..., Any]


def _delta(value: dt.timedelta) -> Parts:
    return [value.days, value.seconds, value.microseconds]


def _moment(value: dt.datetime) -> Parts:
    date = [value.year, value.month, value.day, value.hour, value.minute, value.second]
    return [*date, value.microsecond, value.tzinfo, value.fold]


def _clock(value: dt.time) -> Parts:
    return [value.hour, value.minute, value.second, value.microsecond, value.tzinfo, value.fold]


def _zone(value: dt.timezone) -> Parts:
    return list(value.__getinitargs__())  # type: ignore[attr-defined]


def _union(*members: Any) -> Any:
    return reduce(or_, members)


def _view(kind: str) -> _Load:
    def load(*items: Any) -> Any:
        if kind == "items":
            return dict(items).items()
        if kind == "keys":
            return dict.fromkeys(items).keys()
        return dict(enumerate(items)).values()

    return load


def _array(code: str, content: bytes) -> array[Any]:
    made: array[Any] = array(code)
    made.frombytes(content)
    return made


def _proxy(content: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(content)


TABLE: dict[type, tuple[str, _Dump, _Load]] = {
    complex: ("complex", lambda v: [v.real, v.imag], complex),
    range: ("range", lambda v: [v.start, v.stop, v.step], range),
    slice: ("slice", lambda v: [v.start, v.stop, v.step], slice),
    Decimal: ("decimal", lambda v: [str(v)], Decimal),
    Fraction: ("fraction", lambda v: [v.numerator, v.denominator], Fraction),
    dt.timedelta: ("timedelta", _delta, dt.timedelta),
    dt.date: ("date", lambda v: [v.year, v.month, v.day], dt.date),
    dt.datetime: ("datetime", _moment, lambda *a: dt.datetime(*a[:8], fold=a[8])),
    dt.time: ("time", _clock, lambda *a: dt.time(*a[:5], fold=a[5])),
    dt.timezone: ("timezone", _zone, dt.timezone),
    types.GenericAlias: (
        "alias",
        lambda v: [v.__origin__, v.__args__],
        lambda origin, args: types.GenericAlias(origin, args),
    ),
    types.UnionType: ("union", lambda v: list(v.__args__), _union),
    types.MappingProxyType: ("mappingproxy", lambda v: [dict(v)], _proxy),
    type({}.keys()): ("keys", list, _view("keys")),
    type({}.values()): ("values", list, _view("values")),
    type({}.items()): ("items", list, _view("items")),
    memoryview: ("memoryview", lambda v: [v.tobytes()], memoryview),
    array: ("array", lambda v: [v.typecode, v.tobytes()], _array),
}
"""Exact type to tag, dump to parts, load from parts."""


LATE: dict[str, tuple[str, _Dump]] = {
    "UUID": ("uuid", lambda v: [v.int]),
    "PurePosixPath": ("pathlib", lambda v: [str(v)]),
    "PureWindowsPath": ("pathlib", lambda v: [str(v)]),
    "PosixPath": ("pathlib", lambda v: [str(v)]),
    "WindowsPath": ("pathlib", lambda v: [str(v)]),
    "Pattern": ("re", lambda v: [v.pattern, v.flags]),
    "ZoneInfo": ("zoneinfo", lambda v: [v.key]),
    "IPv4Address": ("ipaddress", lambda v: [str(v)]),
    "IPv6Address": ("ipaddress", lambda v: [str(v)]),
}
"""The same for classes of modules that are imported only when one of them is met, by name."""


def dump(value: Any) -> tuple[str, Parts] | None:
    """Tag and parts of an immutable value of the standard library, ``None`` for anything else."""
    cls = type(value)
    entry = TABLE.get(cls)
    if entry is not None:
        return entry[0], entry[1](value)
    late = LATE.get(type.__dict__["__name__"].__get__(cls))
    if late is None:
        return None
    module, parts = late
    if getattr(sys.modules.get(module), cls.__name__, None) is not cls:
        return None
    return f"late.{cls.__name__}", parts(value)


_LOADS: dict[str, _Load] = {tag: load for tag, _, load in TABLE.values()}
_LOADS["itself"] = lambda value: value


def load(tag: str, parts: Parts) -> Any:
    """The value of a tag and its parts.

    Raises:
        Exception: The parts do not make one; whatever the type itself raises.
    """
    if not tag.startswith("late."):
        return _LOADS[tag](*parts)
    name = tag[5:]
    module = importlib.import_module(LATE[name][0])
    if name == "UUID":
        return module.UUID(int=parts[0])
    if name == "Pattern":
        return module.compile(*parts)
    return getattr(module, name)(*parts)
