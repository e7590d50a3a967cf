"""Requests to Ollama and its faults, by the recorded bytes of a real server over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.generation import (
    Message,
    RuntimeFault,
    Sampling,
    ToolCall,
)
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.ollama_request import body_of, wire_messages
from tests.runtimes.ollama_lines import CHAT, FIGURES, NDJSON, TOOL, last, lines, piece
from tests.runtimes.routed import Routed
from tests.runtimes.support import Canned, Opener, as_json, ask, capture, http


class TestRequests:
    def test_options_go_where_ollama_wants_them(self) -> None:
        sampling = Sampling(
            temperature=0.1,
            num_predict=64,
            top_p=0.9,
            top_k=40,
            seed=42,
            stop=("END",),
            repeat_penalty=1.1,
            num_ctx=4096,
            extra={"num_gpu": 0, "keep_alive": "2m", "format": "json"},
        )
        body = body_of(ask("qwen3", sampling=sampling), think=False)
        assert body["options"] == {
            "temperature": 0.1,
            "num_predict": 64,
            "top_p": 0.9,
            "top_k": 40,
            "seed": 42,
            "repeat_penalty": 1.1,
            "num_ctx": 4096,
            "stop": ["END"],
            "num_gpu": 0,
        }
        assert (body["keep_alive"], body["format"], body["stream"]) == ("2m", "json", True)
        assert (body["truncate"], body["shift"]) == (False, False)
        assert "think" not in body

    def test_the_record_has_the_options_flat(self, ollama: Any) -> None:
        runtime, _ = ollama(lines(piece("x"), last(**FIGURES)))
        reply = runtime.generate(ask("m", sampling=Sampling(seed=7, extra={"keep_alive": "1m"})))
        assert reply.options_sent == {
            "seed": 7,
            "keep_alive": "1m",
            "truncate": False,
            "shift": False,
        }

    @pytest.mark.parametrize(
        ("capabilities", "think", "sent"),
        [
            (["completion", "thinking"], True, True),
            (["completion", "thinking"], False, False),
            (["completion", "thinking"], "high", "high"),
            (["completion", "tools"], True, None),
            (["completion"], False, None),
            (None, True, None),
        ],
    )
    def test_think_is_sent_only_to_a_model_that_lists_it(
        self, ollama: Any, capabilities: list[str] | None, think: bool | str, sent: object
    ) -> None:
        shown = {} if capabilities is None else {"capabilities": capabilities}
        runtime, server = ollama(
            lines(piece("x"), last(**FIGURES)), **{"POST /api/show": as_json(shown)}
        )
        reply = runtime.generate(ask("m", sampling=Sampling(think=think)))
        assert server.bodies(CHAT)[0].get("think") == sent
        assert any("was not sent" in note for note in reply.notes) == (sent is None)

    def test_without_think_nothing_is_asked_first(self, ollama: Any) -> None:
        runtime, server = ollama(lines(piece("x"), last(**FIGURES)))
        runtime.generate(ask("m"))
        assert [route for route, _ in server.asked] == [CHAT]

    def test_tools_are_not_sent_to_a_model_without(self, ollama: Any) -> None:
        runtime, server = ollama(**{"POST /api/show": as_json({"capabilities": ["completion"]})})
        with pytest.raises(RuntimeFault, match="has no tools") as fault:
            runtime.generate(ask("m", tools=(TOOL,), stream=False))
        assert fault.value.kind == "unsupported"
        assert not server.bodies(CHAT)

    def test_a_conversation_goes_out_in_ollamas_form(self) -> None:
        sent = wire_messages(
            (
                Message("assistant", "", (ToolCall("f", '{"a": 1}', "c1"), ToolCall("g", "oops"))),
                Message("tool", "42", tool_call_id="c1", tool_name="f"),
            )
        )
        assert sent == [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}},
                    {"function": {"name": "g", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "42", "tool_name": "f", "tool_call_id": "c1"},
        ]

    def test_a_stricter_server_gets_the_field_dropped_with_a_note(self, ollama: Any) -> None:
        def chat(body: dict[str, Any]) -> Canned:
            if "truncate" in body:
                return as_json({"error": "unknown field truncate"}, "422 Unprocessable Entity")
            return lines(piece("x"), last(**FIGURES))

        runtime, _ = ollama(chat)
        reply = runtime.generate(ask("m"))
        assert reply.notes == ("the server refuses the field truncate; it was left out",)
        assert reply.options_sent["shift"] is False


class TestFaults:
    def test_an_error_line_in_the_stream_keeps_what_had_come(self, ollama: Any) -> None:
        runtime, _ = ollama("45-runner-killed-mid-stream")
        with pytest.raises(RuntimeFault, match="unexpected EOF") as fault:
            runtime.generate(ask("smollm2:135m"))
        assert fault.value.kind == "stream_error"
        assert fault.value.partial is not None
        assert fault.value.partial.text.startswith("In the")

    @pytest.mark.parametrize(
        ("chat", "kind", "message"),
        [
            (
                capture("ollama/28-tools-on-model-without-tools"),
                "unsupported",
                "does not support tools",
            ),
            (capture("ollama/47-runner-killed-mid-nonstream"), "http", "unexpected EOF"),
            (as_json({"error": "missing request body"}, "400 Bad Request"), "http", "missing"),
            (
                Canned([http(b"405 method not allowed", "405 Method Not Allowed", "text/plain")]),
                "http",
                "405 method not allowed",
            ),
        ],
    )
    def test_errors_are_told_apart(
        self, ollama: Any, chat: Canned, kind: str, message: str
    ) -> None:
        runtime, _ = ollama(chat)
        with pytest.raises(RuntimeFault, match=message) as fault:
            runtime.generate(ask("smollm2:135m"))
        assert fault.value.kind == kind

    def test_a_model_that_is_not_there_names_the_nearest(self, ollama: Any) -> None:
        runtime, _ = ollama("20-model-not-found-chat")
        with pytest.raises(RuntimeFault, match=r"did you mean qwen3:latest") as fault:
            runtime.generate(ask("qwen3:7b"))
        assert fault.value.kind == "model_not_found"
        assert fault.value.status == 404

    def test_memory_that_is_not_enough(self, ollama: Any) -> None:
        text = "model requires more system memory (8.0 GiB) than is available (2.1 GiB)"
        runtime, _ = ollama(as_json({"error": text}, "500 Internal Server Error"))
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(ask("m"))
        assert fault.value.kind == "out_of_memory"

    def test_a_full_queue_is_waited_for(self, routed: Routed, opened: Opener) -> None:
        waits: list[float] = []
        answers = iter(
            [
                as_json({"error": "server busy, please try again."}, "503 Service Unavailable"),
                lines(piece("x"), last(**FIGURES)),
            ]
        )
        server = routed({CHAT: lambda body: next(answers)})
        runtime = opened(OllamaRuntime, server.url, wait=waits.append)
        assert runtime.generate(ask("m")).text == "x"
        assert waits == [1.0]

    @pytest.mark.parametrize(
        "body",
        [
            b'{"model":"m","message":{"role":"assistant","content":"x"},"done":false}\n',
            b'{"hello":"world"}\n',
            b"garbage\n",
            b'{"message":{"tool_calls":[7]},"done":false}\n',
            b'{"message":{"tool_calls":"x"},"done":false}\n',
        ],
        ids=["no end", "another object", "no JSON", "a bad call", "calls that are no list"],
    )
    def test_a_stream_that_is_not_what_ollama_sends(self, ollama: Any, body: bytes) -> None:
        runtime, _ = ollama(Canned([http(body, media=NDJSON)]))
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(ask("m"))
        assert fault.value.kind == "broken_stream"

    def test_a_look_alikes_error_reason_is_an_error(self, ollama: Any) -> None:
        runtime, _ = ollama(lines({**last(), "done_reason": "error"}))
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(ask("m"))
        assert fault.value.kind == "stream_error"
