"""llama.cpp in router mode, by the states that its documentation lists; none was run here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes import llamacpp
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from tests.runtimes.routed import Answer, Routed, RoutedServer
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

ARGS = ["llama-server", "-ctx", "4096"]
LOADED = {"value": "loaded", "args": ARGS}
LOADING = {"value": "loading", "args": ARGS}
UNLOADED: dict[str, Any] = {"value": "unloaded"}
FAILED = {"value": "unloaded", "args": ARGS, "failed": True, "exit_code": 1}
SLEEPING = {"value": "sleeping", "args": ARGS}
DOWNLOADING = {"value": "downloading", "progress": {"model.gguf": {"done": 1, "total": 2}}}
PROPS = {
    "default_generation_settings": {"n_ctx": 4096},
    "chat_template_caps": {"supports_tools": True},
}
CHAT = "POST /v1/chat/completions"
LOAD = "POST /models/load"


class Router:
    """A router with the model ``org/m:Q4`` whose status goes on with each look at the list."""

    def __init__(self, *states: Mapping[str, Any]) -> None:
        self.states = list(states)

    def listed(self, body: object) -> Canned:
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        meta = {"n_ctx_train": 8192, "size": 7} if status["value"] == "loaded" else None
        one = {"id": "org/m:Q4", "path": "/models/m.gguf", "status": status, "meta": meta}
        return as_json({"data": [{"id": "other", "status": LOADED}, one]})

    def routes(self) -> dict[str, Answer]:
        return {
            "GET /v1/models": self.listed,
            "GET /props?model=org%2Fm%3AQ4": as_json(PROPS),
            LOAD: as_json({"success": True}),
            "POST /models/unload": as_json({"success": True}),
            CHAT: self.chat,
        }

    def chat(self, body: dict[str, Any]) -> Canned:
        if body.get("stream"):
            return Canned(framed(*GOOD))
        return as_json({"choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}]})


Make = Callable[..., tuple[LlamaCppRuntime, RoutedServer]]


@pytest.fixture
def make(routed: Routed, opened: Opener, monkeypatch: pytest.MonkeyPatch) -> Make:
    """``make(states...)``: a runtime and its router."""
    monkeypatch.setattr(llamacpp, "_LOAD_POLL_SEC", 0.0)

    def start(*states: Mapping[str, Any]) -> tuple[LlamaCppRuntime, RoutedServer]:
        server = routed(Router(*states).routes())
        return opened(LlamaCppRuntime, server.url, target_model="org/m:Q4"), server

    return start


@pytest.mark.parametrize(
    ("states", "asked"),
    [
        ([UNLOADED, LOADING, LOADING, LOADED], True),
        ([FAILED, LOADING, LOADED], True),  # an intentional unload looks like that, too
        ([LOADING, LOADED], False),
        ([DOWNLOADING, LOADING, LOADED], False),
    ],
)
def test_a_load_is_waited_for_until_the_router_says_so(
    make: Make, states: list[Mapping[str, Any]], asked: bool
) -> None:
    runtime, server = make(*states)
    seconds = runtime.load("org/m:Q4")
    assert seconds is not None
    assert seconds >= 0
    assert server.bodies(LOAD) == ([{"model": "org/m:Q4"}] if asked else [])
    assert [route for route, _ in server.asked].count("GET /v1/models") == len(states)


def test_what_is_loaded_is_not_loaded_again(make: Make) -> None:
    runtime, server = make(LOADED)
    assert runtime.load("org/m:Q4") is None
    assert server.bodies(LOAD) == []


def test_a_model_that_sleeps_is_woken_by_a_request_for_one_token(make: Make) -> None:
    runtime, server = make(SLEEPING, LOADED)
    assert runtime.load("org/m:Q4") is not None
    [body] = server.bodies(CHAT)
    assert (body["model"], body["max_tokens"], "stream" in body) == ("org/m:Q4", 1, False)
    assert server.bodies(LOAD) == []


def test_a_load_that_fails_says_how_the_models_process_ended(make: Make) -> None:
    runtime, _ = make(UNLOADED, LOADING, FAILED)
    with pytest.raises(RuntimeFault, match="could not load the model 'org/m:Q4'") as fault:
        runtime.load("org/m:Q4")
    assert "exit status 1" in fault.value.message
    assert (fault.value.kind, fault.value.phase) == ("http", "load")
    assert "router's log" in fault.value.remedy


def test_a_load_that_never_ends(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "_LOAD_TIMEOUT_SEC", 0.05)
    runtime, _ = make(LOADING)
    with pytest.raises(RuntimeFault, match="did not load") as fault:
        runtime.load("org/m:Q4")
    assert fault.value.kind == "timeout"


def test_a_model_is_loaded_before_it_is_described(make: Make) -> None:
    runtime, server = make(UNLOADED, UNLOADED, LOADING, LOADED)
    info = runtime.describe("org/m:Q4")
    assert (info.name, info.context_length, info.size_bytes) == ("org/m:Q4", 4096, 7)
    assert info.capabilities == frozenset({"completion", "tools"})
    routes = [route for route, _ in server.asked]
    assert routes.index(LOAD) < routes.index("GET /props?model=org%2Fm%3AQ4")


def test_a_model_that_was_unloaded_meanwhile_is_loaded_before_the_clock_starts(make: Make) -> None:
    """The router evicts the model that was used least recently."""
    runtime, server = make(LOADED, LOADED, LOADED, UNLOADED, LOADING, LOADED)
    runtime.describe("org/m:Q4")
    generation = runtime.generate(ask("org/m:Q4"))
    assert generation.text == "Hello there"
    routes = [route for route, _ in server.asked]
    assert routes.index(LOAD) < routes.index(CHAT)


def test_a_name_that_the_router_does_not_list(make: Make) -> None:
    runtime, server = make(UNLOADED)
    with pytest.raises(RuntimeFault) as fault:
        runtime.describe("org/n:Q4")
    assert fault.value.kind == "model_not_found"
    assert server.bodies(LOAD) == []


def test_a_list_loads_nothing(make: Make) -> None:
    runtime, server = make(UNLOADED)
    assert [m.name for m in runtime.list_models()] == ["other", "org/m:Q4"]
    assert [route for route, _ in server.asked] == ["GET /v1/models"]


def test_unloading(make: Make) -> None:
    runtime, server = make(LOADED)
    assert runtime.unload("org/m:Q4") is True
    assert server.bodies("POST /models/unload") == [{"model": "org/m:Q4"}]


def test_a_server_of_one_model_cannot_unload(canned: CannedFactory, opened: Opener) -> None:
    server = canned(capture("llama.cpp/02-models"))
    runtime = opened(LlamaCppRuntime, server.url)
    assert runtime.unload("SmolLM2-135M-Instruct") is False
    assert runtime.load("SmolLM2-135M-Instruct") is None
    assert len(server.requests) == 2
