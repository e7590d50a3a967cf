"""Ollama's models: their list, names, placement, loading and fetching."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import (
    Message,
    Placement,
    RuntimeFault,
)
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.ollama_models import fewest_tokens, normalise, same_name
from tests.runtimes.ollama_lines import lines
from tests.runtimes.routed import (
    HANG,
    Routed,
    lookalike_routes,
    ollama_routes,
)
from tests.runtimes.support import Canned, Opener, as_json, capture


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

    def test_what_is_in_memory_is_told_with_its_share_of_the_device(self, ollama: Any) -> None:
        running = [
            {"name": "qwen3:latest", "size_vram": 3 * 2**20},
            {"model": "phi4:latest"},
        ]
        runtime, _ = ollama(**{"GET /api/ps": as_json({"models": running})})
        assert runtime.loaded() == {"qwen3:latest": 3.0, "phi4:latest": None}

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


def test_no_tokenizer_needs_fewer_tokens_than_this_counts() -> None:
    def fewest(text: str) -> int:
        return fewest_tokens((Message("user", text),))

    assert fewest("") == 0
    assert fewest("The quick brown fox") == 4
    assert fewest("a" * 240) == 10
    assert fewest("łódź " * 100) == 100
