"""Runtimes by name, targets as typed, and other plugins' runtimes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.core.targets import parse_target
from pytest_benchrig.runtimes.registry import RUNTIMES, connect, near_runtime, pull, register

NAMES = (
    "ollama",
    "llamacpp",
    "vllm",
    "lmstudio",
    "foundry",
    "prism",
    "openai",
    "onnx",
    "embedded",
    "replay",
)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is registered is forgotten after the test."""
    monkeypatch.setattr(RUNTIMES, "_registered", {})


def test_the_runtimes() -> None:
    assert tuple(RUNTIMES) == NAMES


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("replay", "embedded")])
def test_connecting_contacts_nothing(name: str) -> None:
    runtime = connect(name, "m", "http://127.0.0.1:9")
    assert runtime.name == name
    assert runtime.server_pid() is None
    runtime.close()


def test_a_pid_is_that_of_an_engine_that_was_started() -> None:
    runtime = connect("embedded", "smollm2-135m", "http://127.0.0.1:9", pid=4242)
    assert (runtime.name, runtime.server_pid()) == ("embedded", 4242)
    runtime.close()


def test_without_an_address_the_usual_one_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "gpu.lan")
    assert connect("ollama", "m").base_url == "http://gpu.lan:11434"
    assert connect("lmstudio", "m").base_url == "http://127.0.0.1:1234"


@pytest.mark.parametrize(
    ("name", "guess"), [("olama", "ollama"), ("llama.cpp", "llamacpp"), ("VLLM", "vllm")]
)
def test_an_unknown_runtime_lists_all_and_names_the_nearest(name: str, guess: str) -> None:
    with pytest.raises(ValueError, match=f"unknown runtime .*did you mean {guess}") as problem:
        connect(name, "m")
    assert "ollama, llamacpp, vllm" in str(problem.value)
    assert near_runtime("zzz") == "The runtimes are " + ", ".join(NAMES)


def test_an_address_that_is_none_is_a_fault() -> None:
    with pytest.raises(RuntimeFault, match="is no server address"):
        connect("openai", "m", "http://")


class Mine:
    """Another plugin's runtime."""

    name = "mine"

    def __init__(self, model: str, base_url: str, api_key_env: str) -> None:
        self.made_of = (model, base_url, api_key_env)
        self.base_url = base_url

    def close(self) -> None:
        """Nothing is open."""


def make(model: str, base_url: str, *, api_key_env: str = "") -> Any:
    return Mine(model, base_url, api_key_env)


@pytest.mark.usefixtures("fresh")
def test_another_plugins_runtime() -> None:
    register("mine", make)
    assert tuple(RUNTIMES)[-1] == "mine"
    assert parse_target("mine:a:b", tuple(RUNTIMES)) == ("mine", "a:b")
    runtime: Any = connect("mine", "m", "http://x", api_key_env="KEY", pid=7)
    assert runtime.made_of == ("m", "http://x", "KEY")
    register("mine", make)
    assert len(RUNTIMES) == len(NAMES) + 1


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", ["ollama", "auto", "Mine", "my runtime", "", "8bit", "my:x"])
def test_names_that_cannot_be_registered(name: str) -> None:
    with pytest.raises(ValueError, match="runtime name"):
        register(name, make)


def test_what_cannot_be_fetched_says_so() -> None:
    with pytest.raises(RuntimeFault, match="has no way to fetch") as fault:
        pull("vllm", "m")
    assert fault.value.kind == "unsupported"
    with pytest.raises(ValueError, match="unknown runtime"):
        pull("nope", "m")


def test_a_bundled_model_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pytest_benchrig.runtimes.models.fetch_model", lambda model, progress: f"/cache/{model}"
    )
    assert pull("embedded", "smollm2-135m") == "ready at /cache/smollm2-135m"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ollama:qwen3", ("ollama", "qwen3")),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b")),
        ("qwen2.5:7b", (None, "qwen2.5:7b")),
        ("qwen3", (None, "qwen3")),
        (" vllm:Qwen/Qwen3-8B ", ("vllm", "Qwen/Qwen3-8B")),
        ("VLLM: m", ("vllm", "m")),
        ("embedded:/models/a b.gguf", ("embedded", "/models/a b.gguf")),
        (r"embedded:C:\models\x.gguf", ("embedded", r"C:\models\x.gguf")),
        (r"C:\models\x.gguf", (None, r"C:\models\x.gguf")),
        ("hf.co/org/model:Q4_K_M", (None, "hf.co/org/model:Q4_K_M")),
        ("ollama:", ("ollama", "")),
        ("ollama", (None, "ollama")),
        ("", (None, "")),
        ("replay:runs/a.jsonl#ollama:qwen3", ("replay", "runs/a.jsonl#ollama:qwen3")),
        ("ollama://host/x", (None, "ollama://host/x")),
    ],
)
def test_targets_as_typed(text: str, expected: tuple[str | None, str]) -> None:
    assert parse_target(text, NAMES) == expected


@given(st.sampled_from(NAMES), st.text(min_size=1).filter(lambda t: t == t.strip()))
def test_a_target_survives_its_own_text(runtime: str, model: str) -> None:
    if not model.startswith("//"):
        assert parse_target(f"{runtime}:{model}", NAMES) == (runtime, model)


def test_each_builtin_runtime_offers_what_the_protocol_wants() -> None:
    wanted = {
        *("version", "list_models", "describe", "load", "unload", "generate", "count_tokens"),
        *("placement", "server_pid", "close"),
    }
    for name in NAMES:
        if name == "replay":
            continue
        runtime = connect(
            name,
            "" if name == "embedded" else "m",
            "" if name == "embedded" else "http://127.0.0.1:9",
        )
        assert wanted <= set(dir(runtime)), name
        runtime.close()
