"""Server-sent events from stamped bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.lines import LineTooLong
from pytest_benchrig.runtimes.sse import GARBAGE, SseParser


def parse(*pieces: bytes) -> list[StampedEvent]:
    parser = SseParser()
    events = [e for ns, piece in enumerate(pieces) for e in parser.feed(ns, piece)]
    return events + parser.close()


def data(*pieces: bytes) -> list[bytes]:
    return [e.data for e in parse(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": ping\n\ndata: a\n: ping\n\n:\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"id: 7\nretry: 3000\nx-other: 1\ndata: a\n\n", [b"a"]),
        (b"data: a", [b"a"]),
        ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
        (b"event: x\n\n", []),
        (b"", []),
    ],
)
def test_events(stream: bytes, expected: list[bytes]) -> None:
    assert data(stream) == expected


def test_an_event_has_its_name_and_the_next_has_none() -> None:
    events = parse(b"event: error\ndata: {}\n\ndata: a\n\n")
    assert [(e.name, e.data) for e in events] == [("error", b"{}"), ("", b"a")]


def test_what_is_no_field_is_garbage() -> None:
    assert [e.name for e in parse(b'<html>\n{"error": "x"}\nfoo: bar\n')] == [GARBAGE, GARBAGE]


def test_an_error_field_is_an_error_event() -> None:
    assert [(e.name, e.data) for e in parse(b'error: {"code":500}\n\n')] == [
        ("error", b'{"code":500}')
    ]


@given(
    st.lists(
        st.sampled_from(
            [b"data: x", b"data:zaz\xc5\xbc", b"", b"", b": c", b"event: e", b"data", b"junk"]
        ),
        max_size=12,
    ),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_a_cut_anywhere_changes_nothing(
    lines: list[bytes], end: bytes, draw: st.DataObject
) -> None:
    stream = end.join(lines)
    whole = [(e.name, e.data) for e in parse(stream)]
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [(e.name, e.data) for e in parse(*pieces)] == whole
    assert [
        (e.name, e.data) for e in parse(*(stream[i : i + 1] for i in range(len(stream))))
    ] == whole


def test_an_event_is_stamped_when_its_text_is_complete_not_its_blank_line() -> None:
    events = parse(b"data: a", b"bc", b"\r\n", b"\r\n", b"data: d\n\n")
    assert [(e.ns, e.data) for e in events] == [(1, b"abc"), (4, b"d")]


def test_a_line_without_end_is_refused_while_it_comes() -> None:
    parser = SseParser(max_line_bytes=1000)
    parser.feed(0, b"data: " + b"x" * 994)
    with pytest.raises(LineTooLong, match="1,000 bytes"):
        parser.feed(0, b"x")
    with pytest.raises(LineTooLong):
        SseParser(max_line_bytes=10).feed(0, b"data: 0123456789\n\n")


def test_a_whole_event_that_is_too_long_is_refused_too() -> None:
    parser = SseParser(max_line_bytes=10)
    assert parser.feed(1, b"data: {}\n\n") == [StampedEvent(1, b"{}")]
    with pytest.raises(LineTooLong):
        parser.feed(2, b"data: {1:23}\n\n")


def test_a_whole_event_completes_what_came_before() -> None:
    parser = SseParser()
    assert parser.feed(1, b"event: a\ndata: one\n") == []
    assert parser.feed(2, b"data: two\n\n") == [StampedEvent(2, b"one\ntwo", "a")]
