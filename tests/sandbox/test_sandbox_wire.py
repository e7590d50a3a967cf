"""The wire: values cross with their exact types, and nothing hostile gets through."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import socket
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchrig.sandbox.judging import JudgePeer
from pytest_benchrig.sandbox.peer import Peer
from pytest_benchrig.sandbox.wire import (
    MAX_DEPTH,
    MAX_FRAME,
    PeerGone,
    ProtocolError,
    TooLargeError,
    read_message,
    write_message,
)


class Echo(Peer):
    """The other end: returns what it was sent, and shows what it got."""

    trusting = True
    parity = 1
    got: Any = None

    def new_id(self) -> int:
        return 1

    def perform(self, verb: str, extra: Any, roots: list[Any]) -> Any:
        self.got = roots[0] if roots else None
        if verb == "append":
            roots[0].append(extra)
            return None
        return roots[0]


def _serve(echo: Echo, end: socket.socket) -> None:
    try:
        echo.serve_forever()
    finally:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def ends() -> Iterator[tuple[JudgePeer, Echo]]:
    ours, theirs = socket.socketpair()
    echo = Echo(theirs.fileno())
    thread = threading.Thread(target=_serve, args=(echo, theirs))
    thread.start()
    yield JudgePeer(ours.fileno()), echo
    ours.close()
    thread.join()
    theirs.close()


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return all(map(_same, left, right)) and all(map(_same, left.values(), right.values()))
    return bool(left == right)


HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**61, max_value=2**80),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.fractions(),
    st.dates(),
    st.timedeltas(),
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.lists(inner).map(deque),
    ),
)


@settings(deadline=None, max_examples=60)
@given(value=VALUES)
def test_every_plain_value_comes_back_with_its_exact_type(value: Any) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        echo = Echo(theirs.fileno())
        thread = threading.Thread(target=_serve, args=(echo, theirs))
        thread.start()
        back = JudgePeer(ours.fileno()).request("echo", [[value]])
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert _same(back, [value])
    assert _same(echo.got, [value])


@pytest.mark.parametrize(
    "value",
    [
        1 + 2j,
        range(1, 9, 2),
        slice(None, 3),
        Decimal("1.50"),
        Fraction(1, 3),
        dt.datetime(2024, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2), "X"), fold=1),
        {1, "a"},
        frozenset({(1, 2)}),
        bytearray(b"\x00\xff"),
        Counter("aab"),
        OrderedDict(b=1, a=2),
        deque([1, 2], maxlen=2),
        pytest.param(10**5000, id="large"),
        "\ud800 lone",
        list[int],
        int | None,
        NotImplemented,
        ...,
        len,
        ValueError,
        str.lower,
    ],
)
def test_standard_values_cross(ends: tuple[JudgePeer, Echo], value: Any) -> None:
    judge, echo = ends
    back = judge.request("echo", [(value,)])[0]
    assert type(back) is type(value)
    assert back == value
    assert echo.got[0] == value


def test_infinities_and_the_sign_of_zero_cross(ends: tuple[JudgePeer, Echo]) -> None:
    judge, _ = ends
    inf, nan, zero = judge.request("echo", [[math.inf, math.nan, -0.0]])
    assert inf == math.inf
    assert math.isnan(nan)
    assert math.copysign(1, zero) == -1


def test_a_default_dictionary_keeps_its_factory(ends: tuple[JudgePeer, Echo]) -> None:
    judge, echo = ends
    judge.request("echo", [defaultdict(list, a=[1])])
    assert echo.got["new"] == []
    assert type(echo.got) is defaultdict


def test_shared_and_circular_structures_keep_their_shape(ends: tuple[JudgePeer, Echo]) -> None:
    judge, echo = ends
    inner: list[Any] = [1]
    value: dict[str, Any] = {"a": inner, "b": inner}
    value["me"] = value
    assert judge.request("echo", [value]) is value
    assert echo.got["a"] is echo.got["b"]
    assert echo.got["me"] is echo.got


def test_a_change_over_there_is_seen_here(ends: tuple[JudgePeer, Echo]) -> None:
    judge, _ = ends
    value = [1]
    alias = value
    judge.request("append", [value], 2)
    assert alias == [1, 2]


def test_a_change_here_is_seen_over_there(ends: tuple[JudgePeer, Echo]) -> None:
    judge, echo = ends
    value = [1]
    judge.request("echo", [value])
    over_there = echo.got
    value.append(5)
    judge.request("echo", [0])
    assert over_there == [1, 5]


def test_an_argument_is_the_same_object_when_it_comes_back(ends: tuple[JudgePeer, Echo]) -> None:
    judge, _ = ends
    for value in ([1], {}, (1, []), frozenset({1}), object(), lambda: 1):
        assert judge.request("echo", [value]) is value


def test_what_nobody_holds_any_more_is_forgotten(ends: tuple[JudgePeer, Echo]) -> None:
    judge, echo = ends
    for number in range(50):
        judge.request("echo", [[number]])
    echo.got = None
    judge.request("echo", [0])
    judge.request("echo", [0])
    assert len(judge.shared) <= 1
    assert len(echo.shared) <= 1


def test_400_levels_and_2_mb_cross(ends: tuple[JudgePeer, Echo]) -> None:
    judge, _ = ends
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    assert judge.request("echo", [deep]) is deep
    assert judge.request("echo", ["x" * 2_000_000]) == "x" * 2_000_000


def test_too_deep_and_too_large_values_are_refused_before_they_are_sent(
    ends: tuple[JudgePeer, Echo],
) -> None:
    judge, _ = ends
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 10):
        deep = [deep]
    with pytest.raises(TooLargeError):
        judge.request("echo", [deep])
    with pytest.raises(TooLargeError):
        judge.request("echo", ["x" * (MAX_FRAME + 1)])
    assert judge.request("echo", [5]) == 5


def _frame(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x01x",
        b"\xff\xff\xff\xff",
        _frame(b"{}"),
        _frame(b"[1,"),
        _frame(b"\xff\xfe"),
        _frame(b"[" * 200_000 + b"]" * 200_000),
        _frame(b"[" + b"[]," * 4_000_001 + b"0]"),
        _frame(b"[1" + b"0" * 5000 + b"]")
        if hasattr(__import__("sys"), "set_int_max_str_digits")
        else _frame(b"nope"),
    ],
    ids=["none", "short", "huge", "object", "cut", "utf-8", "deep", "many", "digits"],
)
def test_a_frame_that_is_not_ours_is_a_violation(data: bytes) -> None:
    reading, writing = os.pipe()
    thread = threading.Thread(target=_write_all, args=(writing, data))
    thread.start()
    with pytest.raises(ProtocolError):
        read_message(reading)
    os.close(reading)
    thread.join()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        pass
    finally:
        os.close(fd)


def test_an_end_in_the_middle_is_told_apart_from_garbage() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"\x00\x00\x00\x09[1,2")
    os.close(writing)
    with pytest.raises(PeerGone):
        read_message(reading)
    os.close(reading)


@settings(deadline=None, max_examples=200)
@given(
    node=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-3, 5), st.text(max_size=8)),
        lambda inner: st.lists(inner, max_size=5),
        max_leaves=12,
    ),
    tag=st.sampled_from(
        [
            "tuple",
            "list",
            "dict",
            "set",
            "str",
            "int",
            "bytes",
            "same",
            "value",
            "yours",
            "known",
            "class",
            "object",
            "held",
            "fault",
            "method",
            "module",
            "standard",
            "frozenset",
            "deque",
            "default",
            "counter",
            "ordered",
            "bytearray",
            "namespace",
        ]
    ),
)
def test_no_malformed_message_does_more_than_break_the_protocol(node: Any, tag: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        judge = JudgePeer(ours.fileno())
        answer = ["A", None, True, [[0]], [[tag, node, [], []], node], [], [], []]

        def answer_once() -> None:
            asked = read_message(theirs.fileno())
            answer[1] = asked[1]
            write_message(theirs.fileno(), answer)
            theirs.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=answer_once)
        thread.start()
        try:
            judge.request("echo", [1])
        except (ProtocolError, PeerGone):
            assert judge.gone
        finally:
            thread.join()


def test_an_answer_to_another_question_is_a_violation() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        judge = JudgePeer(ours.fileno())
        write_message(theirs.fileno(), ["A", 1, True, [5], [], [], [], []])
        with pytest.raises(ProtocolError):
            judge.request("echo", [1])
        assert "protocol" in judge.tampered
        with pytest.raises(PeerGone):
            judge.request("echo", [1])
