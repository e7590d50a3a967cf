"""One bwrap for each side, where only bwrap may make namespaces and zygotes cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_benchrig.sandbox import isolation
from pytest_benchrig.sandbox.bwrap import BwrapLauncher, find
from pytest_benchrig.sandbox.isolation import choose
from pytest_benchrig.sandbox.launch import Launcher, Unavailable
from pytest_benchrig.sandbox.probe import probe
from pytest_benchrig.sandbox.warm import WarmLauncher
from tests.sandbox.isolation_support import run_on


@pytest.fixture
def cold() -> Iterator[Launcher]:
    """The launcher, where bwrap works."""
    path = find()
    found = choose("namespace-bwrap")
    if path is None or isinstance(found, Unavailable):
        pytest.skip("bwrap does not work here")
    made = BwrapLauncher(path, user_namespace=os.geteuid() != 0)
    yield made
    made.close()


def test_a_hostile_program_is_stopped(cold: Launcher) -> None:
    assert probe(cold) == ""


def test_an_honest_program_passes(cold: Launcher) -> None:
    assert run_on(cold, "def f():\n    return 1\n").passed == [True]


def test_it_is_taken_where_zygotes_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(choose("namespace-bwrap"), Unavailable):
        pytest.skip("bwrap does not work here")

    def refused(launcher: Launcher) -> str:
        return "no user namespaces inside" if isinstance(launcher, WarmLauncher) else ""

    monkeypatch.setattr(isolation, "probe", refused)
    found = isolation._works.__wrapped__("namespace-bwrap")
    assert isinstance(found, BwrapLauncher)
