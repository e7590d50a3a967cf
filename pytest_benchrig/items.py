"""Hooks around items, in whatever process runs them: parametrization, order, locks, reports."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.active import Active
from pytest_benchrig.carrying import FinishedRecord
from pytest_benchrig.collection import ScenarioFile, scenario_of
from pytest_benchrig.core.entries import mark_finding
from pytest_benchrig.core.generation import RuntimeFault, Target
from pytest_benchrig.core.request import TIMING_KINDS
from pytest_benchrig.recording import (
    ITEM_RECORD,
    MissedAnswer,
    item_record,
    plain_identity,
)
from pytest_benchrig.reports.escape import plain
from pytest_benchrig.settings import BUNDLED_SUITES, OPT_IN_SUITES

ATTEMPT = pytest.StashKey[int]()
PHASES = pytest.StashKey[dict[str, pytest.TestReport]]()
REPORT_ATTRIBUTE = "benchrig"
OUTCOME_ATTRIBUTE = "benchrig_outcome"
AUTHORS_ATTRIBUTE = "benchrig_authors_error"
_SUITE_ORDER = {name: i for i, name in enumerate((*BUNDLED_SUITES, "", *OPT_IN_SUITES))}


def target_of(item: pytest.Item) -> Target | None:
    """The target an item is parametrized with."""
    callspec = getattr(item, "callspec", None)
    value = callspec.params.get("benchrig_target") if callspec is not None else None
    return value if isinstance(value, Target) else None


class Items:
    """Everything that happens to an item."""

    def __init__(self, active: Active) -> None:
        self._active = active

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        if file_path.suffix == ".json" and file_path in self._active.files:
            return ScenarioFile.create(parent, file_path, self._active.load)
        return None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "benchrig_target" in metafunc.fixturenames:
            targets = self._active.targets
            metafunc.parametrize(
                "benchrig_target",
                targets,
                indirect=True,
                scope="session",
                ids=[str(t) for t in targets],
            )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self._check_marks(items)
        suites = [self._suite_of(item) for item in items]
        present = {suite for suite in suites if suite is not None}
        self._check_suites(present)
        wanted = {None, *(suite for suite in present if self._active.wants_suite(suite))}
        kept = [pair for pair in zip(items, suites, strict=True) if pair[1] in wanted]
        dropped = [item for item, suite in zip(items, suites, strict=True) if suite not in wanted]
        places = {target: place for place, target in enumerate(self._active.targets)}
        kept.sort(key=lambda pair: self._order(pair[0], pair[1], places))
        items[:] = [item for item, _ in kept]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        self._check_duplicates(items)
        limit = _TimeLimit(self._active)
        if limit.wanted:
            for item in items:
                limit.apply(item)

    def _suite_of(self, item: pytest.Item) -> str | None:
        scenario = scenario_of(item)
        if scenario is not None:
            return scenario.suite
        return plain_identity(item)[0] if target_of(item) is not None else None

    def _check_suites(self, present: set[str]) -> None:
        from pytest_benchrig.core.threshold_grammar import parse_threshold

        known = self._active.known_suites() | present | {"all"}
        for name in self._active.settings.suites:
            if name not in known:
                raise unknown_suite(name, known)
        for text in self._active.settings.thresholds:
            try:
                parse_threshold(text, known_suites=known - {"all"})
            except ValueError as problem:
                raise pytest.UsageError(f"--benchrig-threshold: {problem}") from None

    def _check_marks(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("benchrig"):
                unknown = sorted(set(mark.kwargs) - {"suite", "timing"})
                if unknown or mark.args:
                    said = ", ".join([*map(repr, mark.args), *unknown])
                    raise pytest.UsageError(
                        f"{item.nodeid}: the mark benchrig takes suite= and timing=, not {said}"
                    )
                fault = mark_finding(
                    mark.kwargs.get("suite", ""), "suite", self._active.foreign_marks
                )
                if fault is not None:
                    raise pytest.UsageError(
                        f"{item.nodeid}: the suite of its mark benchrig: {fault.message}; "
                        f"{fault.hint}"
                    )

    def _check_duplicates(self, items: list[pytest.Item]) -> None:
        seen: dict[tuple[str, str, str], pytest.Item] = {}
        for item in items:
            scenario = scenario_of(item)
            if scenario is None:
                if target_of(item) is not None:
                    suite, name = plain_identity(item)
                    other = seen.setdefault((suite, name, str(target_of(item))), item)
                    if other is not item:
                        raise pytest.UsageError(
                            f"{item.nodeid} and {other.nodeid} are both {name!r} of suite "
                            f"{suite!r}: rename one or give it another suite, results are kept by "
                            "suite and name"
                        )
                continue
            key = (scenario.suite, scenario.id, str(target_of(item)))
            other = seen.setdefault(key, item)
            if other is not item:
                first = scenario_of(other)
                place = f"{first.path}:{first.line}" if first else other.nodeid
                raise pytest.UsageError(
                    f"{scenario.path}:{scenario.line}: the scenario id {scenario.id!r} of suite "
                    f"{scenario.suite!r} stands also at {place}: rename one, results are kept by "
                    "suite and id"
                )

    def _order(
        self, item: pytest.Item, suite: str | None, places: Mapping[Target, int]
    ) -> tuple[int, int, str]:
        target = target_of(item)
        if target is None or suite is None:
            return (-1, 0, "")
        rank = _SUITE_ORDER.get(suite, _SUITE_ORDER[""])
        place = 0 if self._active.settings.interleave else places.get(target, 0)
        return (place, rank, suite)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Waiting for the endpoint and loading the model stay outside every timer."""
        target = target_of(item)
        if target is None or self._active.selfcheck or self._active.replays(target):
            return (yield)
        broken = self._active.coordination.broken(str(target))
        if not broken:
            self._active.prepare(target)
        with contextlib.ExitStack() as stack:
            client = self._active.connected(target)
            if client is not None and not broken:
                stack.enter_context(client.at_next_endpoint(exclusive=needs_exclusive(item)))
                self._active.warm_up(client)
            result = yield
            if client is not None and not broken and _leaves_window(item, nextitem):
                with contextlib.suppress(RuntimeFault):
                    client.window(None)
            return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        yield
        record = item.stash.get(ITEM_RECORD, None)
        if record is not None and record.scenario is None:
            record.raise_verdict()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if target_of(item) is None:
            return report
        if call.when == "setup":
            item.stash[ATTEMPT] = item.stash.get(ATTEMPT, 0) + 1
            item.stash[PHASES] = {}
        self._translate(item, call, report)
        item.stash[PHASES][call.when] = report
        if call.when == "teardown":
            self._attach(item, report)
        return report

    def _translate(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        if call.excinfo is None:
            return
        problem = call.excinfo.value
        if isinstance(problem, MissedAnswer):
            report.outcome = "skipped"
            path, line = item.reportinfo()[:2]
            report.longrepr = (str(path), (line or 0) + 1, f"MISSED: {problem}")
            setattr(report, OUTCOME_ATTRIBUTE, "missed")
        elif call.when == "call" and not isinstance(
            problem, AssertionError | pytest.fail.Exception | pytest.skip.Exception
        ):
            setattr(report, AUTHORS_ATTRIBUTE, True)
            if not isinstance(problem, RuntimeFault):
                return
        if isinstance(problem, RuntimeFault):
            report.longrepr = plain(str(problem))
            if call.when == "call":
                # The infrastructure failed, not the test: pytest reports that as an error.
                report.when = "setup"

    def _attach(self, item: pytest.Item, report: pytest.TestReport) -> None:
        phases = item.stash[PHASES]
        del item.stash[PHASES]
        setup, called = phases.get("setup"), phases.get("call")
        record = item.stash.get(ITEM_RECORD, None)
        target = target_of(item)
        if record is None and target is not None:
            record = item_record(item, self._active, target)
        if record is None:
            return
        error = next(
            (
                str(p.longrepr)
                for p in (setup, called, report)
                if p and p.failed and p.when != "call"
            ),
            "",
        )
        failed = str(called.longrepr) if called and called.failed and called.when == "call" else ""
        if failed and getattr(called, AUTHORS_ATTRIBUTE, False):
            # The test itself broke: that says nothing about the model's answer.
            error, failed = _last_line(failed), ""
        skipped = next((_reason(p) for p in (setup, called) if p and _plainly_skipped(p)), "")
        missed = called is not None and getattr(called, OUTCOME_ATTRIBUTE, "") == "missed"
        records = record.finish(failed_call=_last_line(failed), error=error, skipped=skipped)
        attempt = item.stash[ATTEMPT]
        carried = [FinishedRecord.of(warm) for warm in self._active.take_warmups()]
        for entry in records:
            outcome = "missed" if missed and entry.outcome == "failed" else entry.outcome
            entry = entry.replace(attempt=attempt, nodeid=item.nodeid, outcome=outcome)
            carried.append(FinishedRecord.of(entry))
        facts = self._active.facts_to_report()
        setattr(report, REPORT_ATTRIBUTE, self._active.carrier.pack(carried, facts))
        if self._active.settings.junit_properties:
            from pytest_benchrig.junit import properties

            kept = [p for p in report.user_properties if not str(p[0]).startswith("benchrig.")]
            report.user_properties = [*kept, *properties(records)]
        del item.stash[ITEM_RECORD]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """The scenarios, and what an earlier run recorded, are there until the end.

        Each search for garbage takes the longer the more there is to search, so what stays is left
        out of it: first these, then the items. With 10,000 that is a quarter of what the plugin
        costs.
        """
        gc.freeze()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        gc.freeze()

    def pytest_sessionfinish(self) -> None:
        gc.unfreeze()
        self._active.close()


def needs_exclusive(item: pytest.Item) -> bool:
    """Timings have the endpoint to themselves; answers share it."""
    scenario = scenario_of(item)
    if scenario is not None:
        return scenario.kind in TIMING_KINDS
    return any(mark.kwargs.get("timing") for mark in item.iter_markers("benchrig"))


def _leaves_window(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    scenario = scenario_of(item)
    if scenario is None or scenario.kind != "context":
        return False
    following = scenario_of(nextitem) if nextitem is not None else None
    same_target = nextitem is not None and target_of(nextitem) == target_of(item)
    return following is None or following.kind != "context" or not same_target


def unknown_suite(name: str, known: frozenset[str] | set[str]) -> pytest.UsageError:
    """The usage error for a suite nobody has."""
    import difflib

    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return pytest.UsageError(
        f"--benchrig-suite: unknown suite {name!r}{hint}. Known here: {', '.join(sorted(known))}"
    )


class _TimeLimit:
    """The last resort of pytest-timeout; the user's own limit wins."""

    MARGIN_SEC = 120.0

    def __init__(self, active: Active) -> None:
        self._active = active

    @property
    def wanted(self) -> bool:
        """Whether pytest-timeout is there and the user set no limit for all tests."""
        config = self._active.config
        return (
            config.pluginmanager.hasplugin("timeout")
            and config.getoption("timeout", None) is None
            and config.getini("timeout") in (None, "", "0")
        )

    def apply(self, item: pytest.Item) -> None:
        """Give the item a limit that fires only when every deadline of ours has failed."""
        scenario = scenario_of(item)
        if scenario is None or item.get_closest_marker("timeout") is not None:
            return
        settings = self._active.settings
        request = scenario.timeout or settings.request_timeout
        turns = len(getattr(scenario.spec, "turns", ())) or 1
        sandbox = 3 * getattr(scenario.spec, "execution_timeout", 0.0)
        # Three bounded waits for a busy server can stand in front of each request.
        waits = 3 * 60.0
        runs = settings.runs_max * max(1, len(self._active.targets) if settings.interleave else 1)
        seconds = runs * (turns * (request + waits) + sandbox) + self.MARGIN_SEC
        item.add_marker(pytest.mark.timeout(seconds))


def _plainly_skipped(report: pytest.TestReport) -> bool:
    return report.skipped and not getattr(report, OUTCOME_ATTRIBUTE, "")


def _reason(report: pytest.TestReport) -> str:
    longrepr: Any = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("E ")]
    return lines[0][1:].strip() if lines else text.strip()[-300:]
