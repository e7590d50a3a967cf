"""The scorecard's definitions, each with exact values."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from pytest_benchrig.core.metrics import METRICS
from pytest_benchrig.core.scorecard import Scorecard, ScoreSettings, build_scorecard
from tests.core.run_support import TARGET, card, code, conversation, reply, speed

CALL = {"expected_tool": "find", "reached": True, "called": True}
GOOD_CALL = {**CALL, "structured": True, "tool_ok": True, "args_ok": True, "passed": True}
QUIET = {"expected_tool": None, "reached": True, "structured": False, "tool_ok": False}


def test_every_metric_is_a_field_and_every_plain_field_a_metric() -> None:
    structured = {
        "suite_accuracy",
        "spread",
        "ci95",
        "samples",
        "suites",
        "scenarios",
        "pass_at_k",
        "unmeasured",
        "formula",
        "weights",
        "reference_tok_per_sec",
    }
    fields = [f.name for f in dataclasses.fields(Scorecard) if f.name not in structured]
    assert fields == list(METRICS)


def test_a_coding_task_passes_only_with_all_assertions() -> None:
    found = card([code("a", 4, 4), code("b", 3, 5), code("c", 0, 1)])
    assert found.coding_tasks_passed == 1
    assert found.coding_task_count == 3
    assert found.coding_task_pass_rate == pytest.approx(100 / 3)
    assert found.coding_assertions_passed == 7
    assert found.coding_assertion_count == 10
    assert found.coding_pass_rate == 70.0


def test_counts_pool_all_runs_and_the_spread_is_that_of_single_runs() -> None:
    records = [code(f"t{i}", 1, 1, run_index=run) for run in range(3) for i in range(17)]
    records[-1] = code("t16", 0, 1, run_index=2)
    found = card(records)
    assert found.show("coding_pass_rate") == "98.0%"
    low, high = found.spread["coding_pass_rate"]
    assert (round(low, 1), high) == (94.1, 100.0)


def test_one_run_gives_neither_spread_nor_interval() -> None:
    found = card([code("a", 1, 2), code("b", 2, 2), reply("r", passed=True)])
    assert found.spread == {}
    assert found.ci95 == {}
    assert all(row["class"] is None and row["ci95"] is None for row in found.scenarios)


def test_errors_skips_and_warm_ups_are_in_no_denominator() -> None:
    found = card(
        [
            reply("a", passed=True),
            reply("b", outcome="error", error="refused", error_kind="unreachable"),
            reply("c", outcome="skipped", detail="no containment"),
            reply("d", outcome="skipped", unsupported=True),
            reply("w", "warmup", "speed", phase="warmup", ttft_sec=9.0, cold_start_sec=0.7),
        ]
    )
    assert found.reasoning_accuracy == 100.0
    assert (found.error_count, found.skipped_count, found.unsupported_count) == (1, 1, 1)
    assert found.total_runs == 4
    assert found.avg_ttft_sec is None
    assert found.cold_start_sec == 0.7


def test_a_refused_context_window_is_a_finding_not_an_error() -> None:
    refused = reply(
        "ctx_8192",
        "context",
        "context",
        passed=False,
        context_size=8192,
        error="out of memory",
        error_kind="out_of_memory",
    )
    found = card([reply("ctx_512", "context", "context", passed=True, context_size=512), refused])
    assert found.context_retrieval_pct == 50.0
    assert found.error_count == 0
    assert found.context_spill_at == 8192
    assert found.context_spill_evidence == "the engine ran out of memory"


def test_a_timing_only_context_step_is_in_no_accuracy_denominator() -> None:
    found = card(
        [
            reply("ctx_file", "context", "context", ttft_sec=0.4, context_size=512),
            reply("ctx_512", "context", "context", passed=True, context_size=512),
        ]
    )
    assert found.context_retrieval_pct == 100.0
    assert found.avg_ttft_sec == 0.4
    assert found.context_spill_at == "not observed"


def test_user_suites_get_their_own_accuracy() -> None:
    found = card([reply("j", "sql", passed=True), reply("k", "sql", passed=False)])
    assert found.suite_accuracy == {"sql": 50.0}
    assert found.get("sql_accuracy") == 50.0
    assert found.to_json()["sql_accuracy"] == 50.0
    assert found.reasoning_accuracy is None


def test_code_of_a_user_suite_counts_as_code_and_as_its_suite() -> None:
    record = code("mine", 1, 2).replace(suite="drills")
    found = card([record])
    assert found.coding_pass_rate == 50.0
    assert found.suite_accuracy == {"drills": 0.0}


def test_rates_over_finished_replies_stand_beside_those_over_all() -> None:
    found = card(
        [
            reply("a", passed=False, truncated=True, verdict="truncated"),
            reply("b", passed=True, truncated=False),
            reply("c", passed=True, truncated=True),
        ]
    )
    assert found.truncated_runs == 2
    assert found.reasoning_accuracy == pytest.approx(200 / 3)
    assert found.reasoning_accuracy_finished == 100.0


def test_truncation_is_unknown_where_nothing_was_checked_for_it() -> None:
    assert card([speed()]).truncated_runs is None


# timings


def test_the_decode_average_is_weighted_by_tokens() -> None:
    found = card([speed(50.0, 100), speed(100.0, 300, task_id="speed_sustained")])
    assert found.avg_eval_tok_sec == 87.5
    assert found.avg_eval_tok_sec_mean == 75.0


def test_decode_and_prefill_use_speed_records_where_there_are_any() -> None:
    answers = reply("a", passed=True, eval_tok_per_sec=10.0, completion_tokens=5, ttft_sec=1.0)
    found = card([answers, speed(80.0)])
    assert found.avg_eval_tok_sec == 80.0
    assert found.avg_ttft_sec == pytest.approx(0.6)
    assert card([answers]).avg_eval_tok_sec == 10.0


def test_time_to_first_token_stands_per_suite_too() -> None:
    found = card([reply("a", passed=True, ttft_sec=1.0), speed(ttft_sec=0.2)])
    assert found.suites["reasoning"]["avg_ttft_sec"] == 1.0
    assert found.suites["speed"]["avg_ttft_sec"] == 0.2
    assert found.suites["speed"]["median_ttft_sec"] == {
        "median": 0.2,
        "min": 0.2,
        "max": 0.2,
        "n": 1,
        "ci95": None,
    }


def test_a_disturbed_record_gives_no_timing_but_its_verdict_counts() -> None:
    found = card([reply("a", passed=True, ttft_sec=1.0, disturbed="CPU load 34 %")])
    assert found.reasoning_accuracy == 100.0
    assert found.avg_ttft_sec is None
    assert found.unmeasured["avg_ttft_sec"] == "disturbed (CPU load 34 %)"
    assert found.disturbed_runs == 1


def test_a_concurrent_record_stays_out_of_timings() -> None:
    found = card([speed(80.0), speed(40.0, run_index=1, concurrent=True)])
    assert found.avg_eval_tok_sec == 80.0
    assert found.concurrent_runs == 1


def test_estimated_counts_block_token_rates_only() -> None:
    found = card([speed(80.0, usage_estimated=True, prefill_eff_tok_per_sec=500.0)])
    assert found.avg_eval_tok_sec is None
    assert found.avg_prefill_eff_tok_sec is None
    assert found.avg_ttft_sec == 0.2


@pytest.mark.parametrize("mode", ["unverified", "warm"])
def test_an_unknown_or_whole_cache_blocks_prefill_and_first_token_only(mode: str) -> None:
    found = card([speed(80.0, cache_mode=mode, prefill_eff_tok_per_sec=500.0)])
    assert found.avg_ttft_sec is None
    assert found.avg_prefill_eff_tok_sec is None
    assert found.avg_eval_tok_sec == 80.0


@pytest.mark.parametrize(
    "harmless",
    [{"cpu_fallback": True}, {"flags": ["unverified"]}, {"cache_mode": "prefix_cached"}],
)
def test_what_blocks_nothing(harmless: dict[str, Any]) -> None:
    found = card([speed(80.0, **harmless)])
    assert (found.avg_eval_tok_sec, found.avg_ttft_sec) == (80.0, 0.2)


def test_a_floored_rate_stays_out_while_others_exist() -> None:
    floored = speed(3000.0, 3, eval_tok_sec_floored=True)
    both = card([floored, speed(80.0, run_index=1)])
    assert both.avg_eval_tok_sec == 80.0
    assert both.eval_tok_sec_floored is False
    alone = card([floored])
    assert alone.avg_eval_tok_sec == 3000.0
    assert alone.eval_tok_sec_floored is True
    assert alone.show("avg_eval_tok_sec") == "~3000.0 t/s"


def test_nothing_measured_is_absent_and_never_zero() -> None:
    found = card([])
    assert found.avg_eval_tok_sec is None
    assert found.coding_pass_rate is None
    assert found.coding_task_count is None
    assert found.composite_score is None
    assert found.show("avg_eval_tok_sec") == "n/a"


# the composite


def test_the_composite_weighs_coding_reasoning_and_performance() -> None:
    found = card([code("a", 1, 2), reply("r", passed=True), speed(30.0)])
    assert found.composite_score == pytest.approx(0.4 * 50 + 0.3 * 100 + 0.3 * 50)
    assert found.formula == (
        "composite = 0.40 x coding_pass_rate + 0.30 x reasoning_accuracy + 0.30 x "
        "min(100, avg_eval_tok_sec / 60 x 100)"
    )


def test_performance_is_capped_and_the_weights_are_the_users() -> None:
    settings = ScoreSettings(
        weights={"coding": 0.1, "reasoning": 0.1, "performance": 0.8}, reference_tok_per_sec=10
    )
    records = [code("a", 0, 1), reply("r", passed=False), speed(500.0)]
    assert build_scorecard(TARGET, records, settings=settings).composite_score == 80.0


def test_the_composite_needs_all_of_its_parts() -> None:
    found = card([code("a", 1, 2), speed(30.0)])
    assert found.composite_score is None
    assert found.unmeasured["composite_score"] == "not measured: reasoning_accuracy"


# tool use


def test_tool_metrics_have_numerator_and_denominator() -> None:
    wrong_args = {**GOOD_CALL, "args_ok": False, "passed": False}
    never = {"expected_tool": "find", "reached": False, "called": False}
    found = card(
        [
            conversation("t1", GOOD_CALL, passed=True),
            conversation("t2", wrong_args, never, passed=False),
            conversation("t3", {**QUIET, "called": True, "passed": False}, passed=False),
            conversation("t4", {**QUIET, "called": False, "passed": True}, passed=True),
            conversation("t5", passed=None, outcome="skipped", unsupported=True),
        ]
    )
    assert found.tool_task_success == {"passed": 2, "of": 4}
    assert found.tool_selection_accuracy == {"passed": 2, "of": 3}
    assert found.tool_argument_accuracy == {"passed": 1, "of": 3}
    assert found.tool_structured_call_rate == {"passed": 2, "of": 3}
    assert found.tool_abstention_accuracy == {"passed": 1, "of": 2}
    assert found.tool_false_call_rate == {"passed": 1, "of": 2}
    assert found.tool_skipped_turns == 1
    assert found.unsupported_count == 1
    assert found.show("tool_argument_accuracy") == "1/3 (33.3%)"


def test_tools_feed_nothing_else_and_alone_leave_everything_else_absent() -> None:
    found = card(
        [
            conversation(
                "t1",
                GOOD_CALL,
                passed=True,
                ttft_sec=0.5,
                eval_tok_per_sec=50.0,
                completion_tokens=9,
                thinking_share=0.5,
                cold_start_sec=1.0,
                gpu_fit_pct=50.0,
                hardware={"peak_rss_mb": 700.0, "peak_vram_mb": 900.0},
            )
        ]
    )
    counted = {"error_count", "skipped_count", "unsupported_count", "total_runs", "runs"}
    others = [
        name
        for name, metric in METRICS.items()
        if not name.startswith("tool_") and name not in counted and metric.kind != "text"
    ]
    assert [name for name in others if found.get(name) is not None] == []
    assert (found.peak_rss_mb, found.rss_coverage, found.total_runs) == (None, None, 1)


def test_a_zero_tool_denominator_is_absent() -> None:
    found = card([conversation("t", GOOD_CALL, passed=True)])
    assert found.tool_abstention_accuracy is None
    assert found.show("tool_abstention_accuracy") == "n/a"


def test_a_turn_that_the_server_failed_is_planned_all_the_same() -> None:
    failed = {**QUIET, "called": False, "passed": False, "error": "busy"}
    found = card([conversation("t", failed, outcome="error", error="busy")])
    assert found.tool_abstention_accuracy == {"passed": 0, "of": 1}
    assert found.tool_false_call_rate == {"passed": 0, "of": 1}
    assert found.tool_task_success is None
    assert (found.tool_error_turns, found.error_count) == (1, 1)


# repetitions


def test_scenarios_are_stable_flaky_or_broken() -> None:
    records = [
        reply(task, passed=passed, run_index=run)
        for task, verdicts in (("a", [1, 1, 1]), ("b", [1, 0, 1]), ("c", [0, 0, 0]))
        for run, passed in enumerate(map(bool, verdicts))
    ]
    found = card(records)
    assert [row["class"] for row in found.scenarios] == ["stable", "flaky", "broken"]
    flaky = found.scenarios[1]
    assert (flaky["passed"], flaky["runs"]) == (2, 3)
    assert flaky["ci95"] == pytest.approx([20.77, 93.85], abs=0.01)


def test_pass_at_k_and_pass_hat_k_average_over_scenarios() -> None:
    records = [
        reply(task, passed=passed, run_index=run)
        for task, verdicts in (("a", [1, 1, 1, 1]), ("b", [1, 0, 0, 0]))
        for run, passed in enumerate(map(bool, verdicts))
    ]
    found = card(records).pass_at_k
    assert list(found) == ["1", "2", "3", "4"]
    assert found["2"] == {"pass_at_k": 75.0, "pass_hat_k": 50.0}
    assert found["4"] == {"pass_at_k": 100.0, "pass_hat_k": 50.0}


def test_an_interval_of_agreeing_scenarios_is_not_certainty() -> None:
    records = [reply(f"r{i}", passed=True, run_index=run) for run in range(3) for i in range(12)]
    low, high = card(records).ci95["reasoning_accuracy"]
    assert high == 100.0
    assert low == pytest.approx(75.75, abs=0.01)


def test_delegated_verdicts_are_counted_apart() -> None:
    found = card([code("a", 1, 1, assurance="delegated"), code("b", 1, 1)])
    assert found.coding_delegated_count == 1


# hardware


def test_memory_is_the_peak_and_power_is_weighted_by_time() -> None:
    records = [
        speed(
            tokens=100,
            hardware={
                "peak_rss_mb": 700.0,
                "rss_coverage": "client_and_server",
                "avg_power_w": 30.0,
                "duration_sec": 1.0,
                "energy_j": 30.0,
            },
        ),
        speed(
            tokens=300,
            run_index=1,
            hardware={
                "peak_rss_mb": 800.0,
                "rss_coverage": "client_and_server",
                "avg_power_w": 50.0,
                "duration_sec": 3.0,
                "energy_j": 150.0,
            },
        ),
    ]
    found = card(records)
    assert found.peak_rss_mb == 800.0
    assert found.rss_coverage == "client_and_server"
    assert found.avg_power_w == 45.0
    assert found.tokens_per_joule == pytest.approx(400 / 180)


def test_energy_per_solved_task_counts_every_judged_run() -> None:
    found = card(
        [
            reply("a", passed=True, hardware={"energy_j": 10.0}),
            reply("b", passed=False, hardware={"energy_j": 20.0}),
        ]
    )
    assert found.joules_per_solved_task == 30.0


@pytest.mark.parametrize(
    ("fields", "evidence"),
    [
        ({"gpu_fit_pct": 80.0}, "the engine holds 80% in device memory"),
        (
            {"hardware": {"peak_vram_mb": 8150.0, "vram_total_mb": 8192.0}},
            "device memory at its limit, 8150 of 8192 MiB",
        ),
        (
            {"gpu_fit_pct": 100.0, "eval_tok_per_sec": 20.0},
            "decode fell from 80.0 to 20.0 tok/s",
        ),
    ],
)
def test_the_first_context_step_that_spills(fields: dict[str, object], evidence: str) -> None:
    fits = reply(
        "ctx_512",
        "context",
        "context",
        context_size=512,
        gpu_fit_pct=100.0,
        eval_tok_per_sec=80.0,
        passed=True,
    )
    spills = reply("ctx_1024", "context", "context", context_size=1024, passed=True, **fields)
    found = card([spills, fits])
    assert (found.context_spill_at, found.context_spill_evidence) == (1024, evidence)


def test_a_slow_decode_on_the_processor_is_no_spill() -> None:
    steps = [
        reply(f"ctx_{size}", "context", "context", context_size=size, eval_tok_per_sec=rate)
        for size, rate in ((512, 80.0), (4096, 20.0))
    ]
    assert card(steps).context_spill_at == "not observed"


def test_a_scorecard_survives_its_json() -> None:
    records = [
        record.replace(run_index=run)
        for run in range(2)
        for record in (
            code("a", 1, 2),
            reply("r", passed=bool(run)),
            speed(30.0 + run),
            reply("s", "sql", passed=True),
            conversation("t", GOOD_CALL, passed=True),
        )
    ]
    found = card(records)
    assert Scorecard.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_scorecard_of_a_later_version_still_loads() -> None:
    data = {**card([reply("r", passed=True)]).to_json(), "brand_new_field": 3}
    assert Scorecard.from_json(data).reasoning_accuracy == 100.0


def test_what_is_no_scorecard_is_said() -> None:
    with pytest.raises(ValueError, match="not a scorecard"):
        Scorecard.from_json({"runtime": "x"})
