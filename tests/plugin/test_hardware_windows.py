"""The hardware window of each request, from the options to the run file."""

from __future__ import annotations

import pytest

from tests.plugin.support import Project


def test_each_request_has_a_window_that_covers_it(project: Project) -> None:
    project.run().assert_outcomes(passed=2)
    records = project.results()["records"]
    measured = [record for record in records if record["phase"] == "measured"]
    assert len(measured) == 2
    for record in measured:
        window = record["hardware"]
        assert window["duration_sec"] >= record["total_time_sec"]
        assert window["sample_count"] >= 2
        assert window["interval_sec"] == 0.15
        assert window["rss_coverage"] == "client_and_server"
        assert window["peak_rss_mb"] > 0


@pytest.mark.parametrize("wanted", ["false", "true"])
def test_samples_are_in_the_run_file_only_when_asked_for(project: Project, wanted: str) -> None:
    project.run("-o", f"benchrig_keep_samples={wanted}", "-k", "sum").assert_outcomes(passed=1)
    window = project.results()["records"][-1]["hardware"]
    times = [sample["t"] for sample in window.get("samples", ())]
    assert bool(times) == (wanted == "true")
    if times:
        assert times == sorted(times)
        assert min(times) <= 0.0
        assert max(times) == pytest.approx(window["duration_sec"], abs=1e-5)


def test_a_test_can_open_windows_with_the_sampler(project: Project) -> None:
    project.write(
        "test_own.py",
        """
import os

from pytest_benchrig.hardware.serving import find_serving

def test_window(benchrig_sampler):
    assert benchrig_sampler.interval_sec == 0.05
    with benchrig_sampler.window(find_serving("", os.getpid())) as window:
        pass
    assert window.report.peak_rss_mb > 0
""",
    )
    result = project.run("-o", "benchrig_sample_interval=0.05", "test_own.py")
    result.assert_outcomes(passed=1)


def test_a_warm_up_is_watched_too_as_it_tells_the_cold_start(project: Project) -> None:
    project.run("--benchrig-warmup-runs", "1", "-k", "sum").assert_outcomes(passed=1)
    warm_up = project.results()["records"][0]
    assert warm_up["phase"] == "warmup"
    assert warm_up["hardware"]["sample_count"] >= 2
    assert ("disturbed" in warm_up["flags"]) == bool(warm_up["disturbed"])
