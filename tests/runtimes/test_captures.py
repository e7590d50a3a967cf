"""Recorded exchanges of real servers, sent again over a real socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_benchrig.core.generation import RuntimeFault, ToolCall, Usage
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.vllm import VllmRuntime
from tests.runtimes.support import CannedFactory, Opener, ask, capture

MODEL = "SmolLM2-135M-Instruct"
RUNTIMES = {
    "llama.cpp": LlamaCppRuntime,
    "vllm": VllmRuntime,
    "foundry-local": OpenAIRuntime,
    "prism": OpenAIRuntime,
}


@pytest.fixture
def runtime_of(canned: CannedFactory, opened: Opener) -> Callable[..., Any]:
    """A runtime whose server answers with these captures, one after the other."""

    def make(*names: str) -> Any:
        server = canned(*(capture(name) for name in names))
        return opened(RUNTIMES[names[0].split("/")[0]], server.url, target_model=MODEL)

    return make


@pytest.mark.parametrize(
    ("name", "text", "thinking", "finish", "usage", "arrivals"),
    [
        (
            "llama.cpp/05-chat-stream-usage",
            "Hello, I'm here to help with any creative writing project.",
            "",
            "stop",
            Usage(37, 14, 36),
            13,
        ),
        ("llama.cpp/06-chat-stream-no-usage", "1. 1\n2. 2", "", "length", Usage(38, 32, 24), 32),
        (
            "llama.cpp/08-chat-stream-length-limit",
            "Rain is a complex",
            "",
            "length",
            Usage(37, 16, 24),
            16,
        ),
        (
            "llama.cpp/34-grammar-think-in-content-stream",
            "<think>2 + 3 = 5",
            "",
            "stop",
            Usage(37, 47, 36),
            46,
        ),
        (
            "llama.cpp/61-thinking-stream",
            "Final answer: 19",
            "12 plus 7 equals 19.\n",
            "stop",
            Usage(126, 20, 0),
            16,
        ),
        (
            "llama.cpp/63-thinking-cut-off-at-limit-stream",
            "",
            "12 plus 7",
            "length",
            Usage(126, 5, 125),
            5,
        ),
        (
            "vllm/05-chat-stream-usage",
            "I'm glad you're enjoying the service.",
            "",
            "stop",
            Usage(37, 10),
            9,
        ),
        ("vllm/06-chat-stream-no-usage", "1. 1\n2. 2", "", "length", Usage(), 32),
        ("vllm/08-chat-stream-length-limit", "Rain is", "", "length", Usage(37, 16), 16),
        (
            "vllm/42-reasoning-then-answer-stream",
            "\n</think>",
            "\n2+3 = 5\n",
            "stop",
            Usage(41, 33),
            31,
        ),
        ("foundry-local/03-chat-stream-usage", "I'm an AI", "", "stop", Usage(37, 26, 0), 26),
        (
            "foundry-local/08-chat-stream-length-limit",
            "The rain",
            "",
            "length",
            Usage(37, 16, 0),
            16,
        ),
    ],
)
def test_streams(
    runtime_of: Callable[..., Any],
    name: str,
    text: str,
    thinking: str,
    finish: str,
    usage: Usage,
    arrivals: int,
) -> None:
    generation = runtime_of(name).generate(ask(MODEL))
    assert generation.text.startswith(text)
    assert generation.thinking == thinking
    assert generation.finish_reason == finish
    assert generation.usage == usage
    assert len(generation.marks.arrivals) == arrivals


def test_thinking_in_the_content_is_told_apart_for_the_marks(
    runtime_of: Callable[..., Any],
) -> None:
    name = "llama.cpp/34-grammar-think-in-content-stream"
    marks = runtime_of(name).generate(ask(MODEL)).marks
    assert marks.arrivals[0].kind == "thinking"
    assert marks.arrivals[-1].kind == "answer"


def test_llamacpp_gives_its_own_rates(runtime_of: Callable[..., Any]) -> None:
    generation = runtime_of("llama.cpp/08-chat-stream-length-limit").generate(ask(MODEL))
    timings = timings_of(generation)
    assert timings.engine_eval_tok_per_sec == pytest.approx(15 / 1.254469)
    assert timings.prompt_tok_per_sec == pytest.approx(13 / 0.099537)
    assert timings.prefill_provenance == "engine"
    assert timings.cache_mode == "prefix_cached"
    assert generation.engine == "llama.cpp b0-unknown"


def test_a_cached_prompt_makes_no_prefill_figure(runtime_of: Callable[..., Any]) -> None:
    timings = timings_of(runtime_of("llama.cpp/05-chat-stream-usage").generate(ask(MODEL)))
    assert (timings.cache_mode, timings.cached_prompt_tokens) == ("warm", 36)
    assert timings.prompt_tok_per_sec is None
    assert timings.prefill_eff_tok_per_sec is None
    assert "cache" in timings.unmeasured["prefill_eff_tok_per_sec"]


@pytest.mark.parametrize(
    ("name", "call", "finish"),
    [
        (
            "llama.cpp/56-tool-call-stream",
            ToolCall("add_numbers", '{"a": 12, "b": 30}', "1KVBEiI0YcUrQAhbTDw80FfaHQ1Mpx4b"),
            "tool_calls",
        ),
        (
            "llama.cpp/57-tool-call-cut-off-stream",
            ToolCall("add_numbers", '{"a":', "FtlUcadj1dEazu3xeh8NDR7S0ocEbk6p"),
            "length",
        ),
        (
            "vllm/19-tools-named-stream",
            ToolCall("get_weather", '"Paris"', "chatcmpl-tool-836d57902d4b7a97"),
            "stop",
        ),
    ],
)
def test_tool_calls_are_assembled_as_sent(
    runtime_of: Callable[..., Any], name: str, call: ToolCall, finish: str
) -> None:
    generation = runtime_of(name).generate(ask(MODEL))
    assert generation.tool_calls == (call,)
    assert generation.finish_reason == finish
    assert timings_of(generation).eval_tok_per_sec is None


@pytest.mark.parametrize(
    ("name", "text", "calls"),
    [
        ("llama.cpp/04-chat-nonstream", "Hello, I'm here", 0),
        ("llama.cpp/38-max-tokens-zero", "Hello", 0),
        ("llama.cpp/55-tool-call-nonstream", "", 1),
        ("vllm/04-chat-nonstream", "I'm glad", 0),
        ("vllm/18-tools-required", "", 1),
    ],
)
def test_whole_replies_keep_the_message_and_have_no_arrivals(
    runtime_of: Callable[..., Any], name: str, text: str, calls: int
) -> None:
    generation = runtime_of(name).generate(ask(MODEL, stream=False))
    assert generation.text.startswith(text)
    assert len(generation.tool_calls) == calls
    assert generation.raw_message["role"] == "assistant"
    assert generation.marks.arrivals == ()
    assert timings_of(generation).ttft_sec is None


@pytest.mark.parametrize(
    ("name", "kind", "phase", "said"),
    [
        ("llama.cpp/11-malformed-json", "http", "request", "parse error at line 1"),
        ("llama.cpp/14-context-exceeded-nonstream", "context_window", "request", "18120 tokens"),
        ("llama.cpp/26-unknown-endpoint", "http", "request", "File Not Found"),
        ("llama.cpp/36-client-abort", "broken_stream", "stream", "before the body was complete"),
        ("vllm/14-context-exceeded-nonstream", "context_window", "request", "8192 tokens"),
        ("vllm/16-max-tokens-too-large", "context_window", "request", "max_tokens=9000"),
        ("vllm/30-engine-killed-mid-stream", "stream_error", "stream", "EngineCore"),
        ("prism/15-context-exceeded-stream", "context_window", "request", "18120 tokens"),
    ],
)
def test_errors_of_real_servers(
    runtime_of: Callable[..., Any], name: str, kind: str, phase: str, said: str
) -> None:
    with pytest.raises(RuntimeFault) as caught:
        runtime_of(name).generate(ask(MODEL))
    assert (caught.value.kind, caught.value.phase) == (kind, phase)
    assert said in str(caught.value)


def test_an_engine_that_died_keeps_what_it_had_said(runtime_of: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeFault) as caught:
        runtime_of("vllm/30-engine-killed-mid-stream").generate(ask(MODEL))
    assert caught.value.partial is not None
    assert caught.value.partial.text.startswith("Once upon a time")
    assert not caught.value.partial.finish_reason


def test_a_wrong_name_lists_near_ones(runtime_of: Callable[..., Any]) -> None:
    runtime = runtime_of("vllm/10-wrong-model-name", "vllm/02-models")
    with pytest.raises(RuntimeFault, match=f"did you mean {MODEL}") as caught:
        runtime.generate(ask("smollm2-135m-instruc"))
    assert caught.value.kind == "model_not_found"
    assert caught.value.status == 404


def test_vllm_describes_and_counts(runtime_of: Callable[..., Any]) -> None:
    runtime = runtime_of("vllm/02-models", "vllm/03-version", "vllm/21-tokenize")
    info = runtime.describe(MODEL)
    assert (info.name, info.context_length) == (MODEL, 8192)
    assert runtime.version() == "vLLM 0.32.0"
    assert runtime.count_tokens(MODEL, "Zażółć gęślą jaźń") == 17


def test_llamacpp_describes(runtime_of: Callable[..., Any]) -> None:
    models = "llama.cpp/02-models"
    runtime = runtime_of(models, models, "llama.cpp/03-props", "llama.cpp/03-props")
    info = runtime.describe(MODEL)
    assert info.context_length == 8192
    assert info.capabilities == {"completion"}
    assert (info.quantisation, info.size_bytes) == ("Q4_1", 96576768)
    assert runtime.version() == "llama.cpp b0-unknown"


def test_llamacpp_metrics_by_name(runtime_of: Callable[..., Any]) -> None:
    runtime = runtime_of("llama.cpp/23-metrics")
    assert runtime.metrics()["llamacpp:tokens_predicted_total"] == 552


def test_a_template_without_tools_is_said_before_anything_is_sent(
    canned: CannedFactory, opened: Opener
) -> None:
    server = canned(capture("llama.cpp/02-models"), capture("llama.cpp/03-props"))
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(RuntimeFault, match="no tools") as caught:
        opened(LlamaCppRuntime, server.url).generate(ask(MODEL, tools=(tool,), stream=False))
    assert caught.value.kind == "unsupported"
    assert [r.split()[0] for r in server.requests] == [b"GET", b"GET"]
