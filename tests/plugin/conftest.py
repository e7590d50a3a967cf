"""Fixtures of the plugin's tests: a scripted server, and a project that asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugin.support import REASONING, Project, Server, serve


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that knows the right answers of the small reasoning file."""
    running = serve()
    running.answers.by_text = {
        "two plus three": "Adding them up.\nFinal answer: 5",
        "capital of France": "It is well known.\nFinal answer: Paris",
    }
    yield running
    running.close()


@pytest.fixture
def second_server() -> Iterator[Server]:
    running = serve()
    yield running
    running.close()


@pytest.fixture
def project(pytester: pytest.Pytester, server: Server, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one small reasoning file and a server that answers it."""
    for name in ("BENCHRIG_MODEL", "OPENAI_BASE_URL", "OLLAMA_HOST", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    made = Project(pytester, server.url)
    made.write("pytest.ini", "[pytest]\n")
    made.write("scenarios/reasoning.json", REASONING)
    return made
