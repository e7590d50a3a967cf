"""The session: records in; scorecards, thresholds, files and summary out (controller only)."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from pytest_benchrig import log
from pytest_benchrig.active import ACTIVE, Active
from pytest_benchrig.coordination import Coordination
from pytest_benchrig.core.record import Record
from pytest_benchrig.items import OUTCOME_ATTRIBUTE, REPORT_ATTRIBUTE, Items
from pytest_benchrig.settings import Settings
from pytest_benchrig.usage import check_early_suites, check_usage, only_scenarios

if TYPE_CHECKING:
    from pytest_benchrig.core.runfile import RunFile

_SEARCHED_AT_MOST = 1000
"""So many records, and the reports beside them, are part of a search for garbage."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def activate(config: pytest.Config, settings: Settings) -> None:
    """Register what an active session needs, in its controller or in one of its workers.

    Raises:
        pytest.UsageError: A setting that can be checked before collection is wrong.
    """
    log.configure(settings.log_level)
    worker = str(getattr(config, "workerinput", {}).get("workerid", ""))
    active = Active(config, settings, run_id=new_run_id(), worker=worker)
    config.stash[ACTIVE] = active
    register_runtimes(config)
    if is_worker(config):
        data = config.workerinput["benchrig"]  # type: ignore[attr-defined]
        active.from_controller(data)
        active.coordination = Coordination(Path(data["directory"]), worker)
        choose_arguments(active)
    else:
        choose_arguments(active)
        name_suites(active)
        check_usage(active)
        config.pluginmanager.register(Controller(active), "benchrig-controller")
        if config.pluginmanager.hasplugin("xdist"):
            config.pluginmanager.register(Xdist(active), "benchrig-xdist")
    for path in active.scenario_paths():
        active.load(path)
    if not is_worker(config):
        check_early_suites(active)
    config.pluginmanager.register(Items(active), "benchrig-items")


def new_run_id() -> str:
    """UTC time to the second and six random digits: sortable and unique."""
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{secrets.token_hex(3)}"


def register_runtimes(config: pytest.Config) -> None:
    """Runtimes that other plugins offer."""
    offered = config.hook.pytest_benchrig_register_runtimes(config=config)
    if any(offered):
        from pytest_benchrig.runtimes.registry import register

        for runtimes in offered:
            for name, factory in (runtimes or {}).items():
                register(name, factory)


def choose_arguments(active: Active) -> None:
    """Without a path argument the scenario directories are collected instead of ``testpaths``."""
    config = active.config
    if config.args_source != pytest.Config.ArgsSource.ARGS and (
        active.settings.asked_on_command_line
    ):
        config.args[:] = [str(path) for path in active.directories]
        config.args_source = pytest.Config.ArgsSource.ARGS


def name_suites(active: Active) -> None:
    """A file named on the command line names its suites, the opt-in ones too."""
    active.named_suites = frozenset(
        scenario.suite
        for path in active.named_files
        if path.is_file() and path in active.files
        for scenario in active.load(path).scenarios
    )


class Controller:
    """Collects every record of the session and turns them into decisions."""

    def __init__(self, active: Active) -> None:
        self._active = active
        self.records: list[Record] = []
        self.run: RunFile | None = None
        self._journal: TextIO | None = None
        self._journal_problem = ""
        self._missed: dict[str, str] = {}
        self._threshold_results: list[Any] = []
        self._comparisons: list[Any] = []
        self._files: list[Path] = []
        self._problems: list[str] = []
        self._directory: Path | None = None
        self._annotations: list[str] = []

    # start

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        from pytest_benchrig.resolve import resolve_targets

        active = self._active
        active.targets = resolve_targets(active)
        known = {str(t) for t in active.targets}
        self._check_threshold_targets(known)
        if active.settings.compare_targets:
            from pytest_benchrig.comparing import check_compared_targets

            check_compared_targets(active)
        if active.settings.resume is not None:
            from pytest_benchrig.replaying import refuse_other_fingerprint

            refuse_other_fingerprint(active)
        if active.config.option.collectonly:
            return
        if self._workers():
            self._directory = Path(tempfile.mkdtemp(prefix="benchrig-session-"))
            active.coordination = Coordination(self._directory, "controller")
            if not active.selfcheck and active.settings.replay is None:
                for target in active.targets:
                    if target.runtime == "embedded":
                        active.start_shared(target)

    def _workers(self) -> bool:
        return self._active.config.pluginmanager.hasplugin("dsession")

    def _check_threshold_targets(self, known: set[str]) -> None:
        from pytest_benchrig.core.thresholds import parse_threshold

        for text in self._active.settings.thresholds:
            try:
                parse_threshold(
                    text,
                    known_targets=sorted(known),
                    known_suites=(
                        sorted(self._active.known_suites())
                        if only_scenarios(self._active)
                        else None
                    ),
                )
            except ValueError as problem:
                raise pytest.UsageError(f"--benchrig-threshold: {problem}") from None

    def worker_data(self) -> dict[str, Any]:
        """What a worker is told."""
        return {**self._active.to_worker(), "directory": str(self._directory)}

    def pytest_report_header(self) -> list[str]:
        from pytest_benchrig.summary import header

        return header(self._active)

    # records in

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        if getattr(report, OUTCOME_ATTRIBUTE, "") == "missed":
            longrepr: Any = report.longrepr
            self._missed[report.nodeid] = str(longrepr[2])
        data = getattr(report, REPORT_ATTRIBUTE, None)
        if not data:
            return (yield)
        self._active.learn(data)
        for finished in self._active.carrier.unpack(data):
            self._keep(finished.record, finished.line)
        yield
        # pytest keeps the reports to the end: not with a second copy of every record.
        delattr(report, REPORT_ATTRIBUTE)

    def _keep(self, record: Record, line: str) -> None:
        self.records.append(record)
        if not len(self.records) % _SEARCHED_AT_MOST:
            # It stays until the end, as pytest's reports do: see Items.
            gc.freeze()
        self._active.config.hook.pytest_benchrig_record(record=record, config=self._active.config)
        try:
            journal = self._open_journal()
            journal.write(line)
            journal.flush()
        except OSError as problem:
            # The run goes on: what was measured is still in memory and in the reports.
            if not self._journal_problem:
                self._journal_problem = f"the journal could not be written: {problem}"
                log.event("journal.failed", 40, problem=str(problem))

    def _open_journal(self) -> TextIO:
        if self._journal is None:
            from pytest_benchrig.core.journal import header_line
            from pytest_benchrig.environment import run_header

            path = self.journal_path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._journal = path.open("a", encoding="utf-8")
            self._journal.write(header_line(run_header(self._active)))
        return self._journal

    @property
    def journal_path(self) -> Path:
        """Where this run's journal lies."""
        active = self._active
        return active.settings.output_dir / "runs" / f"{active.run_id}.jsonl"

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        if getattr(report, OUTCOME_ATTRIBUTE, "") == "missed":
            return "missed", "m", ("MISSED", {"yellow": True})
        return None

    # decisions

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        if not (session.config.option.collectonly or self._active.selfcheck):
            from pytest_benchrig.environment import run_header

            # Reading the machine takes a while: not between a reply and its journal line.
            run_header(self._active)
        try:
            result = yield
        except (session.Failed, session.Interrupted):
            self._decide(session)
            raise
        self._decide(session)
        return result

    def _decide(self, session: pytest.Session) -> None:
        if session.config.option.collectonly or self._active.selfcheck:
            return
        from pytest_benchrig.deciding import decide
        from pytest_benchrig.gates import report_results

        if not self.records and not self._active.settings.thresholds:
            return
        decision = decide(self._active, self.records)
        self.run = decision.run
        self._threshold_results = list(decision.thresholds)
        self._comparisons = list(decision.comparisons)
        for scorecard in decision.run.scorecards:
            session.config.hook.pytest_benchrig_scorecard(
                scorecard=scorecard, config=session.config
            )
        report_results(session, decision.thresholds)

    # files and summary

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        self._write()
        if self._problems and session.exitstatus == pytest.ExitCode.OK:
            # A result that was asked for and is not there must not look like success.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield
        self._remember_missed()
        self._mark_junit()
        self._active.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self) -> None:
        if self._journal is not None:
            with contextlib.suppress(OSError):
                self._journal.close()
        if not self.records or self._active.selfcheck:
            return
        from pytest_benchrig.deciding import decide
        from pytest_benchrig.writing import write_reports

        if self.run is None:
            self.run = decide(self._active, self.records, interrupted=True).run
        self._files, self._problems = write_reports(self._active, self.run, self._comparisons)
        if self._journal_problem:
            self._problems.append(self._journal_problem)
        self._tell_github(self.run)

    def _tell_github(self, run: RunFile) -> None:
        """Step summary and annotations, when run in a GitHub workflow."""
        if os.environ.get("GITHUB_ACTIONS") != "true":
            return
        from pytest_benchrig.reports.github import annotate, step_summary

        locations = [
            (s.suite, s.id, s.path, s.line)
            for loaded in self._active.loaded_files()
            for s in loaded.scenarios
        ]
        self._annotations = annotate(run, locations=locations)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            try:
                with Path(summary).open("a", encoding="utf-8") as file:
                    file.write(step_summary(run))
            except OSError as problem:
                self._problems.append(f"the step summary could not be written: {problem}")

    def _remember_missed(self) -> None:
        """Missed answers are run again by ``--lf``, like failures."""
        cache = getattr(self._active.config, "cache", None)
        if not self._missed or cache is None:
            return
        remembered = dict(cache.get("cache/lastfailed", {}))
        remembered.update(dict.fromkeys(self._missed, True))
        cache.set("cache/lastfailed", remembered)

    def _mark_junit(self) -> None:
        xml = getattr(self._active.config.option, "xmlpath", None)
        if self._missed and xml:
            from pytest_benchrig.junit import mark_missed

            path = Path(os.path.expandvars(Path(xml).expanduser()))
            if path.is_file():
                mark_missed(path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_benchrig.summary import write_summary

        write_summary(
            terminalreporter,
            self._active,
            self.run,
            thresholds=self._threshold_results,
            comparisons=self._comparisons,
            missed=self._missed,
            files=self._files,
            problems=self._problems,
        )
        for line in self._annotations:
            terminalreporter.write_line(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Let go of all records: pytest and Python now look through what is held for garbage.

        They do so several times, which takes longer than to free the records of a large run.
        """
        self.records.clear()
        self.run = None
        self._comparisons.clear()
        self._active.forget_records()


class Xdist:
    """Hooks that exist only while xdist distributes."""

    def __init__(self, active: Active) -> None:
        self._active = active

    def pytest_configure_node(self, node: Any) -> None:
        controller: Any = self._active.config.pluginmanager.get_plugin("benchrig-controller")
        node.workerinput["benchrig"] = controller.worker_data()

    @pytest.hookimpl(tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """The controller writes the record that a crashed worker could not."""
        from pytest_benchrig.crashes import crash_record

        record = crash_record(self._active, crashitem, str(report.longrepr))
        if record is not None:
            setattr(report, REPORT_ATTRIBUTE, {"records": [record.to_json()]})


__all__: Sequence[str] = ["Controller", "Xdist", "activate", "is_worker"]
