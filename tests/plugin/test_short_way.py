"""Set-up does the fixtures' work itself only where nobody can notice."""

from __future__ import annotations

import pytest

from tests.plugin.support import Project, Server

TELLING = """
import pytest

def pytest_runtest_call(item):
    print("WAY", item.short_way, sorted(item.funcargs), item.funcargs["benchrig_record"].task_id)
"""
GIVEN = "['benchrig_generation', 'benchrig_record', 'benchrig_target', 'request']"


def told(result: pytest.RunResult, word: str) -> list[str]:
    return [line.split(word + " ")[1] for line in result.outlines if word + " " in line]


def test_an_item_has_the_values_of_its_fixtures_on_the_short_way(project: Project) -> None:
    project.write("conftest.py", TELLING)

    result = project.run("-s")

    result.assert_outcomes(passed=2)
    assert told(result, "WAY") == [f"True {GIVEN} sum", f"True {GIVEN} capital"]


def test_a_record_is_the_same_by_either_way(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"
    project.run()
    (project.pytester.path / "results" / "latest.json").rename(project.pytester.path / "run.json")
    records = []
    for watching in ("", "def pytest_fixture_setup(fixturedef, request): pass\n"):
        project.write("conftest.py", TELLING + watching)

        result = project.run("-s", "--benchrig-replay", "run.json", model="")

        result.assert_outcomes(passed=1, failed=1)
        assert told(result, "WAY")[0] == f"{not watching} {GIVEN} sum"
        records.append(project.results()["records"])

    assert records[0] == records[1]
    assert [r["verdict"] for r in records[0]] == ["fail", "pass"]


def test_a_fixture_of_the_project_stands_in_front_of_the_request(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest

@pytest.fixture(autouse=True)
def before(request):
    print("BEFORE", request.node.originalname)

def pytest_benchrig_record(record, config):
    print("BEFORE record of", record.task_id)
""",
    )

    result = project.run("-s", "-k", "sum")

    assert told(result, "BEFORE") == ["sum", "record of sum"]
    assert "True" not in told(result, "WAY")


@pytest.mark.parametrize("name", ["benchrig_target", "benchrig_record", "benchrig_generation"])
def test_an_overridden_fixture_is_used(project: Project, name: str) -> None:
    project.write(
        "conftest.py",
        f"""
import pytest

@pytest.fixture{'(scope="session")' if name == "benchrig_target" else ""}
def {name}({name}):
    print("USED {name}")
    yield {name}
    print("ENDED {name}")
""",
    )

    result = project.run("-s", "-k", "sum")

    result.assert_outcomes(passed=1)
    assert told(result, "USED") == [name]
    assert told(result, "ENDED") == [name]


def test_fixtures_are_shown_where_that_is_asked_for(project: Project) -> None:
    result = project.run("--setup-show", "-k", "sum")

    result.stdout.fnmatch_lines(["*SETUP*benchrig_target*", "*SETUP*benchrig_generation*"])


def test_an_error_of_the_request_is_one_of_the_set_up(project: Project) -> None:
    result = project.run("--benchrig-base-url", "http://127.0.0.1:9", "-rA")

    result.assert_outcomes(errors=2)
    assert "scenario_item.py" not in result.stdout.str()


def test_no_record_is_held_while_pytest_looks_for_garbage(project: Project) -> None:
    project.run()
    (project.pytester.path / "results" / "latest.json").rename(project.pytester.path / "run.json")
    project.write(
        "conftest.py",
        """
import gc
import pytest

def held():
    gc.collect()
    return sum(type(one).__name__ == "Record" for one in gc.get_objects())

def pytest_terminal_summary():
    print("AT THE END", held())

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    print("AT LAST", held())
""",
    )

    result = project.run("-s", "--benchrig-replay", "run.json", model="")

    assert int(told(result, "AT THE END")[0]) >= 4, "two records and the two they were made from"
    assert told(result, "AT LAST") == ["0"]
