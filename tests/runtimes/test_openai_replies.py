"""Replies of OpenAI-compatible servers, as they really send them."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import (
    TimingMarks,
    ToolCall,
)
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.llamacpp import LlamaCppReply
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.openai_reply import ChatReply
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage
from tests.runtimes.support import (
    DONE,
    GOOD,
    USAGE,
    Canned,
    CannedFactory,
    Opener,
    ask,
    chunk,
    framed,
)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_separated_trace(canned: CannedFactory, opened: Opener, field: str) -> None:
    events = [chunk(None, **{field: "Hm"}), *GOOD]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert (generation.thinking, generation.text) == ("Hm", "Hello there")
    assert [a.kind for a in generation.marks.arrivals] == ["thinking", "answer", "answer"]


def test_a_trace_sent_under_both_names_counts_once(canned: CannedFactory, opened: Opener) -> None:
    events = [chunk(None, reasoning="Hm", reasoning_content="Hm"), *GOOD]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.thinking == "Hm"


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        (["<think>", "a", "</think>", "b"], "tttaa"[1:]),
        (["<th", "ink>a", "</thi", "nk>", "b"], "tttaa"),
        (["a", "b", "</think>", "c"], "ttta"),
        (["x < y", "z"], "aa"),
    ],
)
def test_tags_in_the_content_tell_thinking_from_answer(
    canned: CannedFactory, opened: Opener, pieces: list[str], kinds: str
) -> None:
    events = [*(chunk(p) for p in pieces), chunk(finish="stop"), DONE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.text == "".join(pieces)
    seen = "".join(a.kind[0] for a in generation.marks.arrivals)
    assert seen[0] == kinds[0]
    assert seen[-1] == kinds[-1]
    first_answer = next(a for a in generation.marks.arrivals if a.kind == "answer")
    assert generation.marks.first_answer_ns == first_answer.ns


def test_two_calls_that_share_an_index_stay_two(canned: CannedFactory, opened: Opener) -> None:
    def call(call_id: str, name: str) -> dict[str, object]:
        return {"index": 0, "id": call_id, "function": {"name": name, "arguments": "{}"}}

    events = [
        chunk(None, tool_calls=[call("a", "f")]),
        chunk(None, tool_calls=[call("b", "g")]),
        chunk(finish="tool_calls"),
        DONE,
    ]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert generation.tool_calls == (ToolCall("f", "{}", "a"), ToolCall("g", "{}", "b"))


def test_nothing_but_tokens_is_an_arrival(canned: CannedFactory, opened: Opener) -> None:
    events = [
        b": ping\n\n",
        chunk(role="assistant", content=""),
        b'data: {"choices":[],"prompt_progress":{"total":9}}\n\n',
        b"data:\n\n",
        b"data: {}\n\n",
        chunk(None, reasoning_content=""),
        *GOOD,
    ]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert len(generation.marks.arrivals) == 2


def test_usage_with_every_event_is_a_running_total(canned: CannedFactory, opened: Opener) -> None:
    def counted(text: str, total: int) -> bytes:
        value = json.loads(chunk(text)[6:])
        value["usage"] = {"prompt_tokens": 9, "completion_tokens": total}
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    events = [counted("a b c", 3), counted(" d", 4), counted(" e f", 6), chunk(finish="stop"), DONE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    assert [a.tokens for a in generation.marks.arrivals] == [3, 1, 2]
    assert generation.usage.completion_tokens == 6


def test_no_usage_is_estimated_and_flagged(canned: CannedFactory, opened: Opener) -> None:
    events = [e for e in GOOD if e != USAGE]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events))).url).generate(ask())
    timings = timings_of(generation)
    assert (timings.completion_tokens, timings.usage_estimated) == (2, True)
    assert "usage_estimated" in timings.flags


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "reasoning",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "timings",
                    "predicted_n",
                    "prompt_ms",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "error",
                    "detail",
                    "object",
                    "model",
                    "text",
                    "thinking",
                    "role",
                    "system_fingerprint",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES, JSON_VALUES, st.sampled_from([ChatReply, LlamaCppReply]))
def test_whatever_json_comes_is_taken_or_named(
    delta: object, value: object, kind: type[ChatReply]
) -> None:
    reply = kind(asked_model="m")
    chunks = [value, {"choices": [{"delta": delta}]}, {"choices": [delta], "usage": value}]
    for number, one in enumerate([*chunks, {"timings": value, "choices": []}]):
        with contextlib.suppress(ErrorInStream, Garbage):
            reply.feed(StampedEvent(number, json.dumps(one).encode()))
    with contextlib.suppress(ErrorInStream, Garbage):
        reply.whole({"choices": [{"message": delta}], "usage": value})
    marks = TimingMarks(0, 10, tuple(reply.arrivals))
    timings_of(reply.generation(marks))


def test_empty_events_after_the_last_token_are_tokens_that_show_nothing(
    canned: CannedFactory, opened: Opener
) -> None:
    """An end token that the server was asked to ignore comes again and again, as no text."""
    words = [chunk("a"), chunk(""), chunk(" b"), chunk(" c")]
    events = [chunk("", role="assistant"), *words, *[chunk("")] * 5, chunk("", finish="length")]
    generation = opened(OpenAIRuntime, canned(Canned(framed(*events, DONE))).url).generate(ask())
    assert generation.marks.blank_tail == 5
    assert len(generation.marks.arrivals) == 3
