"""One end of the conversation between judge and candidate: requests and answers.

Exactly one side is active at any time. A request carries an id and the id of the request inside
which it was made; an answer repeats the id. Anything else that arrives is a violation.
"""

from __future__ import annotations

import itertools
from typing import Any

from pytest_benchrig.sandbox.codec import Decoder, Encoder
from pytest_benchrig.sandbox.containers import Shared
from pytest_benchrig.sandbox.holdings import Holdings
from pytest_benchrig.sandbox.layouts import LAYOUTS, mro_of
from pytest_benchrig.sandbox.operations import perform
from pytest_benchrig.sandbox.pristine import BUILTINS
from pytest_benchrig.sandbox.proxy import Method, RemoteMeta, info_of, reference_of
from pytest_benchrig.sandbox.turn import Turn
from pytest_benchrig.sandbox.wire import PeerGone, ProtocolError, read_message, write_message

__builtins__ = BUILTINS


_STEADY = 64
_BATCH = 256
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


class Peer(Holdings):
    """What both sides have in common."""

    trusting = False
    """Whether this side may be told to resolve any name: only the candidate."""
    trusting_receiver = False
    source_name = ""
    by_reference: frozenset[str] = frozenset()
    """Tags of values that stay with their owner in this run, because they lead to its files."""

    def __init__(self, fd: int = -1) -> None:
        super().__init__()
        self.fd = fd
        self.active = 0
        self.asked = 0
        self.decoding = 0
        self._drops: list[int] = []
        self._turn = Turn()

    def peer(self) -> Peer:
        """This side as what stand-ins talk through."""
        return self

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
            self.release(released)
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
