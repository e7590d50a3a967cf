"""What a model's answer, a broken server and an incapable target become."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.plugin.support import Project, Server


def test_a_wrong_answer_is_a_failure_with_an_explanation(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Let me see.\nFinal answer: 6"

    result = project.run()

    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*prompt:*What is two plus three*",
            "*answer:*Let me see.*",
            "*expected:*5*",
            "*5 completion tokens*finish stop*TTFT*total*",
            "*reasoning.json:2*",
        ]
    )
    output = result.stdout.str()
    assert "Traceback" not in output
    assert "pytest_benchrig/" not in output


def test_an_unreachable_server_is_an_error_and_never_looks_green(
    project: Project, server: Server
) -> None:
    server.close()

    result = project.run()

    result.assert_outcomes(errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*unreachable*openai:demo*"])
    records = project.results()["records"]
    assert [r["outcome"] for r in records] == ["error", "error"]


def test_an_http_error_is_an_error(project: Project, server: Server) -> None:
    server.answers.status = 500

    result = project.run()

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*HTTP 500*"])


def test_a_target_is_given_up_after_three_consecutive_failures(
    project: Project, server: Server
) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text())[0]
    project.write("scenarios/reasoning.json", [{**entry, "id": f"sum{i}"} for i in range(6)])
    server.close()

    result = project.run()

    result.assert_outcomes(errors=3, skipped=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*given up: 3 consecutive failures*"])


def test_several_runs_are_judged_against_min_pass_rate(project: Project, server: Server) -> None:
    result = project.run("--benchrig-runs", "3", "-k", "sum")

    result.assert_outcomes(passed=1)
    records = project.results()["records"]
    assert [r["run_index"] for r in records] == [0, 1, 2]
    seeds = [r["seed"] for r in server.answers.requests]
    assert seeds == [42, 43, 44]
    contents = [r["messages"][0]["content"] for r in server.answers.requests]
    assert len(set(contents)) == 3, "no later run may be answered by the cache of an earlier one"


def test_a_cut_off_reply_says_truncated_first(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "First I have to think about"
    server.answers.finish_reason = "length"

    result = project.run("-k", "sum")

    result.assert_outcomes(failed=1)
    record = project.results()["records"][0]
    assert record["verdict"] == "truncated"
    assert record["detail"].startswith("TRUNCATED")


def test_junit_shows_numbers_and_properties(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    project.run("--junitxml", "out.xml")

    root = ElementTree.parse(project.pytester.path / "out.xml").getroot()
    cases = {c.get("name"): c for c in root.iter("testcase")}
    wrong = cases["sum[openai:demo]"]
    failure = wrong.find("failure")
    assert failure is not None
    assert "6" in str(failure.get("message"))
    names = {p.get("name") for p in wrong.iter("property")}
    assert {"benchrig.target", "benchrig.ttft_sec", "benchrig.verdict"} <= names


def test_a_python_test_stands_in_the_same_records(project: Project, server: Server) -> None:
    server.answers.by_text["SELECT"] = "SELECT 1"
    project.write(
        "tests/test_sql.py",
        """
import pytest

@pytest.mark.benchrig(suite="sql")
def test_right(benchrig_client, benchrig_record):
    reply = benchrig_client.generate("Write SELECT one", num_predict=16)
    benchrig_record.add_metric("length", len(reply.text))
    benchrig_record.judge(reply.text == "SELECT 1")

@pytest.mark.benchrig(suite="sql")
def test_wrong(benchrig_client, benchrig_record):
    reply = benchrig_client.generate("Write SELECT two")
    benchrig_record.judge(reply.text == "SELECT 2", "it selects one")

@pytest.mark.benchrig(suite="sql")
def test_sandbox(benchrig_target, benchrig_sandbox):
    result = benchrig_sandbox.run("def f(): return 1", ["assert f() == 1"])
    assert result.verdict == "pass"
""",
    )

    result = project.run("tests", "--benchrig-sandbox", "process")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*it selects one*", "prompt: *Write SELECT two", "answer: *SELECT 1", "measured: *TTFT*"]
    )
    run = project.results()
    by_task = {r["task_id"]: r for r in run["records"]}
    assert by_task["test_right"]["metrics"] == {"length": 8}
    assert by_task["test_right"]["ttft_sec"] > 0
    assert by_task["test_wrong"]["verdict"] == "fail"
    assert run["scorecards"][0]["sql_accuracy"] == pytest.approx(66.67, abs=0.01)


@pytest.mark.parametrize(("status", "kind"), [(404, "model_not_found"), (401, "auth")])
def test_what_no_later_item_can_mend_is_explained_once(
    project: Project, server: Server, status: int, kind: str
) -> None:
    """A model that is not there fails every item alike: three are enough to tell."""
    server.answers.status = status
    server.answers.failure = "The model `demo` does not exist or you do not have access to it."
    project.write(
        "scenarios/many.json",
        [{"id": f"say_{i}", "kind": "speed", "prompt": f"Say {i}."} for i in range(6)],
    )
    result = project.run("scenarios/many.json")
    result.assert_outcomes(errors=3, skipped=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*{kind}*", "*given up: 3 consecutive failures*"])


def test_an_unreachable_server_in_a_python_test_is_an_error(
    project: Project, server: Server
) -> None:
    project.write(
        "tests/test_sql.py", "def test_it(benchrig_client): benchrig_client.generate('hello')\n"
    )
    server.answers.status = 500

    result = project.run("tests")

    result.assert_outcomes(errors=1)


def test_benchmark_tests_are_skipped_without_a_model(project: Project) -> None:
    project.write("tests/test_sql.py", "def test_it(benchrig_client): pass\n")

    result = project.run("tests", "-rs", model="")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*add --benchrig-model*"])


def test_the_fixtures_can_be_overridden(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest

@pytest.fixture
def benchrig_generation(benchrig_generation):
    print("OVERRIDDEN", benchrig_generation.outcome)
    return benchrig_generation
""",
    )

    result = project.run("-s")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*OVERRIDDEN passed*"])


def test_a_pattern_that_runs_out_of_time_is_an_error_that_names_it(
    project: Project, server: Server
) -> None:
    project.write(
        "scenarios/reasoning.json",
        [
            {
                "id": "slow",
                "prompt": "What is two plus three?",
                "check_type": "regex",
                "expected_answer": "aaab",
                "accepted_patterns": ["^(a|a|aa)+b$"],
            }
        ],
    )
    server.answers.by_text["two plus three"] = "a" * 280 + "c"

    result = project.run()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*judging*pattern*(a|a|aa)+b*slow*reasoning.json*"])


def test_no_escape_sequence_of_a_server_reaches_the_terminal(
    project: Project, server: Server
) -> None:
    project.write(
        "tests/test_sql.py",
        "def test_it(benchrig_client, benchrig_record):\n"
        "    benchrig_record.judge(False, '\\x1b[31mred')\n",
    )

    shown = project.run("tests")
    named = project.run(model="openai:a\x1b[31mb")

    assert "\x1b[31m" not in shown.stdout.str() + named.stdout.str()


def test_a_test_that_breaks_by_itself_says_nothing_about_the_model(project: Project) -> None:
    project.write(
        "tests/test_sql.py",
        "def test_it(benchrig_client, benchrig_record):\n"
        "    benchrig_client.generate('hello')\n"
        "    benchrig_record.add_metric('x', float('nan'))\n",
    )

    result = project.run("tests")

    result.assert_outcomes(failed=1)
    run = project.results()
    assert run["records"][0]["outcome"] == "error"
    assert (
        "sql_accuracy" not in run["scorecards"][0] or run["scorecards"][0]["sql_accuracy"] is None
    )
