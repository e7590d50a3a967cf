"""Requests and replies of OpenAI-compatible servers."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.generation import (
    Message,
    RuntimeFault,
    Sampling,
    ToolCall,
)
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime, wire_messages
from pytest_benchrig.runtimes.openai_reply import same_model
from pytest_benchrig.runtimes.vllm import VllmRuntime
from tests.runtimes.support import (
    GOOD,
    Canned,
    CannedFactory,
    Opener,
    as_json,
    ask,
    capture,
    framed,
)

EVERYTHING = Sampling(
    temperature=0.5,
    num_predict=7,
    top_p=0.9,
    top_k=40,
    seed=3,
    stop=("END",),
    repeat_penalty=1.1,
    num_ctx=4096,
    think=True,
    extra={"min_p": 0.1},
)


def sent(canned: CannedFactory, opened: Opener, kind: Any, **changes: Any) -> dict[str, object]:
    server = canned(Canned(framed(*GOOD)))
    opened(kind, server.url).generate(ask(**changes))
    return server.bodies()[0]


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (OpenAIRuntime, {"max_tokens": 7, "repeat_penalty": 1.1}),
        (VllmRuntime, {"max_tokens": 7, "repetition_penalty": 1.1, "ignore_eos": True}),
        (
            LlamaCppRuntime,
            {"max_tokens": 7, "repeat_penalty": 1.1, "ignore_eos": True, "cache_prompt": False},
        ),
    ],
)
def test_options_go_out_under_the_names_of_the_server(
    canned: CannedFactory, opened: Opener, kind: Any, own: dict[str, object]
) -> None:
    body = sent(canned, opened, kind, sampling=EVERYTHING, cache_prompt=False, ignore_eos=True)
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "seed": 3,
        "stop": ["END"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "min_p": 0.1,
        **own,
    }


def test_options_sent_are_those_on_the_wire(canned: CannedFactory, opened: Opener) -> None:
    server = canned(Canned(framed(*GOOD)))
    generation = opened(OpenAIRuntime, server.url).generate(ask(sampling=EVERYTHING))
    body = server.bodies()[0]
    assert generation.options_sent == {
        k: v for k, v in body.items() if k not in ("model", "messages", "stream")
    }


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("400 Bad Request", {"error": {"message": "Unrecognized argument: stream_options"}}),
        ("422 Un", {"detail": [{"loc": ["stream_options"], "msg": "Extra inputs not permitted"}]}),
        ("400 Bad Request", {"error": {"message": "unknown field", "param": "stream_options"}}),
    ],
)
def test_an_unknown_option_is_dropped_once_with_a_note(
    canned: CannedFactory, opened: Opener, status: str, error: object
) -> None:
    server = canned(as_json(error, status), Canned(framed(*GOOD)))
    runtime = opened(OpenAIRuntime, server.url)
    for _ in range(2):
        generation = runtime.generate(ask())
        assert generation.text == "Hello there"
        assert [n for n in generation.notes if "stream_options" in n]
        assert "stream_options" not in generation.options_sent
    assert ["stream_options" in b for b in server.bodies()] == [True, False, False]


def test_max_tokens_gives_way_to_its_successor(canned: CannedFactory, opened: Opener) -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    refusal = as_json({"error": {"message": said}}, "400 Bad Request")
    server = canned(refusal, Canned(framed(*GOOD)))
    opened(OpenAIRuntime, server.url).generate(ask())
    assert [b.get("max_completion_tokens") for b in server.bodies()] == [None, 16]


def test_a_refused_value_is_no_unknown_option(canned: CannedFactory, opened: Opener) -> None:
    error = {"error": {"message": "temperature must be at most 2"}}
    server = canned(as_json(error, "400 Bad Request"))
    with pytest.raises(RuntimeFault, match="at most 2"):
        opened(OpenAIRuntime, server.url).generate(ask(sampling=EVERYTHING))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1"),
        ("/v1", "/v1"),
        ("/v1/", "/v1"),
        ("/openai", "/openai"),
        ("/api/v3", "/api/v3"),
    ],
)
def test_a_path_in_the_base_url_is_taken_as_it_stands(
    canned: CannedFactory, opened: Opener, base: str, path: str
) -> None:
    server = canned(Canned(framed(*GOOD)))
    opened(OpenAIRuntime, server.url + base).generate(ask())
    assert server.requests[0].split()[1].decode() == f"{path}/chat/completions"


def test_native_routes_live_beside_v1(canned: CannedFactory, opened: Opener) -> None:
    server = canned(capture("llama.cpp/03-props"))
    opened(LlamaCppRuntime, server.url + "/v1").version()
    assert server.requests[0].startswith(b"GET /props ")


def test_a_conversation_with_tools_goes_out_in_openais_form() -> None:
    messages = wire_messages(
        [
            Message("user", "Weather?"),
            Message("assistant", "", (ToolCall("get", '{"a": 1}'), ToolCall("put", "{}", "id9"))),
            Message("tool", "sunny", tool_name="get"),
            Message("tool", "done", tool_call_id="id9"),
        ]
    )
    calls = messages[1]["tool_calls"]
    assert calls[0] == {
        "id": "call_1_0",
        "type": "function",
        "function": {"name": "get", "arguments": '{"a": 1}'},
    }
    assert [m["tool_call_id"] for m in messages[2:]] == ["call_1_0", "id9"]
    assert messages[2]["name"] == "get"


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("Qwen/Qwen3-8B", "qwen3-8b", True),
        ("qwen3", "/models/Qwen3.gguf", True),
        ("a", "C:\\models\\a.gguf", True),
        ("qwen3", "", True),
        ("qwen3", "llama3", False),
        ("qwen3:8b", "qwen3:4b", False),
    ],
)
def test_a_model_that_is_not_the_one_asked_for(asked: str, served: str, same: bool) -> None:
    assert same_model(asked, served) is same


def test_another_model_answering_is_flagged(canned: CannedFactory, opened: Opener) -> None:
    runtime = opened(OpenAIRuntime, canned(Canned(framed(*GOOD))).url)
    generation = runtime.generate(ask("other"))
    assert generation.served_model == "m"
    assert generation.flags == ("wrong_model",)


def test_a_server_without_a_list_is_believed(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json({"detail": "Not Found"}, "404 Not Found"))
    assert opened(OpenAIRuntime, server.url).describe("any").name == "any"


def test_describe_knows_aliases_and_near_names(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json({"data": [{"id": "Qwen3-8B", "aliases": ["qwen"]}]}))
    runtime = opened(OpenAIRuntime, server.url)
    assert runtime.describe("qwen3-8b").name == "Qwen3-8B"
    with pytest.raises(RuntimeFault, match="did you mean Qwen3-8B") as caught:
        runtime.describe("qwen3-9b")
    assert caught.value.kind == "model_not_found"


def test_a_reply_of_not_found_names_the_nearest(canned: CannedFactory, opened: Opener) -> None:
    refusal = as_json({"error": {"message": "model 'qwen3-9b' not found"}}, "404 Not Found")
    server = canned(refusal, as_json({"data": [{"id": "Qwen3-8B"}, {"id": "phi"}]}))
    with pytest.raises(RuntimeFault, match="did you mean Qwen3-8B") as fault:
        opened(OpenAIRuntime, server.url).generate(ask("qwen3-9b"))
    assert (fault.value.kind, fault.value.status) == ("model_not_found", 404)
