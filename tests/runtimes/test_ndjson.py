"""Newline-delimited JSON from stamped bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.runtimes.lines import LineTooLong
from pytest_benchrig.runtimes.ndjson import NdjsonParser


def parse(*pieces: bytes) -> list[tuple[int, bytes]]:
    parser = NdjsonParser()
    events = [e for ns, piece in enumerate(pieces) for e in parser.feed(ns, piece)]
    return [(e.ns, e.data) for e in events + parser.close()]


def test_blank_lines_crlf_a_bom_and_a_missing_last_newline() -> None:
    stream = b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"b":2}'
    assert [data for _, data in parse(stream)] == [b'{"a":1}', b'{"b":2}']


def test_a_line_is_stamped_when_its_text_is_complete() -> None:
    assert parse(b'{"a":', b"1}", b"\n", b'{"b":2}\n') == [(1, b'{"a":1}'), (3, b'{"b":2}')]


@given(st.lists(st.dictionaries(st.text(), st.text(), max_size=2), max_size=5), st.data())
def test_a_cut_anywhere_changes_nothing(values: list[dict[str, str]], draw: st.DataObject) -> None:
    stream = b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)
    cut = draw.draw(st.integers(0, len(stream)))
    assert [json.loads(d) for _, d in parse(stream[:cut], stream[cut:])] == values
    pieces = [stream[i : i + 1] for i in range(len(stream))]
    assert [json.loads(d) for _, d in parse(*pieces)] == values


def test_a_line_without_end_is_refused_while_it_comes() -> None:
    parser = NdjsonParser(max_line_bytes=50)
    for _ in range(5):
        parser.feed(0, b"0123456789")
    with pytest.raises(LineTooLong):
        parser.feed(0, b"0123456789")
