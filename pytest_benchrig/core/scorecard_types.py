"""The scorecard of one target: its fields, and its JSON form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_benchrig.core.checked import check_scorecard
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS, metric_of

Ratio = Mapping[str, int]
DEFAULT_WEIGHTS: Mapping[str, float] = {"coding": 0.40, "reasoning": 0.30, "performance": 0.30}
DEFAULT_REFERENCE = 60.0


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """What a score depends on beside the records.

    Attributes:
        weights: Composite weights of ``coding``, ``reasoning`` and ``performance``; they add up
            to 1.
        reference_tok_per_sec: The decode rate that counts as full performance.
        runs: Repetitions asked for.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    reference_tok_per_sec: float = DEFAULT_REFERENCE
    runs: int = 1

    @property
    def formula(self) -> str:
        """The composite's formula with the weights in force, as every report shows it."""
        weights = self.weights
        return (
            f"composite = {weights['coding']:.2f} x coding_pass_rate "
            f"+ {weights['reasoning']:.2f} x reasoning_accuracy "
            f"+ {weights['performance']:.2f} x min(100, avg_eval_tok_sec / "
            f"{self.reference_tok_per_sec:g} x 100)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """All figures of one target; ``None`` is "not measured" or a zero denominator.

    The fields are those of :data:`pytest_benchrig.core.metrics.METRICS`, which gives unit and
    meaning of each. The rest:

    Attributes:
        suite_accuracy: Accuracy per user suite; ``<suite>_accuracy`` in JSON, CSV and thresholds.
        spread: Per headline metric the lowest and highest of its per-run values.
        ci95: Per headline metric its 95 % interval; absent for a single run.
        samples: Per headline metric the number of records that count.
        suites: Per suite the timing averages, as in the scorecard itself, and ``records``.
        scenarios: Per scenario runs, passes, interval, class and timing statistics.
        pass_at_k: Per k, pass@k and pass^k in percent.
        unmeasured: Why a metric is ``None``, where that is known.
        formula: The composite's formula with the weights in force.
        weights: Those weights.
        reference_tok_per_sec: The reference rate in force.
    """

    target: str
    runtime: str = ""
    engine: str = ""
    model: str = ""
    composite_score: float | None = None
    coding_pass_rate: float | None = None
    coding_task_pass_rate: float | None = None
    coding_tasks_passed: int | None = None
    coding_task_count: int | None = None
    coding_assertions_passed: int | None = None
    coding_assertion_count: int | None = None
    coding_delegated_count: int | None = None
    reasoning_accuracy: float | None = None
    polish_accuracy: float | None = None
    context_retrieval_pct: float | None = None
    coding_pass_rate_finished: float | None = None
    coding_task_pass_rate_finished: float | None = None
    reasoning_accuracy_finished: float | None = None
    polish_accuracy_finished: float | None = None
    avg_ttft_sec: float | None = None
    p95_ttft_sec: float | None = None
    avg_answer_ttft_sec: float | None = None
    avg_eval_tok_sec: float | None = None
    avg_eval_tok_sec_mean: float | None = None
    eval_tok_sec_floored: bool | None = None
    avg_prefill_eff_tok_sec: float | None = None
    avg_prompt_tok_sec: float | None = None
    thinking_share: float | None = None
    peak_vram_mb: float | None = None
    vram_baseline_mb: float | None = None
    vram_model_mb: float | None = None
    peak_rss_mb: float | None = None
    rss_coverage: str | None = None
    avg_power_w: float | None = None
    tokens_per_joule: float | None = None
    joules_per_solved_task: float | None = None
    energy_source: str | None = None
    cold_start_sec: float | None = None
    gpu_fit_pct: float | None = None
    context_spill_at: int | str | None = None
    context_spill_evidence: str | None = None
    truncated_runs: int | None = None
    error_count: int = 0
    skipped_count: int = 0
    unsupported_count: int = 0
    disturbed_runs: int | None = None
    concurrent_runs: int | None = None
    estimated_runs: int | None = None
    total_runs: int = 0
    runs: int = 1
    tool_task_success: Ratio | None = None
    tool_selection_accuracy: Ratio | None = None
    tool_argument_accuracy: Ratio | None = None
    tool_structured_call_rate: Ratio | None = None
    tool_abstention_accuracy: Ratio | None = None
    tool_false_call_rate: Ratio | None = None
    tool_skipped_turns: int | None = None
    tool_error_turns: int | None = None
    suite_accuracy: Mapping[str, float | None] = field(default_factory=dict)
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ci95: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    samples: Mapping[str, int] = field(default_factory=dict)
    suites: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    scenarios: tuple[Mapping[str, JsonValue], ...] = ()
    pass_at_k: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    formula: str = ""
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    reference_tok_per_sec: float = DEFAULT_REFERENCE

    def get(self, name: str) -> JsonValue:
        """The value of a metric, ``<suite>_accuracy`` included; ``None`` if not measured.

        Raises:
            KeyError: No such metric.
        """
        suite = name.removesuffix(ACCURACY_SUFFIX)
        if suite != name and suite in self.suite_accuracy:
            return self.suite_accuracy[suite]
        if name in METRICS:
            return getattr(self, name)
        metric_of(name)
        return None

    def show(self, name: str) -> str:
        """The value as people read it; a rate over floored windows only is marked with ``~``."""
        text = metric_of(name).show(self.get(name))
        artefact = self.eval_tok_sec_floored and self.get(name) is not None
        if artefact and name in ("avg_eval_tok_sec", "avg_eval_tok_sec_mean"):
            return "~" + text.replace("tok/s", "t/s")
        return f"~{text}" if artefact and name == "composite_score" else text

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object of the run file; user suites stand as ``<suite>_accuracy``."""
        data: dict[str, JsonValue] = {}
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if spec.name == "suite_accuracy":
                data.update({f"{k}{ACCURACY_SUFFIX}": value[k] for k in sorted(value)})
            elif spec.name in ("spread", "ci95"):
                data[spec.name] = {k: list(v) for k, v in value.items()}
            elif spec.name == "scenarios":
                data[spec.name] = [dict(row) for row in value]
            else:
                data[spec.name] = dict(value) if isinstance(value, Mapping) else value
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> Scorecard:
        """A scorecard from its JSON object; fields of a later version are ignored.

        Raises:
            ValueError: It is no object, has no target, or a field has another type.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("target"), str):
            raise ValueError("not a scorecard: expected an object with a target")
        check_scorecard(data)
        names = {spec.name for spec in dataclasses.fields(cls)}
        values: dict[str, Any] = {k: v for k, v in data.items() if k in names}
        values["suite_accuracy"] = {
            k.removesuffix(ACCURACY_SUFFIX): v
            for k, v in data.items()
            if k not in names and k.endswith(ACCURACY_SUFFIX)
        }
        for name in ("spread", "ci95"):
            values[name] = {k: (v[0], v[1]) for k, v in (data.get(name) or {}).items()}
        values["scenarios"] = tuple(data.get("scenarios") or ())
        return cls(**values)
