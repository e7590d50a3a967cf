"""Measured figures against a server whose send times are known, on real sockets.

Bounds are wide, since a CI machine is busy; ``benchmarks/timing.py`` shows the true errors. What
is exact is checked exactly: which events count, and which figures there are.
"""

from __future__ import annotations

import time

import pytest

from pytest_benchrig.core.generation import Generation, Request, RuntimeFault
from pytest_benchrig.core.timing import Timings, timings_of
from pytest_benchrig.runtimes.calibrate import errors_of
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.openai import OpenAIRuntime
from pytest_benchrig.runtimes.schedule import Schedule, plan
from pytest_benchrig.runtimes.scripted import ScriptedServer, Truth
from tests.runtimes.support import Opener, ask


def play(
    server: ScriptedServer, opened: Opener, schedule: str, kind: type = OpenAIRuntime
) -> tuple[Generation, Timings, Truth]:
    server.truths()
    request: Request = ask(schedule, marker="m")
    generation: Generation = opened(kind, server.url).generate(request)
    [truth] = server.truths()
    return generation, timings_of(generation, request), truth


@pytest.mark.parametrize(
    "schedule",
    [
        "ttft60-itl5-n20",
        "ttft60-itl2-n50-pack5",
        "ttft60-itl2-n50-burst5",
        "ttft30-itl5-n15-tail100",
        "ttft30-itl5-n15-raw",
        "ttft30-itl5-n15-split1",
        "ttft60-itl5-n15-hdr0-role2-ping10",
        "ttft30-itl5-n15-crlf-nosp",
        "ttft30-itl5-n20-think10",
        "ttft30-itl5-n15-usage3",
        "ttft30-itl5-n15-usage0",
        "ttft30-itl5-n15-ka0",
    ],
)
def test_figures_agree_with_the_truth(
    scripted: ScriptedServer, opened: Opener, schedule: str
) -> None:
    generation, timings, truth = play(scripted, opened, schedule)
    errors = errors_of(generation, truth)
    assert timings.ttft_sec is not None
    assert abs(timings.ttft_sec - truth.ttft_sec) < 0.02
    assert errors.decode_pct < 20.0
    if "usage0" not in schedule:
        assert timings.completion_tokens == Schedule.parse(schedule).n


def test_the_first_token_is_none_of_what_came_before(
    scripted: ScriptedServer, opened: Opener
) -> None:
    generation, timings, truth = play(scripted, opened, "ttft200-itl1-n5-hdr0-role2-ping10")
    assert {kind for kind, _, _ in truth.sends} >= {"head", "role", "ping", "token"}
    assert timings.ttft_sec is not None
    assert timings.ttft_sec > 0.19
    assert generation.marks.headers_ns is not None
    assert generation.marks.headers_ns - generation.marks.start_ns < 100_000_000


def test_a_late_finish_is_not_the_last_token(scripted: ScriptedServer, opened: Opener) -> None:
    generation, timings, _ = play(scripted, opened, "ttft20-itl5-n20-tail300")
    assert timings.eval_tok_per_sec is not None
    assert timings.eval_tok_per_sec > 120
    assert generation.marks.end_ns - generation.marks.arrivals[-1].ns > 200_000_000


def test_a_cached_prompt_is_not_processed_again(scripted: ScriptedServer, opened: Opener) -> None:
    schedule = "ttft60-cttft5-itl2-n12-tm-usage2"
    _, cold, _ = play(scripted, opened, schedule, LlamaCppRuntime)
    _, warm, _ = play(scripted, opened, schedule, LlamaCppRuntime)
    assert (cold.cache_mode, warm.cache_mode) == ("cold", "warm")
    assert cold.prompt_tok_per_sec == pytest.approx(128 / 0.060)
    assert warm.prompt_tok_per_sec is None
    assert warm.prefill_eff_tok_per_sec is None


def test_a_busy_answer_is_not_in_the_time_to_first_token(
    scripted: ScriptedServer, opened: Opener
) -> None:
    schedule = "ttft20-itl2-n5-err503-errx2-ra1"
    waits: list[float] = []
    runtime = opened(OpenAIRuntime, scripted.url, wait=lambda sec: waits.append(sec))
    scripted.truths()
    generation = runtime.generate(ask(schedule))
    timings = timings_of(generation)
    [truth] = scripted.truths()
    assert waits == [1.0, 1.0]
    assert timings.ttft_sec is not None
    assert abs(timings.ttft_sec - truth.ttft_sec) < 0.02


def test_reading_costs_no_more_than_it_must(scripted: ScriptedServer, opened: Opener) -> None:
    runtime = opened(OpenAIRuntime, scripted.url)
    schedule = "ttft20-itl1-n200"
    runtime.generate(ask(schedule))
    before = time.thread_time()
    runtime.generate(ask(schedule))
    assert time.thread_time() - before < 0.5


def test_a_stream_that_breaks_off_is_no_result(scripted: ScriptedServer, opened: Opener) -> None:
    with pytest.raises(RuntimeFault) as caught:
        opened(OpenAIRuntime, scripted.url).generate(ask("ttft10-itl2-n20-drop5"))
    assert caught.value.kind == "broken_stream"
    assert caught.value.partial is not None
    assert len(caught.value.partial.marks.arrivals) == 5


@pytest.mark.parametrize("words", ["nonsense", "ttft", "n20-x5", "itl5.5.5", ""])
def test_a_schedule_that_cannot_be_read(words: str) -> None:
    with pytest.raises(ValueError, match=r"schedule|number"):
        Schedule.parse(words)


def test_a_schedule_plays_its_tokens_when_it_says() -> None:
    sends = plan(Schedule.parse("ttft100-itl10-n10-pack2-burst2-tail30"), "openai", "m")
    assert [(s.at, s.tokens) for s in sends if s.kind == "token"] == [
        (100.0, 4),
        (140.0, 4),
        (160.0, 2),
    ]
    assert [s.at for s in sends if s.kind in ("finish", "usage", "end")] == [190.0] * 3
