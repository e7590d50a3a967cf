"""The plugin's own engine dies in mid-session: one item is an error, the next has a new engine."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.plugin.support import Project

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None,
        reason="the extra 'embedded' is not installed",
    ),
    pytest.mark.timeout(300),
]
MODEL = "embedded:smollm2-135m"
SMALL = ("-o", "benchrig_embedded_context=1024")
KILLER = """
import os, signal
from pytest_benchrig.active import ACTIVE
from pytest_benchrig.runtimes.transport import Connection

collect = Connection.collect
state = {"item": "", "reads": 0}

def deadly(connection, backlog, tails, until_ns, room):
    room = collect(connection, backlog, (b"no read ends so",), until_ns, room)
    if "deadly" in state["item"] and b'"content":"' in backlog[-1][0]:
        state["reads"] += 1
        if state["reads"] == 3:
            os.kill(state["pid"], signal.SIGKILL)
    return room

Connection.collect = deadly

def pytest_runtest_setup(item):
    pid = item.config.stash[ACTIVE].engines["embedded:smollm2-135m"].pid
    state.update(item=item.name, reads=0, pid=pid)
"""


def item(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "kind": "speed",
        "prompt": f"Tell a long story about {name}.",
        "options": {"num_predict": 200 if "deadly" in name else 8, "temperature": 0.0},
    }


@pytest.fixture
def deadly(project: Project) -> Project:
    """A project whose engine is killed in each item that is named deadly."""
    project.url = ""
    project.write("scenarios/reasoning.json", "[]")
    project.write("conftest.py", KILLER)
    return project


def run(project: Project, *names: str, workers: int) -> tuple[pytest.RunResult, dict[str, Any]]:
    scenarios = {"suite": "tales", "scenarios": [item(name) for name in names]}
    project.write("scenarios/tales.json", scenarios)
    result = project.run(*SMALL, model=MODEL, workers=workers)
    return result, {r["task_id"]: r for r in project.results()["records"]}


@pytest.mark.parametrize("workers", [0, 1], ids=["alone", "xdist"])
def test_the_next_item_gets_a_new_engine(deadly: Project, workers: int) -> None:
    result, records = run(deadly, "a", "b_deadly", "c", workers=workers)

    result.assert_outcomes(passed=2, errors=1)
    died = records["b_deadly"]
    assert (died["outcome"], died["error_kind"]) == ("error", "broken_stream")
    assert "the embedded engine died" in died["error"]
    assert ".log" in died["error"]
    assert died["response"], "what had come is kept"
    assert "engine_restarted" not in records["a"]["flags"]
    assert "engine_restarted" in records["c"]["flags"]
    assert any("died 1 of at most 2 times" in note for note in records["c"]["notes"])
    assert records["c"]["endpoint"] != records["a"]["endpoint"]
    result.stdout.fnmatch_lines(["flag engine_restarted: 1 record (*"])


@pytest.mark.parametrize("workers", [0, 1], ids=["alone", "xdist"])
def test_an_engine_that_keeps_dying_is_given_up(deadly: Project, workers: int) -> None:
    names = ("a_deadly", "b_deadly", "c_deadly", "d")
    result, records = run(deadly, *names, workers=workers)

    result.assert_outcomes(errors=4)
    errors = [records[name]["error"] for name in names]
    assert all("the embedded engine died" in error for error in errors)
    assert ["the next item gets a new one" in error for error in errors] == [
        True,
        True,
        False,
        False,
    ]
    assert records["d"]["error_kind"] == "start"
    assert "died 3 times in this session" in records["d"]["error"]


def test_a_plain_test_goes_on_with_the_client_it_has(deadly: Project) -> None:
    deadly.write(
        "test_plain.py",
        """
import pytest

@pytest.mark.parametrize("name", ["a", "deadly", "c"])
def test_story(benchrig_client, name):
    tokens = 200 if name == "deadly" else 8
    assert benchrig_client.generate("Tell a story.", num_predict=tokens).text
""",
    )

    result = deadly.run(*SMALL, "test_plain.py", model=MODEL)

    result.assert_outcomes(passed=2, errors=1)
