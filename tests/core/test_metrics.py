"""The registry of metrics."""

from __future__ import annotations

import pytest

from pytest_benchrig.core.metrics import METRICS, metric_of, suite_accuracy, with_suites


def test_every_metric_says_what_it_means() -> None:
    for metric in METRICS.values():
        assert metric.meaning.endswith("."), metric.name
        assert metric.title, metric.name
        assert metric.source, metric.name


def test_titles_do_not_repeat() -> None:
    titles = [metric.title for metric in METRICS.values()]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("coding_pass_rate", 98.04, "98.0%"),
        ("avg_ttft_sec", 0.1234, "0.123 s"),
        ("avg_eval_tok_sec", 85.26, "85.3 tok/s"),
        ("composite_score", 73.44, "73.4"),
        ("tool_task_success", {"passed": 3, "of": 4}, "3/4 (75.0%)"),
        ("tool_task_success", {"passed": 0, "of": 0}, "n/a"),
        ("truncated_runs", 0, "0"),
        ("eval_tok_sec_floored", False, "no"),
        ("peak_vram_mb", None, "n/a"),
        ("rss_coverage", "", "n/a"),
        ("context_spill_at", "not observed", "not observed"),
        ("context_spill_at", 4096, "4096"),
    ],
)
def test_a_value_as_people_read_it(name: str, value: object, shown: str) -> None:
    assert metric_of(name).show(value) == shown


def test_a_ratio_counts_as_a_percentage() -> None:
    assert metric_of("tool_task_success").number({"passed": 1, "of": 4}) == 25.0
    assert metric_of("tool_task_success").number({"passed": 0, "of": 0}) is None
    assert metric_of("eval_tok_sec_floored").number(True) is None


def test_user_suites_have_a_metric_of_their_own() -> None:
    assert metric_of("sql_accuracy") == suite_accuracy("sql")
    assert [m.name for m in with_suites(["b", "a", "b"])][-2:] == ["a_accuracy", "b_accuracy"]


@pytest.mark.parametrize("name", ["coding", "_accuracy", ""])
def test_an_unknown_name_is_no_metric(name: str) -> None:
    with pytest.raises(KeyError):
        metric_of(name)
