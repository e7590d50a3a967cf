"""Thresholds: the grammar with its errors, and what holds, is violated or was not measured."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.metrics import METRICS
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.thresholds import (
    Policy,
    ThresholdResult,
    evaluate,
    parse_threshold,
)
from tests.core.run_support import TARGET, card, code, conversation, reply, speed


def judged(
    text: str,
    records: list[Record],
    *,
    policy: Policy = "point",
    allow_disturbed: bool = False,
) -> ThresholdResult:
    """The single result of one threshold over one target's records."""
    (result,) = evaluate(
        [parse_threshold(text)],
        [card(records)],
        records,
        policy=policy,
        allow_disturbed=allow_disturbed,
    )
    return result


# grammar


@pytest.mark.parametrize(
    ("text", "target", "name", "op", "bound"),
    [
        ("coding_pass_rate >= 80", None, "coding_pass_rate", ">=", 80.0),
        ("coding_pass_rate>=80", None, "coding_pass_rate", ">=", 80.0),
        ("  truncated_runs   ==  0 ", None, "truncated_runs", "==", 0.0),
        ("ollama:qwen3 avg_eval_tok_sec >= 30", "ollama:qwen3", "avg_eval_tok_sec", ">=", 30.0),
        ("vllm:Qwen/Qwen3-8B avg_ttft_sec < .5", "vllm:Qwen/Qwen3-8B", "avg_ttft_sec", "<", 0.5),
        (
            "embedded:/my models/a.gguf error_count == 0",
            "embedded:/my models/a.gguf",
            "error_count",
            "==",
            0.0,
        ),
        ("speed.ttft_sec.p95 <= 1.5", None, "speed.ttft_sec.p95", "<=", 1.5),
        ("my-suite.total_time_sec.max < 1e1", None, "my-suite.total_time_sec.max", "<", 10.0),
        ("sql.metrics.rows.mean > -2", None, "sql.metrics.rows.mean", ">", -2.0),
        (
            "speed.hardware.peak_vram_mb.max < 8000",
            None,
            "speed.hardware.peak_vram_mb.max",
            "<",
            8000.0,
        ),
        ("reasoning.passed.mean >= 0.5", None, "reasoning.passed.mean", ">=", 0.5),
        ("sql_accuracy > 50", None, "sql_accuracy", ">", 50.0),
        ("tool_task_success >= 70", None, "tool_task_success", ">=", 70.0),
    ],
)
def test_what_a_threshold_may_say(
    text: str, target: str | None, name: str, op: str, bound: float
) -> None:
    found = parse_threshold(text)
    assert (found.target, found.name, found.op, found.bound) == (target, name, op, bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coding_pass_rate", "no operator"),
        ("", "no operator"),
        ("coding_pass_rate 80", "no operator"),
        ("coding_pass_rate => 80", "unknown operator '=>'; choose one of >= <= > < =="),
        ("coding_pass_rate = 80", "unknown operator '='"),
        ("coding_pass_rate != 80", "unknown operator '!='"),
        ("coding_pass_rate ≥ 80", "unknown operator '≥'"),
        ("coding_pass_rate >=", "expected a number on the right, found nothing"),
        ("coding_pass_rate >= eighty", "found 'eighty'"),
        ("coding_pass_rate >= 80%", "percentages are plain numbers, 0 to 100"),
        ("coding_pass_rate >= 1_000", "found '1_000'"),
        ("coding_pass_rate >= nan", "found 'nan'"),
        ("coding_pass_rate >= 1e999", "too large"),
        ("coding_pass_rate >= ٨٠", "expected a number"),
        (">= 80", "no metric before >="),
        ("80 <= coding_pass_rate", "found 'coding_pass_rate'"),
        ("coding_pas_rate >= 80", "did you mean 'coding_pass_rate'?"),
        ("speed >= 80", "unknown metric 'speed'"),
        ("rss_coverage == 1", "rss_coverage is not a number"),
        ("speed.ttft_sec.p99 < 1", "unknown statistic 'p99'"),
        ("speed.ttft_sec < 1", "unknown statistic 'ttft_sec'"),
        ("ttft_sec.mean < 1", "expected suite.record_field.statistic"),
        ("speed.ttft.mean < 1", "unknown record field 'ttft'"),
        ("speed.eval_tok_sec.mean < 1", "did you mean 'eval_tok_per_sec'?"),
        ("speed.response.mean < 1", "unknown record field 'response'"),
    ],
)
def test_a_wrong_threshold_says_what_exists(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as problem:
        parse_threshold(text)
    assert repr(text) in str(problem.value)


def test_an_unknown_metric_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown metric") as problem:
        parse_threshold("speeed >= 1", known_suites=["sql"])
    for metric in METRICS.values():
        if metric.kind not in ("text", "flag"):
            assert metric.name in str(problem.value)
    assert "sql_accuracy" in str(problem.value)


def test_targets_and_suites_must_be_those_of_the_run() -> None:
    with pytest.raises(ValueError, match="did you mean 'ollama:qwen3:8b'") as problem:
        parse_threshold("ollama:qwen3 error_count == 0", known_targets=["ollama:qwen3:8b", "x:y"])
    assert "targets: ollama:qwen3:8b, x:y" in str(problem.value)
    with pytest.raises(ValueError, match="unknown suite 'sped', did you mean 'speed'"):
        parse_threshold("sped.ttft_sec.p95 < 1", known_suites=["speed", "coding"])
    with pytest.raises(ValueError, match="unknown metric 'sqk_accuracy', did you mean 'sql_acc"):
        parse_threshold("sqk_accuracy > 1", known_suites=["sql"])
    assert parse_threshold("sql_accuracy > 1", known_suites=["sql"]).metric == "sql_accuracy"


@given(st.text(max_size=60))
def test_any_text_is_a_threshold_or_a_value_error(text: str) -> None:
    try:
        found = parse_threshold(text)
    except ValueError:
        return
    assert found.op in text


@given(
    st.sampled_from([None, "ollama:qwen3:8b", "a:b/c d", "vllm:org/model@1.2"]),
    st.sampled_from(["coding_pass_rate", "speed.ttft_sec.p95", "sql_accuracy"]),
    st.sampled_from([">=", "<=", ">", "<", "=="]),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from(["", " ", "  "]),
)
def test_parts_come_back_as_they_went_in(
    target: str | None, name: str, op: str, bound: float, space: str
) -> None:
    text = f"{target + ' ' if target else ''}{name}{space}{op}{space}{bound!r}"
    found = parse_threshold(text)
    assert (found.target, found.name, found.op, found.bound) == (target, name, op, bound)


# evaluation


def test_held_and_violated_with_the_measured_value() -> None:
    records = [code("a", 3, 4)]
    held = judged("coding_pass_rate >= 75", records)
    assert (held.held, held.value, held.bound, held.n) == (True, 75.0, 75.0, 1)
    assert held.message == (
        "coding_pass_rate >= 75: held, measured 75.0% (n=1, one run: no interval)"
    )
    violated = judged("coding_pass_rate > 75", records)
    assert not violated.held
    assert "violated, measured 75.0%" in violated.message


def test_without_a_target_it_must_hold_for_each() -> None:
    other = "vllm:m"
    records = [code("a", 1, 1), code("a", 0, 1, target=other)]
    cards = [card(records[:1]), card(records[1:], other)]
    results = evaluate([parse_threshold("coding_pass_rate >= 50")], cards, records)
    assert [(r.target, r.held) for r in results] == [(TARGET, True), (other, False)]
    (one,) = evaluate([parse_threshold(f"{other} coding_pass_rate >= 50")], cards, records)
    assert (one.target, one.held) == (other, False)


def test_a_metric_that_was_not_measured_is_violated() -> None:
    result = judged("polish_accuracy >= 0", [code("a", 1, 1)])
    assert not result.held
    assert result.message == (
        "polish_accuracy >= 0: violated, not measured: no record of this run has it"
    )


def test_no_record_at_all_is_violated() -> None:
    (result,) = evaluate([parse_threshold("error_count == 0")], [], [])
    assert not result.held
    assert "not measured: nothing was measured for any target" in result.message


def test_disturbed_timings_do_not_count_unless_allowed() -> None:
    records = [speed(80.0, disturbed="CPU load 34 %")]
    for text in ("avg_eval_tok_sec >= 30", "speed.eval_tok_per_sec.mean >= 30"):
        blocked = judged(text, records)
        assert not blocked.held
        assert "not measured: disturbed (CPU load 34 %)" in blocked.message
        allowed = judged(text, records, allow_disturbed=True)
        assert (allowed.held, allowed.value) == (True, 80.0)
    assert judged("p95_ttft_sec < 1", records, allow_disturbed=True).value == 0.2


def test_allowing_disturbed_does_not_allow_concurrent() -> None:
    records = [speed(80.0, disturbed="load", concurrent=True)]
    result = judged("avg_eval_tok_sec >= 30", records, allow_disturbed=True)
    assert "not measured: concurrent" in result.message


def test_the_composite_counts_disturbed_speed_when_allowed() -> None:
    records = [code("a", 1, 1), reply("r", passed=True), speed(60.0, disturbed="load")]
    assert not judged("composite_score >= 1", records).held
    assert judged("composite_score >= 100", records, allow_disturbed=True).held


@pytest.mark.parametrize(
    ("stat", "value"), [("mean", 2.5), ("p50", 2.5), ("p95", 3.85), ("max", 4.0)]
)
def test_statistics_of_record_fields(stat: str, value: float) -> None:
    records = [speed(ttft_sec=float(i), run_index=i) for i in (1, 2, 3, 4)]
    result = judged(f"speed.ttft_sec.{stat} >= 0", records)
    assert result.value == pytest.approx(value)
    assert result.n == 4


def test_record_fields_skip_errors_warm_ups_and_other_suites() -> None:
    records = [
        speed(ttft_sec=1.0),
        speed(ttft_sec=9.0, outcome="error"),
        speed(ttft_sec=9.0, phase="warmup"),
        reply("r", ttft_sec=9.0),
    ]
    assert judged("speed.ttft_sec.max < 2", records).held


def test_an_authors_own_numbers_and_hardware() -> None:
    records = [
        reply("q", "sql", metrics={"rows": 7, "who": "x"}, hardware={"peak_vram_mb": 900.0}),
        reply("p", "sql", metrics={"rows": True}, hardware={"peak_vram_mb": float("nan")}),
    ]
    assert judged("sql.metrics.rows.mean == 4", records).held
    assert judged("sql.hardware.peak_vram_mb.max <= 900", records).held
    assert (
        "no reply of suite sql has metrics.who"
        in judged("sql.metrics.who.max > 0", records).message
    )


def test_a_suite_without_replies_says_so() -> None:
    result = judged("speed.ttft_sec.p95 <= 1", [reply("r", passed=True)])
    assert result.message.endswith("not measured: suite speed gave no reply")


def test_an_unmeasured_field_gives_the_records_reason() -> None:
    records = [speed(None, unmeasured={"eval_tok_per_sec": "one token came"})]
    assert "not measured: one token came" in judged("avg_eval_tok_sec > 1", records).message


def test_counts_are_exact_under_every_policy() -> None:
    records = [reply("a", passed=True, truncated=False)]
    for policy in ("point", "confident"):
        result = judged("truncated_runs == 0", records, policy=policy)
        assert result.held
        assert "exact" in result.message


def test_a_tool_ratio_is_a_percentage() -> None:
    turn = {"expected_tool": "f", "tool_ok": True}
    records = [conversation("t", turn, passed=True), conversation("u", turn, passed=False)]
    result = judged("tool_task_success >= 50", records)
    assert (result.held, result.value) == (True, 50.0)


# confident


def confident(text: str, records: list[Record]) -> ThresholdResult:
    """Judged by the whole interval."""
    return judged(text, records, policy="confident")


def many(passed: int, of: int, runs: int = 3) -> list[Record]:
    """``of`` scenarios, ``passed`` of which always pass."""
    return [
        reply(f"r{i}", passed=i < passed, run_index=run) for run in range(runs) for i in range(of)
    ]


def test_confident_wants_the_whole_interval_on_the_good_side() -> None:
    assert confident("reasoning_accuracy >= 60", many(40, 40)).held
    result = confident("reasoning_accuracy >= 79", many(32, 40))
    assert not result.held
    assert result.interval is not None
    assert result.interval[0] < 79.0
    assert re.search(
        r"too few runs to tell, about \d+ more would settle it \(--benchrig-runs \d+\)",
        result.message,
    )


def test_confident_with_one_run_asks_for_more() -> None:
    result = confident("reasoning_accuracy >= 50", many(12, 12, runs=1))
    assert not result.held
    assert "too few runs to tell, about" in result.message


def test_confident_on_the_wrong_side_is_plainly_violated() -> None:
    result = confident("reasoning_accuracy >= 90", many(5, 40))
    assert not result.held
    assert "too few" not in result.message


def test_a_value_on_the_bound_cannot_be_settled() -> None:
    result = confident("reasoning_accuracy >= 80", many(32, 40))
    assert "no number of runs would settle it" in result.message


def test_a_quantile_asks_for_as_many_runs_as_its_interval_needs() -> None:
    records = [speed(ttft_sec=0.2 + i / 1000, run_index=i) for i in range(6)]
    assert confident("speed.ttft_sec.p50 <= 1", records).held
    result = confident("speed.ttft_sec.p95 <= 1", records)
    assert not result.held
    assert "about 66 more would settle it (--benchrig-runs 72)" in result.message


def test_results_are_plain_json() -> None:
    data: dict[str, Any] = judged("reasoning_accuracy >= 1", many(3, 4)).to_json()
    assert data["interval"] is not None
    assert set(data) == {
        "text",
        "target",
        "held",
        "value",
        "interval",
        "bound",
        "n",
        "message",
        "decided",
    }
