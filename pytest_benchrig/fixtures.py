"""The public fixtures; every one can be overridden in a conftest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.client import TargetClient
    from pytest_benchrig.core.generation import Target
    from pytest_benchrig.execution import ItemResult
    from pytest_benchrig.hardware.sampler import Sampler
    from pytest_benchrig.recording import ItemRecord
    from pytest_benchrig.sandbox.runner import SandboxRunner

_ASLEEP = "no model was asked for: add --benchrig-model [runtime:]model to run this benchmark test"


def _active(request: pytest.FixtureRequest) -> Active:
    from pytest_benchrig.active import ACTIVE

    active = request.config.stash.get(ACTIVE, None)
    if active is None:
        pytest.skip(_ASLEEP)
    return active


@pytest.fixture(scope="session")
def benchrig_target(request: pytest.FixtureRequest) -> Target:
    """The target of this item, ``runtime:model``; tests that ask for it run once per target."""
    _active(request)
    target: Target = request.param
    return target


@pytest.fixture(scope="session")
def benchrig_client(benchrig_target: Target, request: pytest.FixtureRequest) -> TargetClient:
    """A client of the target: ``benchrig_client.generate("...")`` measures and returns a reply."""
    from pytest_benchrig.core.generation import RuntimeFault
    from pytest_benchrig.reports.escape import plain

    active = _active(request)
    if active.selfcheck:
        pytest.skip("--benchrig-selfcheck asks no model")
    try:
        return active.client(benchrig_target)
    except RuntimeFault as fault:
        active.failed_setup(benchrig_target, fault)
        pytest.fail(plain(str(fault)), pytrace=False)


@pytest.fixture(scope="session")
def benchrig_sandbox(request: pytest.FixtureRequest) -> SandboxRunner:
    """The code sandbox: ``benchrig_sandbox.run(code, assertions)``."""
    return _active(request).sandbox


@pytest.fixture(scope="session")
def benchrig_sampler(request: pytest.FixtureRequest) -> Sampler:
    """The hardware sampler: ``with benchrig_sampler.window(serving) as window: ...``."""
    return _active(request).sampler


@pytest.fixture
def benchrig_record(
    request: pytest.FixtureRequest, benchrig_target: Target
) -> Iterator[ItemRecord]:
    """The records of this item; a plain test sets its verdict and metrics on it."""
    from pytest_benchrig.recording import item_record

    active = _active(request)
    record = item_record(request.node, active, benchrig_target)
    if active.selfcheck or record.scenario is not None:
        yield record
        return
    with record.observing():
        yield record


@pytest.fixture
def benchrig_generation(benchrig_record: ItemRecord) -> ItemResult:
    """Makes the item's requests, one per run, and judges each before the next."""
    if benchrig_record.scenario is None:
        pytest.fail(
            "benchrig_generation makes the request of a scenario; in a plain test call "
            "benchrig_client.generate(...)",
            pytrace=False,
        )
    return benchrig_record.execute()
