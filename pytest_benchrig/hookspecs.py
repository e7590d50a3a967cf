"""Hooks that other plugins and conftest files can implement.

Example, in a ``conftest.py``::

    def pytest_benchrig_record(record, config):
        if record.truncated:
            print(record.task_id, "was cut off")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchrig.core.generation import Runtime
    from pytest_benchrig.core.record import Record
    from pytest_benchrig.core.runfile import RunFile
    from pytest_benchrig.core.scorecard import Scorecard


@pytest.hookspec
def pytest_benchrig_register_runtimes(
    config: pytest.Config,
) -> Mapping[str, Callable[..., Runtime]] | None:
    """Offer further runtimes, by the name that stands before the colon of a target.

    Each value is called as ``factory(model, base_url, api_key_env=...)`` and returns an object
    with the methods of :class:`pytest_benchrig.core.generation.Runtime`.

    Example::

        def pytest_benchrig_register_runtimes(config):
            return {"mine": lambda model, base_url, api_key_env="": MyRuntime(base_url)}
    """


@pytest.hookspec
def pytest_benchrig_register_checks(
    config: pytest.Config,
) -> Mapping[str, Callable[..., object]] | None:
    """Offer further ``check_type`` names of answer scenarios.

    Each value is called like the built-in checks of :mod:`pytest_benchrig.core.answers`.

    Example::

        def pytest_benchrig_register_checks(config):
            return {"palindrome": my_check}
    """


@pytest.hookspec
def pytest_benchrig_record(record: Record, config: pytest.Config) -> None:
    """See each record on the controller, as its item finishes; the record is frozen.

    Example::

        def pytest_benchrig_record(record, config):
            metrics.send("ttft", record.ttft_sec, target=record.target)
    """


@pytest.hookspec
def pytest_benchrig_scorecard(scorecard: Scorecard, config: pytest.Config) -> None:
    """See each target's scorecard once, at the end, on the controller.

    Example::

        def pytest_benchrig_scorecard(scorecard, config):
            dashboard.push(scorecard.to_json())
    """


@pytest.hookspec
def pytest_benchrig_reports(
    config: pytest.Config,
) -> Mapping[str, Callable[[RunFile], str]] | None:
    """Add reports: file name under the output directory, and what renders it from the run file.

    Example::

        def pytest_benchrig_reports(config):
            return {"slowest.txt": lambda run: slowest_table(run.records)}
    """
