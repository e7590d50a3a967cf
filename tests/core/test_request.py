"""From a scenario to the request: precedence, budgets, thinking, windows, seeds, markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.generation import Message, Sampling
from pytest_benchrig.core.request import (
    RequestSettings,
    is_thinking_model,
    merge,
    parse_option,
    plan_request,
    sampling_of,
)
from pytest_benchrig.core.scenario import AnswerSpec, ContextSpec, Scenario, SpeedSpec

ANSWER = Scenario("sum", "reasoning", "answer", AnswerSpec("numeric", "5"), prompt="2 + 3?")
SPEED = Scenario("fast", "speed", "speed", SpeedSpec(), prompt="Count.")
CONTEXT = Scenario("ctx", "context", "context", ContextSpec(2048, needle="n"), prompt="")
SETTINGS = RequestSettings(
    defaults=Sampling(temperature=0.1, top_p=0.9, seed=42, num_ctx=4096),
    thinking_models=("deepseek-r1", "qwq", "magistral", "qwen3"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("temperature=0", ("temperature", 0)),
        ("temperature=0.5", ("temperature", 0.5)),
        ("num_ctx=8192", ("num_ctx", 8192)),
        ("stop=END", ("stop", "END")),
        ('stop=["a", "b"]', ("stop", ["a", "b"])),
        ("mirostat=2", ("mirostat", 2)),
        ("think=true", ("think", True)),
    ],
)
def test_options_are_json_where_they_parse(text: str, expected: tuple[str, object]) -> None:
    assert parse_option(text) == expected


@pytest.mark.parametrize(
    "text",
    ["temperature", "=1", "temperature=", "temperature=hot", "num_ctx=1.5", "num_ctx=true",
     "num_predict=0", "temperature=-1", "temperature=NaN", "top_p=Infinity"],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|takes|must"):
        parse_option(text)


@given(st.text())
def test_parsing_an_option_never_fails_otherwise(text: str) -> None:
    try:
        key, _ = parse_option(text)
    except ValueError:
        return
    assert key


def test_the_scenario_wins_over_the_option_and_the_option_over_the_default() -> None:
    settings = RequestSettings(
        defaults=Sampling(temperature=0.1, top_k=10, seed=1),
        options=Sampling(temperature=0.5, top_k=20, extra={"mirostat": 1}),
    )
    scenario = Scenario(
        "a", "s", "answer", AnswerSpec("numeric", "1"), prompt="x", sampling=Sampling(top_k=30)
    )

    sampling = plan_request(scenario, "m", settings).request.sampling

    assert (sampling.temperature, sampling.top_k, sampling.seed) == (0.5, 30, 1)
    assert sampling.extra == {"mirostat": 1}


def test_every_run_has_its_own_seed() -> None:
    seeds = [plan_request(ANSWER, "m", SETTINGS, run_index=i).request.sampling.seed for i in (0, 2)]

    assert seeds == [42, 44]


@pytest.mark.parametrize(
    ("scenario", "budget"),
    [(ANSWER, 1024), (SPEED, 1024), (CONTEXT, 64)],
    ids=lambda v: str(v)[:12],
)
def test_the_default_budget(scenario: Scenario, budget: int) -> None:
    assert plan_request(scenario, "m", SETTINGS).request.sampling.num_predict == budget


def test_a_thinking_model_gets_twelve_times_the_budget_and_the_words_say_so() -> None:
    scenario = Scenario(
        "a",
        "reasoning",
        "answer",
        AnswerSpec("numeric", "1"),
        "x",
        sampling=Sampling(num_predict=512),
    )

    plan = plan_request(scenario, "Qwen3:8b", SETTINGS)

    assert plan.request.sampling.num_predict == 6144
    assert plan.budget == "512 x 12 = 6144"
    assert plan.request.sampling.num_ctx is not None
    assert plan.request.sampling.num_ctx > 6144
    assert "num_ctx grew" in plan.notes[0]


def test_speed_and_context_budgets_are_never_multiplied() -> None:
    for scenario, budget in ((SPEED, 1024), (CONTEXT, 64)):
        assert plan_request(scenario, "qwen3", SETTINGS).request.sampling.num_predict == budget


def test_a_grown_window_is_capped_by_the_model_and_the_cap_is_said() -> None:
    plan = plan_request(ANSWER, "qwq", SETTINGS, model_context=8192)

    assert plan.request.sampling.num_ctx == 8192
    assert any("capped at 8192" in note for note in plan.notes)


def test_a_context_step_asks_for_its_own_window() -> None:
    assert plan_request(CONTEXT, "m", SETTINGS).request.sampling.num_ctx == 2048


@pytest.mark.parametrize(
    ("own", "override", "per_suite", "can_think", "sent"),
    [
        (None, None, {}, True, None),
        (None, None, {"reasoning": False}, True, False),
        (None, True, {"reasoning": False}, True, True),
        (False, True, {"reasoning": True}, True, False),
        (True, None, {}, False, None),
        (True, None, {}, None, None),
    ],
)
def test_think_is_sent_only_to_a_model_that_can(
    own: bool | None,
    override: bool | None,
    per_suite: dict[str, bool],
    can_think: bool | None,
    sent: bool | None,
) -> None:
    settings = RequestSettings(think_override=override, think_per_suite=per_suite)
    scenario = Scenario(
        "a", "reasoning", "answer", AnswerSpec("numeric", "1"), "x", sampling=Sampling(think=own)
    )

    assert plan_request(scenario, "m", settings, can_think=can_think).request.sampling.think is sent


def test_the_marker_stands_in_front_and_apart() -> None:
    plan = plan_request(ANSWER, "m", SETTINGS, marker="[x-1]\n")

    assert plan.request.messages == (Message("user", "[x-1]\n2 + 3?"),)
    assert plan.request.marker == "[x-1]\n"
    assert plan.prompt == "2 + 3?"


def test_with_a_system_message_the_marker_stands_before_it() -> None:
    scenario = Scenario("a", "s", "answer", AnswerSpec("numeric", "1"), "x", system="Be brief.")

    messages = plan_request(scenario, "m", SETTINGS, marker="[1] ").request.messages

    assert [m.content for m in messages] == ["[1] Be brief.", "x"]


def test_only_speed_asks_for_the_whole_budget() -> None:
    assert plan_request(SPEED, "m", SETTINGS).request.ignore_eos
    assert not plan_request(ANSWER, "m", SETTINGS).request.ignore_eos


def test_merge_keeps_what_the_other_does_not_say() -> None:
    base = sampling_of({"temperature": 0.0, "stop": "a", "x": 1})

    assert merge(base, Sampling()) == base
    assert merge(base, sampling_of({"stop": ["b"]})).stop == ("b",)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("Qwen3-8B", True), ("hf.co/u/DeepSeek-R1-Distill", True), ("qwen2.5", False), ("", False)],
)
def test_a_thinking_model_is_known_by_its_name(model: str, expected: bool) -> None:
    assert is_thinking_model(model, SETTINGS.thinking_models) is expected
