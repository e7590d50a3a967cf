"""Prism, by the recorded bytes of a real server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_benchrig.core.generation import Placement, RuntimeFault
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.prism import PrismRuntime
from tests.runtimes.routed import Answer, Routed, prism_routes
from tests.runtimes.support import Canned, Opener, as_json, ask, capture, http

CHAT = "POST /v1/chat/completions"
MODEL = "smollm2-int4"


@pytest.fixture
def prism(routed: Routed, opened: Opener) -> Callable[..., Any]:
    """``prism(routes)``: a runtime whose server answers these as well as the usual ones."""

    def make(routes: Mapping[str, Answer] | None = None, **known: Any) -> Any:
        server = routed(prism_routes(**(routes or {})))
        return opened(PrismRuntime, server.url, target_model=MODEL, **known), server

    return make


def stream(*events: str) -> Canned:
    body = "".join(f"data: {event}\n\n" for event in (*events, "[DONE]"))
    return Canned([http(body.encode())])


def test_a_whole_reply_with_its_telemetry(prism: Any) -> None:
    runtime, _ = prism({CHAT: capture("prism/05-chat-nonstream")})
    runtime.list_models()
    reply = runtime.generate(ask(MODEL, stream=False))
    assert reply.text.startswith("I'm an AI assistant")
    assert reply.device == "cpu"
    assert reply.engine == "Prism (ONNX Runtime GenAI)"
    assert reply.engine_timings.ttft_sec == 0.2022
    assert reply.engine_timings.decode_tok_per_sec == 45.1
    assert timings_of(reply, ask()).engine_eval_tok_per_sec == 45.1


def test_telemetry_rides_on_the_usage_of_a_stream(prism: Any) -> None:
    usage = (
        '{"choices":[],"usage":{"prompt_tokens":37,"completion_tokens":2},'
        '"telemetry":{"ttft_sec":0.5,"decode_tok_per_sec":50.0,"device":"CUDA"}}'
    )
    runtime, _ = prism(
        {
            CHAT: stream(
                '{"choices":[{"index":0,"delta":{"role":"assistant"}}]}',
                '{"choices":[{"index":0,"delta":{"content":"Hi"}}]}',
                '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
                usage,
            )
        }
    )
    reply = runtime.generate(ask(MODEL))
    assert (reply.text, reply.device) == ("Hi", "cuda")
    assert reply.engine_timings.prompt_tokens == 37
    assert len(reply.marks.arrivals) == 1


def test_a_recorded_stream_ends_by_closing(prism: Any) -> None:
    runtime, _ = prism({CHAT: capture("prism/17a-long-request-holding-the-engine")})
    reply = runtime.generate(ask(MODEL))
    assert reply.finish_reason == "length"
    assert len(reply.marks.arrivals) > 380


def test_another_model_is_loaded_before_the_clock_starts(prism: Any) -> None:
    runtime, server = prism(
        {
            CHAT: lambda body: capture(
                "prism/05-chat-nonstream"
                if body.get("max_tokens") == 1
                else "prism/17a-long-request-holding-the-engine"
            )
        }
    )
    reply = runtime.generate(ask("smollm2-fp32"))
    first, second = server.bodies(CHAT)
    assert (first["max_tokens"], first["model"]) == (1, "smollm2-fp32")
    assert second["stream"] is True
    assert reply.text


def test_a_loaded_model_is_not_loaded_again(prism: Any) -> None:
    runtime, server = prism()
    assert runtime.load(MODEL) is None
    assert not server.bodies(CHAT)


def test_one_request_at_a_time_others_wait_as_they_are_told(prism: Any) -> None:
    waits: list[float] = []
    busy = as_json(
        {"error": {"message": "busy", "code": "server_busy"}},
        "503 Service Unavailable",
        "Retry-After: 30\r\n",
    )
    answers = iter([busy, capture("prism/17a-long-request-holding-the-engine")])
    runtime, _ = prism({CHAT: lambda body: next(answers)}, wait=waits.append)
    assert runtime.generate(ask(MODEL)).text
    assert waits == [30.0]


@pytest.mark.parametrize(
    ("chat", "kind", "message"),
    [
        ("14-context-exceeded-nonstream", "context_window", "18120 tokens"),
        ("16-tools-unsupported", "unsupported", "cannot take tools"),
        ("10-wrong-model-name", "model_not_found", "did you mean"),
    ],
)
def test_errors_are_told_apart(prism: Any, chat: str, kind: str, message: str) -> None:
    runtime, _ = prism({CHAT: capture(f"prism/{chat}")})
    with pytest.raises(RuntimeFault, match=message) as fault:
        runtime.generate(ask("smollm2-int4"))
    assert fault.value.kind == kind


def test_where_the_model_lives(prism: Any) -> None:
    runtime, _ = prism()
    assert runtime.placement(MODEL) == Placement("cpu", round(85.9 * 1024 * 1024))
    assert runtime.placement("smollm2-fp32") == Placement()
    assert runtime.version() == "Prism"


def test_health_before_anything_is_loaded(prism: Any) -> None:
    runtime, _ = prism({"GET /health": capture("prism/01-health-before-load")})
    assert runtime.health()["active_model"] is None
    assert runtime.placement(MODEL) == Placement()


def test_unloading_where_there_is_a_route(prism: Any) -> None:
    runtime, server = prism({"POST /v1/unload": as_json({"status": "unloaded"})})
    assert runtime.unload(MODEL) is True
    assert server.bodies("POST /v1/unload") == [{"model": MODEL}]


def test_unloading_where_there_is_none(prism: Any) -> None:
    runtime, _ = prism()
    assert runtime.unload(MODEL) is False


def test_an_unload_is_never_sent_to_a_server_that_is_not_prism(prism: Any) -> None:
    lemonade = as_json({"status": "ok", "all_models_loaded": []})
    runtime, server = prism({"GET /health": lemonade, "POST /v1/unload": as_json({})})
    assert runtime.unload(MODEL) is False
    assert not server.bodies("POST /v1/unload")


def test_unloading_that_fails(prism: Any) -> None:
    runtime, _ = prism({"POST /v1/unload": as_json({"error": {"message": "no"}}, "500 Oops")})
    with pytest.raises(RuntimeFault, match="no") as fault:
        runtime.unload(MODEL)
    assert fault.value.phase == "unload"
