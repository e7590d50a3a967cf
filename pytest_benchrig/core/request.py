"""From a scenario to the request that is sent: sampling, budgets, thinking, cache markers."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_benchrig.core.generation import JsonValue, Message, Request, Sampling
from pytest_benchrig.core.scenario import Kind, Scenario

DEFAULT_BUDGET = 1024
DEFAULT_CONTEXT_BUDGET = 64
TIMING_KINDS: frozenset[Kind] = frozenset({"speed", "context"})
"""Kinds whose timings are the point: never answered by a prompt cache, measured alone."""
BUDGETED_KINDS: frozenset[Kind] = frozenset({"coding", "answer"})
"""Kinds whose budget grows for thinking models and whose replies are checked for truncation."""

_FLOATS = ("temperature", "top_p", "repeat_penalty")
_WHOLE = ("num_predict", "top_k", "seed", "num_ctx")


def parse_option(text: str) -> tuple[str, JsonValue]:
    """``KEY=VALUE`` of ``--benchrig-option``; the value is JSON where it parses, else text.

    Raises:
        ValueError: No key, no value, or a value that the sampling option cannot take.
    """
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key or not value:
        raise ValueError(f"{text!r}: expected KEY=VALUE, such as temperature=0")
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    if isinstance(parsed, float) and not math.isfinite(parsed):
        raise ValueError(f"{text!r}: expected a finite number")
    is_number = isinstance(parsed, int | float) and not isinstance(parsed, bool)
    if key in _FLOATS and not is_number:
        raise ValueError(f"{text!r}: {key} takes a number")
    if key in _WHOLE and (not isinstance(parsed, int) or isinstance(parsed, bool)):
        raise ValueError(f"{text!r}: {key} takes a whole number")
    if key in ("num_predict", "num_ctx") and parsed < 1:
        raise ValueError(f"{text!r}: {key} must be at least 1")
    if key in ("temperature", "top_p", "repeat_penalty") and parsed < 0:
        raise ValueError(f"{text!r}: {key} must not be negative")
    return key, parsed


def sampling_of(values: Mapping[str, JsonValue]) -> Sampling:
    """Named sampling options where there is a field, ``extra`` for the rest."""
    known = {f.name for f in dataclasses.fields(Sampling)} - {"extra"}
    fields: dict[str, JsonValue] = {k: v for k, v in values.items() if k in known}
    stop = fields.get("stop")
    if stop is not None:
        fields["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    extra = {k: v for k, v in values.items() if k not in known}
    return Sampling(**fields, extra=extra)


def merge(base: Sampling, over: Sampling) -> Sampling:
    """``over`` wins wherever it says something."""
    changes: dict[str, JsonValue] = {}
    for spec in dataclasses.fields(Sampling):
        value = getattr(over, spec.name)
        if spec.name == "extra":
            changes["extra"] = {**base.extra, **over.extra}
        elif value is not None and value != ():
            changes[spec.name] = value
    return dataclasses.replace(base, **changes)


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What is sent where neither the scenario nor an option says otherwise."""

    sampling: Sampling = Sampling()

    @classmethod
    def of(cls, values: Mapping[str, JsonValue]) -> SamplingDefaults:
        """Defaults from the ini's KEY=VALUE pairs."""
        return cls(sampling_of(values))


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What the user decided about every request; a plain value, independent of pytest."""

    defaults: Sampling = Sampling()
    options: Sampling = Sampling()
    think_override: bool | None = None
    think_per_suite: Mapping[str, bool] = field(default_factory=dict)
    thinking_models: tuple[str, ...] = ()
    thinking_token_multiplier: int = 12
    request_timeout: float = 600.0
    stall_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with what the judge and the record need to know about it.

    Attributes:
        request: What is sent.
        budget: The effective ``num_predict`` in words: ``512`` or ``512 x 12 = 6144``.
        prompt: The prompt without the marker, as it stands in the record.
        notes: What was changed on the way (a window that grew or was capped).
    """

    request: Request
    budget: str
    prompt: str
    notes: tuple[str, ...] = ()


def is_thinking_model(model: str, words: Sequence[str]) -> bool:
    """Whether an entry of ``benchrig_thinking_models`` occurs in the name, case-insensitive."""
    name = model.lower()
    return any(word.lower() in name for word in words)


def plan_request(
    scenario: Scenario,
    model: str,
    settings: RequestSettings,
    *,
    run_index: int = 0,
    marker: str = "",
    cache_prompt: bool = True,
    prompt: str | None = None,
    prompt_tokens: int | None = None,
    model_context: int | None = None,
    can_think: bool | None = None,
    fixed_context: int | None = None,
) -> Plan:
    """The request of one run.

    Args:
        scenario: What is asked.
        model: The name the server knows.
        settings: The user's decisions.
        run_index: 0-based; the seed is the base seed plus it.
        marker: Session-unique text put in front so that no cache can answer, "" for none.
        cache_prompt: Whether the server may reuse a cached prefix.
        prompt: The built prompt of a context step, else the scenario's own.
        prompt_tokens: Tokens of the prompt where they could be counted.
        model_context: The model's own largest window, if known.
        can_think: Whether ``think`` may be sent (Ollama's capability); ``None`` sends none.
        fixed_context: The window the server was started with, where it cannot be asked for.
    """
    text = scenario.prompt if prompt is None else prompt
    sampling = merge(merge(settings.defaults, settings.options), scenario.sampling)
    notes: list[str] = []
    base = sampling.num_predict or (
        DEFAULT_CONTEXT_BUDGET if scenario.kind == "context" else DEFAULT_BUDGET
    )
    budget, words = base, str(base)
    multiplied = scenario.kind in BUDGETED_KINDS and is_thinking_model(
        model, settings.thinking_models
    )
    if multiplied:
        budget = base * settings.thinking_token_multiplier
        words = f"{base} x {settings.thinking_token_multiplier} = {budget}"
    num_ctx = sampling.num_ctx
    if scenario.kind == "context":
        num_ctx = getattr(scenario.spec, "context_size", num_ctx)
    elif num_ctx is not None and multiplied:
        needed = (prompt_tokens or math.ceil(len(text) / 3)) + budget
        if needed > num_ctx:
            num_ctx = needed
            notes.append(f"num_ctx grew to {num_ctx} so that prompt and budget fit")
    if num_ctx is not None and scenario.kind != "context":
        cap = min((c for c in (model_context, fixed_context) if c is not None), default=None)
        if cap is not None and num_ctx > cap:
            if multiplied:
                notes.append(f"num_ctx was capped at {cap}, the largest window of the model here")
            num_ctx = cap
    sampling = dataclasses.replace(
        sampling,
        num_predict=budget,
        num_ctx=num_ctx,
        seed=None if sampling.seed is None else sampling.seed + run_index,
        think=_think(scenario, settings) if can_think else None,
    )
    messages = []
    if scenario.system:
        messages.append(Message("system", marker + scenario.system))
        messages.append(Message("user", text))
    else:
        messages.append(Message("user", marker + text))
    request = Request(
        model=model,
        messages=tuple(messages),
        sampling=sampling,
        marker=marker,
        cache_prompt=cache_prompt,
        ignore_eos=scenario.kind == "speed",
        timeout_sec=scenario.timeout or settings.request_timeout,
        stall_timeout_sec=settings.stall_timeout,
    )
    return Plan(request, words, text, tuple(notes))


def _think(scenario: Scenario, settings: RequestSettings) -> bool | str | None:
    if scenario.sampling.think is not None:
        return scenario.sampling.think
    if settings.think_override is not None:
        return settings.think_override
    return settings.think_per_suite.get(scenario.suite)
