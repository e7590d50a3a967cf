"""Entry point: options, ini keys, marks; all else is loaded only when a model is asked for."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_benchrig.options import OPTIONS, add_options, ini_name

if TYPE_CHECKING:
    from pytest_benchrig.settings import Settings

_WAKING = ("model", "selfcheck", "check", "calibrate", "pull", "resume", "replay")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer our hooks."""
    from pytest_benchrig import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def _asked_for(config: pytest.Config) -> bool:
    for name in _WAKING:
        option = OPTIONS[name]
        if config.getoption(option.dest, default=None) or config.getini(ini_name(name)):
            return True
    return bool(os.environ.get(OPTIONS["model"].env_name))


def _settings(config: pytest.Config) -> Settings | None:
    if not _asked_for(config):
        return None
    from pytest_benchrig.settings import read_settings

    settings = read_settings(config)
    return settings if settings.active else None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer ``--benchrig-check``, ``--benchrig-calibrate`` and ``--benchrig-pull``."""
    if getattr(config.option, "help", False) or getattr(config.option, "version", False):
        return None
    settings = _settings(config)
    if settings is None or not (settings.check or settings.calibrate or settings.pull):
        return None
    from pytest_benchrig.diagnostics import run_diagnostics

    return run_diagnostics(config, settings)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the session object when a model is asked for, else only a helpful error."""
    config.addinivalue_line(
        "markers",
        "benchrig(suite=None, timing=False): a benchmark test; its records stand in this suite, "
        "and with timing=True it has the endpoint to itself",
    )
    from pytest_benchrig import fixtures

    config.pluginmanager.register(fixtures, "benchrig-fixtures")
    settings = _settings(config)
    if settings is None:
        config.pluginmanager.register(_Asleep(config), "benchrig-asleep")
        return
    from pytest_benchrig.session import activate

    activate(config, settings)


class _Asleep:
    """While no model is asked for: a scenario file named on the command line says what to add."""

    def __init__(self, config: pytest.Config) -> None:
        self._named = {
            Path(os.path.normpath(config.invocation_params.dir / str(arg).split("::")[0]))
            for arg in config.args
            if str(arg).split("::")[0].endswith(".json")
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[Any], list[Any]]:
        collected = yield
        if not collected and file_path in self._named:
            return [_NeedsModel.from_parent(parent, path=file_path)]
        return collected


class _NeedsModel(pytest.File):
    def collect(self) -> list[pytest.Item]:
        raise self.CollectError(
            f"{self.path.name} is a scenario file, and no model was asked for: add "
            "--benchrig-model [runtime:]model (for example --benchrig-model "
            "embedded:smollm2-135m), or --benchrig-selfcheck to check it without one"
        )
