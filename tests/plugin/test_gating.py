"""Thresholds decide the exit status, alone, the same with and without workers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.plugin.support import Project, Server

BOTH = pytest.mark.parametrize("workers", [0, 2], ids=["alone", "xdist"])


@BOTH
def test_a_held_threshold_turns_wrong_answers_into_missed(
    project: Project, server: Server, workers: int
) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run(
        "--benchrig-threshold", "reasoning_accuracy >= 50", "--junitxml=out.xml", workers=workers
    )

    assert result.ret == 0
    outcomes = result.parseoutcomes()
    assert outcomes["missed"] == 1
    assert outcomes["passed"] == 2, "one answer and the threshold"
    root = ElementTree.parse(project.pytester.path / "out.xml").getroot()
    skipped = [s for s in root.iter("skipped") if s.get("type") == "benchrig.missed"]
    assert len(skipped) == 1
    gates = [c for c in root.iter("testcase") if c.get("classname") == "benchrig.thresholds"]
    assert len(gates) == 1
    assert gates[0].find("failure") is None


@BOTH
def test_a_violated_threshold_is_a_failed_test(
    project: Project, server: Server, workers: int
) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run(
        "--benchrig-threshold", "reasoning_accuracy >= 80", "--junitxml=out.xml", workers=workers
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*reasoning_accuracy >= 80*50*"])
    root = ElementTree.parse(project.pytester.path / "out.xml").getroot()
    gates = [c for c in root.iter("testcase") if c.get("classname") == "benchrig.thresholds"]
    failure = gates[0].find("failure")
    assert failure is not None
    assert "50" in str(failure.get("message"))


def test_an_unmeasured_metric_violates_and_says_so(project: Project) -> None:
    result = project.run("--benchrig-threshold", "coding_pass_rate >= 1")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*coding_pass_rate >= 1*not measured*"])


def test_thresholds_from_the_ini(project: Project) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\nbenchrig_threshold =\n  reasoning_accuracy >= 90\n  speed.ttft_sec.p95 <= 1.5\n",
    )

    result = project.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*speed.ttft_sec.p95 <= 1.5*not measured*"])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("codng_pass_rate >= 80", "*coding_pass_rate*"),
        ("coding_pass_rate => 80", "*>=*"),
        ("coding_pass_rate >= many", "*number*"),
        ("openai:nobody coding_pass_rate >= 80", "*openai:demo*"),
    ],
)
def test_a_threshold_that_cannot_be_is_a_usage_error(
    project: Project, expression: str, message: str
) -> None:
    result = project.run("--benchrig-threshold", expression)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_thresholds_are_evaluated_after_x(project: Project, server: Server) -> None:
    server.answers.status = 500

    result = project.run("-x", "--benchrig-threshold", "reasoning_accuracy >= 50")

    result.stdout.fnmatch_lines(["*reasoning_accuracy >= 50*not measured*"])
    assert result.ret != 0


def test_missed_answers_run_again_with_lf(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"
    project.run("--benchrig-threshold", "reasoning_accuracy >= 50")

    again = project.run("--lf", "--co", "-q")

    assert [line for line in again.outlines if "::" in line] == [
        "scenarios/reasoning.json::sum[openai:demo]"
    ]


def test_a_plain_assertion_stays_failed(project: Project) -> None:
    project.write(
        "tests/test_plain.py",
        "def test_it(benchrig_client, benchrig_record):\n"
        "    benchrig_client.generate('hello')\n"
        "    assert 1 == 2\n",
    )

    result = project.run("tests", "--benchrig-threshold", "plain_accuracy >= 0")

    result.assert_outcomes(failed=1, passed=1)


def test_missed_can_be_reported_as_failed(project: Project, server: Server) -> None:
    project.write("pytest.ini", "[pytest]\nbenchrig_missed = fail\n")
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run("--benchrig-threshold", "reasoning_accuracy >= 50")

    result.assert_outcomes(failed=1, passed=2)
