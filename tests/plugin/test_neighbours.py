"""Other plugins and pytest's own options work on scenarios as on any test."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.plugin.support import Project, Server


def test_lf_runs_only_what_failed(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"
    project.run().assert_outcomes(passed=1, failed=1)

    again = project.run("--lf")

    again.assert_outcomes(failed=1)


@pytest.mark.parametrize("option", ["--ff", "--nf", "--sw", "--durations=3", "-vv", "-q"])
def test_pytests_options(project: Project, option: str) -> None:
    project.run(option).assert_outcomes(passed=2)


def test_x_stops_at_the_first_failure(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run("-x")

    result.assert_outcomes(failed=1)
    assert len(project.results()["records"]) == 1


@pytest.mark.parametrize("plugin", ["cacheprovider", "xdist", "timeout", "junitxml", "terminal"])
def test_a_plugin_may_be_missing(project: Project, plugin: str) -> None:
    result = project.run("-p", f"no:{plugin}")

    assert result.ret == 0
    assert len(project.results()["records"]) == 2


def test_every_rerun_is_a_record_and_the_last_one_decides(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    result = project.run("--reruns", "2", "-k", "sum", "--junitxml=out.xml")

    assert result.parseoutcomes()["rerun"] == 2
    run = project.results()
    assert [r["attempt"] for r in run["records"]] == [1, 2, 3]
    assert run["scorecards"][0]["total_runs"] == 1
    root = ElementTree.parse(project.pytester.path / "out.xml").getroot()
    for case in root.iter("testcase"):
        names = [p.get("name") for p in case.iter("property")]
        assert len(names) == len(set(names))


def test_the_users_timeout_wins_and_leaves_a_record(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest, threading

@pytest.fixture
def benchrig_generation(request):
    threading.Event().wait(30)
""",
    )

    result = project.run("--timeout", "1", "-k", "sum")

    result.assert_outcomes(errors=1)
    record = project.results()["records"][0]
    assert record["outcome"] == "error"
    assert "imeout" in record["error"]


def test_an_item_carries_a_last_resort_timeout(project: Project) -> None:
    project.write(
        "conftest.py",
        """
def pytest_collection_finish(session):
    for item in session.items:
        print("LIMIT", item.get_closest_marker("timeout").args[0] > 600)
""",
    )

    result = project.run("--co", "-q", "-s")

    result.stdout.fnmatch_lines(["LIMIT True"])


def test_co_contacts_nothing_and_writes_nothing(project: Project, server: Server) -> None:
    result = project.run("--co")

    assert result.ret == 0
    assert server.answers.requests == []
    assert not (project.pytester.path / "results").exists()
