"""Who owns what: objects of this side that the other knows, and stand-ins for the other's."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pytest_benchrig.sandbox import known
from pytest_benchrig.sandbox.codec import TypeToken
from pytest_benchrig.sandbox.containers import Registry, Shape
from pytest_benchrig.sandbox.faults import REFERENCE
from pytest_benchrig.sandbox.layouts import HELD, describe, layout_of, mro_of
from pytest_benchrig.sandbox.pristine import BUILTINS
from pytest_benchrig.sandbox.proxy import (
    Reference,
    Remote,
    RemoteMeta,
    build,
    info_of,
    reference_of,
)

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.peer import Peer

__builtins__ = BUILTINS

STUBBED = (types.FunctionType, types.CoroutineType)
"""What the candidate is given as a real function or coroutine instead of a stand-in's instance."""

_STATE = BaseException.__dict__["__dict__"].__get__
_KEPT_TUPLES = 512
FIRST_HANDLE = 1
"""The candidate's class of functions, which is never described on the wire."""


class Holdings:
    """The tables of one side."""

    parity = 0
    """Ids of containers and tuples that this side gives out are even or odd."""

    def __init__(self) -> None:
        self.shared = Registry(self.parity + 2)
        self.described: set[int] = set()
        self.types: dict[Any, int] = {}
        self.released: list[tuple[int, int]] = []
        self.proxies: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.stubs: WeakKeyDictionary[Any, Reference] = WeakKeyDictionary()
        self._classes: dict[int, Any] = {}
        self._tokens: dict[int, TypeToken] = {}
        self._held: dict[int, Any] = {}
        self._owned: dict[int, list[Any]] = {}
        self._owned_ids: dict[int, int] = {}
        self._next_handle = FIRST_HANDLE
        self._kept: dict[int, tuple[int, Any]] = {}
        self._kept_ids: dict[int, Any] = {}
        self._next_kept = self.parity + 2

    def peer(self) -> Peer:
        """This side as what stand-ins talk through."""
        raise NotImplementedError

    # what both sides know from the beginning

    def tell_of_functions(self) -> None:
        """Take the class of functions as described, which most answers need."""
        self.described.add(self.own(types.FunctionType))

    def be_told_of_functions(self) -> None:
        """Build the stand-in of the other side's class of functions."""
        described = describe(types.FunctionType)
        self.class_of(FIRST_HANDLE, described.facts, [*described.bases])

    @property
    def met_only_data(self) -> bool:
        """Whether plain data is all that crossed, and functions of the other side were called.

        Then no object of this side was ever in reach of the other, and none of its classes here.
        """
        return self._next_handle == FIRST_HANDLE and [*self._classes] == [FIRST_HANDLE]

    # what this side owns

    def own(self, thing: Any) -> int:
        """The handle under which the other side knows an object of this side, counted once more."""
        handle = self._owned_ids.get(id(thing))
        if handle is None:
            handle = self._next_handle
            self._next_handle += 1
            self._owned[handle] = [thing, 0]
            self._owned_ids[id(thing)] = handle
        self._owned[handle][1] += 1
        return handle

    def owned_thing(self, handle: int) -> Any:
        """The object of a handle; ``KeyError`` if there is none."""
        return self._owned[handle][0]

    def release(self, released: list[list[int]]) -> None:
        """The other side needs some of them less often."""
        for handle, count in released:
            entry = self._owned.get(handle)
            if entry is not None:
                entry[1] -= count
                if entry[1] <= 0:
                    del self._owned[handle], self._owned_ids[id(entry[0])]

    def type_token(self, cls: type) -> TypeToken:
        """The one token that stands for the class of instances."""
        found = self._tokens.get(id(cls))
        if found is None:
            found = self._tokens[id(cls)] = TypeToken(cls)
        return found

    # what the other side owns

    def handle_of(self, thing: Any) -> int | None:
        """The handle of the original, if the object is a stand-in."""
        cls = type(thing)
        if cls is RemoteMeta:
            return thing._info.handle  # type: ignore[no-any-return]
        if type(cls) is RemoteMeta and Remote in mro_of(cls):
            return reference_of(thing).handle
        if cls in STUBBED:
            found = self.stubs.get(thing)
            return None if found is None else found.handle
        if BaseException in mro_of(cls):
            found = _STATE(thing).get(REFERENCE)
            if type(found) is Reference and found.peer is self:
                return found.handle
        return None

    def class_of(self, handle: int, facts: Any, bases: list[Any]) -> Any:
        """The stand-in of a class, built when it is described for the first time."""
        found = self._classes.get(handle)
        if found is None:
            local = (
                known.standard_exception(str(facts["module"]), str(facts["qualname"]))
                if facts["standard"]
                else None
            )
            found = local or build(self.peer(), handle, facts, bases)
            self._classes[handle] = found
            if local is None:
                self.types[found] = handle
                self._register(found, facts)
        return found

    def _register(self, cls: Any, facts: dict[str, Any]) -> None:
        for module, name in facts["ancestors"]:
            base = known.standard_class(module, name)
            register = getattr(base, "register", None)
            if register is not None and type(base).__name__ in ("ABCMeta", "_ProtocolMeta"):
                try:
                    register(cls)
                except (TypeError, RuntimeError):
                    continue

    def proxy_of(self, handle: int, cls: Any, extra: Any, parts: list[Any]) -> Any:
        """The one stand-in of an object."""
        found = self.proxies.get(handle)
        if found is None:
            if cls not in self.types:
                raise TypeError("an object of no class of the other side")
            reference = Reference(self.peer(), handle)
            found = self.new_proxy(cls, reference, extra, parts)
            self.proxies[handle] = found
        else:
            reference = self.stubs[found] if type(found) in STUBBED else reference_of(found)
        reference.count += 1
        return found

    def new_proxy(self, cls: Any, reference: Reference, extra: Any, parts: list[Any]) -> Any:
        """A fresh stand-in."""
        made = object.__new__(cls)
        object.__setattr__(made, "_ref", reference)
        return made

    def held_value(self, handle: int, cls: Any, value: Any) -> Any:
        """A stand-in that is an instance of the immutable builtin its original derives from."""
        if handle in self._held:
            return self._held[handle]
        base = layout_of(cls)
        if cls not in self.types or base not in HELD or type(value) is not base:
            raise TypeError("a value of another type than its class holds")
        made = base.__new__(cls, value)
        reference = Reference(self.peer(), handle)
        reference.count = 1
        object.__setattr__(made, "_ref", reference)
        if ["enum", "Enum"] in info_of(made).facts["ancestors"]:
            self._held[handle] = made
        return made

    def empty_subclass(self, handle: int, cls: Any, shape: Shape) -> Any:
        """An empty stand-in that is an instance of the builtin container."""
        if cls not in self.types or layout_of(cls) is not shape.make:
            raise TypeError("a container of another type than its class holds")
        base: Any = shape.make
        made = base.__new__(cls)
        reference = Reference(self.peer(), handle)
        reference.count = 1
        object.__setattr__(made, "_ref", reference)
        self.proxies[handle] = made
        return made

    def received(self, handle: int, thing: Any) -> None:
        """A container stand-in came once more."""
        reference = reference_of(thing)
        if reference.handle != handle:
            raise ValueError("a container that changed its owner")
        reference.count += 1

    def fault_of(self, handle: int) -> BaseException | None:
        """The exception of a handle if it is still here."""
        found = self.proxies.get(handle)
        if found is not None:
            _STATE(found)[REFERENCE].count += 1
        return found

    def adopt_fault(self, handle: int, fault: BaseException, lines: Any) -> None:
        """Tie a fresh exception to its original and to the lines it came from."""
        reference = Reference(self.peer(), handle)
        reference.count = 1
        reference.lines = lines
        _STATE(fault)[REFERENCE] = reference
        if type(type(fault)) is RemoteMeta:
            self.proxies[handle] = fault

    # tuples keep their identity while they are arguments or results

    def keep_identity(self, thing: Any) -> None:
        """Remember an immutable argument, so that it is the same object when it comes back."""
        if id(thing) not in self._kept:
            self._next_kept += 2
            self._keep(self._next_kept, thing)

    def _keep(self, tid: int, thing: Any) -> None:
        self._kept[id(thing)] = (tid, thing)
        self._kept_ids[tid] = thing
        if len(self._kept) > _KEPT_TUPLES:
            oldest = next(iter(self._kept))
            del self._kept_ids[self._kept.pop(oldest)[0]]

    def identity_of(self, thing: Any) -> int | None:
        """The id of a remembered tuple or frozenset."""
        found = self._kept.get(id(thing))
        return None if found is None else found[0]

    def known_identity(self, tid: int | None, fresh: Any) -> Any:
        """The remembered object of an id, else the fresh one."""
        if tid is None:
            return fresh
        found = self._kept_ids.get(tid)
        if found is not None and type(found) is type(fresh) and len(found) == len(fresh):
            return found
        if tid not in self._kept_ids and tid % 2 != self.parity:
            self._keep(tid, fresh)
        return fresh
