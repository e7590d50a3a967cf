"""Workers change nothing but the time it takes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from pytest_benchrig.carrying import Carrier, FinishedRecord
from pytest_benchrig.core.journal import record_line
from pytest_benchrig.core.record import Record
from tests.plugin.support import Project, Server

TIMINGS = (
    "disturbed",
    "floored",
    "concurrent",
    "samples",
    "unmeasured",
    "ttft",
    "tok_sec",
    "rss",
    "power",
    "joule",
    "cold_start",
    "ci95",
    "spread",
    "suites",
)


def without_timings(scorecard: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in scorecard.items() if not any(word in k for word in TIMINGS)}
    kept["scenarios"] = [{**s, "timings": None} for s in scorecard["scenarios"]]
    return kept


def test_scorecards_equal_those_of_a_sequential_run(project: Project, server: Server) -> None:
    server.answers.by_text["two plus three"] = "Final answer: 6"

    alone = project.run("--benchrig-runs", "2")
    first = project.results()["scorecards"]
    spread = project.run("--benchrig-runs", "2", workers=2)
    second = project.results()["scorecards"]

    alone.assert_outcomes(passed=1, failed=1)
    spread.assert_outcomes(passed=1, failed=1)
    for one, other in zip(first, second, strict=True):
        assert without_timings(one) == without_timings(other)


HOSTILE = "\u2028\x00\x1b[31m żółć"
FILLED = {
    "str": HOSTILE,
    "int": 2**40,
    "float": 1.5e-300,
    "bool": True,
    "list[str]": [HOSTILE],
    "list[JsonValue]": [{"a": [1, None, {"b": False}]}],
    "dict[str, JsonValue]": {"a": [1.5, None, {"b": HOSTILE}]},
    "dict[str, str]": {HOSTILE: "x"},
    "Kind": "coding",
    "Phase": "warmup",
    "Outcome": "missed",
    "VerdictKind": "tampered",
}


def test_every_field_of_a_record_travels_from_worker_to_controller() -> None:
    from execnet.gateway_base import dumps, loads

    filled: Any = {
        spec.name: FILLED[str(spec.type).removesuffix(" | None")]
        for spec in dataclasses.fields(Record)
    }
    record = Record(**filled)

    sent = Carrier().pack([FinishedRecord.of(record)], {"models": {HOSTILE: {"digest": "x"}}})
    arrived = loads(dumps(sent))

    assert [finished.record for finished in Carrier().unpack(arrived)] == [record]
    assert set(arrived["records"][0]) == set(filled), "a field that stays behind would be lost"


def test_a_controller_that_runs_the_items_keeps_what_a_worker_would_send() -> None:
    record = Record(
        task_id="a",
        suite="s",
        kind="answer",
        target="t",
        runtime="r",
        model="m",
        response="half \ud83d of it, and \U0001f600, and \\ud83d",
        metrics={"half \ud83d": ["\udc00"]},
    )
    carrier = Carrier()
    sent = carrier.pack([FinishedRecord.of(record)], {})

    alone, remote = carrier.unpack(sent), Carrier().unpack(json.loads(json.dumps(sent)))

    assert alone == remote
    assert alone[0].record.response == "half \ufffd of it, and \U0001f600, and \\ud83d"
    assert alone[0].record.metrics == {"half \ufffd": ["\ufffd"]}
    assert alone[0].line == record_line(alone[0].record)


@pytest.mark.parametrize("workers", [0, 2], ids=["alone", "xdist"])
def test_half_a_character_in_a_reply_kills_no_worker(
    project: Project, server: Server, workers: int
) -> None:
    server.answers.by_text["two plus three"] = "half \ud83d of it\nFinal answer: 5"

    project.run(workers=workers).assert_outcomes(passed=2)

    records = {r["task_id"]: r for r in project.results()["records"]}
    assert records["sum"]["response"] == "half \ufffd of it\nFinal answer: 5"


def test_workers_collect_the_scenario_directories_too(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\ntestpaths = tests\n")
    project.write("tests/test_unit.py", "def test_unit(): pass\n")

    project.run(workers=2).assert_outcomes(passed=2)


def test_a_crashed_worker_leaves_an_error_record(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import os, pytest, signal

@pytest.fixture
def benchrig_generation(request, benchrig_generation):
    if "sum" in request.node.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return benchrig_generation
""",
    )

    result = project.run(workers=2)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    records = {r["task_id"]: r for r in project.results()["records"]}
    assert records["sum"]["outcome"] == "error"
    assert records["sum"]["error_kind"] == "worker_crash"
    assert records["capital"]["outcome"] == "passed"


def test_records_measured_side_by_side_are_marked_concurrent(project: Project) -> None:
    entries = [
        {
            "id": f"sum{i}",
            "prompt": f"({i}) What is two plus three? End with one line: Final answer: <answer>",
            "check_type": "final_answer",
            "expected_answer": "5",
            "accepted_patterns": ["5"],
        }
        for i in range(12)
    ]
    project.write("scenarios/reasoning.json", entries)

    project.run(workers=2).assert_outcomes(passed=12)

    run = project.results()
    for record in run["records"]:
        assert record["concurrent"] == ("concurrent" in record["flags"])
