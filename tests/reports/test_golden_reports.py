"""Every report of the stored run, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchrig.core.runfile import load_run
from pytest_benchrig.reports import json as json_report
from tests.reports import golden

RUN = (golden.DATA / "run.json").read_text("utf-8")
NAMES = sorted(p.name for p in golden.DATA.iterdir() if p.name != "run.json")


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_the_stored_one_to_the_byte(name: str) -> None:
    made = golden.rendered(load_run(RUN))[name]
    stored = (golden.DATA / name).read_bytes().decode("utf-8")
    assert made == stored, "if this is meant: python -m tests.reports.golden, and read the diff"


def test_every_report_has_a_stored_one() -> None:
    assert sorted(golden.rendered(load_run(RUN))) == NAMES


def test_the_run_file_renders_to_itself() -> None:
    assert json_report.render(load_run(RUN)) == RUN


def test_a_run_just_measured_and_the_same_from_its_file_give_the_same_reports() -> None:
    run = golden.build()
    assert golden.rendered(run) == golden.rendered(load_run(run.dumps()))


def test_no_report_holds_a_path_of_this_machine() -> None:
    here = str(Path(__file__).resolve().parents[2])
    assert not [n for n, text in golden.rendered(load_run(RUN)).items() if here in text]
