"""What a class is made of, told without running any code of it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from enum import EnumMeta
from typing import Any, NamedTuple

from pytest_benchrig.sandbox import known
from pytest_benchrig.sandbox.containers import SHAPES
from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS


_MRO = type.__dict__["__mro__"].__get__
_DICT = type.__dict__["__dict__"].__get__
_NAME = type.__dict__["__name__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__
_BASES = type.__dict__["__bases__"].__get__
_FLAGS = type.__dict__["__flags__"].__get__
_HEAP_TYPE = 1 << 9
_MAX_NAMES = 600
_METHOD_TYPES = (types.FunctionType, types.MethodDescriptorType)
_PLAIN_METACLASSES = (type, EnumMeta)

HELD: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda thing: bytes.__getitem__(thing, slice(None)),
    tuple: lambda thing: tuple.__getitem__(thing, slice(None)),
    frozenset: lambda thing: frozenset(list(frozenset.__iter__(thing))),
}
"""The exact builtin value that an instance of a subclass holds, by the builtin."""

LAYOUTS = frozenset((*HELD, *SHAPES))


def mro_of(cls: type) -> tuple[type, ...]:
    """The method resolution order, whatever the metaclass says."""
    return _MRO(cls)  # type: ignore[no-any-return]


def layout_of(cls: type) -> type | None:
    """The builtin data type that instances of a class hold, if any."""
    for base in _MRO(cls):
        if base in LAYOUTS:
            return base  # type: ignore[no-any-return]
    return None


def names_in(cls: type) -> types.MappingProxyType[str, Any]:
    """The class's own namespace."""
    return _DICT(cls)  # type: ignore[no-any-return]


def is_standard(cls: type) -> bool:
    """Whether the class is the interpreter's own and not one that a program defined."""
    if not _FLAGS(cls) & _HEAP_TYPE:
        return True
    module = _DICT(cls).get("__module__")
    return isinstance(module, str) and _found_by_name(module, _QUALNAME(cls), cls)


class Described(NamedTuple):
    """What the other side is told of a class: JSON facts, and the bases as values."""

    facts: dict[str, Any]
    bases: tuple[type, ...]


def describe(cls: type) -> Described:
    """The description from which the other side builds its stand-in."""
    standard = is_standard(cls)
    mro = _MRO(cls)
    module = _DICT(cls).get("__module__", "builtins")
    facts: dict[str, Any] = {
        "name": _NAME(cls),
        "qualname": _QUALNAME(cls),
        "module": module if isinstance(module, str) else "builtins",
        "standard": standard,
        "plain_meta": type(cls) in _PLAIN_METACLASSES,
        "ancestors": [
            [c.__module__, _QUALNAME(c)] for c in mro[1:-1] if is_standard(c) and c not in LAYOUTS
        ][:40],
    }
    bases: tuple[type, ...]
    if standard:
        data = next((c for c in mro if c in LAYOUTS or known_exception(c)), None)
        bases = () if data is None or data is cls else (data,)
        inside = () if data is None else mro_of(data)
        own: dict[str, Any] = {}
        for base in mro[:-1]:
            if base not in inside:
                for name, value in _DICT(base).items():
                    own.setdefault(name, value)
    else:
        bases = tuple(base for base in _BASES(cls) if base is not object)
        own = dict(_DICT(cls))
    facts["names"] = [name for name in own if isinstance(name, str)][:_MAX_NAMES]
    facts["methods"] = [
        name
        for name, value in own.items()
        if type(value) in _METHOD_TYPES and isinstance(name, str) and not name.startswith("__")
    ][:_MAX_NAMES]
    facts["unhashable"] = "__hash__" in own and own["__hash__"] is None
    fields = own.get("__dataclass_fields__")
    facts["fields"] = (
        [name for name, field in fields.items() if getattr(field, "compare", False)]
        if isinstance(fields, dict) and _is_generated(own.get("__eq__"))
        else None
    )
    return Described(facts, bases)


def known_exception(cls: type) -> bool:
    """Whether the class is an exception class that both sides have."""
    return BaseException in _MRO(cls) and (
        known.name_of(cls, trusting=False) is not None
        or known.standard_exception(str(cls.__module__), _QUALNAME(cls)) is cls
    )


def _is_generated(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    name = str(getattr(code, "co_filename", ""))
    return name == "<string>" or "dataclasses" in name


def standard_path(thing: Any) -> list[str] | None:
    """Module and qualified name by which the standard library offers a class or function."""
    if type in _MRO(type(thing)):
        found = _found_by_name(str(thing.__module__), _QUALNAME(thing), thing)
    elif type(thing) in (types.FunctionType, types.BuiltinFunctionType):
        found = isinstance(thing.__module__, str) and _found_by_name(
            thing.__module__, thing.__qualname__, thing
        )
    else:
        return None
    return [str(thing.__module__), str(thing.__qualname__)] if found else None


def _found_by_name(module: str, qualname: str, thing: Any) -> bool:
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return False
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is thing
