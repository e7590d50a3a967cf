"""LM Studio, by the formats of its documentation (REST API v1 and v0); none was run here."""

from __future__ import annotations

import json

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes.lmstudio import LmStudioRuntime
from tests.runtimes.support import (
    GOOD,
    Canned,
    CannedFactory,
    Opener,
    as_json,
    ask,
    chunk,
    framed,
)

LM_STUDIO = {
    "models": [
        {
            "type": "llm",
            "publisher": "lmstudio-community",
            "key": "gemma-3-270m-it-qat",
            "display_name": "Gemma 3 270m",
            "architecture": "gemma3",
            "quantization": {"name": "Q4_0", "bits_per_weight": 4},
            "size_bytes": 241410208,
            "params_string": "270M",
            "loaded_instances": [
                {
                    "id": "gemma-1",
                    "config": {
                        "context_length": 4096,
                        "eval_batch_size": 512,
                        "flash_attention": True,
                        "offload_kv_cache_to_gpu": True,
                    },
                }
            ],
            "max_context_length": 32768,
            "format": "gguf",
            "capabilities": {"vision": False, "trained_for_tool_use": True},
            "description": None,
        },
        {
            "type": "llm",
            "key": "thinker",
            "quantization": None,
            "size_bytes": 5,
            "params_string": None,
            "loaded_instances": [],
            "max_context_length": 8192,
            "format": None,
            "capabilities": {
                "vision": True,
                "trained_for_tool_use": False,
                "reasoning": {"allowed_options": ["off", "on"], "default": "on"},
            },
        },
        {"type": "embedding", "key": "nomic", "params_string": None, "loaded_instances": []},
    ]
}


def test_lmstudio_tells_of_its_models(canned: CannedFactory, opened: Opener) -> None:
    runtime = opened(LmStudioRuntime, canned(as_json(LM_STUDIO)).url)
    info, thinker = runtime.list_models()
    assert (info.name, info.context_length, info.quantisation) == (
        "gemma-3-270m-it-qat",
        32768,
        "Q4_0",
    )
    assert info.capabilities == {"completion", "tools"}
    assert thinker.capabilities == {"completion", "vision", "thinking"}
    assert (thinker.quantisation, thinker.parameters) == ("", "")
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


def test_a_model_with_the_window_is_not_loaded_again(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json(LM_STUDIO))
    runtime = opened(LmStudioRuntime, server.url)
    assert runtime.load("gemma-3-270m-it-qat", 4096) is None
    assert runtime.load("gemma-3-270m-it-qat") is None
    assert all(request.startswith(b"GET ") for request in server.requests)


def test_a_model_that_is_not_loaded(canned: CannedFactory, opened: Opener) -> None:
    loaded = {
        "type": "llm",
        "instance_id": "thinker",
        "load_time_seconds": 9.099,
        "status": "loaded",
    }
    server = canned(as_json(LM_STUDIO), as_json(loaded))
    runtime = opened(LmStudioRuntime, server.url)
    assert runtime.load("thinker") == 9.099
    assert server.requests[1].startswith(b"POST /api/v1/models/load ")
    assert json.loads(server.requests[1].partition(b"\r\n\r\n")[2]) == {"model": "thinker"}
    server.responses = (as_json(LM_STUDIO),)
    assert runtime.unload("thinker") is False


def test_a_key_that_the_server_wants(canned: CannedFactory, opened: Opener) -> None:
    server = canned(as_json({"error": {"message": "invalid token"}}, "401 Unauthorized"))
    with pytest.raises(RuntimeFault) as fault:
        opened(LmStudioRuntime, server.url).list_models()
    assert fault.value.kind == "auth"


def test_reasoning_comes_under_its_own_name(canned: CannedFactory, opened: Opener) -> None:
    """Since 0.3.23 it is apart for some models, as ``reasoning``; usage comes when asked for."""
    events = [chunk(None, reasoning="Hm"), *GOOD]
    server = canned(Canned(framed(*events)))
    generation = opened(LmStudioRuntime, server.url).generate(ask())
    assert (generation.thinking, generation.text) == ("Hm", "Hello there")
    assert generation.usage.completion_tokens == 2
    assert server.bodies()[0]["stream_options"] == {"include_usage": True}
