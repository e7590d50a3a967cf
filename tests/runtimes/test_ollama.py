"""Ollama, by the recorded bytes of a real server over real sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import (
    Message,
    Placement,
    RuntimeFault,
    Sampling,
    ToolCall,
    Usage,
)
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.ollama_models import fewest_tokens, normalise, same_name
from pytest_benchrig.runtimes.ollama_reply import argument_texts, engine_timings_of
from pytest_benchrig.runtimes.ollama_request import body_of, wire_messages
from tests.runtimes.routed import HANG, Answer, RoutedServer, lookalike_routes, ollama_routes
from tests.runtimes.support import Canned, Opener, as_json, ask, capture, http

Routed = Callable[[Mapping[str, Answer]], RoutedServer]
CHAT = "POST /api/chat"
NDJSON = "application/x-ndjson"
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def ollama(routed: Routed, opened: Opener) -> Callable[..., tuple[OllamaRuntime, RoutedServer]]:
    """``ollama(chat)``: a runtime whose server answers chats with this, and all else as Ollama."""

    def make(chat: Answer | str | None = None, **routes: Answer) -> Any:
        answers = ollama_routes(**routes)
        if chat is not None:
            answers[CHAT] = capture(f"ollama/{chat}") if isinstance(chat, str) else chat
        server = routed(answers)
        return opened(OllamaRuntime, server.url, target_model="smollm2:135m"), server

    return make


def lines(*values: object) -> Canned:
    """A stream of JSON lines."""
    body = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    return Canned([http(body, media=NDJSON)])


def piece(text: str, **more: object) -> dict[str, object]:
    return {"model": "m", "message": {"role": "assistant", "content": text}, "done": False, **more}


def last(**figures: object) -> dict[str, object]:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        **figures,
    }


FIGURES = {
    "total_duration": 900_000_000,
    "load_duration": 1_000_000,
    "prompt_eval_count": 20,
    "prompt_eval_duration": 100_000_000,
    "eval_count": 11,
    "eval_duration": 790_000_000,
}


class TestReplies:
    def test_a_stream_gives_text_counts_durations_and_marks(self, ollama: Any) -> None:
        runtime, _ = ollama("15-chat-long")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.text.startswith("Once upon a time")
        assert reply.finish_reason == "length"
        assert reply.usage == Usage(22, 300)
        assert len(reply.marks.arrivals) == 300
        timings = reply.engine_timings
        assert timings is not None
        assert (timings.decode_tokens, timings.decode_intervals) == (300, 299)
        assert timings.decode_sec == pytest.approx(3.511965)
        assert timings.prompt_sec == pytest.approx(0.029394)
        assert timings.load_sec == pytest.approx(0.000868195)
        assert timings.refused == ""
        assert reply.flags == ()
        assert reply.served_model == "smollm2:135m"
        rate = timings_of(reply, ask()).engine_eval_tok_per_sec
        assert rate == pytest.approx(299 / 3.511965)

    def test_thinking_is_kept_apart(self, ollama: Any) -> None:
        runtime, _ = ollama("32-thinking-stream")
        reply = runtime.generate(ask("thinker:0.5b"))
        assert reply.thinking == "12 plus 7 equals 19.\n"
        assert reply.text == "Final answer: 19"
        kinds = [a.kind for a in reply.marks.arrivals]
        assert kinds == ["thinking"] * kinds.count("thinking") + ["answer"] * kinds.count("answer")
        assert kinds.count("answer") == 6
        assert reply.marks.first_answer_ns == reply.marks.arrivals[-6].ns

    def test_a_tool_call_keeps_the_arguments_as_they_were_sent(self, ollama: Any) -> None:
        runtime, _ = ollama("55-tool-call-stream")
        reply = runtime.generate(ask("qwen2.5-coder:0.5b", tools=(TOOL,)))
        assert reply.tool_calls == (ToolCall("get_weather", '{"city":"Paris"}', "call_lmfkh6bh"),)
        assert reply.text == ""
        assert [a.kind for a in reply.marks.arrivals] == ["tool_call"]

    def test_a_whole_reply_with_tools_keeps_a_key_that_was_sent_twice(self, ollama: Any) -> None:
        call = (
            b'{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":'
            b'{"name":"a","arguments":{"x": 1, "x": 2}}},{"function":{"arguments":'
            b'{"y":"\\u00e9"},"name":"b"}}]},"done":true,"done_reason":"stop","eval_count":5}'
        )
        runtime, server = ollama(Canned([http(call, media="application/json")]))
        reply = runtime.generate(ask("m", tools=(TOOL,), stream=False))
        assert [(c.name, c.arguments) for c in reply.tool_calls] == [
            ("a", '{"x": 1, "x": 2}'),
            ("b", '{"y":"\\u00e9"}'),
        ]
        assert reply.marks.arrivals == ()
        assert reply.raw_message["role"] == "assistant"
        assert server.bodies(CHAT)[0]["stream"] is False

    def test_a_whole_reply(self, ollama: Any) -> None:
        runtime, _ = ollama("33-thinking-nonstream")
        reply = runtime.generate(ask("thinker:0.5b", stream=False))
        assert (reply.thinking, reply.text) == ("12 plus 7 equals 19.\n", "Final answer: 19")
        assert reply.usage == Usage(161, 20)

    def test_logprobs_count_the_tokens_of_a_line(self, ollama: Any) -> None:
        one = piece("The phrase", logprobs=[{"token": "The"}, {"token": " phrase"}])
        runtime, _ = ollama(lines(one, last(**FIGURES)))
        assert runtime.generate(ask("m")).marks.arrivals[0].tokens == 2

    def test_a_generated_reply_speaks_of_a_response(self, ollama: Any) -> None:
        generated = capture("ollama/14-generate-nonstream")
        runtime, server = ollama(**{"POST /api/generate": generated})
        request = ask("smollm2:135m", stream=False, sampling=Sampling(extra={"raw": True}))
        reply = runtime.generate(request)
        assert reply.text == "Hello there. I'm here to help"
        assert reply.usage == Usage(12, 8)
        assert server.bodies("POST /api/generate")[0]["prompt"] == "Hi"


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


class TestTraps:
    @pytest.mark.parametrize("num_ctx", [1024, None])
    def test_a_prompt_that_was_cut_without_a_word_is_a_fault_with_both_counts(
        self, ollama: Any, num_ctx: int | None
    ) -> None:
        runtime, _ = ollama("18-prompt-longer-than-num-ctx")
        fox = "The quick brown fox jumps over the lazy dog number {}."
        prompt = " ".join(fox.format(n) for n in range(420))
        request = ask(
            "smollm2:135m",
            messages=(Message("user", prompt),),
            sampling=Sampling(num_ctx=num_ctx, num_predict=8),
        )
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(request)
        assert fault.value.kind == "context_window"
        assert "at least 4,620 tokens were sent, it read 514" in fault.value.message
        assert "num_ctx" in fault.value.message
        partial = fault.value.partial
        assert partial is not None
        assert "prompt_truncated" in partial.flags
        assert partial.text.startswith("The quick")

    def test_told_not_to_cut_the_server_itself_says_the_counts(self, ollama: Any) -> None:
        runtime, server = ollama("18b-prompt-longer-truncate-false")
        with pytest.raises(RuntimeFault, match=r"5899 tokens.*1024 tokens") as fault:
            runtime.generate(ask("smollm2:135m"))
        assert fault.value.kind == "context_window"
        assert fault.value.status == 400
        assert server.bodies(CHAT)[0]["truncate"] is False

    def test_a_count_without_the_cached_part_is_no_cut(self, ollama: Any) -> None:
        """Older servers count only what was not in the prompt cache."""
        runtime, _ = ollama(lines(piece("x"), last(**{**FIGURES, "prompt_eval_count": 1})))
        request = ask(
            "m", messages=(Message("user", "word " * 50),), sampling=Sampling(num_ctx=4096)
        )
        assert runtime.generate(request).text == "x"

    def test_a_reload_inside_the_request_is_flagged(self, ollama: Any) -> None:
        runtime, _ = ollama("43-cold-chat-load-duration")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.flags == ("reloaded",)
        assert reply.engine_timings.load_sec == pytest.approx(0.543504725)
        assert "0.54 s" in reply.notes[0]
        assert timings_of(reply, ask()).prefill_eff_tok_per_sec is None

    def test_queueing_is_what_the_total_leaves_unexplained(self, ollama: Any) -> None:
        runtime, _ = ollama("48c-concurrent")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.engine_timings.queue_sec == pytest.approx(1.267, abs=0.001)
        assert "queued" in reply.flags

    def test_one_token_has_no_rate(self, ollama: Any) -> None:
        figures = {**FIGURES, "eval_count": 1, "eval_duration": 1000}
        runtime, _ = ollama(lines(piece("x"), last(**figures)))
        reply = runtime.generate(ask("m"))
        assert reply.engine_timings.decode_intervals == 0
        assert timings_of(reply, ask()).engine_eval_tok_per_sec is None

    def test_a_look_alikes_figures_are_refused(self, routed: Routed, opened: Opener) -> None:
        server = routed(lookalike_routes())
        runtime = opened(OllamaRuntime, server.url)
        reply = runtime.generate(ask("llama/SmolLM2-135M-Instruct"))
        assert reply.engine_timings.refused == "load_duration and prompt_eval_duration are zero"
        assert any("not believed" in note for note in reply.notes)
        timings = timings_of(reply, ask())
        assert timings.engine_eval_tok_per_sec is None
        assert "engine_refused" in timings.flags

    @pytest.mark.parametrize(
        ("figures", "reason"),
        [
            ({"eval_duration": 900_000_000}, "eval_duration is not shorter than total_duration"),
            ({"prompt_eval_duration": 0}, "prompt_eval_duration is zero"),
            ({"prompt_eval_duration": 790_000_000}, "prompt_eval_duration equals eval_duration"),
            ({"eval_duration": -1}, "eval_duration is -1"),
            ({"eval_duration": "fast"}, "eval_duration is 'fast'"),
            ({}, ""),
        ],
    )
    def test_figures_that_nobody_measured(self, figures: dict[str, object], reason: str) -> None:
        assert engine_timings_of({**FIGURES, **figures}).refused == reason

    def test_another_model_than_the_one_asked_for(self, ollama: Any) -> None:
        runtime, _ = ollama(lines(piece("x"), last(**FIGURES)))
        assert runtime.generate(ask("other")).flags == ("wrong_model",)
        assert runtime.generate(ask("M:latest")).flags == ()


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


class TestModels:
    def test_the_list(self, ollama: Any) -> None:
        runtime, _ = ollama()
        models = runtime.list_models()
        assert [m.name for m in models] == ["smollm2:135m", "qwen2.5-coder:0.5b", "qwen3:latest"]
        assert models[2].aliases == ("qwen3",)
        assert models[0].size_bytes == 98_363_000
        assert runtime.version() == "Ollama 0.33.0"

    def test_a_model_that_only_embeds_is_not_listed(self, ollama: Any) -> None:
        entries = [{"name": "a:1", "capabilities": ["embedding"]}, {"name": "b:1"}]
        runtime, _ = ollama(**{"GET /api/tags": as_json({"models": entries})})
        assert [m.name for m in runtime.list_models()] == ["b:1"]

    def test_what_show_tells(self, ollama: Any) -> None:
        runtime, _ = ollama()
        info = runtime.describe("qwen2.5-coder:0.5b")
        assert info.capabilities == frozenset({"tools", "completion"})
        assert info.context_length == 32768
        assert (info.quantisation, info.digest) == ("Q4_K_M", "b" * 64)

    def test_a_missing_model(self, ollama: Any) -> None:
        runtime, _ = ollama(**{"POST /api/show": capture("ollama/22-model-not-found-show")})
        with pytest.raises(RuntimeFault, match="did you mean qwen3:latest") as fault:
            runtime.describe("qwen4")
        assert fault.value.kind == "model_not_found"

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            ({"size": 100, "size_vram": 100}, Placement("unknown", 100, 100, 4096)),
            ({"size": 100, "size_vram": 60}, Placement("cpu+gpu", 100, 60, 4096)),
            ({"size": 100, "size_vram": 0}, Placement("cpu", 100, 0, 4096)),
            ({"size": 100}, Placement("cpu", 100, 0, 4096)),
        ],
    )
    def test_where_a_model_lives(
        self, ollama: Any, entry: dict[str, int], expected: Placement
    ) -> None:
        running = {"models": [{"name": "qwen3:latest", "context_length": 4096, **entry}]}
        runtime, _ = ollama(**{"GET /api/ps": as_json(running)})
        assert runtime.placement("qwen3") == expected
        assert runtime.placement("other") == Placement()

    def test_loading_is_outside_of_every_request(self, ollama: Any) -> None:
        loaded = as_json({"model": "m", "response": "", "done": True, "done_reason": "load"})
        runtime, server = ollama(
            **{"GET /api/ps": capture("ollama/07-ps-loaded"), "POST /api/generate": loaded}
        )
        assert runtime.load("smollm2:135m", 4096) is None
        assert runtime.load("smollm2:135m") is None
        assert runtime.load("smollm2:135m", 8192) > 0
        assert server.bodies("POST /api/generate") == [
            {"model": "smollm2:135m", "stream": False, "options": {"num_ctx": 8192}}
        ]

    def test_unloading(self, ollama: Any) -> None:
        runtime, server = ollama(**{"POST /api/generate": capture("ollama/40-unload")})
        assert runtime.unload("smollm2:135m") is True
        assert server.bodies("POST /api/generate") == [
            {"model": "smollm2:135m", "keep_alive": 0, "stream": False}
        ]

    @pytest.mark.parametrize("kind", ["look-alike", "koboldcpp", "lemonade"])
    def test_an_unload_is_never_sent_to_a_server_that_is_not_ollama(
        self, routed: Routed, opened: Opener, kind: str
    ) -> None:
        routes = lookalike_routes() if kind == "look-alike" else ollama_routes()
        if kind == "koboldcpp":
            routes["GET /api/extra/version"] = as_json({"result": "KoboldCpp", "version": "1.9"})
        if kind == "lemonade":
            routes["GET /v1/health"] = as_json({"status": "ok", "all_models_loaded": []})
        server = routed({**routes, "POST /api/generate": HANG})
        runtime = opened(OllamaRuntime, server.url)
        assert runtime.unload("smollm2:135m") is False
        assert not server.bodies("POST /api/generate")

    def test_pulling_tells_its_progress(self, ollama: Any) -> None:
        steps = [
            {"status": "pulling manifest"},
            *(
                {"status": "pulling aaaa", "total": 1_000_000_000, "completed": n * 10_000_000}
                for n in range(101)
            ),
            {"status": "verifying sha256 digest"},
            {"status": "success"},
        ]
        runtime, server = ollama(**{"POST /api/pull": lines(*steps)})
        said: list[str] = []
        assert runtime.pull("qwen3", said.append) == f"ready on {server.url} (5.2 GB)"
        assert said[0] == "pulling manifest"
        assert said[1] == "pulling aaaa: 0 % of 1,000 MB"
        assert said[-3:] == [
            "pulling aaaa: 100 % of 1,000 MB",
            "verifying sha256 digest",
            "success",
        ]
        assert len(said) == 1 + 21 + 2

    @pytest.mark.parametrize(
        "answer",
        [
            lines({"status": "pulling manifest"}, {"error": "pull model manifest: file not found"}),
            as_json({"error": "pull model manifest: file not found"}, "500 Internal Server Error"),
        ],
        ids=["in the stream", "as a status"],
    )
    def test_a_pull_that_fails(self, ollama: Any, answer: Canned) -> None:
        runtime, _ = ollama(**{"POST /api/pull": answer})
        with pytest.raises(RuntimeFault, match="file not found") as fault:
            runtime.pull("nope", lambda line: None)
        assert fault.value.kind == "fetch"


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("qwen3", "qwen3:latest", True),
            ("Qwen3:8B", "qwen3:8b", True),
            ("registry.ollama.ai/library/qwen3:8b", "qwen3:8b", True),
            ("library/qwen3", "qwen3", True),
            ("hf.co/org/Model-GGUF:Q4_K_M", "hf.co/org/model-gguf:q4_k_m", True),
            ("localhost:5000/me/m", "localhost:5000/me/m:latest", True),
            ("qwen3:8b", "qwen3", False),
            ("qwen3", "qwen3-coder", False),
            ("me/qwen3", "qwen3", False),
        ],
    )
    def test_tags_are_normalised(self, one: str, other: str, same: bool) -> None:
        assert same_name(one, other) is same

    @given(st.text(min_size=1))
    def test_normalising_twice_changes_nothing(self, name: str) -> None:
        assert normalise(normalise(name)) == normalise(name)


class TestArguments:
    @given(
        st.lists(
            st.dictionaries(
                st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists)
            ),
            max_size=4,
        ),
        st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
        st.booleans(),
    )
    def test_their_text_is_found_whatever_stands_around(
        self, arguments: list[dict[str, Any]], separators: tuple[str, str], ascii_only: bool
    ) -> None:
        texts = [json.dumps(a, separators=separators, ensure_ascii=ascii_only) for a in arguments]
        calls = ",".join(f'{{"id":"]}}","function":{{"arguments":{t}}}}}' for t in texts)
        line = f' {{"a":"\\"message\\":","message":{{"tool_calls":[{calls}]}},"done":true}}'
        assert argument_texts(line) == texts

    @given(st.text())
    def test_nothing_breaks_it(self, line: str) -> None:
        assert isinstance(argument_texts(line), list)


def test_no_tokenizer_needs_fewer_tokens_than_this_counts() -> None:
    def fewest(text: str) -> int:
        return fewest_tokens((Message("user", text),))

    assert fewest("") == 0
    assert fewest("The quick brown fox") == 4
    assert fewest("a" * 240) == 10
    assert fewest("łódź " * 100) == 100
