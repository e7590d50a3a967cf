"""Stand-ins for objects and classes that live on the other side.

For each class over there a class is made here, with the same name, the stand-ins of its bases, and
a stub for each special method that it defines; instances of classes derived from a builtin hold the
builtin's value as well. What a stub may believe is decided by the peer.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pytest_benchrig.sandbox import known
from pytest_benchrig.sandbox.faults import REFERENCE
from pytest_benchrig.sandbox.layouts import HELD, LAYOUTS
from pytest_benchrig.sandbox.pristine import BUILTINS

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.peer import Peer

__builtins__ = BUILTINS


UNARY = [
    "neg",
    "pos",
    "abs",
    "invert",
    "iter",
    "next",
    "reversed",
    "enter",
    "aenter",
    "aiter",
    "anext",
    "await",
    "trunc",
    "floor",
    "ceil",
    "copy",
    "fspath",
    "length_hint",
]
CONVERSIONS: dict[str, type] = {
    "bool": bool,
    "len": int,
    "hash": int,
    "str": str,
    "repr": str,
    "format": str,
    "bytes": bytes,
    "int": int,
    "float": float,
    "complex": complex,
    "index": int,
    "contains": bool,
}
ARITHMETIC = [
    "add",
    "sub",
    "mul",
    "matmul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
IN_PLACE = [f"i{name}" for name in ARITHMETIC if name != "divmod"]
REFLECTED = [f"r{name}" for name in ARITHMETIC]
OTHERS = ["round", "getitem", "setitem", "delitem", "missing", "exit", "aexit", "deepcopy"]
OPERATIONS = frozenset(
    (*UNARY, *CONVERSIONS, *ARITHMETIC, *COMPARISONS, *IN_PLACE, *REFLECTED, *OTHERS)
)
"""Special methods that have a stub, without their underscores."""


class Info:
    """What is known here of one class of the other side."""

    __slots__ = ("facts", "handle", "methods", "names", "peer", "trusted")

    def __init__(self, peer: Peer, handle: int, facts: dict[str, Any]) -> None:
        self.peer = peer
        self.handle = handle
        self.facts = facts
        self.names = frozenset(facts["names"])
        self.methods = frozenset(facts["methods"])
        self.trusted = bool(facts["standard"])


class Reference:
    """The one link from a stand-in to its original; telling the owner when nobody needs it."""

    __slots__ = ("count", "fault", "handle", "items", "lines", "peer", "run", "seen")

    def __init__(self, peer: Peer, handle: int) -> None:
        self.peer = peer
        self.handle = handle
        self.count = 0
        self.items: list[Any] = []
        self.fault: BaseException | None = None
        self.lines: Any = None
        self.run = self.seen = 0

    def __del__(self) -> None:
        self.peer.released.append((self.handle, self.count))


def info_of(thing: Any) -> Info:
    """The class information of a stand-in."""
    return type.__getattribute__(type(thing), "_info")  # type: ignore[no-any-return]


def reference_of(thing: Any) -> Reference:
    """The link of a stand-in to its original."""
    return object.__getattribute__(thing, "_ref")  # type: ignore[no-any-return]


_CLASS_LOCAL = frozenset(
    [
        "__name__",
        "__qualname__",
        "__mro__",
        "__bases__",
        "__base__",
        "__class__",
        "mro",
        "__flags__",
        "__module__",
        "__abstractmethods__",
        "__copy__",
        "__deepcopy__",
        "__instancecheck__",
        "__subclasscheck__",
        "_info",
        "__subclasshook__",
        "__weakrefoffset__",
        "__basicsize__",
        "__itemsize__",
        "__dictoffset__",
    ]
)


class RemoteMeta(type):
    """The class of stand-in classes: calls and attributes go to the class over there."""

    _info: Info

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance over there."""
        info = cls._info
        info.trusted = True
        return info.peer.call(cls, args, kwargs)

    def __getattribute__(cls, name: str) -> Any:
        if name in _CLASS_LOCAL:
            found = type.__getattribute__(cls, name)
            if name in ("__mro__", "__bases__"):
                return tuple(c for c in found if c not in (Remote, RemoteFault)) or (object,)
            return found
        info = type.__getattribute__(cls, "_info")
        info.trusted = True
        return info.peer.attribute(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._info.peer.request("set", [cls, value], name)

    def __delattr__(cls, name: str) -> None:
        cls._info.peer.request("del", [cls], name)

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        info = cls._info
        if info.facts["plain_meta"]:
            return False
        return info.peer.request("isinstance", [instance, cls]) is True

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        info = cls._info
        if info.facts["plain_meta"]:
            return False
        return info.peer.request("issubclass", [subclass, cls]) is True

    def __iter__(cls) -> Any:
        return cls._info.peer.operate("iter", cls)

    def __len__(cls) -> int:
        return cls._info.peer.operate("len", cls)  # type: ignore[no-any-return]

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        cls._info.trusted = True
        return cls._info.peer.operate("getitem", cls, key)

    def __contains__(cls, item: Any) -> bool:
        return cls._info.peer.operate("contains", cls, item) is True

    def __repr__(cls) -> str:
        return cls._info.peer.operate("repr", cls)  # type: ignore[no-any-return]

    def __dir__(cls) -> Iterable[str]:
        return cls._info.peer.request("dir", [cls])  # type: ignore[no-any-return]


class Remote:
    """Base of all stand-ins that are no exceptions."""

    _info: Info
    _ref: Reference

    def __getattribute__(self, name: str) -> Any:
        if name in ("_info", "_ref"):
            return object.__getattribute__(self, name)
        info = info_of(self)
        if name == "__class__":
            return local_class(type(self)) or type(self)
        if name in ("__copy__", "__deepcopy__", "__reduce_ex__", "__getattribute__"):
            return object.__getattribute__(self, name)
        return info.peer.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        info_of(self).peer.request("set", [self, value], name)

    def __delattr__(self, name: str) -> None:
        info_of(self).peer.request("del", [self], name)

    def __repr__(self) -> str:
        return info_of(self).peer.operate("repr", self)  # type: ignore[no-any-return]

    def __dir__(self) -> Iterable[str]:
        return info_of(self).peer.request("dir", [self])  # type: ignore[no-any-return]

    def __copy__(self) -> Any:
        return info_of(self).peer.operate("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return info_of(self).peer.operate("deepcopy", self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object of another process")


class RemoteFault:
    """Mixed into stand-ins of exception classes; what is not held here is asked for."""

    _info: Info

    def __getattr__(self, name: str) -> Any:
        if REFERENCE not in BaseException.__dict__["__dict__"].__get__(self):
            raise AttributeError(name)
        return info_of(self).peer.attribute(self, name)


class Method:
    """A bound method of a stand-in, looked up and called over there in one request."""

    __slots__ = ("_name", "_owner", "_peer")

    def __init__(self, peer: Peer, owner: Any, name: str) -> None:
        self._peer = peer
        self._owner = owner
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Look it up and call it."""
        return self._peer.call(self._owner, args, kwargs, self._name)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Method:
            return NotImplemented
        return self._owner is other._owner and self._name == other._name

    def __hash__(self) -> int:
        return hash((id(self._owner), self._name))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return types.MethodType

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole(), name)

    def __repr__(self) -> str:
        return repr(self.whole())

    def whole(self) -> Any:
        """The bound method as an object of its own."""
        return self._peer.request("get", [self._owner], self._name)


def local_class(cls: type) -> type | None:
    """The class here that a stand-in class is the counterpart of, if it is a standard one."""
    facts = type.__getattribute__(cls, "_info").facts
    if not facts["standard"]:
        return None
    found = known.standard_class(facts["module"], facts["qualname"])
    return None if found in LAYOUTS else found


def _converted(result: Any, wanted: type) -> Any:
    if type(result) is wanted:
        return result
    if isinstance(result, wanted) and wanted in HELD:
        return HELD[wanted](result)
    raise TypeError(f"a special method returned {type(result).__name__}, not {wanted.__name__}")


def _stub(operation: str) -> Callable[..., Any]:
    wanted = CONVERSIONS.get(operation)
    if wanted is not None:

        def converting(self: Any, *args: Any) -> Any:
            return _converted(info_of(self).peer.operate(operation, self, *args), wanted)

        return converting

    def plain(self: Any, *args: Any) -> Any:
        return info_of(self).peer.operate(operation, self, *args)

    return plain


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return info_of(self).peer.call(self, args, kwargs)


_STUBS = {f"__{name}__": _stub(name) for name in OPERATIONS}
_STUBS["__call__"] = _call
for _name in ("__copy__", "__deepcopy__"):
    del _STUBS[_name]


def build(peer: Peer, handle: int, facts: dict[str, Any], bases: list[Any]) -> RemoteMeta:
    """The stand-in of a class.

    Raises:
        TypeError: The facts or the bases are none that a class can have.
    """
    parents = [base for base in bases if isinstance(base, type)]
    remote: list[type] = [base for base in parents if isinstance(base, RemoteMeta)]
    local = [base for base in parents if not isinstance(base, RemoteMeta)]
    faulty = any(issubclass_of(base, BaseException) for base in parents)
    local = [b for b in local if b in LAYOUTS or issubclass_of(b, BaseException)]
    mixin = RemoteFault if faulty else Remote
    names = frozenset(name for name in facts["names"] if type(name) is str)
    namespace: dict[str, Any] = {
        name: stub for name, stub in _STUBS.items() if name in names and name != "__hash__"
    }
    if faulty:
        for name in ("__getattribute__", "__repr__"):
            namespace.pop(name, None)
    if facts["unhashable"]:
        namespace["__hash__"] = None
    elif "__hash__" in names:
        namespace["__hash__"] = _STUBS["__hash__"]
    info = Info(peer, handle, facts)
    namespace["_info"] = info
    namespace["__module__"] = str(facts["module"])
    name = str(facts["name"])
    if not any(issubclass_of(base, mixin) for base in remote):
        remote = [*remote, mixin]
    try:
        made = RemoteMeta(name, tuple(remote + local), namespace)
    except TypeError:
        made = RemoteMeta(name, (mixin, BaseException) if faulty else (mixin,), namespace)
    type.__setattr__(made, "__qualname__", str(facts["qualname"]))
    return made


def issubclass_of(cls: type, base: type) -> bool:
    """``issubclass`` by the method resolution order alone."""
    return base in type.__dict__["__mro__"].__get__(cls)
