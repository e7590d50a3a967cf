"""One end of the conversation between judge and candidate: requests, answers, and who owns what.

Exactly one side is active at any time. A request carries an id and the id of the request inside
which it was made; an answer repeats the id. Anything else that arrives is a violation.
"""

from __future__ import annotations

import itertools
import threading
import types
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pytest_benchrig.sandbox import known
from pytest_benchrig.sandbox.codec import Decoder, Encoder, TypeToken
from pytest_benchrig.sandbox.containers import Registry, Shape, Shared
from pytest_benchrig.sandbox.faults import REFERENCE
from pytest_benchrig.sandbox.layouts import HELD, LAYOUTS, layout_of, mro_of
from pytest_benchrig.sandbox.operations import perform
from pytest_benchrig.sandbox.pristine import BUILTINS
from pytest_benchrig.sandbox.proxy import (
    Method,
    Reference,
    Remote,
    RemoteMeta,
    build,
    info_of,
    reference_of,
)
from pytest_benchrig.sandbox.wire import PeerGone, ProtocolError, read_message, write_message

__builtins__ = BUILTINS


_STATE = BaseException.__dict__["__dict__"].__get__
_KEPT_TUPLES = 512
_STEADY = 64
_BATCH = 256
_STUBBED = (types.FunctionType, types.CoroutineType)
_BATCHED_TYPES = frozenset(
    [
        "generator",
        "map",
        "filter",
        "zip",
        "enumerate",
        "reversed",
        "list_iterator",
        "tuple_iterator",
        "set_iterator",
        "range_iterator",
        "str_iterator",
        "str_ascii_iterator",
        "dict_keyiterator",
    ]
)


class Peer:
    """What both sides have in common."""

    trusting = False
    """Whether this side may be told to resolve any name: only the candidate."""
    trusting_receiver = False
    parity = 0
    """Ids of containers and tuples that this side gives out are even or odd."""
    source_name = ""
    by_reference: frozenset[str] = frozenset()
    """Tags of values that stay with their owner in this run, because they lead to its files."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.shared = Registry(self.parity + 2)
        self.described: set[int] = set()
        self.types: dict[Any, int] = {}
        self.released: list[tuple[int, int]] = []
        self.proxies: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.stubs: WeakKeyDictionary[Any, Reference] = WeakKeyDictionary()
        self.active = 0
        self.asked = 0
        self.decoding = 0
        self._classes: dict[int, Any] = {}
        self._tokens: dict[int, TypeToken] = {}
        self._held: dict[int, Any] = {}
        self._owned: dict[int, list[Any]] = {}
        self._owned_ids: dict[int, int] = {}
        self._next_handle = 1
        self._kept: dict[int, tuple[int, Any]] = {}
        self._kept_ids: dict[int, Any] = {}
        self._next_kept = self.parity + 2
        self._drops: list[int] = []
        self._turn = threading.Condition(threading.RLock())

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

    def _release(self, released: list[list[int]]) -> None:
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
        if cls in _STUBBED:
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
            found = local or build(self, handle, facts, bases)
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
            reference = Reference(self, handle)
            found = self.new_proxy(cls, reference, extra, parts)
            self.proxies[handle] = found
        else:
            reference = self.stubs[found] if type(found) in _STUBBED else reference_of(found)
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
        reference = Reference(self, handle)
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
        reference = Reference(self, handle)
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
        reference = Reference(self, handle)
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

    # hooks of the two sides

    def extra_of(self, thing: Any) -> tuple[Any, list[Any]]:
        """What else the receiver is told about an object: JSON facts, and values."""
        return None, []

    def import_module(self, name: Any) -> Any:
        """The module of a name, on the side that may be told so."""
        raise ProtocolError("a module")

    def standard(self, module: str, qualname: str) -> Any:
        """The standard library's thing of that name, on the side that may be told so."""
        raise ProtocolError("a name")

    def attribute_here(self, thing: Any, name: str) -> Any:
        """An attribute of an object of this side, asked for by the other."""
        return getattr(thing, name)

    def set_here(self, thing: Any, name: str, value: Any) -> None:
        """Set an attribute of an object of this side, asked for by the other."""
        setattr(thing, name, value)

    def delete_here(self, thing: Any, name: str) -> None:
        """Delete an attribute of an object of this side, asked for by the other."""
        delattr(thing, name)

    # asking

    def attribute(self, thing: Any, name: str) -> Any:
        """An attribute of a stand-in."""
        if type(thing) is not RemoteMeta:
            for cls in mro_of(type(thing)):
                if type(cls) is RemoteMeta:
                    info = type.__getattribute__(cls, "_info")
                    if name in info.names:
                        if name in info.methods:
                            return Method(self, thing, name)
                        break
                elif cls in LAYOUTS and name in vars(cls):
                    return object.__getattribute__(thing, name)
        return self.request("get", [thing], name)

    def operate(self, operation: str, thing: Any, *args: Any) -> Any:
        """A special method of a stand-in."""
        if operation == "next":
            return self._next(thing)
        return self.request("op", [thing, *args], operation)

    def call(self, thing: Any, args: Any, kwargs: dict[str, Any], method: str = "") -> Any:
        """Call a stand-in, or a method of it."""
        roots = [thing, *args, *kwargs.values()]
        return self.request("call", roots, [method, list(kwargs)])

    def _next(self, thing: Any) -> Any:
        reference = reference_of(thing)
        if reference.items:
            return reference.items.pop()
        if reference.fault is not None:
            fault, reference.fault = reference.fault, None
            raise fault
        reference.run = reference.run + 1 if self.asked == reference.seen else 0
        reference.seen = self.asked + 1
        if reference.run < _STEADY or not _is_batched(info_of(thing).facts):
            return self.request("op", [thing], "next")
        items, reference.fault = self.request("batch", [thing], _BATCH)
        reference.items = items[::-1]
        return self._next(thing)

    def unbuffered(self, thing: Any) -> Any:
        """An iterator of the other side, with the items in front that were taken ahead."""
        if type(type(thing)) is not RemoteMeta or type(thing) not in self.types:
            return thing
        if BaseException in mro_of(type(thing)):
            return thing
        reference = reference_of(thing)
        if not reference.items:
            return thing
        items, reference.items = reference.items[::-1], []
        return itertools.chain(items, thing)

    def request(self, verb: str, roots: list[Any], extra: Any = None) -> Any:
        """Ask the other side and return its answer, or raise its exception."""
        self.asked += 1
        with self._turn:
            ident = self.new_id()
            self._send(["Q", ident, self.active, verb, extra], roots)
            while True:
                message = read_message(self.fd)
                if message[0] == "Q" and len(message) == 10 and message[2] == ident:
                    self._serve(message)
                    continue
                if message[0] != "A" or len(message) != 8 or message[1] != ident:
                    raise self.violation("an answer to no question")
                (result,) = self._receive(message[3:])
                if message[2] is True:
                    return result
                break
        if not isinstance(result, BaseException):
            raise self.violation("a failure without an exception")
        raise result

    def new_id(self) -> int:
        """An id for a request."""
        raise NotImplementedError

    def violation(self, what: str) -> ProtocolError:
        """The error for a broken protocol."""
        return ProtocolError(what)

    # answering

    def serve_forever(self) -> None:
        """Answer requests until the other side is gone."""
        try:
            with self._turn:
                while True:
                    message = read_message(self.fd)
                    if message[0] != "Q":
                        raise self.violation("an answer to no question")
                    self._serve(message)
        except PeerGone:
            return

    def _serve(self, message: list[Any]) -> None:
        _, ident, _, verb, extra, *payload = message
        outer, self.active = self.active, ident
        try:
            roots = self._receive(payload)
            self._turn.release()
            try:
                answer, done = self.perform(verb, extra, roots), True
            except (ProtocolError, PeerGone):
                raise
            except BaseException as problem:
                answer, done = problem, False
            finally:
                roots = []
                self._turn.acquire()
                # Another thread may be in the middle of a request of its own.
                self._turn.wait_for(lambda: self.active == ident)
            self._answer(ident, done, answer)
        finally:
            self.active = outer
            self._turn.notify_all()

    def _answer(self, ident: int, done: bool, answer: Any) -> None:
        try:
            self._send(["A", ident, done], [answer])
        except (ProtocolError, PeerGone):
            raise
        except BaseException as problem:
            text = f"{type(answer).__name__} cannot be handed over: {type(problem).__name__}"
            self._send(["A", ident, False], [RuntimeError(f"{text}: {problem}")])

    def perform(self, verb: str, extra: Any, roots: list[Any]) -> Any:
        """Do what the other side asks for."""
        return perform(self, verb, extra, roots)

    # frames

    def _send(self, head: list[Any], roots: list[Any]) -> None:
        changed: list[Shared] = []
        if not self.decoding:
            changed = self.shared.changed()
            self._drops += self.shared.drop_unused(changed)
        encoder = Encoder(self)
        top, sync = encoder.encode(roots, changed)
        released, self.released = self.released, []
        message = [*head, top, encoder.nodes, sync, self._drops, released]
        try:
            write_message(self.fd, message)
        except BaseException:
            self.released += released
            raise
        self._drops = []
        encoder.commit()

    def _receive(self, payload: list[Any]) -> list[Any]:
        try:
            top, nodes, sync, drops, released = payload
            for cid in drops:
                self.shared.forget(cid)
            self._release(released)
            wanted = len(top)
            parts = [*top, *sync]
        except (TypeError, ValueError, KeyError) as problem:
            raise self.violation(f"a malformed message: {problem}") from None
        self.decoding += 1
        try:
            return Decoder(self, nodes).decode(parts)[:wanted]
        finally:
            self.decoding -= 1


def _is_batched(facts: dict[str, Any]) -> bool:
    return facts["standard"] and (
        facts["module"] == "itertools" or facts["qualname"] in _BATCHED_TYPES
    )
