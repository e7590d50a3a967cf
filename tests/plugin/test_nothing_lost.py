"""Journal, run file, resume, replay, and reports made again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.support import Project, Server


def journals(project: Project) -> list[Path]:
    return sorted((project.pytester.path / "results" / "runs").glob("*.jsonl"))


def test_every_run_leaves_journal_run_file_and_summaries(project: Project) -> None:
    project.run("--benchrig-html", "report.html", "--benchrig-csv", "cards.csv")

    results = project.pytester.path / "results"
    lines = [json.loads(line) for line in journals(project)[0].read_text("utf-8").splitlines()]
    assert len(lines) == 3, "a header and two records"
    assert lines[1]["record"]["response"].endswith("Final answer: 5")
    run = project.results()
    assert run["schema"] == 1
    assert set(run) == {"schema", "run", "scorecards", "records"}
    assert (results / "latest.csv").read_text("utf-8") == (
        project.pytester.path / "cards.csv"
    ).read_text("utf-8")
    assert "reasoning" in (results / "LATEST_SUMMARY.md").read_text("utf-8")
    assert "<html" in (project.pytester.path / "report.html").read_text("utf-8")
    assert (results / "runs" / f"{run['run']['id']}.json").is_file()


def test_ctrl_c_loses_nothing_that_was_measured(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest

@pytest.fixture
def benchrig_generation(request, benchrig_generation):
    if "capital" in request.node.name:
        raise KeyboardInterrupt
    return benchrig_generation
""",
    )

    result = project.run("--benchrig-threshold", "reasoning_accuracy >= 0")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "reasoning_accuracy >= 0" not in result.stdout.str(), "never evaluated after Ctrl-C"
    assert project.results()["records"][0]["task_id"] == "sum"
    journal = journals(project)[0].relative_to(project.pytester.path)
    result.stdout.fnmatch_lines([f"to go on: pytest --benchrig-resume={journal}"])


def test_kill_9_leaves_a_journal_that_resumes(project: Project, server: Server) -> None:
    project.write(
        "conftest.py",
        """
import os, signal, pytest

@pytest.fixture
def benchrig_generation(request, benchrig_generation):
    if "capital" in request.node.name and os.environ.get("KILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    return benchrig_generation
""",
    )
    words = [sys.executable, "-m", "pytest", "--benchrig-model", "openai:demo"]
    words += ["--benchrig-base-url", server.url, "--benchrig-warmup-runs", "0"]
    done = subprocess.run(
        words, cwd=project.pytester.path, env={**os.environ, "KILL": "1"}, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    journal = journals(project)[0]
    with journal.open("a") as torn:
        torn.write('{"task_id": "half a li')
    asked = len(server.answers.requests)

    result = project.run("--benchrig-resume", str(journal))

    result.assert_outcomes(passed=2)
    new = [r["messages"][0]["content"] for r in server.answers.requests[asked:]]
    assert len(new) == 1
    assert "capital" in new[0]
    assert len(project.results()["records"]) == 2
    result.stdout.fnmatch_lines([f"benchrig: {journal.name}: line 3 is torn and was ignored*"])


def test_a_replay_of_a_journal_without_replies_is_a_usage_error(
    project: Project, server: Server
) -> None:
    project.run()
    journal = journals(project)[0]
    header = journal.read_text("utf-8").splitlines(keepends=True)[0]
    project.write("empty.jsonl", header)

    result = project.run("--benchrig-replay", "empty.jsonl", model="")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*empty.jsonl holds no reply that could be judged again*"])


def test_replay_judges_stored_replies_without_a_server(project: Project, server: Server) -> None:
    project.run()
    journal = journals(project)[0]
    server.close()

    same = project.run("--benchrig-replay", str(journal), model="")
    file = project.pytester.path / "scenarios/reasoning.json"
    changed = json.loads(file.read_text("utf-8"))
    changed[0]["accepted_patterns"] = ["7"]
    changed[0]["expected_answer"] = "7"
    project.write("scenarios/reasoning.json", changed)
    moved = project.run("--benchrig-replay", str(journal), model="")

    same.assert_outcomes(passed=2)
    moved.assert_outcomes(passed=1, failed=1)
    moved.stdout.fnmatch_lines(["*sum*verdict: 'pass' is now 'fail'*"])


def test_a_replay_stands_for_the_run_that_made_its_figures(
    project: Project, server: Server
) -> None:
    """Its machine and models are those of the requests, so it compares with that run."""
    project.run()
    before = project.results()["run"]
    journal = journals(project)[0]
    server.close()

    result = project.run(
        "--benchrig-replay",
        str(journal),
        f"--benchrig-compare=results/runs/{before['id']}.json",
        model="",
    )

    result.assert_outcomes(passed=2)
    after = project.results()["run"]
    assert after["replay_of"] == before["id"]
    assert after["models"] == before["models"] != {}
    assert after["fingerprint"] == before["fingerprint"]
    result.stdout.fnmatch_lines([f"replay of {before['id']}: its replies judged again*"])
    result.stdout.no_fnmatch_line("*not comparable*")


def test_a_replayed_reply_that_was_cut_off_says_after_how_many_tokens(
    project: Project, server: Server
) -> None:
    server.answers.by_text["two plus three"] = "Let me think."
    server.answers.finish_reason = "length"
    project.run()
    journal = journals(project)[0]

    project.run("--benchrig-replay", str(journal), model="")

    details = [r["detail"] for r in project.results()["records"] if r["verdict"] == "truncated"]
    assert details
    assert all(re.match(r"TRUNCATED after \d+ tokens[;:]", text) for text in details), details


def test_a_replayed_prompt_that_no_longer_matches_is_an_error(
    project: Project, server: Server
) -> None:
    project.run()
    journal = journals(project)[0]
    file = project.pytester.path / "scenarios/reasoning.json"
    changed = json.loads(file.read_text("utf-8"))
    changed[0]["prompt"] = "What is two plus four? End with one line: Final answer: <answer>"
    project.write("scenarios/reasoning.json", changed)

    result = project.run("--benchrig-replay", str(journal), model="")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no longer matches*"])


def test_reports_are_rendered_again_byte_for_byte(project: Project) -> None:
    project.run("--benchrig-html", "report.html")
    here = project.pytester.path
    again = [sys.executable, "-m", "pytest_benchrig", "report", "results/latest.json"]

    done = subprocess.run(
        [*again, "--output-dir", "again"], cwd=here, capture_output=True, text=True, check=True
    )

    pairs = {
        "again/run.json": "results/latest.json",
        "again/scorecards.csv": "results/latest.csv",
        "again/SUMMARY.md": "results/LATEST_SUMMARY.md",
        "again/report.html": "report.html",
    }
    for made, original in pairs.items():
        assert (here / made).read_bytes() == (here / original).read_bytes(), made
    assert "openai:demo" in done.stdout


def test_several_runs_become_one_comparison(project: Project, server: Server) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text("utf-8"))[0]
    project.write("scenarios/reasoning.json", [{**entry, "id": f"sum{n}"} for n in range(7)])
    project.run("--benchrig-json", "right.json")
    server.answers.by_text["two plus three"] = "Final answer: 6"
    project.run("--benchrig-json", "wrong.json")
    words = [sys.executable, "-m", "pytest_benchrig", "report"]

    done = subprocess.run(
        [*words, "right.json", "wrong.json", "--output-dir", "merged"],
        cwd=project.pytester.path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    again = subprocess.run(
        [*words, "merged/run.json", "--output-dir", "again"],
        cwd=project.pytester.path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    first, second = (project.results(name)["run"]["id"] for name in ("right.json", "wrong.json"))
    merged = project.results("merged/run.json")
    assert [card["target"] for card in merged["scorecards"]] == [
        f"openai:demo @ {first}", f"openai:demo @ {second}",
    ]  # fmt: skip
    (compared,) = merged["run"]["comparisons"]
    verdicts = {row["metric"]: row["change"] for row in compared["rows"]}
    assert (compared["baseline"], verdicts["reasoning_accuracy"]) == (first, "worse")
    assert f"{second}: machine: " in done.stdout
    assert "lost: reasoning/sum0" in done.stdout
    assert again.stdout.replace("again/", "merged/") == done.stdout
    for name in ("run.json", "SUMMARY.md", "scorecards.csv", "report.html"):
        here = project.pytester.path
        assert (here / "merged" / name).read_bytes() == (here / "again" / name).read_bytes()


def test_a_file_that_is_no_run_is_one_clear_line(project: Project) -> None:
    project.write("not-a-run.json", "[1, 2")

    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchrig", "report", "not-a-run.json"],
        cwd=project.pytester.path,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("error: not-a-run.json")
    assert len(done.stderr.splitlines()) == 1


def test_a_replay_target_answers_from_a_stored_run(project: Project, server: Server) -> None:
    project.run()
    server.close()

    result = project.run(
        "--benchrig-threshold", "reasoning_accuracy >= 100",
        model="replay:results/latest.json",
    )  # fmt: skip
    gone = project.run(model="replay:results/gone.json")

    result.assert_outcomes(passed=3)
    assert gone.ret == pytest.ExitCode.USAGE_ERROR
    gone.stderr.fnmatch_lines(["*gone.json*"])


def test_a_journal_that_cannot_be_written_loses_no_report(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest, shutil
from pathlib import Path

@pytest.fixture
def benchrig_generation(request, benchrig_generation):
    runs = Path("results/runs")
    if runs.is_dir():
        shutil.rmtree(runs)
        runs.write_text("a file where the directory was")
    return benchrig_generation
""",
    )

    result = project.run("--benchrig-json", "kept.json")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*WARNING*could not be written*"])
    kept = json.loads((project.pytester.path / "kept.json").read_text("utf-8"))
    assert len(kept["records"]) == 2


def test_a_full_disk_leaves_a_journal_that_resumes(project: Project, server: Server) -> None:
    room = "(12_000, 12_000)"
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, {room})\n"
    project.write("conftest.py", limit)

    full = project.run("-p", "no:cacheprovider")
    project.write("conftest.py", "")
    (journal,) = journals(project)
    asked = len(server.answers.requests)
    result = project.run("--benchrig-resume", str(journal))

    full.assert_outcomes(passed=2)
    assert full.ret == pytest.ExitCode.TESTS_FAILED
    full.stdout.fnmatch_lines(["*Scores:*", "*WARNING*the journal could not be written*"])
    kept = journal.read_text("utf-8").count("\n") - 1
    assert kept < 2, "the second record did not fit"
    result.assert_outcomes(passed=2)
    assert len(server.answers.requests) - asked == 2 - kept


def test_a_journal_made_under_other_conditions_is_not_continued(project: Project) -> None:
    project.run()
    journal = str(journals(project)[0])

    refused = project.run("--benchrig-resume", journal, "--benchrig-option", "temperature=1.0")
    allowed = project.run(
        "--benchrig-resume", journal, "--benchrig-option", "temperature=1.0",
        "--benchrig-allow-difference", "sampling",
    )  # fmt: skip

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(
        ["*not comparable: sampling*--benchrig-allow-difference sampling*"]
    )
    allowed.assert_outcomes(passed=2)
