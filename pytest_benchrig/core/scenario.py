"""A scenario: one entry of a scenario file, validated and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue, Sampling

Kind: TypeAlias = Literal["speed", "coding", "answer", "context", "tool_use"]
CheckType: TypeAlias = Literal["final_answer", "exact_or_contains", "regex", "numeric"]
Evaluator: TypeAlias = Literal["numeric", "numeric_text"]


@dataclass(frozen=True, slots=True)
class SpeedSpec:
    """Nothing is judged; the timings are the result."""


@dataclass(frozen=True, slots=True)
class CodingSpec:
    """Python that must satisfy assertions; each string counts once."""

    test_assertions: tuple[str, ...]
    entry_points: tuple[str, ...] = ()
    reference_solution: str = ""
    execution_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """An answer that is checked deterministically.

    ``evaluator`` is ``None`` also for an unknown word, which is kept in ``unknown_evaluator``.
    """

    check_type: CheckType
    expected_answer: str = ""
    accepted_patterns: tuple[str, ...] = ()
    evaluator: Evaluator | None = None
    unknown_evaluator: str = ""
    required_patterns: tuple[str, ...] = ()
    max_words: int | None = None
    min_words: int | None = None


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """A retrieval step. Either ``needle`` (window form) or ``prompt_file`` (file form) is set.

    ``prompt_text`` is the content of ``prompt_file``, read when the file was loaded.
    """

    context_size: int
    fill_ratio: float = 0.75
    needle: str = ""
    needle_depth: float = 0.5
    instruction: str = ""
    expected: str = ""
    prompt_file: str = ""
    prompt_text: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """One planned turn. ``tool`` is ``None`` for a no-call turn, which ``answer`` then judges."""

    tool: str | None
    args: Mapping[str, JsonValue] = field(default_factory=dict)
    answer: AnswerSpec | None = None
    tool_result: JsonValue = None
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class ToolUseSpec:
    """A conversation with inert tools."""

    tools: tuple[Mapping[str, JsonValue], ...]
    turns: tuple[ToolTurn, ...]
    category: str = ""


Spec: TypeAlias = SpeedSpec | CodingSpec | AnswerSpec | ContextSpec | ToolUseSpec


@dataclass(frozen=True, slots=True)
class Scenario:
    """One entry. ``path`` and ``line`` (1-based) say where it stands.

    ``sampling`` holds only what the entry and the file's defaults say; the budget
    (``num_predict``) is filled in where the request is built.
    """

    id: str
    suite: str
    kind: Kind
    spec: Spec
    prompt: str = ""
    name: str = ""
    system: str = ""
    sampling: Sampling = Sampling()
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    min_pass_rate: float = 1.0
    near_misses: tuple[str, ...] = ()
    path: str = ""
    line: int = 0
