"""Replies of Ollama and their traps, by the recorded bytes of a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import (
    Message,
    RuntimeFault,
    Sampling,
    ToolCall,
    Usage,
)
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.ollama_reply import argument_texts, engine_timings_of
from tests.runtimes.ollama_lines import CHAT, FIGURES, TOOL, last, lines, piece
from tests.runtimes.routed import Routed, lookalike_routes
from tests.runtimes.support import Canned, Opener, ask, capture, http


class TestReplies:
    def test_a_stream_gives_text_counts_durations_and_marks(self, ollama: Any) -> None:
        runtime, _ = ollama("15-chat-long")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.text.startswith("Once upon a time")
        assert reply.finish_reason == "length"
        assert reply.usage == Usage(22, 300)
        assert len(reply.marks.arrivals) == 300
        timings = reply.engine_timings
        assert timings is not None
        assert (timings.decode_tokens, timings.decode_intervals) == (300, 299)
        assert timings.decode_sec == pytest.approx(3.511965)
        assert timings.prompt_sec == pytest.approx(0.029394)
        assert timings.load_sec == pytest.approx(0.000868195)
        assert timings.refused == ""
        assert reply.flags == ()
        assert reply.served_model == "smollm2:135m"
        rate = timings_of(reply, ask()).engine_eval_tok_per_sec
        assert rate == pytest.approx(299 / 3.511965)

    def test_thinking_is_kept_apart(self, ollama: Any) -> None:
        runtime, _ = ollama("32-thinking-stream")
        reply = runtime.generate(ask("thinker:0.5b"))
        assert reply.thinking == "12 plus 7 equals 19.\n"
        assert reply.text == "Final answer: 19"
        kinds = [a.kind for a in reply.marks.arrivals]
        assert kinds == ["thinking"] * kinds.count("thinking") + ["answer"] * kinds.count("answer")
        assert kinds.count("answer") == 6
        assert reply.marks.first_answer_ns == reply.marks.arrivals[-6].ns

    def test_a_tool_call_keeps_the_arguments_as_they_were_sent(self, ollama: Any) -> None:
        runtime, _ = ollama("55-tool-call-stream")
        reply = runtime.generate(ask("qwen2.5-coder:0.5b", tools=(TOOL,)))
        assert reply.tool_calls == (ToolCall("get_weather", '{"city":"Paris"}', "call_lmfkh6bh"),)
        assert reply.text == ""
        assert [a.kind for a in reply.marks.arrivals] == ["tool_call"]

    def test_a_whole_reply_with_tools_keeps_a_key_that_was_sent_twice(self, ollama: Any) -> None:
        call = (
            b'{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":'
            b'{"name":"a","arguments":{"x": 1, "x": 2}}},{"function":{"arguments":'
            b'{"y":"\\u00e9"},"name":"b"}}]},"done":true,"done_reason":"stop","eval_count":5}'
        )
        runtime, server = ollama(Canned([http(call, media="application/json")]))
        reply = runtime.generate(ask("m", tools=(TOOL,), stream=False))
        assert [(c.name, c.arguments) for c in reply.tool_calls] == [
            ("a", '{"x": 1, "x": 2}'),
            ("b", '{"y":"\\u00e9"}'),
        ]
        assert reply.marks.arrivals == ()
        assert reply.raw_message["role"] == "assistant"
        assert server.bodies(CHAT)[0]["stream"] is False

    def test_a_whole_reply(self, ollama: Any) -> None:
        runtime, _ = ollama("33-thinking-nonstream")
        reply = runtime.generate(ask("thinker:0.5b", stream=False))
        assert (reply.thinking, reply.text) == ("12 plus 7 equals 19.\n", "Final answer: 19")
        assert reply.usage == Usage(161, 20)

    def test_logprobs_count_the_tokens_of_a_line(self, ollama: Any) -> None:
        one = piece("The phrase", logprobs=[{"token": "The"}, {"token": " phrase"}])
        runtime, _ = ollama(lines(one, last(**FIGURES)))
        assert runtime.generate(ask("m")).marks.arrivals[0].tokens == 2

    def test_a_generated_reply_speaks_of_a_response(self, ollama: Any) -> None:
        generated = capture("ollama/14-generate-nonstream")
        runtime, server = ollama(**{"POST /api/generate": generated})
        request = ask("smollm2:135m", stream=False, sampling=Sampling(extra={"raw": True}))
        reply = runtime.generate(request)
        assert reply.text == "Hello there. I'm here to help"
        assert reply.usage == Usage(12, 8)
        assert server.bodies("POST /api/generate")[0]["prompt"] == "Hi"


class TestTraps:
    @pytest.mark.parametrize("num_ctx", [1024, None])
    def test_a_prompt_that_was_cut_without_a_word_is_a_fault_with_both_counts(
        self, ollama: Any, num_ctx: int | None
    ) -> None:
        runtime, _ = ollama("18-prompt-longer-than-num-ctx")
        fox = "The quick brown fox jumps over the lazy dog number {}."
        prompt = " ".join(fox.format(n) for n in range(420))
        request = ask(
            "smollm2:135m",
            messages=(Message("user", prompt),),
            sampling=Sampling(num_ctx=num_ctx, num_predict=8),
        )
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(request)
        assert fault.value.kind == "context_window"
        assert "at least 4,620 tokens were sent, it read 514" in fault.value.message
        assert "num_ctx" in fault.value.message
        partial = fault.value.partial
        assert partial is not None
        assert "prompt_truncated" in partial.flags
        assert partial.text.startswith("The quick")

    def test_told_not_to_cut_the_server_itself_says_the_counts(self, ollama: Any) -> None:
        runtime, server = ollama("18b-prompt-longer-truncate-false")
        with pytest.raises(RuntimeFault, match=r"5899 tokens.*1024 tokens") as fault:
            runtime.generate(ask("smollm2:135m"))
        assert fault.value.kind == "context_window"
        assert fault.value.status == 400
        assert server.bodies(CHAT)[0]["truncate"] is False

    def test_a_count_without_the_cached_part_is_no_cut(self, ollama: Any) -> None:
        """Older servers count only what was not in the prompt cache."""
        runtime, _ = ollama(lines(piece("x"), last(**{**FIGURES, "prompt_eval_count": 1})))
        request = ask(
            "m", messages=(Message("user", "word " * 50),), sampling=Sampling(num_ctx=4096)
        )
        assert runtime.generate(request).text == "x"

    def test_a_reload_inside_the_request_is_flagged(self, ollama: Any) -> None:
        runtime, _ = ollama("43-cold-chat-load-duration")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.flags == ("reloaded",)
        assert reply.engine_timings.load_sec == pytest.approx(0.543504725)
        assert "0.54 s" in reply.notes[0]
        assert timings_of(reply, ask()).prefill_eff_tok_per_sec is None

    def test_queueing_is_what_the_total_leaves_unexplained(self, ollama: Any) -> None:
        runtime, _ = ollama("48c-concurrent")
        reply = runtime.generate(ask("smollm2:135m"))
        assert reply.engine_timings.queue_sec == pytest.approx(1.267, abs=0.001)
        assert "queued" in reply.flags

    def test_one_token_has_no_rate(self, ollama: Any) -> None:
        figures = {**FIGURES, "eval_count": 1, "eval_duration": 1000}
        runtime, _ = ollama(lines(piece("x"), last(**figures)))
        reply = runtime.generate(ask("m"))
        assert reply.engine_timings.decode_intervals == 0
        assert timings_of(reply, ask()).engine_eval_tok_per_sec is None

    def test_a_look_alikes_figures_are_refused(self, routed: Routed, opened: Opener) -> None:
        server = routed(lookalike_routes())
        runtime = opened(OllamaRuntime, server.url)
        reply = runtime.generate(ask("llama/SmolLM2-135M-Instruct"))
        assert reply.engine_timings.refused == "load_duration and prompt_eval_duration are zero"
        assert any("not believed" in note for note in reply.notes)
        timings = timings_of(reply, ask())
        assert timings.engine_eval_tok_per_sec is None
        assert "engine_refused" in timings.flags

    @pytest.mark.parametrize(
        ("figures", "reason"),
        [
            ({"eval_duration": 900_000_000}, "eval_duration is not shorter than total_duration"),
            ({"prompt_eval_duration": 0}, "prompt_eval_duration is zero"),
            ({"prompt_eval_duration": 790_000_000}, "prompt_eval_duration equals eval_duration"),
            ({"eval_duration": -1}, "eval_duration is -1"),
            ({"eval_duration": "fast"}, "eval_duration is 'fast'"),
            ({}, ""),
        ],
    )
    def test_figures_that_nobody_measured(self, figures: dict[str, object], reason: str) -> None:
        assert engine_timings_of({**FIGURES, **figures}).refused == reason

    def test_another_model_than_the_one_asked_for(self, ollama: Any) -> None:
        runtime, _ = ollama(lines(piece("x"), last(**FIGURES)))
        assert runtime.generate(ask("other")).flags == ("wrong_model",)
        assert runtime.generate(ask("M:latest")).flags == ()


class TestArguments:
    @given(
        st.lists(
            st.dictionaries(
                st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists)
            ),
            max_size=4,
        ),
        st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]),
        st.booleans(),
    )
    def test_their_text_is_found_whatever_stands_around(
        self, arguments: list[dict[str, Any]], separators: tuple[str, str], ascii_only: bool
    ) -> None:
        texts = [json.dumps(a, separators=separators, ensure_ascii=ascii_only) for a in arguments]
        calls = ",".join(f'{{"id":"]}}","function":{{"arguments":{t}}}}}' for t in texts)
        line = f' {{"a":"\\"message\\":","message":{{"tool_calls":[{calls}]}},"done":true}}'
        assert argument_texts(line) == texts

    @given(st.text())
    def test_nothing_breaks_it(self, line: str) -> None:
        assert isinstance(argument_texts(line), list)
