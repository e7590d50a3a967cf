"""HTTP/1.x responses from bytes cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.runtimes.wire import ResponseReader, WireError

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.0 200 OK\n\nhello"


def read(pieces: list[bytes]) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    body = b"".join(reader.feed(piece) for piece in pieces)
    if not reader.done:
        reader.end()
    return reader, body


@pytest.mark.parametrize("response", [LENGTH, CHUNKED, UNTIL_CLOSE])
def test_a_body_is_the_same_however_it_is_cut(response: bytes) -> None:
    for cut in range(len(response) + 1):
        reader, body = read([response[:cut], response[cut:]])
        assert body == b"hello"
        assert reader.done
    assert read([response[i : i + 1] for i in range(len(response))])[1] == b"hello"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_chunks_survive_any_two_cuts(chunks: list[bytes], data: st.DataObject) -> None:
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    response += b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    one, two = sorted(data.draw(st.integers(0, len(response))) for _ in range(2))
    reader, body = read([response[:one], response[one:two], response[two:]])
    assert body == b"".join(chunks)
    assert reader.reusable


def test_interim_heads_are_skipped() -> None:
    reader, body = read([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + LENGTH])
    assert (reader.head and reader.head.status, body) == (200, b"hello")


def test_repeated_headers_are_joined_and_names_lowered() -> None:
    reader, _ = read([b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"])
    assert reader.head is not None
    assert reader.head.headers["x-a"] == "1, 2"


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        (LENGTH, True),
        (CHUNKED, True),
        (UNTIL_CLOSE, False),
        (LENGTH.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), False),
        (LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (
            LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0").replace(
                b"OK\r\n", b"OK\r\nConnection: keep-alive\r\n"
            ),
            True,
        ),
        (LENGTH + b"unasked", False),
    ],
)
def test_a_connection_is_kept_only_where_the_server_allows(response: bytes, kept: bool) -> None:
    assert read([response])[0].reusable is kept


@pytest.mark.parametrize(
    ("response", "what"),
    [
        (b"", "without a response"),
        (b"HTTP/1.1 200 OK\r\nContent-", "in the middle of the response head"),
        (LENGTH[:-1], "before the body was complete"),
        (CHUNKED[:-2], "before the body was complete"),
        (b"<html>no server of ours</html>", "not an HTTP/1.x response"),
        (b"HTTP/2 200\r\n\r\n", "not an HTTP/1.x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not a chunk size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "not a chunk size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "compressed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, "longer than"),
    ],
)
def test_a_broken_response_is_named(response: bytes, what: str) -> None:
    with pytest.raises(WireError, match=what):
        read([response])
