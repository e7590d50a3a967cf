"""Things that both interpreters have, so that a name crosses instead of a reference."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import functools
import importlib
import itertools
import math
import operator
import sys
import types
from typing import Any

from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS


_DENIED = frozenset(
    [
        "__import__",
        "__build_class__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "copyright",
        "credits",
        "delattr",
        "dir",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "help",
        "input",
        "license",
        "locals",
        "memoryview",
        "open",
        "print",
        "quit",
        "setattr",
        "vars",
    ]
)
"""Builtins that a candidate cannot make the judge resolve: they act on the interpreter."""

_METHOD_OWNERS = (str, bytes, list, tuple, dict, set, frozenset, int, float)

_EXCEPTION_MODULES = frozenset(
    [
        "argparse",
        "ast",
        "asyncio.exceptions",
        "binascii",
        "calendar",
        "concurrent.futures._base",
        "configparser",
        "contextlib",
        "copy",
        "csv",
        "_csv",
        "dataclasses",
        "decimal",
        "email.errors",
        "getopt",
        "graphlib",
        "http.client",
        "json.decoder",
        "pathlib",
        "pickle",
        "_pickle",
        "queue",
        "_queue",
        "re",
        "re._constants",
        "sre_constants",
        "shutil",
        "sqlite3",
        "statistics",
        "string",
        "struct",
        "subprocess",
        "tarfile",
        "tokenize",
        "traceback",
        "unittest.case",
        "urllib.error",
        "uuid",
        "weakref",
        "xml.etree.ElementTree",
        "zipfile",
        "zlib",
        "zoneinfo",
        "zoneinfo._common",
    ]
)
"""Standard modules whose exception classes are the same class on both sides."""

_OPAQUE_MODULES = frozenset(
    [
        "_io",
        "_thread",
        "abc",
        "asyncio",
        "builtins",
        "collections",
        "collections.abc",
        "concurrent.futures",
        "contextlib",
        "enum",
        "functools",
        "io",
        "itertools",
        "queue",
        "re",
        "threading",
        "types",
        "typing",
        "unittest.mock",
    ]
)


def _collect() -> dict[tuple[str, str], Any]:
    named: dict[tuple[str, str], Any] = {}
    for name, value in vars(builtins).items():
        if name not in _DENIED and not name.startswith("_"):
            named["builtins", name] = value
    for owner in _METHOD_OWNERS:
        for name, value in vars(owner).items():
            if callable(value) and not isinstance(value, classmethod | staticmethod | type):
                named["builtins", f"{owner.__name__}.{name}"] = value
    named["builtins", "object.__init__"] = object.__init__
    for name, value in vars(types).items():
        if isinstance(value, type):
            named["types", name] = value
    for module in (operator, math, itertools, functools):
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_"):
                named.setdefault((module.__name__, name), value)
    for cls in (
        collections.Counter,
        collections.OrderedDict,
        collections.defaultdict,
        collections.deque,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        fractions.Fraction,
    ):
        named[cls.__module__, cls.__qualname__] = cls
    return named


BY_NAME = _collect()
_BY_ID = {id(value): name for name, value in reversed(BY_NAME.items())}
_TRUSTING_BUILTINS = {
    id(value): ("builtins", name)
    for name, value in vars(builtins).items()
    if name in _DENIED and not name.startswith("_")
}


def name_of(thing: Any, *, trusting: bool) -> tuple[str, str] | None:
    """The name by which the other side knows the same thing.

    Args:
        thing: Any object.
        trusting: The receiver is the candidate, which may be told of any builtin.
    """
    found = _BY_ID.get(id(thing))
    if found is None and trusting:
        found = _TRUSTING_BUILTINS.get(id(thing))
    return found


def by_name(module: str, name: str, *, trusting: bool) -> Any:
    """The thing of that name.

    Raises:
        KeyError: It is not one that the two sides share.
    """
    if (module, name) in BY_NAME:
        return BY_NAME[module, name]
    if trusting and module == "builtins":
        return vars(builtins)[name]
    raise KeyError(f"{module}.{name}")


def standard_exception(module: str, name: str) -> type[BaseException] | None:
    """The standard library's exception class of that name, if it is one of those shared."""
    found = _standard(module, name, _EXCEPTION_MODULES)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    return None


def standard_class(module: str, name: str) -> type | None:
    """The local class of that name among those that no value of ours is made of."""
    found = _standard(module, name, _OPAQUE_MODULES)
    if found is None and module == "builtins":
        found = getattr(types, _TYPE_NAMES.get(name, ""), None)
    return found if isinstance(found, type) else None


_TYPE_NAMES = {
    "function": "FunctionType",
    "generator": "GeneratorType",
    "coroutine": "CoroutineType",
    "async_generator": "AsyncGeneratorType",
    "method": "MethodType",
    "builtin_function_or_method": "BuiltinFunctionType",
    "module": "ModuleType",
    "code": "CodeType",
    "mappingproxy": "MappingProxyType",
}


def _standard(module: str, name: str, allowed: frozenset[str]) -> Any:
    if module not in allowed:
        return None
    try:
        loaded = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return None
    found: Any = loaded
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found
