"""Requests and replies of OpenAI-compatible servers."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import (
    Message,
    RuntimeFault,
    Sampling,
    TimingMarks,
    ToolCall,
)
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.llamacpp import LlamaCppReply, LlamaCppRuntime
from pytest_benchrig.runtimes.lmstudio import LmStudioRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime, wire_messages
from pytest_benchrig.runtimes.openai_reply import ChatReply, same_model
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage
from pytest_benchrig.runtimes.vllm import VllmRuntime
from tests.runtimes.support import (
    DONE,
    GOOD,
    USAGE,
    Canned,
    CannedFactory,
    Opener,
    as_json,
    ask,
    capture,
    chunk,
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


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_separated_trace(canned: CannedFactory, opened: Opener, field: str) -> None:
    events = [chunk(None, **{field: "Hm"}), *GOOD]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert (generation.thinking, generation.text) == ("Hm", "Hello there")
    assert [a.kind for a in generation.marks.arrivals] == ["thinking", "answer", "answer"]


def test_a_trace_sent_under_both_names_counts_once(canned: CannedFactory, opened: Opener) -> None:
    events = [chunk(None, reasoning="Hm", reasoning_content="Hm"), *GOOD]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.thinking == "Hm"


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        (["<think>", "a", "</think>", "b"], "tttaa"[1:]),
        (["<th", "ink>a", "</thi", "nk>", "b"], "tttaa"),
        (["a", "b", "</think>", "c"], "ttta"),
        (["x < y", "z"], "aa"),
    ],
)
def test_tags_in_the_content_tell_thinking_from_answer(
    canned: CannedFactory, opened: Opener, pieces: list[str], kinds: str
) -> None:
    events = [*(chunk(p) for p in pieces), chunk(finish="stop"), DONE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.text == "".join(pieces)
    seen = "".join(a.kind[0] for a in generation.marks.arrivals)
    assert seen[0] == kinds[0]
    assert seen[-1] == kinds[-1]
    first_answer = next(a for a in generation.marks.arrivals if a.kind == "answer")
    assert generation.marks.first_answer_ns == first_answer.ns


def test_two_calls_that_share_an_index_stay_two(canned: CannedFactory, opened: Opener) -> None:
    def call(call_id: str, name: str) -> dict[str, object]:
        return {"index": 0, "id": call_id, "function": {"name": name, "arguments": "{}"}}

    events = [
        chunk(None, tool_calls=[call("a", "f")]),
        chunk(None, tool_calls=[call("b", "g")]),
        chunk(finish="tool_calls"),
        DONE,
    ]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.tool_calls == (ToolCall("f", "{}", "a"), ToolCall("g", "{}", "b"))


def test_nothing_but_tokens_is_an_arrival(canned: CannedFactory, opened: Opener) -> None:
    events = [
        b": ping\n\n",
        chunk(role="assistant", content=""),
        b'data: {"choices":[],"prompt_progress":{"total":9}}\n\n',
        b"data:\n\n",
        b"data: {}\n\n",
        chunk(None, reasoning_content=""),
        *GOOD,
    ]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert len(generation.marks.arrivals) == 2


def test_usage_with_every_event_is_a_running_total(canned: CannedFactory, opened: Opener) -> None:
    def counted(text: str, total: int) -> bytes:
        value = json.loads(chunk(text)[6:])
        value["usage"] = {"prompt_tokens": 9, "completion_tokens": total}
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    events = [counted("a b c", 3), counted(" d", 4), counted(" e f", 6), chunk(finish="stop"), DONE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert [a.tokens for a in generation.marks.arrivals] == [3, 1, 2]
    assert generation.usage.completion_tokens == 6


def test_no_usage_is_estimated_and_flagged(canned: CannedFactory, opened: Opener) -> None:
    events = [e for e in GOOD if e != USAGE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    timings = timings_of(generation)
    assert (timings.completion_tokens, timings.usage_estimated) == (2, True)
    assert "usage_estimated" in timings.flags


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


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "reasoning",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "timings",
                    "predicted_n",
                    "prompt_ms",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "error",
                    "detail",
                    "object",
                    "model",
                    "text",
                    "thinking",
                    "role",
                    "system_fingerprint",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES, JSON_VALUES, st.sampled_from([ChatReply, LlamaCppReply]))
def test_whatever_json_comes_is_taken_or_named(
    delta: object, value: object, kind: type[ChatReply]
) -> None:
    reply = kind(asked_model="m")
    chunks = [value, {"choices": [{"delta": delta}]}, {"choices": [delta], "usage": value}]
    for number, one in enumerate([*chunks, {"timings": value, "choices": []}]):
        with contextlib.suppress(ErrorInStream, Garbage):
            reply.feed(StampedEvent(number, json.dumps(one).encode()))
    with contextlib.suppress(ErrorInStream, Garbage):
        reply.whole({"choices": [{"message": delta}], "usage": value})
    marks = TimingMarks(0, 10, tuple(reply.arrivals))
    timings_of(reply.generation(marks))


ROUTER = {
    "data": [
        {"id": "a", "status": {"value": "loaded"}},
        {"id": "b", "status": {"value": "unloaded"}},
    ]
}


def test_a_llamacpp_router_loads_and_unloads(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json(ROUTER), as_json({"success": True}))
    runtime = opened(LlamaCppRuntime, server.url)
    runtime.load("b")
    assert server.requests[1].startswith(b"POST /models/load ")
    server.responses = (as_json(ROUTER),)
    runtime.load("a")
    assert len(server.requests) == 3
    assert runtime.unload("a") is True
    assert server.requests[-1].startswith(b"POST /models/unload ")


def test_a_llamacpp_server_of_one_model_cannot_unload(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(capture("llama.cpp/02-models"))
    assert opened(LlamaCppRuntime, server.url).unload("SmolLM2-135M-Instruct") is False
    assert len(server.requests) == 1


LM_STUDIO = {
    "models": [
        {
            "type": "llm",
            "key": "gemma-3-270m-it-qat",
            "quantization": {"name": "Q4_0", "bits_per_weight": 4},
            "size_bytes": 241410208,
            "params_string": "270M",
            "loaded_instances": [{"id": "gemma-1", "config": {"context_length": 4096}}],
            "max_context_length": 32768,
            "capabilities": {"vision": False, "trained_for_tool_use": True},
        },
        {"type": "embedding", "key": "nomic", "loaded_instances": []},
    ]
}


def test_lmstudio_tells_of_its_models(canned: CannedFactory, opened: Opener) -> None:
    runtime = opened(LmStudioRuntime, canned(as_json(LM_STUDIO)).url)
    [info] = runtime.list_models()
    assert (info.name, info.context_length, info.quantisation) == (
        "gemma-3-270m-it-qat",
        32768,
        "Q4_0",
    )
    assert info.capabilities == {"completion", "tools"}
    assert runtime.describe("gemma-1").name == "gemma-3-270m-it-qat"
    assert runtime.placement("gemma-1").context_length == 4096


def test_lmstudio_unloads_each_instance_by_its_id(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json(LM_STUDIO), as_json({"instance_id": "gemma-1"}))
    assert opened(LmStudioRuntime, server.url).unload("gemma-3-270m-it-qat") is True
    assert server.requests[1].startswith(b"POST /api/v1/models/unload ")
    assert json.loads(server.requests[1].partition(b"\r\n\r\n")[2]) == {"instance_id": "gemma-1"}


def test_lmstudio_loads_with_the_window_asked_for(canned: CannedFactory, opened: Opener) -> None:
    loaded = as_json({"load_time_seconds": 1.5})
    server = canned(as_json(LM_STUDIO), as_json(LM_STUDIO), as_json({}), loaded)
    runtime = opened(LmStudioRuntime, server.url)
    assert runtime.load("gemma-3-270m-it-qat", 8192) == 1.5
    assert json.loads(server.requests[-1].partition(b"\r\n\r\n")[2]) == {
        "model": "gemma-3-270m-it-qat",
        "context_length": 8192,
    }


def test_an_older_lmstudio(canned: CannedFactory, opened: Opener) -> None:
    v0 = {"data": [{"id": "q", "type": "llm", "max_context_length": 8192, "state": "loaded"}]}
    server = canned(as_json({"error": "Unexpected endpoint"}, "404 Not Found"), as_json(v0))
    assert opened(LmStudioRuntime, server.url).list_models()[0].context_length == 8192
