"""When the plugin does something, and that it does nothing otherwise."""

from __future__ import annotations

import re

import pytest

from pytest_benchrig.options import OPTIONS, ini_name
from tests.plugin.support import Project


def test_without_a_model_the_output_has_not_one_byte_more(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_passes(): pass")
    pytester.mkdir("scenarios").joinpath("reasoning.json").write_text("not even json")

    with_plugin = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q")
    without = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q", "-p", "no:benchrig")

    def lines(result: pytest.RunResult) -> list[str]:
        return [line.split(" in ")[0] for line in result.outlines]

    assert lines(with_plugin) == lines(without)
    assert with_plugin.ret == 0
    assert not (pytester.path / "results").exists()


def test_the_help_shows_every_option_and_every_setting(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--help")

    assert result.ret == 0
    shown = " ".join(result.stdout.str().split())
    for option in OPTIONS.values():
        assert ini_name(option.name) in shown
        assert not option.on_command_line or option.flag in shown
    assert "the whole 95 % interval" in shown


def test_a_model_on_the_command_line_collects_the_scenarios_instead_of_testpaths(
    project: Project,
) -> None:
    project.write("pytest.ini", "[pytest]\ntestpaths = tests\n")
    project.write("tests/test_unit.py", "def test_unit(): pass\n")

    result = project.run()

    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*test_unit*")


def test_a_model_from_the_ini_never_replaces_testpaths(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\ntestpaths = tests\nbenchrig_model = openai:demo\n")
    project.write("tests/test_unit.py", "def test_unit(): pass\n")

    project.run(model="").assert_outcomes(passed=1)
    named = project.run("scenarios", "--benchrig-warmup-runs=0", model="")

    named.assert_outcomes(passed=2)


def test_a_model_from_the_environment_serves_named_paths(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRIG_MODEL", "openai:demo")
    monkeypatch.setenv("BENCHRIG_BASE_URL", project.url)
    project.url = ""

    result = project.run("scenarios/reasoning.json", "--benchrig-warmup-runs=0", model="")

    result.assert_outcomes(passed=2)


def test_a_scenario_file_named_without_a_model_says_what_to_add(project: Project) -> None:
    result = project.run("scenarios/reasoning.json", model="")

    result.stdout.fnmatch_lines(["*reasoning.json is a scenario file*--benchrig-model*"])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_the_option_wins_over_environment_and_ini(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("pytest.ini", "[pytest]\nbenchrig_model = openai:from-ini\n")
    monkeypatch.setenv("BENCHRIG_MODEL", "openai:from-env")

    from_env = project.run("--co", "-q", "scenarios", model="")
    from_option = project.run("--co", "-q")

    from_env.stdout.fnmatch_lines(["*sum?openai:from-env?"])
    from_option.stdout.fnmatch_lines(["*sum?openai:demo?"])


def test_the_bundled_packs_are_collected_where_a_project_has_none(
    pytester: pytest.Pytester,
) -> None:
    result = pytester.runpytest_subprocess("--benchrig-model", "openai:demo", "--co", "-q")

    for name in ("speed.json::speed_", "coding.json::code_", "polish.json::pl_"):
        result.stdout.fnmatch_lines([f"*{name}*openai:demo?"])
    result.stdout.no_fnmatch_line("*tool_use.json::*")
    assert result.ret == 0


def test_other_json_of_a_project_is_left_alone(project: Project) -> None:
    project.write("package.json", {"name": "web"})
    project.write("data/scenarios.json", [1, 2, 3])

    result = project.run(".")

    result.assert_outcomes(passed=2)


def test_what_stays_is_left_out_of_the_search_for_garbage_until_the_end(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import gc

def pytest_runtest_call(item):
    print("FROZEN", gc.get_freeze_count() > 1000)

def pytest_unconfigure():
    print("FROZEN", gc.get_freeze_count() > 0)
""",
    )

    result = project.run("-s", "-k", "sum")

    assert re.findall(r"FROZEN (True|False)", result.stdout.str()) == ["True", "False"]


def test_a_session_without_a_model_leaves_the_collector_alone(project: Project) -> None:
    project.write(
        "test_plain.py", "import gc\ndef test_it():\n    assert gc.get_freeze_count() == 0\n"
    )

    project.run("test_plain.py", model="").assert_outcomes(passed=1)
