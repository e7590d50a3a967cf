"""Servers that count wrongly, on real sockets: refused with a reason, estimated, never believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_benchrig.core.generation import Generation
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.figures import number, whole_number
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from tests.runtimes.support import DONE, Canned, CannedFactory, Opener, ask, chunk, framed, http

ABSURD = [
    "1" + "0" * 30,
    "-5",
    "true",
    "1.5",
    '"12"',
    "[]",
    "1e999",
    "-1e999",
    "NaN",
    "1" + "0" * 400,
    "100000",
    "0",
]
"""Counts as JSON texts, as they would stand on the wire."""

WORDS = [f" w{i}" for i in range(10)]


def openai_events(usage: str, more: str = "") -> list[bytes]:
    last = f'data: {{"choices":[],"usage":{usage}{more}}}\n\n'.encode()
    return [*map(chunk, WORDS), chunk(finish="stop"), last, DONE]


def check(generation: Generation) -> None:
    """Ten words were shown, whatever the server says."""
    assert generation.text == "".join(WORDS)
    timings = timings_of(generation, ask())
    assert timings.completion_tokens == 10
    assert timings.usage_estimated
    assert {"usage_refused", "usage_estimated"} <= set(timings.flags)
    json.dumps([timings.completion_tokens, timings.eval_tok_per_sec], allow_nan=False)


@pytest.mark.parametrize("count", ABSURD)
def test_an_openai_server(canned: CannedFactory, opened: Opener, count: str) -> None:
    usage = f'{{"prompt_tokens":9,"completion_tokens":{count}}}'
    server = canned(Canned(framed(*openai_events(usage))))
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    check(generation)


@pytest.mark.parametrize("count", ABSURD)
def test_a_llamacpp_server_by_its_timings(
    canned: CannedFactory, opened: Opener, count: str
) -> None:
    usage = f'{{"prompt_tokens":9,"completion_tokens":{count}}}'
    timings = (
        f',"timings":{{"prompt_n":9,"prompt_ms":50,"predicted_n":{count},"predicted_ms":100,'
        f'"predicted_per_second":{count}}}'
    )
    server = canned(Canned(framed(*openai_events(usage, timings))))
    generation = opened(LlamaCppRuntime, server.url).generate(ask())
    check(generation)
    rate = timings_of(generation, ask()).engine_eval_tok_per_sec
    assert rate is None or rate < 1e6


@pytest.mark.parametrize("count", ABSURD)
def test_an_ollama_server(canned: CannedFactory, opened: Opener, count: str) -> None:
    pieces = [
        json.dumps({"model": "m", "message": {"content": word}, "done": False}) for word in WORDS
    ]
    last = (
        '{"model":"m","message":{"content":""},"done":true,"done_reason":"stop",'
        '"total_duration":900000000,"prompt_eval_count":9,"prompt_eval_duration":100000000,'
        f'"eval_count":{count},"eval_duration":700000000}}'
    )
    body = "\n".join((*pieces, last, "")).encode()
    server = canned(Canned([http(body, media="application/x-ndjson")]))
    generation = opened(OllamaRuntime, server.url).generate(ask())
    check(generation)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        (name, count)
        for name in ("prompt_tokens", "cached_tokens", "reasoning_tokens")
        for count in ABSURD
        if count != "100000" and (count != "0" or name == "prompt_tokens")
    ],
)
def test_the_other_counts_of_a_usage(
    canned: CannedFactory, opened: Opener, name: str, count: str
) -> None:
    usage: dict[str, Any] = {
        "prompt_tokens": 9,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    text = json.dumps(usage)
    text = text.replace(f'"{name}": {9 if name == "prompt_tokens" else 0}', f'"{name}": {count}')
    server = canned(Canned(framed(*openai_events(text))))
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    timings = timings_of(generation, ask())
    assert "usage_refused" in timings.flags
    assert timings.completion_tokens == 10
    assert not timings.usage_estimated
    assert (timings.prefill_eff_tok_per_sec is None) is (name != "reasoning_tokens")


def test_thinking_that_the_server_hides_but_counts(canned: CannedFactory, opened: Opener) -> None:
    usage = json.dumps(
        {
            "prompt_tokens": 9,
            "completion_tokens": 2010,
            "completion_tokens_details": {"reasoning_tokens": 2000},
        }
    )
    server = canned(Canned(framed(*openai_events(usage))))
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    timings = timings_of(generation, ask())
    assert (timings.completion_tokens, timings.thinking_tokens) == (2010, 2000)
    assert "usage_refused" not in timings.flags


def test_a_rejected_prediction_is_no_part_of_the_reply(
    canned: CannedFactory, opened: Opener
) -> None:
    details = {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 40}
    usage = {"prompt_tokens": 9, "completion_tokens": 50, "completion_tokens_details": details}
    server = canned(Canned(framed(*openai_events(json.dumps(usage)))))
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    assert generation.usage.completion_tokens == 10
    assert generation.flags == ()


def test_running_totals_that_jump_give_no_counts_of_events(
    canned: CannedFactory, opened: Opener
) -> None:
    def counted(word: str, total: int) -> bytes:
        value = json.loads(chunk(word)[6:])
        value["usage"] = {"prompt_tokens": 9, "completion_tokens": total}
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    totals = [1, 2, 3, 4, 5_000_000, 5, 6, 7, 8, 9]
    usage = '{"prompt_tokens":9,"completion_tokens":10}'
    events = [*map(counted, WORDS, totals), *openai_events(usage)[len(WORDS) :]]
    server = canned(Canned(framed(*events)))
    generation = opened(OpenAIRuntime, server.url).generate(ask())
    timings = timings_of(generation, ask())
    assert timings.completion_tokens == 10
    assert "usage_refused" in timings.flags


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "-1", '"1"', "true", "null", "[]"])
def test_what_is_no_figure(text: str) -> None:
    value = json.loads(text)
    assert whole_number(value) is None
    assert number(value) is None


def test_what_is_one() -> None:
    assert whole_number(3.0) == 3
    assert whole_number(2**53) == 2**53
    assert whole_number(2**53 + 2) is None
    assert whole_number(10**400) is None
    assert number(10**400) is None
    assert number(10**300) == 1e300
