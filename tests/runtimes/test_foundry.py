"""Foundry Local, by the recorded bytes of a real web service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import ModelInfo, RuntimeFault
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.foundry import FoundryRuntime
from tests.runtimes.routed import Answer, Routed, foundry_routes
from tests.runtimes.support import Canned, Opener, as_json, ask, capture

CHAT = "POST /v1/chat/completions"
LOADED = capture("foundry-local/18c-loaded")
NONE_LOADED = as_json([])


@pytest.fixture
def foundry(routed: Routed, opened: Opener) -> Callable[..., Any]:
    """``foundry(routes)``: a runtime whose server answers these as well as the usual ones."""

    def make(routes: Mapping[str, Answer] | None = None) -> Any:
        server = routed(foundry_routes(**{"GET /models/loaded": LOADED, **(routes or {})}))
        return opened(FoundryRuntime, server.url, target_model="smollm2"), server

    return make


def test_a_stream_with_its_comments_and_doubled_headers(foundry: Any) -> None:
    runtime, _ = foundry({CHAT: capture("foundry-local/03-chat-stream-usage")})
    reply = runtime.generate(ask("smollm2-int4:1"))
    assert reply.text
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (37, 26)
    assert reply.usage.cached_prompt_tokens == 0
    assert reply.finish_reason == "stop"
    assert reply.engine == "Foundry Local"
    assert reply.flags == ()
    assert timings_of(reply, ask()).unmeasured["prompt_tok_per_sec"]


def test_an_alias_is_asked_for_by_its_id_and_loaded_by_its_alias(foundry: Any) -> None:
    loaded = [False]

    def load(body: dict[str, Any]) -> Canned:
        loaded[0] = True
        return capture("foundry-local/18b-load-by-alias")

    runtime, server = foundry(
        {
            "GET /models/loaded": lambda body: LOADED if loaded[0] else NONE_LOADED,
            "GET /models/load/smollm2": load,
            CHAT: capture("foundry-local/08-chat-stream-length-limit"),
        }
    )
    reply = runtime.generate(ask("smollm2"))
    assert server.bodies(CHAT)[0]["model"] == "smollm2-int4:1"
    assert "'smollm2' is served as 'smollm2-int4:1'" in reply.notes
    routes = [route for route, _ in server.asked]
    assert routes.index("GET /models/load/smollm2") < routes.index(CHAT)
    assert runtime.load("smollm2") is None


def test_loading_tells_how_long_it_took(foundry: Any) -> None:
    runtime, _ = foundry(
        {
            "GET /models/loaded": NONE_LOADED,
            "GET /models/load/smollm2": capture("foundry-local/18b-load-by-alias"),
        }
    )
    assert runtime.load("smollm2-int4:1") > 0


def test_unloading_is_by_alias(foundry: Any) -> None:
    states = iter([LOADED, NONE_LOADED])
    runtime, server = foundry(
        {
            "GET /models/loaded": lambda body: next(states),
            "GET /models/unload/smollm2": capture("foundry-local/18g-unload-twice"),
        }
    )
    assert runtime.unload("smollm2-int4:1") is True
    assert ("GET /models/unload/smollm2", {}) in server.asked


def test_a_service_that_takes_ids_only(foundry: Any) -> None:
    failed = capture("foundry-local/18e-unload-by-id-fails")
    runtime, server = foundry(
        {
            "GET /models/loaded": NONE_LOADED,
            "GET /models/load/smollm2": failed,
            "GET /models/load/smollm2-int4": failed,
            "GET /models/load/smollm2-int4%3A1": as_json({"status": "loaded"}),
        }
    )
    assert runtime.load("smollm2") is not None
    assert [r for r, _ in server.asked if "/load/" in r][-1].endswith("%3A1")


def test_a_load_that_fails_is_told(foundry: Any) -> None:
    broken = as_json({"error": {"message": "out of memory"}}, "500 Oops")
    runtime, _ = foundry({"GET /models/loaded": NONE_LOADED, "GET /models/load/smollm2": broken})
    with pytest.raises(RuntimeFault) as fault:
        runtime.load("smollm2")
    assert (fault.value.kind, fault.value.phase) == ("out_of_memory", "load")


@pytest.mark.parametrize(
    ("chat", "kind", "message"),
    [
        ("14-context-exceeded-nonstream", "context_window", "18128 total tokens"),
        ("16b-tools-required", "http", "tool markers"),
        ("10-wrong-model-name", "model_not_found", "did you mean smollm2-int4:1"),
    ],
)
def test_errors_are_told_apart(foundry: Any, chat: str, kind: str, message: str) -> None:
    runtime, _ = foundry({CHAT: capture(f"foundry-local/{chat}")})
    with pytest.raises(RuntimeFault, match=message) as fault:
        runtime.generate(ask("smollm2"))
    assert fault.value.kind == kind


def test_names_are_ids_aliases_or_the_only_variant(foundry: Any) -> None:
    listed = {"data": [{"id": f"phi-4-mini-instruct-{d}:3"} for d in ("cpu", "cuda-gpu")]}
    runtime, _ = foundry({"GET /v1/models": as_json(listed), "GET /models/loaded": NONE_LOADED})
    assert runtime.describe("Phi-4-mini-instruct-CPU:3").name == "phi-4-mini-instruct-cpu:3"
    assert runtime.describe("phi-4-mini-instruct-cpu").name == "phi-4-mini-instruct-cpu:3"
    assert runtime.describe("phi-4-mini-instruct-cuda").name == "phi-4-mini-instruct-cuda-gpu:3"
    with pytest.raises(RuntimeFault, match="has no model 'phi-4-mini'"):
        runtime.describe("phi-4-mini")
    with pytest.raises(RuntimeFault, match="has no model 'phi-4'"):
        runtime.describe("phi-4")


def test_the_loaded_one_of_several_variants_is_meant(foundry: Any) -> None:
    listed = {"data": [{"id": f"phi-4-mini-{d}:3"} for d in ("cpu", "cuda-gpu")]}
    runtime, _ = foundry(
        {
            "GET /v1/models": as_json(listed),
            "GET /models/loaded": as_json(["phi-4-mini-cuda-gpu:3"]),
        }
    )
    assert runtime.describe("phi-4-mini").name == "phi-4-mini-cuda-gpu:3"


def test_what_the_list_tells(foundry: Any) -> None:
    entry = {"id": "a:1", "toolCalling": True, "maxInputTokens": 4096, "parent": "family"}
    runtime, _ = foundry({"GET /v1/models": as_json({"data": [entry]})})
    assert runtime.list_models() == (
        ModelInfo(
            "a:1",
            context_length=4096,
            capabilities=frozenset({"completion", "tools"}),
            aliases=("family", "a"),
        ),
    )
    assert runtime.version() == "Foundry Local"


def test_a_service_that_moved_says_where_to(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    runtime = opened(FoundryRuntime, "http://127.0.0.1:9")
    with pytest.raises(RuntimeFault) as fault:
        runtime.list_models()
    assert fault.value.kind == "unreachable"
    assert "foundry server start" in fault.value.remedy
    (tmp_path / ".foundry").mkdir()
    moved = {"web_urls": ["http://127.0.0.1:58006"]}
    (tmp_path / ".foundry" / "daemon.json").write_text(json.dumps(moved))
    with pytest.raises(RuntimeFault) as fault:
        runtime.describe("m")
    assert "http://127.0.0.1:58006" in fault.value.remedy
