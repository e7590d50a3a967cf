"""Fixtures: servers that the tests script, on real sockets."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pytest_benchrig.runtimes.ollama import OllamaRuntime
from pytest_benchrig.runtimes.scripted import ScriptedServer, scripted_server
from tests.runtimes.routed import Answer, Routed, RoutedServer, ollama_routes
from tests.runtimes.support import Canned, CannedFactory, CannedServer, Opener, capture

# No test may depend on how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def canned() -> Iterator[CannedFactory]:
    """``canned(response, ...)`` starts a server that answers with these responses."""
    servers: list[CannedServer] = []

    def start(*responses: Canned, tls: ssl.SSLContext | None = None) -> CannedServer:
        servers.append(CannedServer(responses, tls))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def scripted() -> Iterator[ScriptedServer]:
    """The scripted server in a process of its own."""
    with scripted_server() as server:
        yield server


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Makes runtimes and closes them."""
    runtimes: list[Any] = []

    def make(kind: Any, url: str, **known: Any) -> Any:
        runtimes.append(kind(url, **{"target_model": "m", **known}))
        return runtimes[-1]

    yield make
    for runtime in runtimes:
        runtime.close()


@pytest.fixture
def routed() -> Iterator[Routed]:
    """``routed(routes)`` starts a server that answers by path."""
    servers: list[RoutedServer] = []

    def start(routes: Mapping[str, Answer]) -> RoutedServer:
        servers.append(RoutedServer(routes))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def ollama(routed: Routed, opened: Opener) -> Callable[..., tuple[OllamaRuntime, RoutedServer]]:
    """``ollama(chat)``: a runtime whose server answers chats with this, and all else as Ollama."""

    def make(chat: Answer | str | None = None, **routes: Answer) -> Any:
        answers = ollama_routes(**routes)
        if chat is not None:
            answers["POST /api/chat"] = capture(f"ollama/{chat}") if isinstance(chat, str) else chat
        server = routed(answers)
        return opened(OllamaRuntime, server.url, target_model="smollm2:135m"), server

    return make
