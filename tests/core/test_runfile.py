"""Run files and journals: what is written loads, what is damaged is said, nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core import runfile
from pytest_benchrig.core.journal import header_line, load_journal, record_line
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.record_text import RecordText
from pytest_benchrig.core.runfile import (
    RunFile,
    latest_attempts,
    load_run,
    merge_runs,
    with_decisions,
)
from tests.core.run_support import TARGET, card, code, reply, run_of, speed

STORED = Path(__file__).parents[1] / "data" / "runs"
HOSTILE = '\u2028\u2029\x85\x00\x1b[31m\ud800"\\\r\n\x0b\x0c</script>,=1'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3)
    ),
    max_leaves=8,
)


def journal(*records: Record, **header: Any) -> str:
    """A journal's text."""
    return header_line({"id": "j1", **header}) + "".join(record_line(r) for r in records)


def test_a_run_file_comes_back_as_it_was() -> None:
    run = run_of([code("a", 1, 2, response=HOSTILE), speed(), reply("s", "sql", passed=True)])
    again = load_run(run.dumps())
    assert again == run
    assert again.dumps() == run.dumps()


def test_a_run_file_has_one_line_per_record() -> None:
    text = run_of([reply(f"r{i}", passed=True, response=HOSTILE) for i in range(5)]).dumps()
    assert sum('"task_id"' in line and '"response"' in line for line in text.split("\n")) == 5
    assert text.isascii()


@pytest.mark.parametrize("at_a_time", [0, 3000, 10**6])
def test_a_run_file_is_read_in_parts(monkeypatch: pytest.MonkeyPatch, at_a_time: int) -> None:
    monkeypatch.setattr(runfile, "_AT_A_TIME", at_a_time)
    run = run_of([reply(f"r{i}", passed=True, response='},\n"records": [\n') for i in range(9)])
    assert load_run(run.dumps()) == run
    assert load_run(RunFile({"id": "x"}).dumps()).records == ()


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_a_run_file_may_be_laid_out_otherwise(indent: int | None) -> None:
    run = run_of([reply(f"r{i}", passed=True, notes=["n", "m"]) for i in range(3)])
    assert load_run(json.dumps(json.loads(run.dumps()), indent=indent) + "\n") == run
    assert load_run(run.dumps().replace("\n", "\r\n")) == run


def test_a_faulty_record_is_named_by_its_place() -> None:
    text = run_of([reply(f"r{i}", passed=True) for i in range(3)]).dumps()
    faulty = text.replace('"passed": true', '"passed": "yes"').replace('"yes"', "true", 1)
    with pytest.raises(ValueError, match=r"records\[1\]: passed: expected bool or null"):
        load_run(faulty)


def test_the_top_level_is_that_of_the_format() -> None:
    data = json.loads(run_of([speed()]).dumps())
    assert list(data) == ["schema", "run", "scorecards", "records"]
    assert data["schema"] == 1


@given(
    st.text(),
    st.dictionaries(st.text(), json_values, max_size=4),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_any_record_survives_journal_and_run_file(
    text: str, options: dict[str, Any], number: float
) -> None:
    record = reply("r", response=text, options=options, ttft_sec=number, hardware=options)
    assert load_journal(journal(record)).records == (record,)
    assert record_line(record).count("\n") == 1
    assert load_run(RunFile({"id": text}, records=(record,)).dumps()).records == (record,)


@given(st.text(), st.dictionaries(st.text(), json_values, max_size=4), st.floats() | st.integers())
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_record_is_written_as_json_writes_it(
    separators: tuple[str, str], text: str, options: dict[str, Any], number: float
) -> None:
    values = [*options.values()]
    for record in (
        reply("r", response=text + HOSTILE, options=options, ttft_sec=number, tool_calls=values),
        reply("r", passed=number > 0, notes=[text], metrics={"nan": number, "none": None}),
    ):
        expected = json.dumps(record.to_json(), ensure_ascii=True, separators=separators)
        assert RecordText(*separators).write(record) == expected


def test_every_field_of_a_record_survives() -> None:
    record = reply("r", notes=["n"], flags=["f"], turns=[{"index": 0}], unmeasured={"a": "b"})
    assert Record.from_json(json.loads(record_line(record))["record"]) == record


def test_a_record_with_a_changed_field_is_another_record() -> None:
    record = reply("r", passed=True, notes=["n"])
    changed = record.replace(passed=False, detail="why")
    assert (record.passed, record.detail) == (True, "")
    assert changed == dataclasses.replace(record, passed=False, detail="why")
    with pytest.raises(TypeError, match="a record has no field 'pased'"):
        record.replace(pased=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.passed = True  # type: ignore[misc]


def test_a_records_json_may_have_its_fields_in_any_order_and_unknown_ones() -> None:
    record = reply("r", passed=True)
    data = dict(sorted(record.to_json().items()))
    assert Record.from_json({**data, "from_tomorrow": 1}) == record


@pytest.mark.parametrize("path", sorted(STORED.glob("*")), ids=lambda p: p.name)
def test_stored_runs_of_every_format_version_load(path: Path) -> None:
    run = load_run(path.read_text("utf-8"))
    assert run.scorecards[0].target == TARGET
    assert run.scorecards[0].total_runs >= 1
    assert any(record.task_id == "code_flatten" for record in run.records)


# journals


def test_a_journal_becomes_a_run_with_its_scorecards() -> None:
    options = {"composite_weights": {"coding": 1.0, "reasoning": 0.0, "performance": 0.0}}
    run = load_run(journal(code("a", 1, 2), reply("r", passed=True), speed(), options=options))
    assert run.run["id"] == "j1"
    assert run.scorecards[0].coding_pass_rate == 50.0
    assert run.scorecards[0].composite_score == 50.0


def test_a_torn_last_line_is_ignored_with_a_warning() -> None:
    text = journal(reply("a", passed=True), reply("b", passed=True))
    for cut in range(len(text) - 2, len(text) - 200, -7):
        run = load_run(text[:cut])
        assert [r.task_id for r in run.records] == ["a"]
        assert run.warnings == ("line 3 is torn and was ignored (the run was cut off)",)


@given(st.data())
def test_a_journal_cut_anywhere_keeps_every_whole_line(data: st.DataObject) -> None:
    records = [reply(f"r{i}", passed=True, response="x\n") for i in range(3)]
    text = journal(*records)
    first = text.index("\n") + 1
    cut = data.draw(st.integers(first, len(text)))
    whole = text[:cut].count("\n") - 1
    found = load_journal(text[:cut])
    assert found.records[:whole] == tuple(records[:whole])
    assert len(found.records) - whole in (0, 1)


def test_damage_in_the_middle_costs_that_line_alone_and_is_said() -> None:
    text = journal(*(reply(name, passed=True) for name in "abc")).split("\n")
    text[2] = text[2][:50] + "\0\0"
    found = load_journal("\n".join(text))
    assert [r.task_id for r in found.records] == ["a", "c"]
    assert found.warnings == ("line 3 is damaged and was ignored: its record is lost",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("{torn", "line 1: not JSON"),
        ("[1]\n{}\n", "line 1: expected an object, found list"),
        ('{"a": 1}\n{}\n', "line 1: expected a record; this is no benchrig journal"),
        ('{"record": {"task_id": "x"}}\n', "line 1: not a benchrig record"),
        ('{"benchrig_journal": 2, "run": {}}\n', "journal format 2; this version reads 1"),
    ],
)
def test_what_is_no_journal(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_journal(text)


def test_a_journal_cut_in_its_header_loads_as_one_without_records() -> None:
    text = journal(reply("a", passed=True))
    found = load_run(text[:30])
    assert found.records == ()
    assert "the header, is torn" in found.warnings[0]


def test_a_journal_without_its_header_loads_with_a_warning() -> None:
    found = load_run(record_line(reply("a", passed=True)))
    assert [r.task_id for r in found.records] == ["a"]
    assert "no header" in found.warnings[0]


def test_a_resumed_journal_has_a_second_header() -> None:
    text = journal(reply("a", passed=True)) + journal(reply("b", passed=True), id="j2")
    assert [r.task_id for r in load_journal(text).records] == ["a", "b"]


# run files that are none


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a run file or journal"),
        ("{", "not a run file or journal"),
        ("[]", 'expected an object with "schema"'),
        ("{}", 'expected an object with "schema"'),
        ("null", 'expected an object with "schema"'),
        ('{"schema": 2}', "format 2 is newer than this version, which reads up to 1; upgrade"),
        ('{"schema": 0}', "format 0 is unknown"),
        ('{"schema": true}', "format True is unknown"),
        ('{"schema": "1"}', "format '1' is unknown"),
        ('{"schema": 1}', '"run" is missing or of the wrong type'),
        ('{"schema": 1, "run": {}, "scorecards": []}', '"records" is missing'),
        ('{"schema": 1, "run": {}, "scorecards": [], "records": [3]}', r"records\[0\]: expected"),
        (
            '{"schema": 1, "run": {}, "scorecards": [], "records": [{}]}',
            r"records\[0\]: not a benchrig record",
        ),
        (
            '{"schema": 1, "run": {}, "scorecards": [{}], "records": []}',
            r"scorecards\[0\]: not a scorecard",
        ),
        (
            '{"schema": 1, "run": {}, "scorecards": [{"target": "a", "ci95": {"x": 3}}], '
            '"records": []}',
            r"scorecards\[0\]: ci95.x: expected two numbers, found 3",
        ),
        ('{"schema": 1, "run": ' + "[" * 100_000, "not a run file"),
    ],
)
def test_what_is_no_run_file(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_run(text)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ttft_sec", "fast", "ttft_sec: expected int or float or null, found 'fast'"),
        ("completion_tokens", 1.5, "completion_tokens: expected int or null, found 1.5"),
        ("flags", "x", "flags: expected list, found 'x'"),
        ("hardware", [], "hardware: expected dict, found a list"),
        ("outcome", None, "outcome: expected str, found null"),
        ("task_id", 7, "task_id: expected str, found 7"),
        ("passed", "yes", "passed: expected bool or null, found 'yes'"),
        ("ttft_sec", math.nan, "ttft_sec: expected a finite number, found nan"),
        ("eval_tok_per_sec", math.inf, "eval_tok_per_sec: expected a finite number, found inf"),
        ("total_time_sec", -1.5, "total_time_sec: expected no less than 0, found -1.5"),
    ],
)
def test_a_record_with_a_wrong_type_is_said(field: str, value: object, message: str) -> None:
    data = run_of([speed()]).to_json()
    data["records"][0][field] = value
    with pytest.raises(ValueError, match=re.escape(f"records[0]: {message}")):
        load_run(json.dumps(data))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("coding_pass_rate", "80", "coding_pass_rate: expected a number or null, found '80'"),
        ("tool_task_success", {"passed": 1}, "tool_task_success: expected"),
        ("sql_accuracy", True, "sql_accuracy: expected a number or null"),
        ("eval_tok_sec_floored", 1, "eval_tok_sec_floored: expected true, false or null"),
        ("spread", [], ""),
        ("suites", {"speed": 3}, "suites.speed: expected an object, found 3"),
        ("scenarios", [{"suite": "a"}], "scenarios[0]: expected suite, task_id"),
        ("scenarios", {"a": 1}, "scenarios: expected a list, found an object"),
        ("pass_at_k", {"1": {}}, "pass_at_k.1: expected pass_at_k and pass_hat_k"),
    ],
)
def test_a_scorecard_with_a_wrong_type_is_said(field: str, value: object, message: str) -> None:
    data = run_of([speed()]).to_json()
    data["scorecards"][0][field] = value
    if not message:
        assert load_run(json.dumps(data)).scorecards[0].spread == {}
        return
    with pytest.raises(ValueError, match=re.escape(f"scorecards[0]: {message}")):
        load_run(json.dumps(data))


def test_fields_of_a_later_version_are_ignored() -> None:
    data = run_of([speed()]).to_json()
    data["records"][0]["brand_new"] = 1
    data["scorecards"][0]["brand_new"] = 1
    data["extra"] = {}
    assert load_run(json.dumps(data)).records == (speed(),)


def test_a_byte_order_mark_does_no_harm() -> None:
    assert load_run("\ufeff" + run_of([speed()]).dumps()).records == (speed(),)


# attempts, decisions, merging


def test_of_a_rerun_item_the_last_attempt_counts() -> None:
    records = [
        reply("a", passed=False),
        reply("a", passed=True, attempt=2),
        reply("b", passed=True),
        speed(phase="warmup"),
    ]
    kept = latest_attempts(records)
    assert [(r.task_id, r.attempt) for r in kept] == [("a", 2), ("b", 1), ("speed_raw", 1)]


def test_decisions_are_kept_in_the_run_block() -> None:
    run = with_decisions(run_of([speed()]), [{"held": True}], [{"rows": []}])
    again = load_run(run.dumps())
    assert again.run["thresholds"] == [{"held": True}]
    assert again.run["comparisons"] == [{"rows": []}]


def test_merged_runs_stand_side_by_side() -> None:
    first, second = run_of([speed()], id="monday"), run_of([speed(90.0)], id="tuesday")
    other = run_of([speed(target="vllm:m")], id="other")
    merged = merge_runs([first, second, other])
    assert [c.target for c in merged.scorecards] == [
        f"{TARGET} @ monday",
        f"{TARGET} @ tuesday",
        "vllm:m",
    ]
    assert [r.target for r in merged.records] == [c.target for c in merged.scorecards]
    same = merge_runs([first, first])
    assert len({c.target for c in same.scorecards}) == 2
    with pytest.raises(ValueError, match="no run to merge"):
        merge_runs([])


def test_a_scorecard_of_the_file_is_kept_as_it_is() -> None:
    run = run_of([speed()])
    assert load_run(run.dumps()).scorecards == (card([speed()]),)
