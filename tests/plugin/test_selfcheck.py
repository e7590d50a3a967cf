"""``--benchrig-selfcheck``: scenario files are checked without a model."""

from __future__ import annotations

import pytest

from tests.plugin.support import Project

GOOD = {
    "id": "capital",
    "prompt": "Name the capital of France. End with one line: Final answer: <answer>",
    "check_type": "final_answer",
    "expected_answer": "Paris",
    "accepted_patterns": ["Paris"],
    "near_misses": ["Lyon"],
}


def test_sound_scenarios_pass(project: Project) -> None:
    project.write("scenarios/reasoning.json", [GOOD])

    result = project.run("--benchrig-selfcheck", model="")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*self-check*no model is asked*"])
    assert not (project.pytester.path / "results" / "latest.json").exists()


def test_a_near_miss_that_would_pass_is_a_readable_failure(project: Project) -> None:
    project.write(
        "scenarios/reasoning.json",
        [{**GOOD, "accepted_patterns": ["Paris", "Ly.n"], "near_misses": ["Lyon"]}],
    )

    result = project.run("--benchrig-selfcheck", model="")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*must fail, but the verdict is pass*Lyon*"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.timeout(300)
def test_the_bundled_scenarios_are_sound(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--benchrig-selfcheck", "-p", "no:hypothesispytest", "--pyargs", "pytest_benchrig.scenarios"
    )

    outcomes = result.parseoutcomes()
    assert result.ret == 0, result.stdout.str()[-3000:]
    assert outcomes["passed"] >= 70
    assert "failed" not in outcomes
