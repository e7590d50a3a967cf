"""Everything that can go wrong between us and a server, each on a real socket."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes.lines import MAX_LINE_BYTES
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.retry import MAX_WAIT_SEC, MAX_WAITS, wait_sec
from tests.runtimes.support import (
    CHUNKED,
    DONE,
    GOOD,
    STREAM,
    USAGE,
    Canned,
    CannedFactory,
    CannedServer,
    Opener,
    as_json,
    ask,
    chunk,
    framed,
    http,
    server_tls,
)

JSON = "application/json"


def fault_of(runtime: OpenAIRuntime, **changes: Any) -> RuntimeFault:
    with pytest.raises(RuntimeFault) as caught:
        runtime.generate(ask(**changes))
    fault = caught.value
    assert fault.target == "openai:m"
    assert fault.url == runtime.base_url
    assert fault.phase
    assert fault.remedy
    assert fault.message
    return fault


@pytest.fixture
def fails(canned: CannedFactory, opened: Opener) -> Any:
    """The fault that a response makes, and its server."""

    def make(response: Canned, **changes: Any) -> tuple[RuntimeFault, CannedServer]:
        server = canned(response)
        return fault_of(opened(OpenAIRuntime, server.url), **changes), server

    return make


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_refused_connection(opened: Opener) -> None:
    fault = fault_of(opened(OpenAIRuntime, f"http://127.0.0.1:{closed_port()}"))
    assert (fault.kind, fault.phase) == ("unreachable", "connect")
    assert "refused" in fault.message
    assert "Start the server" in fault.remedy


def test_unknown_host_name(opened: Opener) -> None:
    fault = fault_of(opened(OpenAIRuntime, "http://no-such-host.invalid:1"))
    assert (fault.kind, fault.phase) == ("unreachable", "connect")
    assert "not known" in fault.message


def test_tls_against_a_server_without_it(opened: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_in_plain() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(http(b"{}", "400 Bad Request"))

        thread = threading.Thread(target=answer_in_plain)
        thread.start()
        fault = fault_of(opened(OpenAIRuntime, f"https://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join(5)
    assert (fault.kind, fault.phase) == ("unreachable", "connect")
    assert "TLS" in fault.message


def test_a_certificate_that_nobody_vouches_for(canned: CannedFactory, opened: Opener) -> None:
    server = canned(Canned(framed(*GOOD)), tls=server_tls())
    fault = fault_of(opened(OpenAIRuntime, server.url))
    assert fault.kind == "unreachable"
    assert "certificate" in fault.message
    assert "SSL_CERT_FILE" in fault.remedy


@pytest.mark.parametrize(
    ("status", "body", "media", "kind", "said"),
    [
        ("400 Bad", b'{"error":{"message":"no such thing"}}', JSON, "http", "no such thing"),
        ("404 Not Found", b"404 page not found", "text/plain", "http", "404 page not found"),
        ("422 Un", b'{"detail":[{"msg":"field required"}]}', JSON, "http", "field required"),
        ("500 Oops", b'{"error":"it broke"}', JSON, "http", "it broke"),
        ("502 Bad Gateway", b"<html>nginx</html>", "text/html", "http", "nginx"),
        ("500 Oops", b"", "", "http", "without a reason"),
        ("500 Oops", b'{"error":{"message":"CUDA: out of memory"}}', JSON, "out_of_memory", "CUDA"),
        ("400 Bad", b'{"error":"\\"m\\" does not support tools"}', JSON, "unsupported", "tools"),
        ("404 None", b'{"error":"model \'m\' not found"}', JSON, "model_not_found", "no model"),
        ("403 Forbidden", b"{}", JSON, "auth", "403"),
    ],
)  # fmt: skip
def test_error_statuses(
    fails: Any, status: str, body: bytes, media: str, kind: str, said: str
) -> None:
    fault, _ = fails(Canned([http(body, status, media)]))
    assert (fault.kind, fault.status) == (kind, int(status.split()[0]))
    assert said in fault.message


def test_401_names_the_variable(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "wrong-key-123")
    server = canned(as_json({"error": {"message": "bad key wrong-key-123"}}, "401 Unauthorized"))
    fault = fault_of(opened(OpenAIRuntime, server.url, api_key_env="MY_KEY"))
    assert fault.kind == "auth"
    assert "MY_KEY" in fault.remedy
    assert "wrong-key-123" not in str(fault)
    assert b"authorization: bearer wrong-key-123" in server.requests[0].lower()


@pytest.mark.parametrize("cut", [False, True])
def test_a_key_that_the_reply_quotes_is_cut_out_of_it(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    """A gateway that echoes headers must not get our key into every report."""
    monkeypatch.setenv("MY_KEY", "secret-key-123")
    events = [chunk("You sent Bearer secret-"), chunk("key-123 to me")]
    end = [] if cut else [chunk(finish="stop"), USAGE, DONE]
    server = canned(Canned(framed(*events, *end, last=not cut), end="close"))
    runtime = opened(OpenAIRuntime, server.url, api_key_env="MY_KEY")
    if cut:
        generation = fault_of(runtime).partial
        assert generation is not None
    else:
        generation = runtime.generate(ask())
    assert generation.text == "You sent Bearer *** to me"
    assert any("quoted the credential" in note for note in generation.notes)
    assert "secret-key-123" not in repr(generation)


def test_a_key_never_follows_a_redirect(
    canned: CannedFactory, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-key-123")
    elsewhere = canned(as_json({"data": []}))
    moved = as_json({}, "307 Temporary Redirect", f"Location: {elsewhere.url}/v1\r\n")
    runtime = opened(OpenAIRuntime, canned(moved).url, api_key_env="MY_KEY")
    fault = fault_of(runtime)
    assert fault.kind == "http"
    assert elsewhere.url in fault.message
    with pytest.raises(RuntimeFault, match="redirects"):
        runtime.list_models()
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_busy_server_is_waited_for_outside_the_timed_span(
    canned: CannedFactory, opened: Opener, status: str
) -> None:
    waits: list[float] = []
    busy = as_json({"error": {"message": "busy"}}, status, "Retry-After: 7\r\n")
    server = canned(busy, busy, Canned(framed(*GOOD)))
    runtime = opened(OpenAIRuntime, server.url, wait=waits.append)
    generation = runtime.generate(ask())
    assert generation.text == "Hello there"
    assert waits == [7.0, 7.0]
    assert generation.marks.retry_wait_ns > 0
    assert any("busy" in note for note in generation.notes)


def test_a_server_that_stays_busy_is_a_fault_after_three_waits(
    canned: CannedFactory, opened: Opener
) -> None:
    waits: list[float] = []
    server = canned(as_json({"error": {"message": "busy"}}, "503 Service Unavailable"))
    runtime = opened(OpenAIRuntime, server.url, wait=waits.append)
    assert fault_of(runtime).kind == "busy"
    assert len(waits) == MAX_WAITS == 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("0", 0.0),
        ("2.5", 2.5),
        ("86400", MAX_WAIT_SEC),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 00:00:00 GMT", MAX_WAIT_SEC),
        ("soon", 1.0),
        ("-5", 1.0),
        ("nan", 1.0),
    ],
)
def test_waits_are_bounded(header: str, expected: float) -> None:
    assert wait_sec({"retry-after": header}, 0) == expected


def test_a_stall_between_tokens_keeps_the_partial_text_and_cancels(fails: Any) -> None:
    stalled = Canned(framed(chunk("Once"), chunk(" upon"), last=False), "hang")
    fault, server = fails(stalled, stall_timeout_sec=0.2)
    assert (fault.kind, fault.phase) == ("stall", "stream")
    assert fault.partial.text == "Once upon"
    assert "--benchrig-stall-timeout" in fault.remedy
    assert server.cancelled.wait(10)


def test_keep_alive_comments_do_not_hide_a_stall(canned: CannedFactory, opened: Opener) -> None:
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def ping() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(STREAM + chunk("Once"))
            try:
                while not stop.wait(0.01):
                    sock.sendall(b": keep-alive\n\n")
            except OSError:
                return

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        runtime = opened(OpenAIRuntime, f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert fault_of(runtime, stall_timeout_sec=0.3).kind == "stall"
    finally:
        stop.set()
        thread.join(5)
        listener.close()


def test_the_stall_timeout_never_counts_the_prefill(fails: Any) -> None:
    fault, _ = fails(
        Canned(framed(chunk(role="assistant"), last=False), "hang"),
        stall_timeout_sec=0.05,
        timeout_sec=0.5,
    )
    assert (fault.kind, fault.phase) == ("timeout", "prefill")


def test_the_total_timeout_counts_a_server_that_says_nothing(fails: Any) -> None:
    fault, server = fails(Canned([], "hang"), timeout_sec=0.2)
    assert (fault.kind, fault.phase) == ("timeout", "prefill")
    assert "--benchrig-request-timeout" in fault.remedy
    assert server.cancelled.wait(10)


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_connection_cut_in_mid_stream(fails: Any, end: str) -> None:
    fault, _ = fails(Canned(framed(chunk("Once"), chunk(" upon"), last=False), end))
    assert (fault.kind, fault.phase) == ("broken_stream", "stream")
    assert fault.partial.text in ("Once upon", "")  # a reset may take unread bytes with it
    if end == "close":
        assert fault.partial.text == "Once upon"


@pytest.mark.parametrize(
    "events",
    [
        (chunk("Once"),),
        (chunk("Once"), DONE),
        (chunk("Once"), USAGE, DONE),
        (DONE,),
        (),
    ],
)
def test_an_end_without_a_finish_reason_is_no_success(
    fails: Any, events: tuple[bytes, ...]
) -> None:
    fault, _ = fails(Canned(framed(*events)))
    assert fault.kind == "broken_stream"
    assert fault.partial.text == ("Once" if len(events) and events[0] != DONE else "")


def test_a_body_until_close_without_a_finish_reason(fails: Any) -> None:
    fault, _ = fails(Canned([STREAM, chunk("Once")]))
    assert fault.kind == "broken_stream"
    assert "terminal" in fault.message


@pytest.mark.parametrize(
    ("event", "kind", "said"),
    [
        (b'data: {"error":"Context size has been exceeded."}\n\n', "context_window", "size"),
        (b'data: {"error":"it broke"}\n\n', "stream_error", "it broke"),
        (b'event: error\ndata: {"message":"it broke"}\n\n', "stream_error", "it broke"),
        (b'error: {"code":500,"message":"it broke"}\n\n', "stream_error", "it broke"),
        (b'{"error":{"message":"it broke"}}\n\n', "stream_error", "it broke"),
        (b'data: {"object":"error","message":"it broke"}\n\n', "stream_error", "it broke"),
        (chunk(finish="error"), "stream_error", "finish reason"),
        (b'data: {"error":{"message":"CUDA out of memory"}}\n\n', "out_of_memory", "CUDA"),
    ],
)  # fmt: skip
def test_an_error_inside_the_stream(fails: Any, event: bytes, kind: str, said: str) -> None:
    fault, _ = fails(Canned(framed(chunk("Once"), event, DONE)))
    assert fault.kind == kind
    assert said in fault.message
    assert fault.partial.text == "Once"


@pytest.mark.parametrize(
    "line",
    [b"data: {not json\n\n", b"<html>502</html>\n\n", b'data: "text"\n\n', b"data: [1]\n\n"],
)
def test_a_garbage_line(fails: Any, line: bytes) -> None:
    fault, _ = fails(Canned(framed(chunk("Once"), line, *GOOD)))
    assert fault.kind == "broken_stream"
    assert "no event" in fault.message
    assert fault.partial.text == "Once"


def test_a_line_of_a_hundred_megabytes_is_refused_early(fails: Any) -> None:
    block = b"x" * (1024 * 1024)
    fault, _ = fails(Canned([STREAM, chunk("Once"), b"data: ", *[block] * 100], "close"))
    assert fault.kind == "broken_stream"
    assert f"{MAX_LINE_BYTES:,}" in fault.message
    assert fault.partial.text == "Once"


@pytest.mark.parametrize("media", ["text/html", "text/plain", "application/octet-stream"])
def test_a_wrong_content_type(fails: Any, media: str) -> None:
    fault, _ = fails(Canned([http(b"".join(GOOD), media=media)]))
    assert (fault.kind, fault.status) == ("broken_stream", 200)
    assert media in fault.message


def test_a_missing_content_type_is_taken_for_what_was_asked(
    canned: CannedFactory, opened: Opener
) -> None:
    runtime = opened(OpenAIRuntime, canned(Canned([http(b"".join(GOOD), media="")])).url)
    assert runtime.generate(ask()).text == "Hello there"


def test_a_whole_reply_to_a_streaming_request(fails: Any) -> None:
    message = {"role": "assistant", "content": "All at once"}
    reply = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    fault, _ = fails(as_json(reply))
    assert fault.kind == "broken_stream"
    assert "in one piece" in fault.message
    assert fault.partial.text == "All at once"


def test_an_error_object_under_status_200(fails: Any) -> None:
    fault, _ = fails(as_json({"error": {"message": "engine is dead"}}))
    assert fault.kind == "stream_error"
    assert "engine is dead" in fault.message


def test_bytes_that_are_no_http(fails: Any) -> None:
    fault, _ = fails(Canned([b"SSH-2.0-OpenSSH_9.2\r\n"]))
    assert fault.kind == "broken_stream"
    assert "not an HTTP" in fault.message


def test_a_server_that_dies_and_comes_back(opened: Opener) -> None:
    code = (
        "import socket,sys\n"
        "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "print(s.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    while c.recv(65536):\n"
        f"        c.sendall({b''.join(framed(*GOOD))!r})\n"
    )

    def start(port: int) -> tuple[subprocess.Popen[bytes], int]:
        server = subprocess.Popen([sys.executable, "-c", code, str(port)], stdout=subprocess.PIPE)
        assert server.stdout is not None
        return server, int(server.stdout.readline())

    def kill(server: subprocess.Popen[bytes]) -> None:
        server.send_signal(signal.SIGKILL)
        server.wait(10)
        assert server.stdout is not None
        server.stdout.close()

    server, port = start(0)
    try:
        runtime = opened(OpenAIRuntime, f"http://127.0.0.1:{port}")
        assert runtime.generate(ask()).text == "Hello there"
        kill(server)
        assert fault_of(runtime).kind == "unreachable"
        server, _ = start(port)
        assert runtime.generate(ask()).text == "Hello there"
    finally:
        kill(server)


def test_a_kept_connection_that_the_server_closed_is_opened_anew(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(Canned(framed(*GOOD)))  # closes after each response without saying so
    runtime = opened(OpenAIRuntime, server.url)
    for _ in range(5):
        assert runtime.generate(ask()).text == "Hello there"
    assert server.connections >= 5


def test_an_interrupted_request_is_cancelled(canned: CannedFactory, opened: Opener) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(signum: int, frame: object) -> None:
        raise Interrupted

    server = canned(Canned([CHUNKED], "hang"))
    runtime = opened(OpenAIRuntime, server.url)
    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGUSR1])
    timer.start()
    try:
        with pytest.raises(Interrupted):
            runtime.generate(ask())
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
    assert server.cancelled.wait(10)
