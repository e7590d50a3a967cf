"""Recorded and written streams parse as their case files state, also when cut at every byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import Generation, TimingMarks
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.ndjson import NdjsonParser
from pytest_benchrig.runtimes.openai_reply import ChatReply
from pytest_benchrig.runtimes.reply import ErrorInStream
from pytest_benchrig.runtimes.sse import SseParser
from tests.runtimes.support import DATA

CASES = sorted((DATA / "streams").glob("*.json"))
SSE = [p for p in CASES if not p.stem.startswith("st-ol-")]
NDJSON = [p for p in CASES if p.stem.startswith("st-ol-")]


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    case: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return case, path.with_suffix(".raw").read_bytes()


def cuts_of(raw: bytes) -> list[list[bytes]]:
    """The stream whole, byte by byte, and in two at each byte."""
    ways = [[raw], [raw[i : i + 1] for i in range(len(raw))]]
    return ways + [[raw[:i], raw[i:]] for i in range(1, len(raw))]


def events_of(parser: SseParser | NdjsonParser, pieces: list[bytes]) -> list[StampedEvent]:
    events = [e for ns, piece in enumerate(pieces) for e in parser.feed(ns, piece)]
    return events + parser.close()


def replay(pieces: list[bytes]) -> tuple[Generation, ChatReply, str | None, list[int]]:
    """What the reply makes of the stream; the event index of each arrival, and the error."""
    reply = ChatReply()
    error = None
    indexes: list[int] = []
    number = 0
    for event in events_of(SseParser(), pieces):
        if event.data == b"[DONE]":
            continue
        try:
            reply.feed(event)
        except ErrorInStream as problem:
            error = str(problem)
        indexes += [number] * (len(reply.arrivals) - len(indexes))
        number += 1
    return reply.generation(TimingMarks(0, 1, tuple(reply.arrivals))), reply, error, indexes


@pytest.mark.parametrize("path", SSE, ids=lambda p: p.stem)
def test_chat_completion_streams(path: Path) -> None:
    case, raw = load(path)
    expect = case["expect"]
    first: Generation | None = None
    for pieces in cuts_of(raw):
        generation, reply, error, indexes = replay(pieces)
        assert generation.text == expect["content"]
        assert generation.thinking == expect["reasoning"]
        calls = [(c.name, json.loads(c.arguments)) for c in generation.tool_calls]
        assert calls == [(c["name"], c["arguments"]) for c in expect["tool_calls"]]
        assert (generation.finish_reason or None) == expect["finish_reason"]
        assert (reply.complete and error is None) is expect["complete"]
        assert (expect["error"] is None) is (error is None)
        if error is not None:
            assert expect["error"] in error
        usage = expect["usage"] or {"prompt_tokens": None, "completion_tokens": None}
        assert generation.usage.prompt_tokens == usage["prompt_tokens"]
        assert generation.usage.completion_tokens == usage["completion_tokens"]
        kind = {"content": "answer", "reasoning": "thinking"}
        token = expect["first_token"]
        assert reply.arrivals[0].kind == kind.get(token["kind"], token["kind"])
        assert indexes[0] == token["event"]
        answers = [i for i, a in zip(indexes, reply.arrivals, strict=True) if a.kind == "answer"]
        assert (answers[0] if answers else None) == expect["first_answer_event"]
        first = first or generation
        assert generation.tool_calls == first.tool_calls


@pytest.mark.parametrize("path", SSE, ids=lambda p: p.stem)
def test_sse_framing(path: Path) -> None:
    case, raw = load(path)
    for pieces in cuts_of(raw):
        events = [e for e in events_of(SseParser(), pieces) if e.data != b"[DONE]"]
        assert len(events) == case["expect"]["events"]
        assert all(json.loads(e.data) for e in events)


@pytest.mark.parametrize("path", NDJSON, ids=lambda p: p.stem)
def test_ndjson_framing(path: Path) -> None:
    case, raw = load(path)
    whole = [json.loads(e.data) for e in events_of(NdjsonParser(), [raw])]
    assert len(whole) == case["expect"]["events"]
    assert bool(whole[-1]["done"]) is case["expect"]["complete"]
    for pieces in cuts_of(raw):
        assert [json.loads(e.data) for e in events_of(NdjsonParser(), pieces)] == whole
