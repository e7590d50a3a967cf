"""Several endpoints of one target: each item holds its own, and one that dies is taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.support import Project, Server

LOCKS = """
import contextlib, json, os
from pytest_benchrig.coordination import Coordination

held = []

@contextlib.contextmanager
def endpoint(self, url, *, exclusive):
    held.append((url, exclusive))
    try:
        yield
    finally:
        held.remove((url, exclusive))

Coordination.endpoint = endpoint

def pytest_runtest_logreport(report):
    for record in getattr(report, "benchrig", {}).get("records", ()):
        print("HELD", json.dumps([record["endpoint"], held]))
"""


def held_locks(result: pytest.RunResult) -> list[list[Any]]:
    """Per record its endpoint, and the locks that were held when it was made."""
    lines = [line.partition("HELD ")[2] for line in result.outlines if "HELD " in line]
    return [json.loads(line) for line in lines]


@pytest.fixture
def both(project: Project, server: Server, second_server: Server) -> list[str]:
    second_server.answers.by_text = dict(server.answers.by_text)
    urls = (second_server.url, server.url)
    return [word for url in urls for word in ("--benchrig-base-url", url)]


def test_the_lock_held_is_that_of_the_endpoint_asked(project: Project, both: list[str]) -> None:
    project.write("conftest.py", LOCKS)

    result = project.run(*both, "-s", "--benchrig-runs", "2")

    found = held_locks(result)
    assert len({endpoint for endpoint, _ in found}) == 2
    assert len(found) == 4
    for endpoint, locks in found:
        assert locks == [[endpoint, False]], "all runs of an item at the endpoint it holds"


def test_where_an_endpoint_died_the_lock_of_the_other_is_taken_too(
    project: Project, both: list[str], server: Server, second_server: Server
) -> None:
    speed = [{"id": "quick", "kind": "speed", "prompt": "Count."}]
    project.write("scenarios/speed.json", speed)
    project.write("conftest.py", LOCKS)
    second_server.close()

    result = project.run(*both, "-s", "--benchrig-suite", "speed")

    result.assert_outcomes(passed=1)
    assert held_locks(result) == [[server.url, [[server.url, True]]]]


def test_an_endpoint_that_dies_in_the_middle_is_taken_out_and_the_report_says_so(
    project: Project, both: list[str], server: Server, second_server: Server
) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text("utf-8"))[0]
    project.write("scenarios/reasoning.json", [{**entry, "id": f"sum{n}"} for n in range(6)])
    second_server.answers.requests_left = 1

    result = project.run(*both, "--benchrig-warmup-runs", "1")

    result.assert_outcomes(passed=6)
    run = project.results()
    dead = second_server.url
    assert list(run["run"]["given_up"]) == [dead]
    assert {r["endpoint"] for r in run["records"] if r["phase"] == "measured"} >= {server.url}
    result.stdout.fnmatch_lines([f"{dead} was given up: *"])
    summary = (project.pytester.path / "results/LATEST_SUMMARY.md").read_text("utf-8")
    assert "was given up" in summary
    warmed = {r["endpoint"] for r in run["records"] if r["phase"] == "warmup"}
    assert warmed == {server.url, dead}, "every endpoint is warmed up before it is measured"


def test_with_workers_the_endpoints_are_shared_and_a_dead_one_is_known_to_all(
    project: Project, both: list[str], server: Server, second_server: Server
) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text("utf-8"))[0]
    project.write("scenarios/reasoning.json", [{**entry, "id": f"sum{n}"} for n in range(6)])
    second_server.close()

    result = project.run(*both, workers=2)

    result.assert_outcomes(passed=6)
    assert {r["endpoint"] for r in project.results()["records"]} == {server.url}
    assert list(project.results()["run"]["given_up"]) == [second_server.url]


def test_interleaving_skips_what_was_given_up(project: Project, server: Server) -> None:
    server.answers.status = 401

    result = project.run(
        "--benchrig-interleave", "-o", "benchrig_breaker_failures=1",
        model="openai:demo,openai:other",
    )  # fmt: skip

    result.assert_outcomes(errors=2, skipped=2)
    result.stdout.fnmatch_lines(["*was given up*"])


def test_interleaved_failures_count_only_while_they_are_consecutive(
    project: Project, server: Server
) -> None:
    entry = json.loads((project.pytester.path / "scenarios/reasoning.json").read_text("utf-8"))[0]
    names = [f"sum{n}" for n in range(4)]
    project.write(
        "scenarios/reasoning.json",
        [{**entry, "id": name, "prompt": f"{name}: {entry['prompt']}"} for name in names],
    )
    server.answers.refused = ("sum0", "sum2")

    result = project.run(
        "--benchrig-interleave", "-o", "benchrig_breaker_failures=2",
        model="openai:demo,openai:other",
    )  # fmt: skip

    result.assert_outcomes(errors=4, passed=4)
