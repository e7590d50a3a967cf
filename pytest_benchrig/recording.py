"""The records of one item while it runs: what ``benchrig_record`` gives."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core import assemble
from pytest_benchrig.core.generation import JsonValue, RuntimeFault, Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.core.verdict import VerdictKind
from pytest_benchrig.execution import ItemResult, now
from pytest_benchrig.reports.escape import plain

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.client import Measured

ITEM_RECORD = pytest.StashKey["ItemRecord"]()


class MissedAnswer(Exception):  # noqa: N818 - an outcome, not an error
    """A wrong answer while thresholds are given; becomes the outcome ``missed``."""


class ItemRecord:
    """Collects the records of one item.

    A plain test sets ``verdict`` through :meth:`judge` and its own numbers through
    :meth:`add_metric`.

    Attributes:
        scenario: The scenario of the item, ``None`` in a plain Python test.
        target: Who is asked.
        result: What a scenario's runs came to, ``None`` until they are done.
    """

    def __init__(
        self,
        active: Active,
        item: pytest.Item,
        target: Target,
        scenario: Scenario | None,
        suite: str,
        task_id: str,
    ) -> None:
        self._active = active
        self._item = item
        self.target = target
        self.scenario = scenario
        self.suite = suite
        self.task_id = task_id
        self.result: ItemResult | None = None
        self._observed: list[Record] = []
        self._verdict: VerdictKind | None = None
        self._detail = ""
        self._metrics: dict[str, JsonValue] = {}

    # the part for authors of plain tests

    def judge(self, passed: bool, detail: str = "") -> None:
        """Set the verdict of a plain test; a wrong answer then fails the test by itself.

        Judged several times, a test passes only when every one of its answers was right: what
        failed once stays failed, with the reason given first.

        Args:
            passed: Whether the model's answer was right.
            detail: Why, for a reader of the failure.
        """
        if self.scenario is not None:
            raise RuntimeError(f"{self.task_id} is judged by its own scenario")
        if self._verdict == "fail":
            return
        self._verdict = "pass" if passed else "fail"
        self._detail = detail

    def add_metric(self, name: str, value: float | int | bool | str) -> None:
        """Keep a number of the author's own in the record.

        Raises:
            ValueError: The name is not a plain identifier, or the value is infinite or NaN.
            TypeError: The value is not a number, a bool or a string.
        """
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"metric name {name!r}: expected letters, digits and underscores")
        if not isinstance(value, bool | int | float | str):
            raise TypeError(f"metric {name}: expected a number, a bool or a string, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"metric {name}: {value} is no number that JSON has")
        self._metrics[name] = value

    # the part for the plugin

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Record each request that a plain test makes through its client."""
        try:
            client = self._active.client(self.target)
        except RuntimeFault:
            yield
            return
        with client.observed(self._observe):
            yield

    def _observe(self, measured: Measured) -> None:
        from pytest_benchrig.core.timing import timings_of
        from pytest_benchrig.execution import with_window

        generation = measured.generation
        split = self._active.parser.split(generation.text, generation.thinking)
        last = measured.request.messages[-1]
        record = self._begin().replace(prompt=last.content, run_index=len(self._observed))
        record = assemble.with_generation(
            record, generation, split, timings_of(generation, measured.request)
        )
        self._observed.append(with_window(record, measured))

    def execute(self) -> ItemResult:
        """Run the scenario; an infrastructure's fault is an error of the set-up."""
        from pytest_benchrig.runs import run_scenario

        if self.scenario is None:
            raise RuntimeError(f"{self.task_id} has no scenario")
        self.result = run_scenario(self._active, self.scenario, self.target, self._item)
        if self.result.skipped:
            pytest.skip(self.result.skipped)
        if self.result.fault is not None:
            pytest.fail(plain(str(self.result.fault)), pytrace=False)
        return self.result

    def raise_verdict(self) -> None:
        """In the call phase: fail the test if the verdict says so."""
        if self.result is not None:
            if self.result.outcome == "failed":
                self._fail(self.result.message)
        elif self._verdict not in (None, "pass"):
            from pytest_benchrig.explain import plain_test_text

            headline = self._detail or f"the verdict of this test is {self._verdict}"
            self._fail(plain_test_text(self.target, headline, self._observed))

    def _fail(self, text: str) -> None:
        message = plain(text)
        settings = self._active.settings
        if settings.thresholds and settings.missed == "missed":
            raise MissedAnswer(message)
        pytest.fail(message, pytrace=False)

    def _begin(self) -> Record:
        return Record(
            task_id=self.task_id,
            suite=self.suite,
            kind="answer",
            target=str(self.target),
            runtime=self.target.runtime,
            model=self.target.model,
            started_at=now(),
            worker=self._active.worker,
        )

    def finish(
        self, *, failed_call: str = "", error: str = "", skipped: str = ""
    ) -> tuple[Record, ...]:
        """The finished records.

        Args:
            failed_call: The message of a plain assertion that failed.
            error: What went wrong outside the model's answer.
            skipped: Why the item was skipped.
        """
        if self.result is not None and (self.result.records or self.result.outcome != "error"):
            records = self.result.records
            if not records and self.result.skipped:
                return (self._empty().replace(outcome="skipped", detail=self.result.skipped),)
            return records
        last = self._observed[-1] if self._observed else self._empty()
        if error:
            last = last.replace(outcome="error", error=error, error_kind="harness")
        elif skipped:
            last = last.replace(outcome="skipped", detail=skipped)
        else:
            verdict = self._verdict or ("fail" if failed_call else None)
            passed = None if verdict is None else verdict == "pass" and not failed_call
            if passed is None and self.scenario is None:
                verdict, passed = "pass", True
            last = last.replace(
                verdict="fail" if passed is False else verdict,
                passed=passed,
                correct=passed,
                outcome="failed" if passed is False else "passed",
                detail=self._detail or failed_call,
                rule="the test's own verdict",
            )
        if self._metrics:
            last = last.replace(metrics=dict(self._metrics))
        return (*self._observed[:-1], last)

    def _empty(self) -> Record:
        if self.scenario is None:
            return self._begin()
        return assemble.begin(
            self.scenario, self.target, run_index=0, digest="", started_at=now()
        ).replace(worker=self._active.worker)


def item_record(item: pytest.Item, active: Active, target: Target) -> ItemRecord:
    """The item's record collector, made once per attempt."""
    from pytest_benchrig.collection import scenario_of

    if ITEM_RECORD not in item.stash:
        scenario = scenario_of(item)
        suite, task = plain_identity(item) if scenario is None else (scenario.suite, scenario.id)
        item.stash[ITEM_RECORD] = ItemRecord(active, item, target, scenario, suite, task)
    return item.stash[ITEM_RECORD]


def plain_identity(item: pytest.Item) -> tuple[str, str]:
    """Suite and task id of a plain test: the mark's suite, else the file's name; never the node id.

    Parameters other than the target are part of the task's id.
    """
    suite = item.path.stem.removeprefix("test_")
    for mark in item.iter_markers("benchrig"):
        if mark.kwargs.get("suite"):
            suite = str(mark.kwargs["suite"])
            break
    name = getattr(item, "originalname", None) or item.name
    cls = getattr(item, "cls", None)
    if cls is not None:
        name = f"{cls.__name__}.{name}"
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        others = [str(v) for k, v in sorted(callspec.params.items()) if k != "benchrig_target"]
        if others:
            name += f"[{'-'.join(others)}]"
    return suite, name
