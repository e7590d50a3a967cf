"""Comparison of runs: pairing, refusals, exact tests, and gates shown right by simulation."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.compare import Compared, Comparison, compare, compare_targets
from pytest_benchrig.core.compare_tests import compare_timings, pairs_needed, sign_flip
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.regression import parse_regression
from pytest_benchrig.core.runfile import RunFile
from tests.core.run_support import TARGET, code, conversation, reply, run_of, speed, timed_runs

OTHER = "vllm:m"


def row(found: Comparison, metric: str) -> Compared:
    """The row of one metric."""
    (only,) = [r for r in found.rows if r.metric == metric]
    return only


def answers(passed: list[bool], run: int = 0, target: str = TARGET) -> list[Record]:
    """One reasoning reply per verdict."""
    return [
        reply(f"r{i}", passed=verdict, run_index=run, target=target)
        for i, verdict in enumerate(passed)
    ]


# verdicts


def test_lost_answers_are_worse_and_named() -> None:
    before, after = [True] * 12, [True] * 4 + [False] * 8
    found = compare(run_of(answers(before)), run_of(answers(after)), name="main.json")
    verdict = row(found, "reasoning_accuracy")
    assert verdict.change == "worse"
    assert verdict.effect == pytest.approx(-100 * 8 / 12)
    assert verdict.p == pytest.approx(2 / 2**8)
    assert verdict.regressed
    assert [(f.scenario, f.before, f.after) for f in found.flips] == [
        (f"reasoning/r{i}", 1, 0) for i in range(4, 12)
    ]


def test_gained_answers_are_better_and_no_regression() -> None:
    found = compare(run_of(answers([False] * 12)), run_of(answers([True] * 12)))
    assert row(found, "reasoning_accuracy").change == "better"
    assert all(gate.held for gate in found.gates())


def test_one_lost_answer_is_too_few_to_tell() -> None:
    found = compare(run_of(answers([True] * 12)), run_of(answers([False] + [True] * 11)))
    verdict = row(found, "reasoning_accuracy")
    assert verdict.change == "too few runs to tell"
    assert verdict.needed == "about 72 scenarios that flip as these did would tell"
    (gate,) = found.gates()
    assert (gate.held, gate.decided) == (True, False)
    assert "undecided, too few runs to tell" in gate.message
    (strict,) = found.gates("confident")
    assert (strict.held, strict.decided) == (False, True)
    assert "violated, too few runs to tell" in strict.message


def test_all_answers_of_a_small_suite_lost_is_never_shown_as_passed() -> None:
    """Four flips are no proof, but a gate that cannot tell must not look like one that held."""
    found = compare(run_of(answers([True] * 4)), run_of(answers([False] * 4)))
    verdict = row(found, "reasoning_accuracy")
    assert verdict.change == "too few runs to tell"
    assert verdict.interval is not None
    assert verdict.interval[1] == 0.0
    (gate,) = found.gates()
    assert not gate.decided


def test_disturbed_timings_are_compared_where_that_is_allowed() -> None:
    before = run_of([speed(100.0, task_id=f"s{i}") for i in range(3)])
    after = run_of([speed(25.0, task_id=f"s{i}", disturbed="other load") for i in range(3)])
    refused = compare(before, after)
    assert row(refused, "avg_eval_tok_sec").change == "not compared"
    allowed = row(compare(before, after, allow_disturbed=True), "avg_eval_tok_sec")
    assert allowed.effect == pytest.approx(-75.0)
    gates = {g.text.split()[0]: g for g in refused.gates()}
    assert not gates["avg_eval_tok_sec"].decided
    named = compare(before, after, regressions=["avg_eval_tok_sec:5"])
    gates = {g.text.split()[0]: g for g in named.gates()}
    assert not gates["avg_eval_tok_sec"].held


def test_flips_both_ways_show_no_difference() -> None:
    before = [True, False] * 6
    after = [False, True, *before[2:]]
    found = compare(run_of(answers(before)), run_of(answers(after)))
    verdict = row(found, "reasoning_accuracy")
    assert (verdict.change, verdict.effect) == ("no difference shown", 0.0)
    assert verdict.interval is not None
    assert verdict.interval[0] < 0.0 < verdict.interval[1]


def test_repeating_one_scenario_does_not_make_it_many() -> None:
    before = [r for run in range(10) for r in answers([True] * 3, run)]
    after = [r for run in range(10) for r in answers([False, True, True], run)]
    found = compare(run_of(before), run_of(after))
    assert row(found, "reasoning_accuracy").change == "too few runs to tell"


def test_assertions_and_tasks_are_compared_each() -> None:
    before = [code(f"c{i}", 4, 4) for i in range(10)]
    after = [code(f"c{i}", 2, 4) for i in range(10)]
    found = compare(run_of(before), run_of(after))
    assert row(found, "coding_pass_rate").effect == -50.0
    assert row(found, "coding_task_pass_rate").effect == -100.0
    assert row(found, "coding_pass_rate").change == "worse"


def test_user_suites_and_tools_are_compared() -> None:
    before = [reply("q", "sql", passed=True), conversation("t", passed=True)]
    after = [reply("q", "sql", passed=False), conversation("t", passed=True)]
    found = compare(run_of(before), run_of(after))
    assert row(found, "sql_accuracy").effect == -100.0
    assert row(found, "tool_task_success").effect == 0.0


@given(st.lists(st.integers(-3, 3), max_size=9))
def test_the_sign_flip_test_by_enumeration(differences: list[int]) -> None:
    observed = abs(sum(differences))
    totals = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(total >= observed for total in totals) / len(totals)
    assert sign_flip(differences) == pytest.approx(expected)


def test_with_single_runs_it_is_mcnemars_exact_test() -> None:
    # 10 discordant pairs, 2 one way: 2 * (1 + 10 + 45) / 1024.
    assert sign_flip([1] * 8 + [-1] * 2 + [0] * 30) == pytest.approx(112 / 1024)
    assert sign_flip([0, 0]) == 1.0


# pairing


def test_records_are_paired_by_suite_scenario_target_and_run() -> None:
    before = [speed(80.0, run_index=i) for i in range(3)] + [speed(1.0, task_id="gone")]
    after = [speed(80.0, run_index=i) for i in (1, 2, 3)]
    found = compare(run_of(before), run_of(after))
    assert row(found, "avg_eval_tok_sec").pairs == 2
    assert found.unpaired == 3


def test_only_the_last_attempt_of_an_item_counts() -> None:
    retried = [reply("r0", passed=False), reply("r0", passed=True, attempt=2)]
    found = compare(run_of(answers([True])), run_of(retried))
    assert found.flips == ()


def test_errors_and_blocked_timings_are_not_compared() -> None:
    before = [speed(80.0), reply("r", outcome="error")]
    after = [speed(40.0, disturbed="CPU load 40 %"), reply("r", passed=True)]
    found = compare(run_of(before), run_of(after))
    rate = row(found, "avg_eval_tok_sec")
    assert (rate.change, rate.note) == ("not compared", "disturbed (CPU load 40 %)")
    assert row(found, "reasoning_accuracy").change == "not compared"


# refusals


@pytest.mark.parametrize(
    ("header", "difference"),
    [
        ({"fingerprint": {"machine": "m2", "sampling": "s1"}}, "machine: m1 -> m2"),
        ({"fingerprint": {"machine": "m1"}}, "sampling: s1 -> not known"),
        ({"fingerprint": {}}, "fingerprint: known -> none"),
    ],
)
def test_runs_that_differ_are_refused_with_the_difference(
    header: dict[str, object], difference: str
) -> None:
    found = compare(run_of([speed()]), run_of([speed()], **header), name="main.json")
    assert found.rows == ()
    assert difference in found.refusal
    assert "--benchrig-allow-difference" in found.refusal
    (gate,) = found.gates()
    assert not gate.held
    assert difference in gate.message


def test_a_difference_can_be_allowed_by_name_and_is_said() -> None:
    other = run_of([speed()], fingerprint={"machine": "m2", "sampling": "s1"})
    found = compare(run_of([speed()]), other, allow_difference=["machine"])
    assert found.refusal == ""
    assert found.allowed == ("machine: m1 -> m2",)
    refused = compare(run_of([speed()]), other, allow_difference=["sampling"])
    assert "machine: m1 -> m2" in refused.refusal


def test_parts_of_other_targets_do_not_matter() -> None:
    parts = {"machine": "m1", f"model {TARGET}": "abc Q4_K_M"}
    before = run_of([speed()], fingerprint={**parts, f"model {OTHER}": "x"})
    after = run_of([speed()], fingerprint=parts)
    assert compare(before, after).refusal == ""
    moved = run_of([speed()], fingerprint={**parts, f"model {TARGET}": "def Q8_0"})
    found = compare(after, moved)
    assert f"model {TARGET}: abc Q4_K_M -> def Q8_0" in found.refusal
    assert compare(after, moved, allow_difference=["model"]).refusal == ""


def test_a_changed_scenario_is_refused() -> None:
    before = run_of([speed(scenario_digest="aaaa")])
    after = run_of([speed(scenario_digest="bbbb")])
    assert "scenario speed/speed_raw: aaaa -> bbbb" in compare(before, after).refusal
    assert compare(before, after, allow_difference=["scenario"]).refusal == ""


def test_no_target_in_common_is_refused() -> None:
    found = compare(run_of([speed()]), run_of([speed(target=OTHER)]))
    assert f"no target in common (baseline: {TARGET}; this run: {OTHER})" in found.refusal


# timings


def test_a_clear_slowdown_is_worse_and_beyond_what_counts() -> None:
    random = Random(4)
    before = timed_runs(random, 10, 100.0, 0.01)
    after = timed_runs(random, 10, 80.0, 0.01)
    found = compare(run_of(before), run_of(after))
    rate = row(found, "avg_eval_tok_sec")
    assert rate.change == "worse"
    assert rate.effect == pytest.approx(-20.0, abs=1.5)
    (gate,) = [g for g in found.gates() if g.text.startswith("avg_eval_tok_sec")]
    assert not gate.held
    assert "worse by more than 5 % counts" in gate.message


def test_worse_within_what_counts_is_no_regression() -> None:
    random = Random(4)
    before, after = (timed_runs(random, 20, mean, 0.005) for mean in (100.0, 97.0))
    found = compare(run_of(before), run_of(after))
    assert row(found, "avg_eval_tok_sec").change == "worse"
    assert all(gate.held for gate in found.gates())
    strict = compare(run_of(before), run_of(after), regressions=["avg_eval_tok_sec:2"])
    assert not all(gate.held for gate in strict.gates())


def test_a_longer_wait_is_worse() -> None:
    before = [speed(ttft_sec=0.2 + i / 1000, run_index=i) for i in range(8)]
    after = [speed(ttft_sec=0.4 + i / 1000, run_index=i) for i in range(8)]
    found = compare(run_of(before), run_of(after))
    assert row(found, "avg_ttft_sec").change == "worse"


def test_a_narrow_interval_shows_no_difference() -> None:
    random = Random(8)
    before, after = (timed_runs(random, 20, 100.0, 0.01) for _ in range(2))
    assert row(compare(run_of(before), run_of(after)), "avg_eval_tok_sec").change == (
        "no difference shown"
    )


def test_one_value_on_each_side_says_nothing() -> None:
    found = compare(run_of([speed(100.0)]), run_of([speed(50.0)]))
    rate = row(found, "avg_eval_tok_sec")
    assert rate.change == "too few runs to tell"
    assert rate.needed == "one value on each side says nothing; try --benchrig-runs 5"
    assert all(gate.held for gate in found.gates())


def test_medians_that_disagree_are_flagged_but_do_not_decide() -> None:
    before = [speed(100.0, run_index=i) for i in range(20)]
    after = [speed(90.0 if i < 11 else 112.0, run_index=i) for i in range(20)]
    rate = row(compare(run_of(before), run_of(after)), "avg_eval_tok_sec")
    assert rate.change == "too few runs to tell"
    assert rate.effect == pytest.approx(-0.1)
    assert rate.note == "medians disagree (-10.0 %): look at the spread"


def test_comparisons_say_whether_they_were_interleaved() -> None:
    records = [speed(80.0 + i, run_index=i) for i in range(5)]
    records += [speed(80.0 + i, run_index=i, target=OTHER) for i in range(5)]
    apart = compare_targets(run_of(records), TARGET, OTHER)
    assert "not interleaved" in apart.caveat
    together = compare_targets(run_of(records, interleaved=True), TARGET, OTHER)
    assert together.caveat == ""
    assert together.interleaved
    earlier = compare(run_of(records, interleaved=True), run_of(records, interleaved=True))
    assert "not interleaved" in earlier.caveat


def test_two_targets_of_one_run() -> None:
    records = answers([True] * 9) + answers([False] * 9, target=OTHER)
    found = compare_targets(run_of(records), TARGET, OTHER)
    verdict = row(found, "reasoning_accuracy")
    assert (verdict.target, verdict.change) == (OTHER, "worse")
    assert "no records of x:y; targets:" in compare_targets(run_of(records), TARGET, "x:y").refusal
    assert "named twice" in compare_targets(run_of(records), TARGET, TARGET).refusal


def test_many_metrics_share_one_error() -> None:
    before = answers([True] * 6) + [reply(f"p{i}", "polish", passed=True) for i in range(6)]
    after = answers([False] * 6) + [reply(f"p{i}", "polish", passed=True) for i in range(6)]
    alone = compare(run_of(before[:6]), run_of(after[:6]))
    assert row(alone, "reasoning_accuracy").p == pytest.approx(2 / 64)
    both = compare(run_of(before), run_of(after))
    assert row(both, "reasoning_accuracy").p == pytest.approx(4 / 64)
    assert row(both, "reasoning_accuracy").change == "too few runs to tell"


# simulations, each with its own seed


def gate(random: Random, runs: int, slowdown: float, cv: float = 0.065) -> tuple[bool, Compared]:
    """One gate between two interleaved series; whether it fails, and its row."""
    before = timed_runs(random, runs, 100.0, cv)
    after = timed_runs(random, runs, 100.0 * (1.0 - slowdown), cv)
    header = {"fingerprint": {"machine": "m1"}}
    found = compare(RunFile(header, records=tuple(before)), RunFile(header, records=tuple(after)))
    return any(not g.held for g in found.gates()), row(found, "avg_eval_tok_sec")


@pytest.mark.parametrize("runs", [3, 5, 10, 21])
def test_an_a_a_gate_cries_wolf_at_most_one_time_in_twenty(runs: int) -> None:
    random = Random(1000 + runs)
    results = [gate(random, runs, 0.0) for _ in range(200)]
    assert sum(failed for failed, _ in results) / 200 <= 0.05
    changed = sum(r.change in ("better", "worse") for _, r in results) / 200
    assert changed <= 0.08  # both sides: 5 % and three standard errors of 200 trials


def test_a_true_slowdown_of_ten_percent_is_seen_at_the_n_it_asked_for() -> None:
    random = Random(77)
    seen = asked = 0
    for _ in range(100):
        _, pilot = gate(random, 5, 0.10)
        if pilot.change == "worse":
            continue
        wanted = re.search(r"--benchrig-runs (\d+)", pilot.needed)
        assert wanted is not None
        asked += 1
        failed, _ = gate(random, int(wanted[1]), 0.10)
        seen += failed
    assert asked >= 50
    assert seen / asked >= 0.80


def test_the_n_it_asks_for_sees_the_smallest_change_that_counts() -> None:
    random = Random(5)
    seen = 0
    runs = pairs_needed(0.065 * 2**0.5, 40, 0.10, 0.05, 1)
    for _ in range(200):
        pairs = [(random.gauss(100.0, 6.5), random.gauss(90.0, 0.9 * 6.5)) for _ in range(runs)]
        seen += compare_timings({"speed": pairs}).p < 0.05
    assert runs < 15
    assert seen / 200 >= 0.80


def test_drift_hits_both_sides_of_an_interleaved_series_alike() -> None:
    random = Random(6)
    wrong = {"interleaved": 0, "in blocks": 0}
    for _ in range(40):
        drift = [1.0 - 0.14 * i / 40 for i in range(40)]
        values = [100.0 * d * random.gauss(1.0, 0.02) for d in drift]
        together = list(zip(values[::2], values[1::2], strict=True))
        apart = list(zip(values[:20], values[20:], strict=True))
        wrong["interleaved"] += compare_timings({"s": together}).p < 0.05
        wrong["in blocks"] += compare_timings({"s": apart}).p < 0.05
    assert wrong["interleaved"] <= 4
    assert wrong["in blocks"] >= 36


# regression settings


def test_a_regression_setting() -> None:
    assert parse_regression("avg_eval_tok_sec:7.5").percent == 7.5
    assert parse_regression(" sql_accuracy : 3% ").metric == "sql_accuracy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("avg_eval_tok_sec", "expected METRIC:PCT"),
        (":5", "expected METRIC:PCT"),
        ("avg_eval_tok_se:5", "did you mean 'avg_eval_tok_sec'?"),
        ("peak_rss_mb:5", "'peak_rss_mb' is not compared"),
        ("avg_ttft_sec:fast", "expected a percentage"),
        ("avg_ttft_sec:-1", "expected a percentage"),
        ("avg_ttft_sec:nan", "expected a percentage"),
    ],
)
def test_a_wrong_regression_setting(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compare(run_of([speed()]), run_of([speed()]), regressions=[text])


def test_a_comparison_is_plain_json_with_its_sentences() -> None:
    data = compare(run_of(answers([True] * 9)), run_of(answers([False] * 9))).to_json()
    (first,) = data["rows"]
    assert first["sentence"].startswith("worse, -100.0 points [-100.0 to")
    assert data["flips"][0] == {
        "target": TARGET,
        "scenario": "reasoning/r0",
        "before": 1,
        "after": 0,
        "runs": 1,
    }
