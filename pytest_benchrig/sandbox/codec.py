"""Values to nodes and back, without recursion and without pickle.

A message holds a flat table of nodes ``[tag, meta, needs, later]``. ``needs`` are the parts that
must exist before the value can be made, ``later`` those that are filled in afterwards, which is how
cycles work. A part is a JSON scalar, or ``[index]`` of another node. Plain data keeps its exact
type; what is neither plain nor known to both sides crosses as a reference to its owner.
"""

from __future__ import annotations

import types
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_benchrig.sandbox import known, values
from pytest_benchrig.sandbox.containers import BY_TAG, SHAPES, Shared
from pytest_benchrig.sandbox.faults import dump_fault, fill_fault, make_fault
from pytest_benchrig.sandbox.layouts import HELD, describe, layout_of, mro_of, standard_path
from pytest_benchrig.sandbox.pristine import BUILTINS
from pytest_benchrig.sandbox.proxy import Method
from pytest_benchrig.sandbox.wire import MAX_DEPTH, ProtocolError, TooLargeError

if TYPE_CHECKING:
    from pytest_benchrig.sandbox.peer import Peer

__builtins__ = BUILTINS


_INLINE = frozenset((bool, type(None), float))
_SMALL_INT = 1 << 62
_SHORT = 256
_MAXLEN: Any = vars(deque)["maxlen"]
_UNSET: Any = object()
Part = Any
Node = list[Any]


class TypeToken:
    """Stands for the class of an instance, as opposed to the class as a value."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        self.cls = cls


class Encoder:
    """Turns the values of one message into nodes; nothing is committed until it was sent."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.nodes: list[Node] = []
        self._things: list[Any] = []
        self._depths: list[int] = []
        self._index: dict[int, Part] = {}
        self._level = 0
        self._stale: set[int] = set()
        self._written: list[tuple[Shared, list[Any]]] = []
        self._described: list[int] = []

    def encode(self, roots: list[Any], changed: list[Shared]) -> tuple[list[Part], list[Part]]:
        """The roots, and the containers whose changed contents go along, as parts."""
        peer = self.peer
        self._stale = {entry.cid for entry in changed}
        for root in roots:
            if type(root) in (tuple, frozenset) and root:
                peer.keep_identity(root)
        top = [self.part(root) for root in roots]
        also = [self.part(entry.thing) for entry in changed]
        done = 0
        while done < len(self._things):
            self._level = self._depths[done] + 1
            if self._level > MAX_DEPTH:
                raise TooLargeError(f"a value nested deeper than {MAX_DEPTH} levels")
            self.nodes.append(self._node(self._things[done]))
            done += 1
        return top, also

    def commit(self) -> None:
        """The message went out: what it told is known on the other side from now on."""
        for entry, snapshot in self._written:
            entry.snapshot = snapshot
        self.peer.described.update(self._described)

    def part(self, thing: Any) -> Part:
        """A scalar as it is, anything else as a reference to its node."""
        cls = type(thing)
        if cls in _INLINE:
            return thing
        if cls is int:
            if -_SMALL_INT < thing < _SMALL_INT:
                return thing
        elif cls is str and len(thing) <= _SHORT:
            return thing
        part = self._index.get(id(thing))
        if part is None:
            part = self._index[id(thing)] = [len(self._things)]
            self._things.append(thing)
            self._depths.append(self._level)
        return part

    def parts(self, things: list[Any]) -> list[Part]:
        """The same for many; a list of plain scalars is passed on as it is."""
        kinds = set(map(type, things))
        if kinds <= _INLINE:
            return things
        if kinds == {int} and min(things) > -_SMALL_INT and max(things) < _SMALL_INT:
            return things
        if kinds == {str} and max(map(len, things)) <= _SHORT:
            return things
        part = self.part
        return [part(thing) for thing in things]

    def _node(self, thing: Any) -> Node:
        cls = type(thing)
        if cls is tuple:
            return ["tuple", self.peer.identity_of(thing), self.parts(list(thing)), []]
        if cls is str:
            return ["str", thing, [], []]
        if cls is int:
            return ["int", hex(thing), [], []]
        if cls is bytes:
            return ["bytes", thing.decode("latin-1"), [], []]
        if cls is frozenset:
            return ["frozenset", self.peer.identity_of(thing), self.parts(list(thing)), []]
        if cls in SHAPES:
            return self._container(thing, cls)
        if cls is TypeToken:
            return self._class(thing.cls)
        if cls is Method:
            return ["method", thing._name, [self.part(thing._owner)], []]
        plain = values.dump(thing)
        if plain is not None and plain[0] not in self.peer.by_reference:
            return ["value", plain[0], self.parts(plain[1]), []]
        if cls is TracebackType:
            return ["value", "itself", [None], []]
        return self._reference(thing, cls)

    def _container(self, thing: Any, cls: type, made_by: type | None = None) -> Node:
        peer = self.peer
        shared = peer.shared
        entry = shared.find(thing)
        if entry is None:
            entry = shared.add(thing, SHAPES[cls])
        elif entry.cid not in self._stale and entry.snapshot is not None:
            return ["same", entry.cid, [], []]
        items = entry.shape.items(thing)
        self._written.append((entry, items))
        meta: list[Any] = [entry.cid]
        needs: list[Part] = []
        if cls is deque:
            meta.append(_MAXLEN.__get__(thing))
        if made_by is not None:
            meta = [entry.cid, None, peer.own(thing)]
            needs = [self.part(peer.type_token(made_by))]
        return [entry.shape.tag, meta, needs, self.parts(items)]

    def _reference(self, thing: Any, cls: type) -> Node:
        peer = self.peer
        entry = peer.shared.find(thing)
        if entry is not None and entry.cid not in self._stale and entry.snapshot is not None:
            return ["same", entry.cid, [], []]
        if entry is not None and peer.handle_of(thing) is not None:
            return self._container(thing, layout_of(cls) or cls)
        handle = peer.handle_of(thing)
        if handle is not None:
            chained = peer.unbuffered(thing)
            if chained is thing:
                return ["yours", handle, [], []]
            thing, cls = chained, type(chained)
            self._things.append(thing)
            self._depths.append(self._level)
            return ["value", "itself", [[len(self._things) - 1]], []]
        name = known.name_of(thing, trusting=peer.trusting_receiver)
        if name is not None:
            return ["known", list(name), [], []]
        path = standard_path(thing) if peer.trusting_receiver else None
        if path is not None:
            return ["standard", path, [], []]
        mro = mro_of(cls)
        if type in mro:
            return self._class(thing)
        if BaseException in mro:
            parts = dump_fault(thing, peer.source_name)
            meta = [peer.own(thing), *parts.meta]
            return ["fault", meta, self.parts([cls, *parts.needs]), self.parts(parts.later)]
        if cls is types.ModuleType and peer.trusting_receiver:
            return ["module", str(thing.__name__), [], []]
        layout = layout_of(cls)
        if layout in SHAPES:
            return self._container(thing, layout, cls)
        if layout is not None:
            held = HELD[layout](thing)
            return ["held", [peer.own(thing)], self.parts([peer.type_token(cls), held]), []]
        extra, needs = peer.extra_of(thing)
        return ["object", [peer.own(thing), extra], self.parts([peer.type_token(cls), *needs]), []]

    def _class(self, cls: type) -> Node:
        handle = self.peer.own(cls)
        if handle in self.peer.described or handle in self._described:
            return ["class", [handle, None], [], []]
        described = describe(cls)
        self._described.append(handle)
        return ["class", [handle, described.facts], self.parts(list(described.bases)), []]


class Decoder:
    """Turns the nodes of one message into values; whatever does not fit is a violation."""

    def __init__(self, peer: Peer, nodes: Any) -> None:
        if type(nodes) is not list:
            raise ProtocolError("no table of nodes")
        self.peer = peer
        self._nodes = nodes
        self._values: list[Any] = [_UNSET] * len(nodes)
        self._open: list[tuple[Any, list[Part], Any]] = []
        self._filled = 0

    def decode(self, parts: Any) -> list[Any]:
        """The values of the parts.

        Raises:
            ProtocolError: The message is malformed.
        """
        try:
            self._check_depth(parts)
            for part in parts:
                self._resolve(part)
            self._fill()
            return [self._value(part) for part in parts]
        except Exception as problem:
            raise ProtocolError(
                f"a malformed message: {type(problem).__name__}: {str(problem)[:200]}"
            ) from None

    def _value(self, part: Part) -> Any:
        return self._values[part[0]] if type(part) is list else part

    def _values_of(self, parts: list[Part]) -> list[Any]:
        if list not in set(map(type, parts)):
            return parts
        made = self._values
        return [made[part[0]] if type(part) is list else part for part in parts]

    def _check_depth(self, parts: Any) -> None:
        if len(self._nodes) <= MAX_DEPTH:
            return
        seen = bytearray(len(self._nodes))
        level = [part[0] for part in parts if type(part) is list]
        depth = 0
        while level:
            depth += 1
            if depth > MAX_DEPTH + 1:
                raise ProtocolError(f"a value nested deeper than {MAX_DEPTH} levels")
            following: list[int] = []
            for index in level:
                if not seen[index]:
                    seen[index] = 1
                    node = self._nodes[index]
                    for group in (node[2], node[3]):
                        following += [part[0] for part in group if type(part) is list]
            level = following

    def _resolve(self, root: Part) -> None:
        if type(root) is not list:
            return
        made, nodes = self._values, self._nodes
        stack: list[int] = [root[0]]
        waiting: set[int] = set()
        while stack:
            index = stack[-1]
            if index < 0 or type(index) is not int:
                raise ValueError("a bad index")
            if made[index] is not _UNSET:
                stack.pop()
                continue
            tag, meta, needs, later = nodes[index]
            missing = [p[0] for p in needs if type(p) is list and made[p[0]] is _UNSET]
            if missing:
                if index in waiting:
                    raise ValueError("parts that need one another")
                waiting.add(index)
                stack += missing
                continue
            thing = self._make(tag, meta, self._values_of(needs), later)
            made[index] = thing
            stack.pop()

    def _fill(self) -> None:
        # What is filled may refer to nodes that nothing has resolved yet.
        done = 0
        while done < len(self._open):
            _, later, _ = self._open[done]
            for part in later if list in set(map(type, later)) else ():
                if type(part) is list and self._values[part[0]] is _UNSET:
                    self._resolve(part)
            done += 1
        hashed = []
        for entry in self._open:
            thing, later, how = entry
            if isinstance(how, Shared) and how.shape.tag not in ("list", "deque", "bytearray"):
                hashed.append(entry)
            else:
                self._fill_one(thing, later, how)
        for thing, later, how in hashed:
            self._fill_one(thing, later, how)

    def _fill_one(self, thing: Any, later: list[Part], how: Any) -> None:
        items = self._values_of(later)
        if isinstance(how, Shared):
            how.shape.fill(thing, items)
            how.snapshot = how.shape.items(thing)
        else:
            fill_fault(thing, items)

    def _make(self, tag: str, meta: Any, needs: list[Any], later: list[Part]) -> Any:
        peer = self.peer
        if tag == "tuple":
            return peer.known_identity(meta, tuple(needs))
        if tag == "frozenset":
            return peer.known_identity(meta, frozenset(needs))
        if tag == "str":
            return _exact(meta, str)
        if tag == "bytes":
            return meta.encode("latin-1")
        if tag == "int":
            return int(meta, 16)
        if tag == "same":
            return peer.shared.get(meta).thing
        if tag in BY_TAG:
            return self._container(tag, meta, needs, later)
        if tag == "value":
            return values.load(meta, needs)
        if tag == "yours":
            return peer.owned_thing(meta)
        if tag == "known":
            return known.by_name(*meta, trusting=peer.trusting)
        if tag == "class":
            return peer.class_of(_exact(meta[0], int), meta[1], needs)
        if tag == "object":
            return peer.proxy_of(_exact(meta[0], int), needs[0], meta[1], needs[1:])
        if tag == "held":
            return peer.held_value(_exact(meta[0], int), needs[0], needs[1])
        if tag == "fault":
            fault = make_fault(peer, meta, needs)
            self._open.append((fault, later, None))
            return fault
        if tag == "method":
            return peer.attribute_here(needs[0], _exact(meta, str))
        if tag == "module" and peer.trusting:
            return peer.import_module(meta)
        if tag == "standard" and peer.trusting:
            return peer.standard(*meta)
        raise ValueError(f"unknown kind {str(tag)[:40]!r}")

    def _container(self, tag: str, meta: Any, needs: list[Any], later: list[Part]) -> Any:
        peer = self.peer
        cid = _exact(meta[0], int)
        if peer.shared.knows(cid):
            entry = peer.shared.get(cid)
            if entry.shape.tag != tag:
                raise ValueError("a container that changed its kind")
            thing = entry.thing
            if len(meta) == 3:
                peer.received(_exact(meta[2], int), thing)
        else:
            shape = BY_TAG[tag]
            if len(meta) == 3:
                thing = peer.empty_subclass(_exact(meta[2], int), needs[0], shape)
            elif tag == "deque":
                thing = deque(maxlen=meta[1])
            else:
                thing = shape.make()
            if cid % 2 == peer.parity:
                raise ValueError("an id that is not the sender's to give")
            entry = peer.shared.add(thing, shape, cid)
        self._open.append((thing, later, entry))
        return thing


def _exact(thing: Any, cls: type) -> Any:
    if type(thing) is not cls:
        raise TypeError(f"{cls.__name__} expected")
    return thing
