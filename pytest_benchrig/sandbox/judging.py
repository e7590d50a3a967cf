"""The judge's end: what it believes of an object that lives with the candidate.

Plain data crossed by value, so its comparisons happen here. An object of the candidate's own class
is never equal to plain data by its own word alone: it is asked about decoys as well, and only if
the assertion itself made it or it is of a standard class; any other is simply unequal.
"""

from __future__ import annotations

import datetime as dt
import os
import types
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pytest_benchrig.sandbox.decoys import (
    TOLERATED,
    decoys,
    extremes,
    hidden_among,
    hidden_order,
    unrelated,
)
from pytest_benchrig.sandbox.layouts import HELD, layout_of
from pytest_benchrig.sandbox.peer import Peer
from pytest_benchrig.sandbox.pledges import Pledges
from pytest_benchrig.sandbox.proxy import (
    ARITHMETIC,
    COMPARISONS,
    OPERATIONS,
    REFLECTED,
)
from pytest_benchrig.sandbox.standing import (
    compared_fields,
    defines,
    defines_equality,
    is_standard,
    is_trusted,
    words_for,
)
from pytest_benchrig.sandbox.wire import PeerGone, ProtocolError

ASSERTION_MODULE = "assertions"
"""``__name__`` of the assertions' namespace, and so the module of classes defined in them."""

_LEAKING = frozenset(["sub", "rsub", "truediv", "rtruediv", "xor", "rxor"])
"""Arithmetic by which an expected number can reach the candidate just before a tolerance check."""

_OPPOSITE = {"lt": "gt", "le": "gt", "gt": "lt", "ge": "lt"}
_ARITHMETIC = frozenset((*ARITHMETIC, *REFLECTED))
_NUMBERS = frozenset((int, float, complex, Decimal, Fraction))
_MEASURED = _NUMBERS | {dt.date, dt.datetime, dt.timedelta, dt.time}
_TOLD_DUNDERS = frozenset(
    ["__name__", "__qualname__", "__doc__", "__module__", "__wrapped__", "__class__"]
)
_HIDDEN_PREFIXES = ("__", "gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_", "_mock")


class JudgePeer(Peer):
    """The judge's end."""

    trusting_receiver = True
    parity = 0

    def __init__(self, fd: int = -1) -> None:
        super().__init__(fd)
        self.decided = False
        """Whether an answer rests on the candidate's own word."""
        self.tampered = ""
        """What was caught, if anything was."""
        self.gone = ""
        """Why nothing can be asked any more."""
        self.pledges = Pledges()
        """The asserts that must have held."""
        self.be_told_of_functions()

    def new_id(self) -> int:
        """An id that the candidate cannot foresee."""
        return int.from_bytes(os.urandom(7), "big")

    def violation(self, what: str) -> ProtocolError:
        """The error for a broken protocol, which ends the conversation."""
        self.tampered = self.tampered or f"the candidate broke the protocol: {what}"
        self.gone = self.gone or self.tampered
        return ProtocolError(what)

    def caught(self, what: str) -> None:
        """Note that an answer cannot be honest."""
        self.tampered = self.tampered or what

    def request(self, verb: str, roots: list[Any], extra: Any = None) -> Any:
        """Ask the candidate; what it breaks is noted, whoever swallows the exception."""
        if self.gone:
            raise PeerGone(self.gone)
        try:
            return super().request(verb, roots, extra)
        except ProtocolError as problem:
            raise self.violation(str(problem)) from None
        except PeerGone:
            self.gone = self.gone or "the program ended"
            raise
        except AssertionError as problem:
            self.pledges.came_back(problem)
            raise

    # what the candidate may do with objects of the judge

    def perform(self, verb: str, extra: Any, roots: list[Any]) -> Any:
        """Do what the candidate asks for, with an object that it was given."""
        if not roots or self._owned_ids.get(id(roots[0])) is None:
            raise self.violation("a request about an object that was not handed over")
        try:
            return super().perform(verb, extra, roots)
        except AssertionError as problem:
            self.pledges.handed_over(problem, to_exit=False)
            raise

    def attribute_here(self, thing: Any, name: str) -> Any:
        """An attribute, unless it leads to the assertions.

        Raises:
            AttributeError: It does not exist, as far as the candidate is told.
        """
        if not self._may_see(thing, name):
            raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")
        if name == "__dict__":
            return dict(vars(thing))
        return getattr(thing, name)

    def set_here(self, thing: Any, name: str, value: Any) -> None:
        """Set an attribute that is the candidate's business."""
        shown = isinstance(thing, type) and name in ("__repr__", "__str__")
        if type(name) is not str or (name.startswith(("__", "assert_")) and not shown):
            raise AttributeError(f"attribute {name!r} cannot be set")
        setattr(thing, name, self._member(value) if isinstance(thing, type) else value)

    def _member(self, value: Any) -> Any:
        """What a class decorator of the candidate adds, as something that binds to instances."""
        if not self.is_theirs(value) or not is_standard(value):
            return value
        kind = type(value).__name__
        if kind == "function":
            return lambda *args, **kwargs: value(*args, **kwargs)
        if kind == "property":
            return property(value.fget, value.fset, value.fdel)
        return value

    def delete_here(self, thing: Any, name: str) -> None:
        """Delete an attribute that is the candidate's business."""
        if type(name) is not str or name.startswith("__"):
            raise AttributeError(f"attribute {name!r} cannot be deleted")
        delattr(thing, name)

    def _may_see(self, thing: Any, name: Any) -> bool:
        if type(name) is not str:
            return False
        if name in _TOLD_DUNDERS:
            return True
        if isinstance(thing, type):
            return thing.__module__ == ASSERTION_MODULE and name not in ("__subclasses__", "mro")
        ours = type(thing).__module__ == ASSERTION_MODULE
        if name.startswith("__"):
            if ours and name == "__dict__":
                return True
            if name == "__annotations__":
                return True
            return (ours or name in ("__next__", "__iter__")) and name[2:-2] in OPERATIONS
        return ours or not name.startswith(_HIDDEN_PREFIXES)

    def extra_of(self, thing: Any) -> tuple[Any, list[Any]]:
        """The signature of a function, so that the candidate can be given a real one."""
        if type(thing) is not types.FunctionType:
            return None, []
        code = thing.__code__
        count, keyword = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames
        parameters = [[name, "plain"] for name in names[:count]]
        rest = count + keyword
        if code.co_flags & 0x04:
            parameters.append([names[rest], "args"])
            rest += 1
        parameters += [[name, "keyword"] for name in names[count : count + keyword]]
        if code.co_flags & 0x08:
            parameters.append([names[rest], "kwargs"])
        facts = {
            "name": thing.__name__,
            "qualname": thing.__qualname__,
            "doc": thing.__doc__ if isinstance(thing.__doc__, str) else None,
            "module": ASSERTION_MODULE,
            "asynchronous": bool(code.co_flags & 0x80),
            "positional_only": code.co_posonlyargcount,
            "parameters": parameters,
        }
        return facts, [thing.__defaults__, thing.__kwdefaults__, dict(thing.__annotations__)]

    # what the judge believes

    def is_theirs(self, thing: Any) -> bool:
        """Whether an object is the candidate's."""
        return self.handle_of(thing) is not None

    def attribute(self, thing: Any, name: str) -> Any:
        """An attribute; of a stranger that holds a plain value, the builtin's own method."""
        layout = layout_of(type(thing))
        if layout in HELD and not name.startswith("__") and name in vars(layout):
            found = vars(layout)[name]
            if callable(found) and not is_trusted(thing) and not is_standard(thing):
                return found.__get__(thing)
        return super().attribute(thing, name)

    def operate(self, operation: str, thing: Any, *args: Any) -> Any:
        """A special method of an object of the candidate."""
        if args:
            if operation in COMPARISONS:
                return self._compare(operation, thing, args[0])
            if operation == "contains":
                return self._contains(thing, args[0])
            if operation in _ARITHMETIC and not self.is_theirs(args[0]):
                return self._arithmetic(operation, thing, args)
            if operation == "exit" and isinstance(args[1], AssertionError):
                return self._leave(thing, *args)
        elif operation == "bool" and not is_standard(thing):
            self.decided = True
        return super().operate(operation, thing, *args)

    def _leave(self, thing: Any, kind: Any, fault: AssertionError, trace: Any) -> bool:
        """Whether a context manager of the candidate swallows a failed assertion."""
        self.pledges.handed_over(fault, to_exit=True)
        swallowed = bool(super().operate("exit", thing, kind, fault, trace))
        if not swallowed:
            self.pledges.came_back(fault)
        return swallowed

    def _ask(self, operation: str, thing: Any, values: list[Any]) -> list[tuple[bool, Any]]:
        answers = self.request("many", [thing, *values], operation)
        if type(answers) is not list or len(answers) != 2 * len(values):
            raise self.violation("a wrong number of answers")
        return list(zip(answers[::2], answers[1::2], strict=True))

    def _ask_twice(
        self, operation: str, thing: Any, values: list[Any], real: Any
    ) -> list[tuple[bool, Any]]:
        """Answers that must not depend on what was asked before."""
        first = self._ask(operation, thing, values)
        place = next(index for index, value in enumerate(values) if value is real)
        order = hidden_order(len(values), place)
        second = self._ask(operation, thing, [values[index] for index in order])
        for index, (done, reply) in zip(order, second, strict=True):
            before = first[index]
            if (done, reply) != before and type(reply) is bool and type(before[1]) is bool:
                self.caught(
                    f"an object of {words_for(thing)} answers the same question differently"
                )
        return first

    def _compare(self, operation: str, thing: Any, other: Any) -> Any:
        if self.is_theirs(other):
            return self._compare_theirs(operation, thing, other)
        layout = layout_of(type(thing))
        overridden = defines(thing, operation)
        if layout is not None and not (overridden and is_trusted(thing)):
            return getattr(layout, f"__{operation}__")(thing, other)
        if not is_trusted(thing):
            return NotImplemented
        if operation in ("eq", "ne"):
            return self._equals_plain(operation, thing, other)
        return self._orders_plain(operation, thing, other)

    def _compare_theirs(self, operation: str, thing: Any, other: Any) -> Any:
        equality = operation in ("eq", "ne")
        if equality and not defines_equality(thing) and not defines_equality(other):
            layout = layout_of(type(thing))
            if layout is not None:
                return getattr(layout, f"__{operation}__")(thing, other)
            return (thing is other) is (operation == "eq")
        fields = compared_fields(thing)
        if equality and fields is not None and type(thing) is type(other):
            left = self.request("fields", [thing], fields)
            right = self.request("fields", [other], fields)
            return (left == right) is (operation == "eq")
        answer = self.request("op", [thing, other], operation)
        if type(answer) is bool and equality and not is_standard(thing):
            self.decided = True
            self._canary(operation, thing, answer)
        elif not is_standard(thing):
            self.decided = True
        return answer

    def _canary(self, operation: str, thing: Any, answer: bool) -> None:
        says_equal = answer is (operation == "eq")
        if says_equal:
            values = unrelated()
            answers = self._ask_twice("eq", thing, values, values[0])
            if sum(done and reply is True for done, reply in answers) > 1:
                self.caught(f"an object of {words_for(thing)} is equal to unrelated values")
        elif operation == "ne":
            ((done, reply),) = self._ask("ne", thing, [thing])
            if done and reply is True:
                self.caught(f"an object of {words_for(thing)} is unequal to itself")

    def _equals_plain(self, operation: str, thing: Any, other: Any) -> Any:
        values = hidden_among(decoys(other), other)
        if len(values) < 2:
            return NotImplemented
        answers = self._ask_twice("eq", thing, values, other)
        yes = sum(done and reply is True for done, reply in answers)
        real = next(a for a, value in zip(answers, values, strict=True) if value is other)
        equal = real == (True, True)
        if equal and yes - 1 > min(TOLERATED, (len(values) - 1) // 3):
            self.caught(f"an object of {words_for(thing)} is equal to decoys of the expected value")
            return operation == "ne"
        self.decided = True
        return equal is (operation == "eq")

    def _orders_plain(self, operation: str, thing: Any, other: Any) -> Any:
        values = hidden_among([*extremes(other), *decoys(other, 8)], other)
        answers = self._ask_twice(operation, thing, values, other)
        real = next(a for a, value in zip(answers, values, strict=True) if value is other)
        told = [reply for done, reply in answers if done]
        self.decided = True
        if not real[0]:
            return NotImplemented
        if real[1] is True and len(told) > 2 and all(reply is True for reply in told):
            # Infinity is greater than everything, but not smaller as well.
            answers = self._ask(_OPPOSITE[operation], thing, values)
            if any(done for done, _ in answers) and all(r is True for done, r in answers if done):
                self.caught(f"an object of {words_for(thing)} compares the same with every value")
                return False
        if type(real[1]) is not bool:
            return NotImplemented
        return real[1]

    def _contains(self, thing: Any, item: Any) -> Any:
        layout = layout_of(type(thing))
        if layout is not None and not (defines(thing, "contains") and is_trusted(thing)):
            return getattr(layout, "__contains__")(thing, item)  # noqa: B009 - not on the class
        others = [] if self.is_theirs(item) else decoys(item, 8)
        if not others:
            self.decided = self.decided or not is_standard(thing)
            return self.request("op", [thing, item], "contains")
        values = hidden_among(others, item)
        answers = self._ask_twice("contains", thing, values, item)
        done, reply = next(a for a, value in zip(answers, values, strict=True) if value is item)
        if not done:
            return self.request("op", [thing, item], "contains")
        self.decided = self.decided or not is_standard(thing)
        if reply is True and all(answer == (True, True) for answer in answers):
            (far,) = self._ask("contains", thing, [unrelated()[0]])
            if far == (True, True):
                self.caught(f"an object of {words_for(thing)} contains everything")
                return False
        return reply is True

    def _arithmetic(self, operation: str, thing: Any, args: tuple[Any, ...]) -> Any:
        layout = layout_of(type(thing))
        trusted = is_trusted(thing)
        plain = type(args[0]) in _MEASURED
        if layout in HELD and not trusted:
            return getattr(layout, f"__{operation}__")(thing, *args)
        if operation not in _LEAKING or not plain:
            return super().operate(operation, thing, *args)
        if not trusted:
            raise TypeError(
                f"an object of the candidate's {words_for(thing)} stands where a number is used"
            )
        values = hidden_among(decoys(args[0], 10), args[0])
        answers = self._ask(operation, thing, values)
        real = next(a for a, value in zip(answers, values, strict=True) if value is args[0])
        told = [reply for done, reply in answers if done]
        if not real[0]:
            return super().operate(operation, thing, *args)
        unchanged = all(type(t) in _MEASURED and t == real[1] for t in told)
        if unchanged and len(told) > 3 and not ("div" in operation and real[1] == 0):
            self.caught(f"arithmetic of {words_for(thing)} gives the same for every number")
        return real[1]
