"""Run hostile code at a level, and see what a whole machine looks like before and after."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.sandbox.isolation import LEVELS, choose
from pytest_benchrig.sandbox.judge import job_of
from pytest_benchrig.sandbox.launch import Launcher, Limits, Outcome, Program, Unavailable

CONTAINED = tuple(name for name in LEVELS if name != "process")
TOKEN = "token-of-this-run"


def launcher(level: str) -> Launcher:
    """The launcher of a level; the test is skipped, with the reason, where there is none."""
    found = choose(level)
    if isinstance(found, Unavailable):
        pytest.skip(f"level {level} does not work here: {found.reason}; {found.remedy}")
    return found


@dataclass(frozen=True)
class Ran:
    """One program that was run."""

    outcome: Outcome
    passed: list[bool]

    @property
    def said(self) -> str:
        return self.outcome.stdout.decode("utf-8", "replace")


def run(level: str, source: str, *assertions: str, **limits: Any) -> Ran:
    """Run a program with its assertions, and with these limits."""
    return run_on(launcher(level), source, *assertions, **limits)


def run_on(chosen: Launcher, source: str, *assertions: str, **limits: Any) -> Ran:
    """The same with a launcher."""
    program = Program(
        job_of(TOKEN, source, assertions or ("assert f() == 1",), ["f"], site_packages=False),
        Limits(**limits),
    )
    outcome = chosen.run(program)
    assert not outcome.setup_error, outcome.setup_error
    events = [json.loads(line) for line in outcome.reports.splitlines()]
    return Ran(outcome, [event["passed"] for event in events if event["event"] == "assertion"])


def marked(mark: str) -> list[int]:
    """The processes that hold a text in their command line or environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ", "comm"):
            try:
                text = (entry / name).read_bytes()
            except OSError:
                continue
            if mark.encode() in text:
                found.append(int(entry.name))
                break
    return found


def descendants(pid: int) -> set[int]:
    """The processes below a process, adopted ones included."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text("latin-1").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    more = {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return found
