"""What each report says, read as a user reads it."""

from __future__ import annotations

import csv as csv_reader
import io
import re
from pathlib import Path
from typing import Any

import pytest

import pytest_benchrig
from pytest_benchrig.core.compare import compare
from pytest_benchrig.core.metrics import METRICS
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile, load_run, merge_runs
from pytest_benchrig.core.thresholds import evaluate, parse_threshold
from pytest_benchrig.reports import csv, github, html, markdown
from pytest_benchrig.reports.charts import nice_limit
from pytest_benchrig.reports.facts import FLAG_MEANINGS, facts
from pytest_benchrig.reports.provenance import provenance
from pytest_benchrig.reports.terminal import render_summary
from tests.core.run_support import TARGET, card, code, conversation, reply, run_of, speed
from tests.reports import golden

FULL = (golden.DATA / "run.json").read_text("utf-8")


def summary(records: list[Record], **options: Any) -> str:
    """The terminal summary of a run over the records."""
    return "\n".join(render_summary(run_of(records), **options))


def test_tasks_and_assertions_are_counted_in_words() -> None:
    text = summary([code("a", 4, 4), code("b", 3, 5), code("c", 0, 1)])
    assert "Tasks Passed: 1/3 (33.3%)" in text
    assert "Assertions: 7/10 (70.0%)" in text


def test_cut_off_replies_carry_a_warning_sign() -> None:
    text = summary([reply("a", passed=False, truncated=True), reply("b", passed=True)])
    assert "\u26a0 1 reply was cut off at the token budget" in text
    assert "\u26a0" not in summary([reply("b", passed=True, truncated=False)])


def test_the_composite_stands_with_its_formula_and_weights() -> None:
    formula = (
        "composite = 0.40 x coding_pass_rate + 0.30 x reasoning_accuracy + 0.30 x "
        "min(100, avg_eval_tok_sec / 60 x 100)"
    )
    run = run_of([code("a", 1, 2), reply("r", passed=True), speed(30.0)])
    assert formula in "\n".join(render_summary(run, width=200))
    assert formula in markdown.render(run).replace("\\", "")
    assert formula in html.render(run)


def test_a_single_run_is_n_1_and_has_no_interval() -> None:
    text = summary([reply("a", passed=True), reply("b", passed=False)])
    assert "n=1" in text
    assert "[" not in text
    assert "Uncertainty" not in text


def test_repeated_runs_show_their_spread() -> None:
    records = [code(f"t{i}", 1, 1, run_index=run) for run in range(3) for i in range(17)]
    records[-1] = code("t16", 0, 1, run_index=2)
    assert "98.0% [94.1-100.0]" in summary(records)


def test_a_floored_rate_is_marked() -> None:
    text = summary([speed(3000.0, 3, eval_tok_sec_floored=True)])
    assert "~3000.0 t/s" in text
    assert "~ marks a rate over windows under 1.5 ms" in text


def test_what_was_not_measured_is_n_a_with_the_reason_and_never_0() -> None:
    text = summary([speed(disturbed="CPU load 34 %"), code("a", 1, 1)])
    assert re.search(r"composite +assertions", text)
    assert " n/a " in text
    assert re.search(r"n/a \(.*TTFT.*\): disturbed \(CPU load 34 %\)", text)
    assert "flag disturbed: 1 record (" in text


def test_every_report_names_the_figures_that_are_n_a() -> None:
    run = run_of([speed(disturbed="CPU load 34 %"), code("a", 1, 1)])
    for report in (markdown.render(run), html.render(run)):
        assert re.search(r"n/a \(.*TTFT.*\): disturbed \(CPU load 34 %\)", report)


def test_tools_alone_show_the_rest_as_n_a() -> None:
    turn = {"expected_tool": "f", "reached": True, "called": True, "tool_ok": True}
    text = summary([conversation("t", turn, passed=True)])
    assert "1/1 (100.0%)" in text
    assert re.search(rf"{TARGET} +n/a +n=1", text)
    assert "Timing" not in text


@pytest.mark.parametrize("level", ["namespace", "landlock", "process"])
def test_the_level_of_containment_stands_in_every_report(level: str) -> None:
    run = run_of([code("a", 1, 1).replace(sandbox_isolation=level)])
    for text in ("\n".join(render_summary(run)), markdown.render(run), html.render(run)):
        assert f"sandbox: {level}" in text
        assert ("was not contained" in text) is (level == "process")


def test_skipped_coding_items_print_the_remedy() -> None:
    skipped = reply(
        "a", "coding", "coding", outcome="skipped", detail="no containment: bwrap is missing"
    )
    text = summary([skipped], width=400)
    assert "skipped for lack of containment (no containment: bwrap is missing)" in text
    assert "--benchrig-sandbox process" in text
    assert "bubblewrap" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 240])
def test_tables_fit_the_terminal(width: int) -> None:
    lines = render_summary(load_run(FULL), width=width)
    tables = [line for line in lines if re.match(r"[-\w].*  ", line) or set(line) <= set("- ")]
    assert max(len(line) for line in tables) <= width


def test_columns_left_out_are_said_in_their_order() -> None:
    lines = "\n".join(render_summary(load_run(FULL), width=100))
    assert "left out for the width: sql, tasks, context" in lines
    assert "left out" not in "\n".join(render_summary(load_run(FULL), width=400))


def test_every_table_says_what_its_columns_mean() -> None:
    text = "\n".join(render_summary(load_run(FULL), width=400))
    for name in ("coding_pass_rate", "avg_eval_tok_sec", "avg_ttft_sec", "tool_task_success"):
        assert METRICS[name].meaning in text


def test_decisions_given_and_decisions_kept_read_the_same() -> None:
    run = run_of([code("a", 1, 1)])
    results = evaluate(
        [parse_threshold("coding_pass_rate >= 50"), parse_threshold("error_count > 0")],
        run.scorecards,
        run.records,
    )
    comparison = compare(run, run, name="main.json")
    given = render_summary(run, thresholds=results, comparisons=[comparison])
    block = {
        **run.run,
        "thresholds": [r.to_json() for r in results],
        "comparisons": [comparison.to_json()],
    }
    assert given == render_summary(RunFile(block, run.scorecards, run.records))
    held = "coding_pass_rate >= 50: held, measured 100.0% (n=1, one run: no interval)"
    assert f"  PASS {held} [{TARGET}]" in given
    assert [line for line in given if line.startswith("  FAIL error_count > 0: violated")]


def test_a_refused_comparison_says_why_everywhere() -> None:
    run = load_run(FULL)
    for text in ("\n".join(render_summary(run, width=300)), markdown.render(run), html.render(run)):
        assert "not comparable: machine: m2" in text


def test_quiet_keeps_scores_and_what_failed() -> None:
    lines = render_summary(load_run(FULL), quiet=True)
    assert lines[0].startswith(f"{TARGET}: composite 80.0")
    assert not [line for line in lines if line.startswith("PASS")]
    assert len([line for line in lines if line.startswith("FAIL")]) == 5


def test_a_run_without_anything_measured_still_reports() -> None:
    run = RunFile({"id": "x"})
    assert render_summary(run) == []
    assert markdown.render(run).startswith("# Benchmark summary")
    assert "Nothing was measured." in html.render(run)
    assert csv.render(run).count("\n") == 1
    failed = run_of([reply("a", outcome="error", error="refused", error_kind="unreachable")])
    assert "errors: 1" in "\n".join(render_summary(failed))


def test_quiet_says_why_nothing_was_measured() -> None:
    found = run_of(
        [speed(task_id=f"s{i}", disturbed="load", eval_tok_per_sec=None) for i in (1, 2)]
    )
    (line,) = render_summary(found, quiet=True)
    assert line.endswith("nothing measured (disturbed: 2)")


# CSV


def test_csv_columns_are_the_scorecards_fields_in_order() -> None:
    head, row = csv_reader.reader(io.StringIO(csv.render(run_of([code("a", 1, 2)]))))
    plain = [name for name, metric in METRICS.items() if metric.kind != "ratio"]
    assert [name for name in head if name in plain] == plain
    values = dict(zip(head, row, strict=True))
    assert values["coding_pass_rate"] == "50"
    assert values["reasoning_accuracy"] == ""
    assert values["coding_pass_rate_ci95_low"] == ""
    assert values["total_runs"] == "1"


def test_csv_ratios_intervals_and_user_suites_have_columns() -> None:
    records = [
        record
        for run in range(2)
        for record in (
            conversation("t", {"expected_tool": None, "passed": True}, passed=True, run_index=run),
            reply("j", "sql", passed=bool(run), run_index=run),
            code("a", run, 1, run_index=run),
        )
    ]
    head, row = csv_reader.reader(io.StringIO(csv.render(run_of(records))))
    values = dict(zip(head, row, strict=True))
    assert (values["tool_task_success_passed"], values["tool_task_success_of"]) == ("2", "2")
    assert (values["coding_pass_rate_min"], values["coding_pass_rate_max"]) == ("0", "100")
    assert (
        float(values["coding_pass_rate_ci95_low"])
        < 50
        < float(values["coding_pass_rate_ci95_high"])
    )
    assert (head[-1], values["sql_accuracy"]) == ("sql_accuracy", "50")


# HTML


def test_the_page_has_charts_with_their_values_as_text() -> None:
    page = html.render(load_run(FULL))
    assert page.count('<svg viewBox="0 0 860') >= 3
    assert 'role="img"' in page
    assert "82.5 tok/s" in page
    assert "whiskers: 95 % interval" in page
    assert "Time to first token per context step" in page


def test_the_page_shows_failed_records_in_full() -> None:
    page = html.render(run_of([reply("r", passed=False, response="x" * 5000, prompt="why?")]))
    assert "<h2>Not passed (1)</h2>" in page
    assert "1000 more characters are in the run file" in page
    assert "why?" in page


def test_scales_end_on_round_numbers() -> None:
    values = [0.03, 1.0, 1.1, 2.3, 4.0, 7.0, 99.0, 0.0, float("inf")]
    assert [nice_limit(v) for v in values] == [0.05, 1.0, 2.0, 2.5, 5.0, 10.0, 100.0, 1.0, 1.0]


# GitHub


def test_annotations_point_at_the_entry() -> None:
    run = run_of([reply("a", passed=False, detail="expected 5, found 10")])
    found = github.annotate(run, locations=[("reasoning", "a", "scenarios/reasoning.json", 12)])
    assert found == [
        f"::error title=reasoning/a [{TARGET.replace(':', '%3A')}],"
        "file=scenarios/reasoning.json,line=12::expected 5, found 10"
    ]


def test_more_than_ten_annotations_end_with_a_count() -> None:
    run = run_of([reply(f"r{i}", passed=False, detail="wrong") for i in range(15)])
    found = github.annotate(run)
    assert len(found) == 10
    assert found[-1] == "::error::6 more failures are in the step summary"


def test_a_step_summary_stays_under_githubs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run(FULL)
    whole = github.step_summary(run)
    assert whole == markdown.render(run)
    monkeypatch.setattr(github, "SUMMARY_BYTES", 5000)
    cut = github.step_summary(run)
    assert len(cut.encode()) <= 5000
    assert "Cut here" in cut


def test_percent_and_line_ends_are_escaped_as_the_toolkit_does() -> None:
    assert github.command("error", "50%\nmore", title="a:b,c") == (
        "::error title=a%3Ab%2Cc::50%25%0Amore"
    )


# several runs


def test_merged_runs_are_one_table() -> None:
    first, second = run_of([speed(80.0)], id="monday"), run_of([speed(90.0)], id="tuesday")
    text = "\n".join(render_summary(merge_runs([first, second]), width=200))
    assert f"{TARGET} @ monday" in text
    assert f"{TARGET} @ tuesday" in text


def test_a_scorecard_of_a_user_suite_has_its_column() -> None:
    text = "\n".join(render_summary(RunFile({}, (card([reply("j", "sql", passed=True)]),))))
    assert re.search(r"composite +sql +runs", text)


def test_reports_say_on_which_machine_and_of_which_model() -> None:
    run = RunFile(
        run={
            "environment": {
                "cpu_model": "Example 9",
                "cpu_cores_logical": 8,
                "ram_mb": 16384.0,
                "gpus": [{"name": "Card A"}, {"name": "Card B"}],
                "virtual_machine": "no",
                "on_battery": True,
                "os": "Linux 1",
                "python": "3.11.7",
            },
            "models": {
                "embedded:m": {
                    "version": "llama.cpp b1",
                    "quantisation": "Q4_1",
                    "size_bytes": 98_362_432,
                    "digest": "sha256:b179c9523d0e6a0f",
                }
            },
        },
        scorecards=(),
        records=(),
    )
    assert provenance(run) == [
        "machine: Example 9, 8 logical cores, 16.0 GiB RAM, Card A, Card B, on battery, Linux 1, "
        "Python 3.11.7",
        "model embedded:m: llama.cpp b1, Q4_1, 0.10 GB, sha256:b179c9523d0e",
    ]
    assert facts(run)[:2] == provenance(run)
    assert provenance(RunFile(run={}, scorecards=(), records=())) == []


def test_a_wrapped_line_of_a_server_is_no_ci_command() -> None:
    models = {TARGET: {"version": "x" * 37 + " ::add-mask::secret ##[group]taken"}}
    lines = render_summary(RunFile(run={"models": models}), width=60)
    assert any("add-mask" in line for line in lines)
    for line in lines:
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


def test_averages_say_over_how_many_records_they_are() -> None:
    found = [speed(task_id="quiet"), *(speed(task_id=f"s{i}", disturbed="load") for i in range(4))]
    line = "averaged records: decode 1, TTFT 1 of 5"
    assert line in summary(found)
    assert line in markdown.render(run_of(found))
    assert line in html.render(run_of(found))


def test_every_flag_that_a_record_can_carry_is_explained() -> None:
    """Wherever the package appends a flag by name, its meaning is known to the reports."""
    package = Path(pytest_benchrig.__file__).parent
    pattern = re.compile(r"flags(?:\.append\(|\[)\"([a-z_]+)\"")
    found = {
        name for path in package.rglob("*.py") for name in pattern.findall(path.read_text("utf-8"))
    }
    assert len(found) > 10
    assert found <= set(FLAG_MEANINGS)
