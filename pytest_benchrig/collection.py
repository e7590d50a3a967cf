"""Scenario files become test items.

A file is a ``pytest.Module`` over an in-memory module with one function per scenario; the
functions are parametrized over the targets. So everything that works on test functions (``--lf``,
``-k``, xdist, reruns, timeouts) works on scenarios without code of ours.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.scenario_io import LoadedFile, Problem
from pytest_benchrig.scenario_item import ScenarioItem, foreign_hooks, only_our_fixtures

SCENARIO_KEY = pytest.StashKey[Scenario]()
SCENARIO_ATTRIBUTE = "__benchrig_scenario__"
DEFAULT_FILES = ("scenarios/**/*.json",)
_MAKING_HOOKS = ("pytest_generate_tests", "pytest_pycollect_makeitem")


def bundled_directory() -> Path:
    """Where the packs that ship with the plugin live."""
    import pytest_benchrig.scenarios as packs

    return Path(str(packs.__file__)).parent


def scenario_directories(chosen: tuple[Path, ...], root: Path) -> tuple[Path, ...]:
    """``--benchrig-scenarios`` or its ini, else ``scenarios/``, else the bundled packs.

    Raises:
        pytest.UsageError: A chosen path does not exist.
    """
    for path in chosen:
        if not path.exists():
            raise pytest.UsageError(
                f"scenario path {path} does not exist: give a scenario file or a directory of "
                "them to --benchrig-scenarios"
            )
    if chosen:
        return chosen
    local = root / "scenarios"
    return (local,) if local.is_dir() else (bundled_directory(),)


class ScenarioFiles:
    """Decides which JSON files are scenario files."""

    def __init__(
        self, directories: Iterable[Path], named: Iterable[Path], globs: Iterable[str], root: Path
    ) -> None:
        self._directories = tuple(directories)
        self._named = frozenset(named)
        self._globs = tuple(globs)
        self._root = root

    def __contains__(self, path: Path) -> bool:
        if path.suffix != ".json":
            return False
        if path in self._named or any(
            path == directory or directory in path.parents for directory in self._directories
        ):
            return True
        if self._root not in path.parents:
            return False
        relative = path.relative_to(self._root).as_posix()
        return any(_glob_matches(relative, pattern) for pattern in self._globs)


def _glob_matches(relative: str, pattern: str) -> bool:
    """``**/`` stands for any number of folders, none included."""
    return fnmatch.fnmatchcase(relative, pattern) or (
        "**/" in pattern and _glob_matches(relative, pattern.replace("**/", "", 1))
    )


class ScenarioFile(pytest.Module):
    """One scenario file."""

    load: Callable[[Path], LoadedFile]

    @classmethod
    def create(
        cls, parent: pytest.Collector, path: Path, load: Callable[[Path], LoadedFile]
    ) -> ScenarioFile:
        """The node of a file; ``load`` reads it once, when it is collected."""
        node: ScenarioFile = cls.from_parent(parent, path=path)
        node.load = load
        return node

    def _getobj(self) -> types.ModuleType:
        self._loaded = self.load(self.path)
        return module_of(self._loaded.scenarios, self.path)

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """One item per scenario and target; one failing collector per faulty entry."""
        yield from self._scenario_items()
        if not self._loaded.scenarios and not self._loaded.problems:
            text = f"{self.nodeid} holds no scenario: its list of entries is empty"
            self.warn(pytest.PytestCollectionWarning(text))
        faults: dict[object, list[Problem]] = {}
        for problem in self._loaded.problems:
            faults.setdefault(problem.index, []).append(problem)
        for problems in faults.values():
            first = problems[0]
            node = FaultyEntry.from_parent(self, name=first.entry_id or f"line {first.line}")
            node.problem = "\n".join(str(problem) for problem in problems)
            yield node

    def _scenario_items(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The items, as pytest makes them.

        All functions of the module have one signature, so what pytest finds out about the first
        one's fixtures and parameters holds for the others too. It would inspect each of them.
        """
        made = self._items_of_first()
        if made is None:
            yield from super().collect()
            return
        short = only_our_fixtures(made[0])
        for scenario in self._loaded.scenarios:
            for first in made:
                info = first._fixtureinfo
                item: ScenarioItem = ScenarioItem.from_parent(
                    self,
                    name=scenario.id + first.name.removeprefix(first.originalname),
                    originalname=scenario.id,
                    callspec=first.callspec,
                    keywords={first.callspec.id: True},
                    # A list of its own: plugins add to the fixtures of an item.
                    fixtureinfo=dataclasses.replace(info, names_closure=[*info.names_closure]),
                )
                item.short_way = short
                yield item

    def _items_of_first(self) -> list[Any] | None:
        """The first function's items; ``None`` where each has to be asked for."""
        module = self.obj
        scenarios = self._loaded.scenarios
        if not scenarios or foreign_hooks(self.config, _MAKING_HOOKS):
            return None
        name = scenarios[0].id
        made = self.ihook.pytest_pycollect_makeitem(
            collector=self, name=name, obj=getattr(module, name)
        )
        usual = isinstance(made, list) and all(
            type(item) is pytest.Function and hasattr(item, "callspec") for item in made
        )
        return made if usual else None


class FaultyEntry(pytest.Collector):
    """An entry that cannot be used: a collection error of its own, the other entries stay."""

    problem: str

    def collect(self) -> list[pytest.Item]:
        """Raise the entry's error."""
        raise self.CollectError(self.problem)


def module_of(scenarios: Iterable[Scenario], path: Path) -> types.ModuleType:
    """An in-memory module with one test function per scenario."""
    module = types.ModuleType(path.stem, "Scenarios of " + path.name)
    module.__file__ = str(path)
    marks: dict[str, pytest.Mark] = {}
    for scenario in scenarios:
        setattr(module, scenario.id, function_of(scenario, module.__file__, marks))
    return module


def function_of(
    scenario: Scenario, file: str, marks: dict[str, pytest.Mark]
) -> Callable[..., None]:
    """The test function of a scenario; its code says that it stands at the entry's line.

    ``marks`` keeps the marks made so far, which the functions of a file share.
    """
    code = _template.__code__.replace(
        co_filename=file, co_firstlineno=max(scenario.line, 1), co_name=scenario.id
    )
    function: Any = types.FunctionType(code, _template.__globals__, scenario.id)
    function.__test__ = True
    function.__doc__ = scenario.name or None
    setattr(function, SCENARIO_ATTRIBUTE, scenario)
    names = dict.fromkeys(("benchrig", scenario.suite, *scenario.tags))
    for name in names:
        if name not in marks:
            marks[name] = getattr(pytest.mark, name).mark
    function.pytestmark = [marks[name] for name in names]
    return function  # type: ignore[no-any-return]


def _template(benchrig_generation: Any, benchrig_record: Any, benchrig_target: Any) -> None:
    # The target too: before pytest 9 a fixture that is overridden hides what ours asks for.
    benchrig_record.raise_verdict()


def scenario_of(item: pytest.Item) -> Scenario | None:
    """The scenario of an item, ``None`` for a plain test."""
    return getattr(getattr(item, "function", None), SCENARIO_ATTRIBUTE, None)
