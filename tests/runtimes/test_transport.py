"""Connections: kept, stamped, under TLS, through a proxy; and what is on the wire."""

from __future__ import annotations

import gc
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes import clock
from pytest_benchrig.runtimes.address import Endpoint, proxy_of, tls_context
from pytest_benchrig.runtimes.clock import SO_TIMESTAMPNS, KernelClock, now_ns
from pytest_benchrig.runtimes.http import HttpClient
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.redact import redact_text, redact_url
from pytest_benchrig.runtimes.transport import Raw, connect
from tests.runtimes.support import (
    CERTIFICATE,
    GOOD,
    STREAM,
    Canned,
    CannedFactory,
    Opener,
    as_json,
    ask,
    chunk,
    framed,
    http,
    server_tls,
)

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps segments")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, int]]:
    """A listener's accepted end and the port to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, listener.getsockname()[1]


@LINUX
def test_a_read_is_stamped_when_the_segment_came_not_when_it_was_read(
    pair: tuple[socket.socket, int],
) -> None:
    listener, port = pair
    connection = connect("127.0.0.1", port, tls=None, timeout_sec=5)
    peer, _ = listener.accept()
    try:
        connection.wait_at_most(5_000_000_000)
        deadline = now_ns() + 10_000_000_000
        while now_ns() < deadline:
            # The kernel switches its stamps on a moment after the first socket asked for them.
            peer.sendall(b"-")
            if connection.segment(connection.receive()).kernel:
                break
        peer.sendall(b"a")
        sent = now_ns()
        threading.Event().wait(0.05)
        read = now_ns()
        segment = connection.segment(connection.receive())
    finally:
        peer.close()
        connection.close()
    assert segment.kernel
    assert segment.ns < sent + 5_000_000 < read


@LINUX
def test_stamps_never_go_back_nor_ahead(pair: tuple[socket.socket, int]) -> None:
    listener, port = pair
    connection = connect("127.0.0.1", port, tls=None, timeout_sec=5)
    peer, _ = listener.accept()
    try:
        connection.wait_at_most(5_000_000_000)
        connection.send(b"x", 5)
        peer.recv(1)
        last = connection.start_ns
        for _ in range(50):
            peer.sendall(b"a")
            segment = connection.segment(connection.receive())
            assert last <= segment.ns <= now_ns()
            last = segment.ns
        peer.close()
        assert connection.segment(connection.receive()).data == b""
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("stamp_ago", "step", "mapped"),
    [(1_000_000, 0, True), (0, -3_600_000_000_000, False), (0, 3_600_000_000_000, False)],
)
def test_a_stepped_wall_clock_is_noticed(stamp_ago: int, step: int, mapped: bool) -> None:
    wall = 1_900_000_000_123_456_789
    payload = struct.pack("@ll", *divmod(wall - stamp_ago - step, 1_000_000_000))
    found = KernelClock().arrival(
        [(socket.SOL_SOCKET, SO_TIMESTAMPNS, payload)],
        socket.SOL_SOCKET,
        before=5_000_000_000,
        wall=wall,
        after=5_000_000_200,
    )
    assert found == (5_000_000_100 - stamp_ago if mapped else None)


@pytest.mark.parametrize("primed", [True, False])
def test_a_first_read_that_was_interrupted_needs_the_clocks_known_before(
    primed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = 1_900_000_000_000_000_000
    readings = iter([100_000, 200_000, 300_000, 300_200])  # the first try is interrupted too
    monkeypatch.setattr(clock, "now_ns", lambda: next(readings))
    monkeypatch.setattr("time.time_ns", lambda: offset + 300_100)
    known = KernelClock()
    if primed:
        known.prime()
    payload = struct.pack("@ll", *divmod(offset + 400_000, 1_000_000_000))
    found = known.arrival(
        [(socket.SOL_SOCKET, SO_TIMESTAMPNS, payload)],
        socket.SOL_SOCKET,
        before=500_000,
        wall=offset + 900_000,
        after=900_000,
    )
    assert found == (400_000 if primed else None)


def test_a_read_without_a_stamp_falls_back_on_the_clock(pair: tuple[socket.socket, int]) -> None:
    _, port = pair
    connection = connect("127.0.0.1", port, tls=None, timeout_sec=5)
    segment = connection.segment((b"x", [], 7, 0, 8))
    connection.close()
    assert (segment.ns, segment.kernel) == (7, False)


def test_a_connection_is_kept_and_connecting_reported_once(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(Canned(framed(*GOOD), "keep"))
    runtime = opened(OpenAIRuntime, server.url)
    first, second = (runtime.generate(ask()).marks for _ in range(2))
    assert server.connections == 1
    assert first.connect_ns is not None
    assert first.connect_ns > 0
    assert second.connect_ns is None


@pytest.mark.parametrize(
    "response",
    [
        Canned([http(b"".join(GOOD), extra="Connection: close\r\n")]),
        Canned([STREAM.replace(b"1.1", b"1.0"), *GOOD]),
    ],
)
def test_a_connection_is_not_kept_where_the_server_ends_it(
    canned: CannedFactory, opened: Opener, response: Canned
) -> None:
    server = canned(response)
    runtime = opened(OpenAIRuntime, server.url)
    for _ in range(2):
        generation = runtime.generate(ask())
        assert generation.text == "Hello there"
        assert generation.notes == ()
    assert server.connections == 2


def test_a_stream_that_is_done_but_stays_open_does_not_hold_us(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(Canned([STREAM, *GOOD], "hang"))
    assert opened(OpenAIRuntime, server.url).generate(ask()).text == "Hello there"
    assert server.cancelled.wait(10)


def test_tls_with_a_named_ca(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    server = canned(Canned(framed(*GOOD), "keep"), tls=server_tls())
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    tls_context.cache_clear()
    assert generation.text == "Hello there"
    assert not generation.marks.kernel_stamps
    assert generation.marks.arrivals[0].ns >= generation.marks.start_ns


def test_a_ca_file_that_is_not_there(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    runtime = opened(OpenAIRuntime, canned(as_json({}), tls=server_tls()).url)
    for call in (runtime.list_models, lambda: runtime.generate(ask())):
        with pytest.raises(RuntimeFault, match="CA file") as caught:
            call()
        assert "REQUESTS_CA_BUNDLE" in caught.value.remedy


def test_untimed_requests_take_the_same_ca(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    server = canned(as_json({"data": [{"id": "m"}]}), tls=server_tls())
    assert [m.name for m in opened(OpenAIRuntime, server.url).list_models()] == ["m"]


def test_the_request_on_the_wire(canned: CannedFactory, opened: Opener) -> None:
    server = canned(Canned(framed(*GOOD)))
    opened(OpenAIRuntime, server.url.replace("http://", "http://me:pa%40ss@")).generate(ask())
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in lines
    assert "Authorization: Basic bWU6cGFAc3M=" in lines
    assert "Accept-Encoding: identity" in lines
    assert f"Content-Length: {len(body)}" in lines
    assert json.loads(body)["messages"] == [{"role": "user", "content": "Hi"}]


def test_the_garbage_collector_runs_again_after_a_stream(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(Canned(framed(chunk("Once"))))
    with pytest.raises(RuntimeFault):
        opened(OpenAIRuntime, server.url).generate(ask())
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost", "http://localhost:80"),
        ("127.0.0.1:11434/", "http://127.0.0.1:11434"),
        ("http://gpu:8000/v1/", "http://gpu:8000/v1"),
        ("https://gpu", "https://gpu:443"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("http://me:secret@gpu:1/x", "http://gpu:1/x"),
        ("http://żółw.pl/ścieżka", "http://xn--w-uga1v8h.pl:80/%C5%9Bcie%C5%BCka"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert Endpoint.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    ["", "ftp://x", "http://", "http://h:99999", "http://h:x", "http://a b", "http://a\r\nb"],
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(RuntimeFault, match="no server address"):
        Endpoint.parse(text)


def test_a_key_that_is_none_is_said_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc\r\nX-Injected: 1")
    with pytest.raises(RuntimeFault, match="MY_KEY") as caught:
        Endpoint.parse("http://h", api_key_env="MY_KEY")
    assert "Injected" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:pw@h/x", "http://***@h/x"),
        ("http://me:p/w@h/x", "http://***@h/x"),
        ("me:pw@h:1", "***@h:1"),
        ("http://h:80/a@b", "http://h:80/a@b"),
        ("http://h/?api_key=abc&x=1", "http://h/?api_key=***&x=1"),
        ("http://h/?access_token=abc#f", "http://h/?access_token=***#f"),
    ],
)
def test_credentials_in_urls_are_redacted(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_credentials_in_texts_are_redacted() -> None:
    said = "bad header Authorization: Bearer abcdef123456 for http://me:pw@h and s3cr3t"
    shown = redact_text(said, ["s3cr3t"])
    assert shown == "bad header Authorization: Bearer *** for http://***@h and ***"


def test_credentials_are_in_no_text_form_of_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    endpoint = Endpoint.parse("http://me:hunter2@h", api_key_env="MY_KEY")
    shown = repr(endpoint) + repr(endpoint.site("openai:m")) + endpoint.url
    assert "sk-secret" not in shown
    assert "hunter2" not in shown


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8", "0.0.0.0"])
def test_loopback_ignores_proxies(no_proxies: pytest.MonkeyPatch, host: str) -> None:
    no_proxies.setenv("http_proxy", "http://proxy.invalid:3128")
    assert proxy_of(Endpoint.parse(f"http://{host}:1")) is None
    assert proxy_of(Endpoint.parse("http://gpu.example:1")) == "http://proxy.invalid:3128"
    no_proxies.setenv("no_proxy", "gpu.example")
    assert proxy_of(Endpoint.parse("http://gpu.example:1")) is None


def test_timed_and_untimed_requests_go_through_a_proxy(
    canned: CannedFactory, opened: Opener, no_proxies: pytest.MonkeyPatch
) -> None:
    proxy = canned(Canned(framed(*GOOD)), as_json({"data": []}))
    no_proxies.setenv("http_proxy", proxy.url.replace("http://", "http://me:pw@"))
    runtime = opened(OpenAIRuntime, "http://gpu.invalid:8000")
    assert runtime.generate(ask()).text == "Hello there"
    assert runtime.list_models() == ()
    for request, verb in zip(proxy.requests, (b"POST", b"GET"), strict=True):
        assert request.startswith(verb + b" http://gpu.invalid:8000/v1/")
        assert b"proxy-authorization: basic bwu6chc=" in request.lower()


def test_tls_goes_through_a_tunnel_of_the_proxy(
    canned: CannedFactory, opened: Opener, no_proxies: pytest.MonkeyPatch
) -> None:
    proxy = canned(Canned([b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"]))
    no_proxies.setenv("https_proxy", proxy.url)
    with pytest.raises(RuntimeFault, match="407") as caught:
        opened(OpenAIRuntime, "https://gpu.invalid").generate(ask())
    assert caught.value.kind == "unreachable"
    assert proxy.requests[0].startswith(b"CONNECT gpu.invalid:443 HTTP/1.1\r\n")


def test_an_untimed_body_has_a_bound(
    canned: CannedFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchrig.runtimes.http.MAX_BODY_BYTES", 1000)
    client = HttpClient(Endpoint.parse(canned(as_json(["x" * 2000])).url))
    with pytest.raises(RuntimeFault, match="larger than"):
        client.json("GET", "/")
    client.close()


def test_an_untimed_answer_that_is_no_json(canned: CannedFactory) -> None:
    client = HttpClient(Endpoint.parse(canned(Canned([http(b"<html>", media="text/html")])).url))
    with pytest.raises(RuntimeFault, match="did not answer with JSON but with '<html>'"):
        client.json("GET", "/x", phase="list")
    client.close()


@pytest.mark.parametrize("stamped", [True, False], ids=["kernel", "plain"])
def test_reads_are_kept_while_they_end_like_events(
    stamped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not stamped:
        monkeypatch.setattr(clock, "KERNEL_STAMPS_OFFERED", False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = connect("127.0.0.1", listener.getsockname()[1], tls=None, timeout_sec=5)
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def collect(sent: bytes, *, until_ns: int = 2**62, room: int = 1000) -> tuple[int, int]:
            if sent:
                peer.sendall(sent)
            backlog: list[Raw] = []
            connection.wait_at_most(20_000_000)
            try:
                left = connection.collect(backlog, (b"}\n", b"]\n"), until_ns, room)
            except (TimeoutError, BlockingIOError):
                left = -1
            return len(backlog), left

        try:
            assert collect(b"the end") == (1, 993)
            assert collect(b"{}\n", until_ns=0) == (1, 997)
            assert collect(b"{}\n", room=2) == (1, -1)
            assert collect(b"[]\n") == (1, -1), "kept, and the next one waited for"
            peer.shutdown(socket.SHUT_WR)
            assert collect(b"") == (1, 1000), "the end of the stream"
        finally:
            connection.close()
            peer.close()
