"""Repetitions, early stopping, interleaving, comparison, several endpoints."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchrig.stopping import enough
from tests.core.run_support import speed
from tests.plugin.support import Project, Server

SPEED = [{"id": "quick", "kind": "speed", "prompt": "Count to three.", "tags": ["smoke"]}]


def test_a_range_stops_as_soon_as_the_outcome_is_decided(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run("--benchrig-runs", "2..10", "-k", "sum")

    result.assert_outcomes(failed=1)
    records = project.results()["records"]
    assert 2 <= len(records) < 10, "every run must pass, so two wrong ones decide"


def test_only_timings_that_count_can_be_precise_enough() -> None:
    scenario: Any = SimpleNamespace(kind="speed", min_pass_rate=1.0)
    settings: Any = SimpleNamespace(runs_min=3, runs_max=20, precision=0.05, allow_disturbed=False)
    quiet = [speed(80.0, run_index=run) for run in range(8)]
    busy = [record.replace(disturbed="other load") for record in quiet]

    assert enough(scenario, quiet, settings)
    assert not enough(scenario, [*busy, *quiet[:5]], settings)
    settings.allow_disturbed = True
    assert enough(scenario, busy, settings)


def test_the_failure_of_several_runs_says_how_many_passed(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run("--benchrig-runs", "3", "-k", "sum")

    result.stdout.fnmatch_lines(["*0/3 passed (needed 100%)*"])


def test_warm_ups_are_kept_apart(project: Project) -> None:
    project.run("--benchrig-warmup-runs", "2", "-k", "sum")

    run = project.results()
    assert [r["phase"] for r in run["records"]] == ["warmup", "warmup", "measured"]
    assert run["scorecards"][0]["total_runs"] == 1


def test_interleaving_alternates_the_targets_run_by_run(project: Project, server: Server) -> None:
    project.write("scenarios/reasoning.json", "[]")
    project.write("scenarios/speed.json", SPEED)

    result = project.run(
        "--benchrig-interleave", "--benchrig-runs", "3", model="openai:demo,openai:other"
    )

    result.assert_outcomes(passed=2)
    assert [r["model"] for r in server.answers.requests] == [
        "demo", "other", "other", "demo", "demo", "other",
    ]  # fmt: skip
    run = project.results()
    assert run["run"]["interleaved"] is True
    assert run["run"]["comparisons"][0]["interleaved"] is True


def test_interleaving_is_refused_with_workers(project: Project) -> None:
    result = project.run("--benchrig-interleave", workers=2)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--benchrig-interleave*leave out -n*"])


def test_a_regression_against_a_baseline_fails_the_run(project: Project, server: Server) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text())[0]
    entries = [{**entry, "id": f"sum{i}"} for i in range(12)]
    project.write("scenarios/reasoning.json", entries)
    project.run("--benchrig-json", "main.json")
    server.answers.by_text["two plus three"] = "Final answer: 6"

    words = ["--benchrig-compare", "main.json", "--benchrig-threshold", "reasoning_accuracy >= 0"]
    shown = project.run(*words)
    failed = project.run(*words, "--benchrig-fail-on-regression")

    shown.stdout.fnmatch_lines(["*reasoning_accuracy*worse*"])
    assert shown.ret == 0
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    failed.stdout.fnmatch_lines(["*reasoning_accuracy no worse than main.json*violated*"])


def test_a_regression_that_cannot_be_told_is_skipped_and_said(
    project: Project, server: Server
) -> None:
    project.run("--benchrig-json", "main.json")
    server.answers.by_text["two plus three"] = "Final answer: 6"
    words = ["-k", "sum", "--benchrig-compare", "main.json", "--benchrig-fail-on-regression"]
    words += ["--benchrig-threshold", "reasoning_accuracy >= 0", "-q", "--junitxml=junit.xml"]

    point = project.run(*words)
    confident = project.run(*words, "--benchrig-threshold-policy", "confident")

    assert point.ret == 0
    point.stdout.fnmatch_lines(["UNDECIDED reasoning_accuracy no worse than main.json*too few*"])
    assert confident.ret == pytest.ExitCode.TESTS_FAILED
    confident.stdout.fnmatch_lines(["FAIL reasoning_accuracy no worse than main.json*too few*"])


def test_two_targets_of_one_run_are_compared_one_to_one(project: Project) -> None:
    words = ["--benchrig-compare-targets", "openai:demo openai:other"]

    result = project.run(*words, model="openai:demo,openai:other")

    (compared,) = project.results()["run"]["comparisons"]
    assert (compared["baseline"], compared["current"]) == ("openai:demo", "openai:other")
    assert compared["refusal"] == ""
    result.stdout.fnmatch_lines(["*Comparison: openai:other against openai:demo*"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("openai:demo openai:othr", "*no target 'openai:othr'*did you mean 'openai:other'?*"),
        ("openai:demo", "*expected two targets in one value*"),
    ],
)
def test_targets_that_cannot_be_compared_are_a_usage_error(
    project: Project, value: str, message: str
) -> None:
    result = project.run(
        "--benchrig-compare-targets", value, model="openai:demo,openai:other"
    )  # fmt: skip

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_same_run_twice_shows_no_regression(project: Project) -> None:
    project.run("--benchrig-json", "main.json")

    again = project.run("--benchrig-compare", "main.json", "--benchrig-fail-on-regression")

    assert again.ret == 0


def test_items_are_spread_over_several_endpoints(
    project: Project, server: Server, second_server: Server
) -> None:
    second_server.answers.by_text = dict(server.answers.by_text)

    result = project.run(
        "--benchrig-base-url", server.url, "--benchrig-base-url", second_server.url
    )

    result.assert_outcomes(passed=2)
    endpoints = {r["endpoint"] for r in project.results()["records"]}
    assert endpoints == {server.url, second_server.url}


def test_an_endpoint_that_is_dead_is_taken_out(
    project: Project, server: Server, second_server: Server
) -> None:
    second_server.close()

    result = project.run(
        "--benchrig-base-url", second_server.url, "--benchrig-base-url", server.url
    )

    result.assert_outcomes(passed=2)
    assert {r["endpoint"] for r in project.results()["records"]} == {server.url}


def test_an_unknown_evaluator_is_an_event_and_nothing_more(project: Project) -> None:
    file = project.pytester.path / "scenarios/reasoning.json"
    entries = json.loads(file.read_text("utf-8"))
    entries[0]["evaluator"] = "llm_judge"
    project.write("scenarios/reasoning.json", entries)

    result = project.run()

    result.assert_outcomes(passed=2)
    events = [line for line in result.stderr.lines if "evaluator.unknown" in line]
    assert len(events) == 1
    assert json.loads(events[0])["scenario"] == "sum"


def test_hooks_see_records_and_scorecards_and_add_reports(project: Project) -> None:
    project.write(
        "conftest.py",
        """
def pytest_benchrig_record(record, config):
    print("SEEN", record.task_id, record.passed)

def pytest_benchrig_scorecard(scorecard, config):
    print("CARD", scorecard.target, scorecard.get("reasoning_accuracy"))

def pytest_benchrig_reports(config):
    return {"count.txt": lambda run: f"{len(run.records)} records"}
""",
    )

    result = project.run("-s")

    result.stdout.fnmatch_lines(["*SEEN sum True*", "*CARD openai:demo 100.0*"])
    assert (project.pytester.path / "results/count.txt").read_text() == "2 records"


def test_github_gets_a_summary_and_annotations(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = project.pytester.path / "step.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    server.answers.by_text["two plus three"] = "::error::owned\nFinal answer: 6"

    result = project.run()

    commands = [line for line in result.outlines if line.startswith("::")]
    assert len(commands) == 1
    assert "file=scenarios/reasoning.json" in commands[0]
    assert "owned" not in commands[0].split("::")[0]
    assert summary.read_text("utf-8").startswith("# ")
