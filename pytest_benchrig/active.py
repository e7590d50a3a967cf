"""What one process of an active session knows: settings, targets, scenario files, resources."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_benchrig import log
from pytest_benchrig.baselining import session_baseline
from pytest_benchrig.carrying import Carrier
from pytest_benchrig.client import TargetClient
from pytest_benchrig.collection import ScenarioFiles, scenario_directories
from pytest_benchrig.comparing import read_run
from pytest_benchrig.coordination import Coordination
from pytest_benchrig.core.generation import JsonValue, Runtime, RuntimeFault, Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.request import RequestSettings, parse_option, sampling_of
from pytest_benchrig.core.scenario import AnswerSpec, Scenario
from pytest_benchrig.core.thinking import ReasoningParser
from pytest_benchrig.engines import EngineInfo, EngineKeeper, living, start_engine
from pytest_benchrig.execution import ItemResult, now, trip_breaker
from pytest_benchrig.replaying import EarlierRun, replay_source
from pytest_benchrig.scenario_io import LoadedFile, load_file
from pytest_benchrig.settings import BUNDLED_SUITES, OPT_IN_SUITES, SELFCHECK, Settings
from pytest_benchrig.warmup import warm_up

if TYPE_CHECKING:
    from pytest_benchrig.core.runfile import RunFile
    from pytest_benchrig.hardware.sampler import Sampler
    from pytest_benchrig.sandbox.runner import SandboxRunner

ACTIVE = pytest.StashKey["Active"]()


@dataclass
class Active:
    """The state of one process of an active session.

    Mutable on purpose: it owns the clients, the sandbox and the sampler, and closes them.
    """

    config: pytest.Config
    settings: Settings
    run_id: str
    worker: str
    targets: tuple[Target, ...] = ()
    engines: dict[str, EngineInfo] = field(default_factory=dict)
    coordination: Coordination = field(default_factory=lambda: Coordination(None, ""))
    carrier: Carrier = field(default_factory=Carrier)
    named_suites: frozenset[str] = frozenset()
    baseline: dict[str, Any] | None = None
    _loaded: dict[Path, LoadedFile] = field(default_factory=dict)
    _clients: dict[str, TargetClient] = field(default_factory=dict)
    _failures: dict[str, RuntimeFault] = field(default_factory=dict)
    _started: list[EngineInfo] = field(default_factory=list)
    _closers: list[Callable[[], None]] = field(default_factory=list)
    requests_made: int = 0
    started_at: str = field(default_factory=now)
    reported_level: str = ""
    _warm: set[tuple[str, str]] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _replayed: dict[str, tuple[EarlierRun, str]] = field(default_factory=dict)

    @cached_property
    def request_settings(self) -> RequestSettings:
        """The user's decisions about requests, free of pytest."""
        settings = self.settings
        override = {"auto": None, "on": True, "off": False}[settings.think]
        return RequestSettings(
            defaults=settings.sampling.sampling,
            options=sampling_of(dict(parse_option(word) for word in settings.options)),
            think_override=override,
            think_per_suite=settings.think_per_suite,
            thinking_models=settings.thinking_models,
            thinking_token_multiplier=settings.thinking_token_multiplier,
            request_timeout=settings.request_timeout,
            stall_timeout=settings.stall_timeout,
        )

    @cached_property
    def directories(self) -> tuple[Path, ...]:
        """The scenario directories (or files) in force."""
        return scenario_directories(self.settings.scenarios, self.config.rootpath)

    def display(self, path: Path) -> str:
        """A path as short as it can be said."""
        base = self.config.invocation_params.dir
        return str(path.relative_to(base)) if base in path.parents else str(path)

    @cached_property
    def named_files(self) -> tuple[Path, ...]:
        """JSON files named on the command line."""
        base = self.config.invocation_params.dir
        paths = (str(arg).split("::")[0] for arg in self.config.args)
        return tuple(Path(os.path.normpath(base / p)) for p in paths if p.endswith(".json"))

    @property
    def nothing_named(self) -> bool:
        """A model from ini or environment, and neither path nor ``testpaths`` names scenarios."""
        source = self.config.args_source
        return (
            source == pytest.Config.ArgsSource.INVOCATION_DIR
            and not self.settings.asked_on_command_line
        )

    @cached_property
    def files(self) -> ScenarioFiles:
        """Which JSON files are scenario files."""
        if self.nothing_named:
            return ScenarioFiles((), (), (), self.config.rootpath)
        globs = self.config.getini("benchrig_files") or ["scenarios/**/*.json"]
        return ScenarioFiles(self.directories, self.named_files, globs, self.config.rootpath)

    def load(self, path: Path) -> LoadedFile:
        """Load a scenario file once and register its suites and tags as marks."""
        if path not in self._loaded:
            loaded = load_file(
                path,
                self.config.rootpath,
                existing_marks=self.foreign_marks,
                check_types=tuple(self.extra_checks),
            )
            self._loaded[path] = loaded
            names = {s.suite for s in loaded.scenarios} | {
                tag for s in loaded.scenarios for tag in s.tags
            }
            for name in sorted(names - self._own_marks):
                self.config.addinivalue_line(
                    "markers", f"{name}: benchmark scenarios with this suite or tag"
                )
            self._own_marks |= names
            for scenario in loaded.scenarios:
                self._report_unknown_evaluator(scenario)
        return self._loaded[path]

    def _report_unknown_evaluator(self, scenario: Scenario) -> None:
        spec = scenario.spec
        if not isinstance(spec, AnswerSpec) or not spec.unknown_evaluator:
            return
        if self.coordination.first(f"evaluator:{scenario.suite}:{scenario.id}"):
            log.event(
                "evaluator.unknown",
                logging.WARNING,
                scenario=scenario.id,
                file=scenario.path,
                line=scenario.line,
                evaluator=spec.unknown_evaluator,
            )

    @cached_property
    def parser(self) -> ReasoningParser:
        """Splits traces from answers by the tags of the settings."""
        tags = self.settings.think_tags
        return ReasoningParser(tags) if tags else ReasoningParser()

    @cached_property
    def extra_checks(self) -> dict[str, Any]:
        """Check types that other plugins offer."""
        offered = self.config.hook.pytest_benchrig_register_checks(config=self.config)
        return {name: check for checks in offered if checks for name, check in checks.items()}

    @cached_property
    def _own_marks(self) -> set[str]:
        return set()

    @cached_property
    def foreign_marks(self) -> frozenset[str]:
        """Marks of pytest, the user and other plugins, which no suite or tag may shadow."""
        lines = self.config.getini("markers")
        names = frozenset(line.split(":")[0].split("(")[0].strip() for line in lines)
        # A user may well have registered the names of the bundled suites and tags.
        return names - {"smoke", "core", *BUNDLED_SUITES, *OPT_IN_SUITES}

    def scenario_paths(self) -> Iterator[Path]:
        """Every scenario file that is known before collection."""
        if self.nothing_named:
            return
        for path in (*self.directories, *self.named_files):
            if path.is_dir():
                yield from sorted(path.rglob("*.json"))
            elif path.suffix == ".json" and path.is_file():
                yield path

    def known_suites(self) -> frozenset[str]:
        """Suites of every loaded file and the bundled names."""
        loaded = {s.suite for file in self._loaded.values() for s in file.scenarios}
        return frozenset(loaded | set(BUNDLED_SUITES) | set(OPT_IN_SUITES))

    def wants_suite(self, suite: str) -> bool:
        """Whether the suite was selected."""
        chosen = self.settings.suites
        if not chosen:
            return self.selfcheck or suite not in OPT_IN_SUITES or suite in self.named_suites
        return suite in chosen or ("all" in chosen and suite in BUNDLED_SUITES)

    @property
    def selfcheck(self) -> bool:
        """Whether this session checks the scenarios instead of a model."""
        return self.settings.selfcheck

    def prepare(self, target: Target) -> None:
        """Fetch, start and connect what the target needs; what fails surfaces in set-up."""
        name = str(target)
        known, client = self.engines.get(name), self._clients.get(name)
        if target.runtime == SELFCHECK or (client is not None and known is None):
            return
        first = not self._clients
        if first and target.runtime == "embedded":
            self.take_baseline()
        engine = known
        if target.runtime == "embedded":
            engine = living(
                known,
                target,
                self.settings,
                self.coordination,
                slots=self.slots,
                in_worker=bool(self.worker),
            )
        if engine is not None and engine is not known:
            self.engines[name] = engine
            self._started.append(engine)
            self._warm = {warm for warm in self._warm if warm[0] != name}
        elif client is not None:
            return
        self._failures.pop(name, None)
        self._clients.pop(name, None)
        try:
            connected = TargetClient.connect(self, target, engine, again=client)
            if first and target.runtime != "embedded":
                self.take_baseline(connected.runtime)
            self._clients[name] = connected
        except RuntimeFault as fault:
            self._failures[name] = fault

    def take_baseline(self, server: Runtime | None = None) -> None:
        """Device memory before the first model is loaded; connecting to a server loads none."""
        self.baseline = session_baseline(self.baseline, self.sampler, self.coordination, server)

    @property
    def slots(self) -> int:
        """Parallel slots of an engine that the plugin starts."""
        if self.settings.embedded_slots:
            return self.settings.embedded_slots
        workers = getattr(self.config.option, "numprocesses", None)
        return min(int(workers), 8) if isinstance(workers, int) and workers > 1 else 1

    def client(self, target: Target) -> TargetClient:
        """The connected client of a target.

        Raises:
            RuntimeFault: It could not be started or reached.
        """
        self.prepare(target)
        if str(target) in self._failures:
            raise self._failures[str(target)]
        return self._clients[str(target)]

    @cached_property
    def sandbox(self) -> SandboxRunner:
        """The code sandbox, probed at first use."""
        from pytest_benchrig.sandbox.launch import Limits
        from pytest_benchrig.sandbox.runner import SandboxRunner

        runner = SandboxRunner(
            level=self.settings.sandbox,
            limits=Limits(
                memory_mb=self.settings.sandbox_memory_mb,
                allow_fork=self.settings.sandbox_allow_fork,
                site_packages=self.settings.sandbox_site_packages,
            ),
        )
        self._closers.append(runner.close)
        return runner

    @cached_property
    def sampler(self) -> Sampler:
        """The hardware sampler."""
        from pytest_benchrig.hardware.sampler import Sampler

        sampler = Sampler(
            interval_sec=self.settings.sample_interval,
            keep_samples=self.settings.keep_samples,
            memory_warning_pct=self.settings.memory_warning_pct,
        )
        self._closers.append(sampler.close)
        return sampler

    def connected(self, target: Target) -> TargetClient | None:
        """The client if it could be connected."""
        return self._clients.get(str(target))

    def start_shared(self, target: Target) -> None:
        """Start an engine on the controller for all workers; a fault is passed on to them."""
        self.take_baseline()
        engine = start_engine(target, self.settings, slots=self.slots)
        self.engines[str(target)] = engine
        keeper = EngineKeeper(engine, target, self.settings, self.coordination, slots=self.slots)
        self._closers.append(keeper.stop)

    def failed_setup(self, target: Target, fault: RuntimeFault) -> None:
        """A plain test could not get its client: counts for the circuit breaker."""
        trip_breaker(self, target, fault)

    def warm_up(self, client: TargetClient) -> None:
        """Untimed requests before the first item at an endpoint, once per session."""
        name = str(client.target)
        if (name, client.endpoint) in self._warm:
            return
        self._warm.add((name, client.endpoint))
        if self.coordination.first(f"warmup:{name}:{client.endpoint}"):
            self.warmups.extend(warm_up(self, client))

    @cached_property
    def warmups(self) -> list[Record]:
        """Records of warm-up requests that no report has carried yet."""
        return []

    def take_warmups(self) -> list[Record]:
        """Hand the warm-up records over, once."""
        taken = list(self.warmups)
        self.warmups.clear()
        return taken

    def replays(self, target: Target) -> bool:
        """Whether the target is answered from stored replies."""
        return self.settings.replay is not None or target.runtime == "replay"

    @cached_property
    def earlier(self) -> EarlierRun:
        """The journal or run file that is resumed or replayed."""
        path = self.settings.resume or self.settings.replay
        if path is None:
            raise RuntimeError("neither --benchrig-resume nor --benchrig-replay was given")
        return EarlierRun.read(path)

    @cached_property
    def baselines(self) -> dict[Path, RunFile]:
        """The runs to compare with, read before anything is measured."""
        return {path: read_run(path, "compare") for path in self.settings.compare}

    def replayed(self, target: Target) -> tuple[EarlierRun, str]:
        """The stored run that answers for a target, and the target's name in it."""
        if target.runtime != "replay":
            return self.earlier, str(target)
        if target.model not in self._replayed:
            base = self.config.invocation_params.dir
            self._replayed[target.model] = replay_source(target.model, base)
        return self._replayed[target.model]

    def forget_records(self) -> None:
        """Let go of every record, this run's and earlier ones'; nobody asks for them any more."""
        self._replayed.clear()
        for name in ("earlier", "baselines"):
            self.__dict__.pop(name, None)
        self.carrier = Carrier()

    def resumable(self, scenario: Scenario, target: Target) -> ItemResult | None:
        """The earlier result of an item, if the resumed journal holds a valid one."""
        return self.earlier.result_of(self, scenario, target)

    def loaded_files(self) -> tuple[LoadedFile, ...]:
        """Every scenario file loaded so far."""
        return tuple(self._loaded.values())

    def sandbox_level(self) -> str:
        """The level of containment in force, "" while no code was run."""
        return self.sandbox.level if "sandbox" in self.__dict__ else self.reported_level

    def facts_to_report(self) -> dict[str, JsonValue]:
        """What a worker learned that the controller cannot know, each thing once."""
        new = {name: facts for name, facts in self.model_facts().items() if name not in self._told}
        self._told.update(new)
        found: dict[str, JsonValue] = {"models": new} if new else {}
        level = self.sandbox_level()
        if level and "" not in self._told:
            self._told.add("")
            found["sandbox"] = level
        return found

    def learn(self, data: Mapping[str, Any]) -> None:
        """Take over what a worker reported."""
        for name, facts in data.get("models", {}).items():
            self.facts.setdefault(name, facts)
        self.reported_level = data.get("sandbox") or self.reported_level

    def model_facts(self) -> dict[str, dict[str, JsonValue]]:
        """What the runtimes told about the models, by target."""
        facts: dict[str, dict[str, JsonValue]] = dict(self.facts)
        for name, client in self._clients.items():
            facts[name] = client.facts()
        return facts

    @cached_property
    def facts(self) -> dict[str, dict[str, JsonValue]]:
        """Model facts that reached the controller from workers or an earlier run."""
        return {}

    def marker(self) -> str:
        """Text in front of a prompt that no earlier request of this or another session had."""
        self.requests_made += 1
        return f"[{self.run_id[-8:]}{self.worker}-{self.requests_made}]\n"

    def close(self) -> None:
        """Close clients, sandbox, sampler and whatever this process started."""
        with contextlib.ExitStack() as stack:
            for engine in self._started:
                stack.callback(engine.stop)
            for client in self._clients.values():
                stack.callback(client.close)
            for closer in self._closers:
                stack.callback(closer)
        self._clients.clear()

    def to_worker(self) -> dict[str, JsonValue]:
        """What a worker needs and cannot find out itself, as plain JSON values."""
        return {
            "run_id": self.run_id,
            "targets": [dataclasses.astuple(t) for t in self.targets],
            "engines": {name: engine.to_json() for name, engine in self.engines.items()},
            "named_suites": sorted(self.named_suites),
            "baseline": self.baseline,
        }

    def from_controller(self, data: Mapping[str, Any]) -> None:
        """Take over what the controller resolved and started."""
        self.run_id = data["run_id"]
        self.targets = tuple(
            Target(runtime, model, tuple(urls)) for runtime, model, urls in data["targets"]
        )
        self.engines = {name: EngineInfo.from_json(v) for name, v in data["engines"].items()}
        self.named_suites = frozenset(data["named_suites"])
        self.baseline = data["baseline"]
