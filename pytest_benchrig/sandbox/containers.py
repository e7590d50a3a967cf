"""Mutable containers that both sides hold: one id, two copies, contents re-sent when they changed.

A container is compared with a shallow snapshot, by identity of its elements. Only the base class's
own methods touch it, so a subclass of the other side runs no code here.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from operator import is_
from types import SimpleNamespace
from typing import Any

from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS


_ALL = slice(None)
_NAMESPACE = vars(SimpleNamespace)["__dict__"].__get__
_FACTORY: Any = vars(defaultdict)["default_factory"]


class Shape:
    """How one kind of container is read and written."""

    tag = ""
    make: Any
    """The exact builtin type."""

    def items(self, thing: Any) -> list[Any]:
        """Its contents as a flat list, which is the snapshot as well."""
        raise NotImplementedError

    def fill(self, thing: Any, items: list[Any]) -> None:
        """Replace the contents in place."""
        raise NotImplementedError

    def changed(self, thing: Any, snapshot: Any) -> bool:
        """Whether the contents differ from a snapshot."""
        items = self.items(thing)
        return len(items) != len(snapshot) or not all(map(is_, items, snapshot))


class _List(Shape):
    tag = "list"
    make: Any = list

    def items(self, thing: Any) -> list[Any]:
        return list.__getitem__(thing, _ALL)

    def fill(self, thing: Any, items: list[Any]) -> None:
        list.__setitem__(thing, _ALL, items)


class _Dict(Shape):
    tag = "dict"
    make: Any = dict

    def items(self, thing: Any) -> list[Any]:
        return [*dict.keys(thing), *dict.values(thing)]

    def fill(self, thing: Any, items: list[Any]) -> None:
        dict.clear(thing)
        half = len(items) // 2
        for key, value in zip(items[:half], items[half:], strict=True):
            dict.__setitem__(thing, key, value)


class _Counter(_Dict):
    tag = "counter"
    make: Any = Counter


class _Ordered(Shape):
    tag = "ordered"
    make: Any = OrderedDict

    def items(self, thing: Any) -> list[Any]:
        keys = list(OrderedDict.keys(thing))
        return [*keys, *(dict.__getitem__(thing, key) for key in keys)]

    def fill(self, thing: Any, items: list[Any]) -> None:
        OrderedDict.clear(thing)
        half = len(items) // 2
        for key, value in zip(items[:half], items[half:], strict=True):
            OrderedDict.__setitem__(thing, key, value)


class _Default(Shape):
    tag = "default"
    make: Any = defaultdict

    def items(self, thing: Any) -> list[Any]:
        factory = _FACTORY.__get__(thing)
        return [factory, *dict.keys(thing), *dict.values(thing)]

    def fill(self, thing: Any, items: list[Any]) -> None:
        _FACTORY.__set__(thing, items[0])
        _DICT.fill(thing, items[1:])


class _Set(Shape):
    tag = "set"
    make: Any = set

    def items(self, thing: Any) -> list[Any]:
        return list(set.__iter__(thing))

    def fill(self, thing: Any, items: list[Any]) -> None:
        set.clear(thing)
        set.update(thing, items)


class _Deque(Shape):
    tag = "deque"
    make: Any = deque

    def items(self, thing: Any) -> list[Any]:
        return list(deque.__iter__(thing))

    def fill(self, thing: Any, items: list[Any]) -> None:
        deque.clear(thing)
        deque.extend(thing, items)


class _Bytes(Shape):
    tag = "bytearray"
    make: Any = bytearray

    def items(self, thing: Any) -> list[Any]:
        return [bytes(bytearray.__getitem__(thing, _ALL))]

    def fill(self, thing: Any, items: list[Any]) -> None:
        bytearray.__setitem__(thing, _ALL, items[0])

    def changed(self, thing: Any, snapshot: Any) -> bool:
        return bool(self.items(thing) != snapshot)


class _Namespace(Shape):
    tag = "namespace"
    make: Any = SimpleNamespace

    def items(self, thing: Any) -> list[Any]:
        state = _NAMESPACE(thing)
        return [*state, *state.values()]

    def fill(self, thing: Any, items: list[Any]) -> None:
        _DICT.fill(_NAMESPACE(thing), items)


_DICT = _Dict()
SHAPES: dict[type, Shape] = {
    list: _List(),
    dict: _DICT,
    set: _Set(),
    bytearray: _Bytes(),
    deque: _Deque(),
    OrderedDict: _Ordered(),
    defaultdict: _Default(),
    Counter: _Counter(),
    SimpleNamespace: _Namespace(),
}
BY_TAG = {shape.tag: shape for shape in SHAPES.values()}


class Shared:
    """One container that the other side holds as well."""

    __slots__ = ("cid", "shape", "snapshot", "thing")

    def __init__(self, cid: int, thing: Any, shape: Shape) -> None:
        self.cid = cid
        self.thing = thing
        self.shape = shape
        self.snapshot: list[Any] | None = None


def _references_of_table() -> int:
    entry = Shared(0, [], _DICT)
    return sys.getrefcount(entry.thing)


_ALONE = _references_of_table()


class Registry:
    """All containers that are shared at this moment, by id and by identity."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._by_cid: dict[int, Shared] = {}
        self._by_id: dict[int, Shared] = {}

    def __len__(self) -> int:
        return len(self._by_cid)

    def find(self, thing: Any) -> Shared | None:
        """The entry of a container."""
        return self._by_id.get(id(thing))

    def get(self, cid: int) -> Shared:
        """The entry of an id; ``KeyError`` if there is none."""
        return self._by_cid[cid]

    def knows(self, cid: int) -> bool:
        """Whether the id is in use."""
        return cid in self._by_cid

    def add(self, thing: Any, shape: Shape, cid: int | None = None) -> Shared:
        """Share a container, under an id of this side unless the other side has given one."""
        if cid is None:
            cid = self._next
            self._next += 2
        entry = Shared(cid, thing, shape)
        self._by_cid[cid] = self._by_id[id(thing)] = entry
        return entry

    def forget(self, cid: int) -> None:
        """The other side does not use it any more."""
        entry = self._by_cid.pop(cid, None)
        if entry is not None:
            del self._by_id[id(entry.thing)]

    def drop_unused(self, changed: list[Shared]) -> list[int]:
        """Forget what only this table and its snapshots still hold; the ids of those.

        What has changed is kept until the other side has been told.
        """
        kept = {entry.cid for entry in changed}
        gone = [
            cid
            for cid, entry in self._by_cid.items()
            if sys.getrefcount(entry.thing) <= _ALONE and cid not in kept
        ]
        for cid in gone:
            self.forget(cid)
        return gone

    def changed(self) -> list[Shared]:
        """What has other contents than the other side knows."""
        return [
            entry
            for entry in list(self._by_cid.values())
            if entry.snapshot is None or entry.shape.changed(entry.thing, entry.snapshot)
        ]
