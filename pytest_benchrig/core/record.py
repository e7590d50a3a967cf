"""The record: the flat JSON object kept for one request.

A field that does not apply or was not measured is ``None``; why it is missing stands in
``unmeasured`` under the field's name. Everything here is a plain JSON value, so a record crosses
xdist, the journal and the run file unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.scenario import Kind
from pytest_benchrig.core.verdict import VerdictKind

Outcome: TypeAlias = Literal["passed", "failed", "missed", "error", "skipped"]
Phase: TypeAlias = Literal["measured", "warmup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request: what was asked, what came back, timings, hardware, verdict.

    Times are seconds, ``*_ms`` milliseconds, memory ``*_mb`` MiB, rates tokens per second,
    ``*_share`` and ``*_ratio`` 0 to 1, ``*_pct`` 0 to 100.
    """

    # identity
    task_id: str
    suite: str
    kind: Kind
    target: str
    runtime: str
    model: str
    name: str = ""
    engine: str = ""
    endpoint: str = ""
    served_model: str = ""
    run_index: int = 0
    attempt: int = 1
    phase: Phase = "measured"
    started_at: str = ""
    worker: str = ""
    nodeid: str = ""
    scenario_digest: str = ""

    # decision
    outcome: Outcome = "passed"
    passed: bool | None = None
    verdict: VerdictKind | None = None
    detail: str = ""
    rule: str = ""
    error: str = ""
    error_kind: str = ""
    unsupported: bool = False
    min_pass_rate: float = 1.0

    # what was said
    prompt: str = ""
    system: str = ""
    marker: str = ""
    response: str = ""
    thinking: str = ""
    tool_calls: list[JsonValue] | None = None
    options: dict[str, JsonValue] = field(default_factory=dict)

    # honesty
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    disturbed: str = ""
    concurrent: bool = False
    usage_estimated: bool = False
    unmeasured: dict[str, str] = field(default_factory=dict)

    # timing
    ttft_sec: float | None = None
    answer_ttft_sec: float | None = None
    think_time_sec: float | None = None
    prompt_tokens_actual: int | None = None
    completion_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    cache_mode: str | None = None
    load_time_sec: float | None = None
    cold_start_sec: float | None = None
    connect_sec: float | None = None
    queue_sec: float | None = None
    prompt_tok_per_sec: float | None = None
    prefill_provenance: str | None = None
    prefill_eff_tok_per_sec: float | None = None
    eval_tok_per_sec: float | None = None
    eval_tok_sec_floored: bool | None = None
    decode_provenance: str | None = None
    engine_eval_tok_per_sec: float | None = None
    engine_ttft_sec: float | None = None
    decode_drift_pct: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_p99_ms: float | None = None
    itl_max_ms: float | None = None
    total_time_sec: float | None = None
    finish_reason: str | None = None
    truncated: bool | None = None
    kernel_stamps: bool | None = None

    # coding
    passed_tests: int | None = None
    total_tests: int | None = None
    pass_ratio: float | None = None
    sandbox_error: str | None = None
    sandbox_isolation: str | None = None
    assurance: str | None = None
    execution_time_sec: float | None = None
    extracted_code: str | None = None
    response_excerpt: str | None = None

    # answers and thinking
    correct: bool | None = None
    expected_answer: str | None = None
    extracted_answer: str | None = None
    answer_excerpt: str | None = None
    has_think_tags: bool | None = None
    thinking_chars: int | None = None
    thinking_tokens: int | None = None
    thinking_share: float | None = None
    truncated_thinking: bool | None = None

    # context
    context_size: int | None = None
    fill_ratio: float | None = None
    needle_depth: float | None = None
    retrieved: bool | None = None
    memory_growth_mb: float | None = None

    # tool use: one JSON object a planned turn
    turns: list[JsonValue] | None = None
    category: str | None = None

    # hardware
    hardware: dict[str, JsonValue] = field(default_factory=dict)
    requested_device: str | None = None
    observed_device: str | None = None
    cpu_fallback: bool | None = None
    gpu_fit_pct: float | None = None

    # an author's own numbers (benchrig_record), by name
    metrics: dict[str, JsonValue] = field(default_factory=dict)

    def replace(self, **changes: Any) -> Record:
        """A copy with the given fields changed.

        Raises:
            TypeError: There is no such field.
        """
        draft = _Draft()
        _copy(draft, self)
        for name, value in changes.items():
            if name not in RECORD_FIELD_NAMES:
                raise TypeError(f"a record has no field {name!r}")
            setattr(draft, name, value)
        return _record_of(draft)

    def to_json(self) -> dict[str, JsonValue]:
        """The flat JSON object, every field present, in the order of this class."""
        return dict(zip(RECORD_FIELD_NAMES, values_of(self), strict=True))

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> Record:
        """A record from its JSON object.

        Fields this version does not know are ignored, so that a run file of a later format still
        loads.

        Raises:
            ValueError: A required field is missing.
        """
        if tuple(data) == _IN_ORDER:
            draft = _Draft()
            _fill(draft, data.values())
            return _record_of(draft)
        try:
            # By our own names: Python compares keywords that are other objects letter by letter.
            return cls(**{name: data[name] for name in RECORD_FIELD_NAMES if name in data})
        except TypeError as problem:
            raise ValueError(f"not a benchrig record: {problem}") from None


RECORD_FIELD_NAMES: Mapping[str, None] = dict.fromkeys(f.name for f in dataclasses.fields(Record))
"""The names in the order of the class; looked up once, because runs hold many records."""

# A run holds up to 100,000 records of 99 fields, each made several times, and a frozen class sets
# each field through a Python-level check: 15 us a record. A record that is made from another one's
# values, or from a whole JSON object, is filled as a draft in 1 us; nobody holds it before it is
# complete.
_IN_ORDER = tuple(RECORD_FIELD_NAMES)
values_of: Callable[[Record], tuple[Any, ...]] = attrgetter(*_IN_ORDER)


class _Draft:
    """A record that is not frozen yet: a class of the same slots."""

    __slots__ = _IN_ORDER


def _for_all_fields(head: str, each: str, between: str, tail: str = "") -> Callable[..., Any]:
    """A function whose statements name all fields in their order, as one would write them out."""
    scope: dict[str, Any] = {}
    exec(f"def made{head}{between.join(each.format(name) for name in _IN_ORDER)}{tail}", scope)
    return scope["made"]  # type: ignore[no-any-return]


_fill: Callable[[_Draft, Iterable[Any]], None] = _for_all_fields(
    "(draft, values): ", "draft.{}", ", ", " = values"
)
# To pass the 99 values on in a tuple takes twice as long.
_copy: Callable[[_Draft, Record], None] = _for_all_fields(
    "(draft, record): ", "draft.{0} = record.{0}", "; "
)


def _record_of(draft: Any) -> Record:
    """The draft as the record that it is from now on."""
    draft.__class__ = Record
    return draft  # type: ignore[no-any-return]
