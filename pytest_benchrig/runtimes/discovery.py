"""What runs on this machine: the usual addresses asked at once, for ``auto`` and for the check."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.generation import ModelInfo, RuntimeFault
from pytest_benchrig.runtimes.address import proxy_of
from pytest_benchrig.runtimes.endpoints import (
    LOOPBACK,
    PORTS,
    URL_VARIABLES,
    default_urls,
    is_loopback_url,
)
from pytest_benchrig.runtimes.http import Endpoint
from pytest_benchrig.runtimes.identify import Identity, identify, without_credentials
from pytest_benchrig.runtimes.redact import redact_url

AUTO_SEC = 0.9
"""Limit of all probes of ``auto`` together, on this machine."""
GIVEN_SEC = 6.0
"""The same for addresses that the user gave, which may be far away."""
CHECK_SEC = 8.0
"""Limit of all probes of the check, which also asks each model for its capabilities."""
_CONNECT_SEC = 0.3
_SHOWN_MODELS = 20
_OTHER_SERVERS = (("KoboldCpp", 5001), ("Lemonade", 13305), ("SGLang", 30000))


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one address said.

    Attributes:
        name: The runtime (or server) that usually listens there.
        url: The address, credentials redacted.
        identity: Who answered; its ``error`` says why nobody did.
        models: What it lists.
        error: Why there is nothing to list, "" if there is.
    """

    name: str
    url: str
    identity: Identity = Identity()
    models: tuple[ModelInfo, ...] = ()
    error: str = ""

    @property
    def runtime(self) -> str:
        """The runtime to speak to it with, "" where nothing usable answered."""
        return self.identity.runtime

    def line(self) -> str:
        """One line: what was asked, who answered, with which models."""
        where = f"{self.name} at {self.url}"
        if not self.runtime:
            return f"{where}: {self.error}"
        who = f"{self.identity.server} {self.identity.version}".strip()
        if self.error:
            return f"{where}: {who}, {self.error}"
        names = ", ".join(m.name for m in self.models[:_SHOWN_MODELS])
        if len(self.models) > _SHOWN_MODELS:
            names += f", and {len(self.models) - _SHOWN_MODELS} more"
        return f"{where}: {who}, " + (f"lists {names}" if names else "lists no model")

    def lines(self) -> list[str]:
        """The line, and under it a warning and each model with what is known of it."""
        shown = [self.line()]
        if self.identity.warning:
            shown.append(f"  ! {self.identity.warning}")
        for model in self.models[:_SHOWN_MODELS]:
            facts = [
                f"context {model.context_length:,}" if model.context_length else "",
                model.parameters,
                model.quantisation,
                f"{model.size_bytes / 1e9:.2f} GB" if model.size_bytes else "",
                "can " + ", ".join(sorted(model.capabilities)) if model.capabilities else "",
            ]
            told = "; ".join(fact for fact in facts if fact)
            shown.append(f"  {self.runtime}:{model.name}" + (f" ({told})" if told else ""))
        return shown


@dataclass(frozen=True, slots=True)
class Found:
    """Where a model was found.

    Attributes:
        runtime: The runtime that lists it, "" if none does.
        model: The name under which it lists it.
        url: Its address, as it is to be connected to.
        answers: What each address said, a line each.
        urls: Every given address of that runtime that lists the model, the first one included.
    """

    runtime: str = ""
    model: str = ""
    url: str = ""
    answers: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


def find_model(model: str, base_urls: Sequence[str] = ()) -> Found:
    """The first runtime that lists the model; under a second in all, on this machine.

    Args:
        model: The name that was typed, without a runtime.
        base_urls: Addresses that the user gave: only they are asked. Without any, the usual ones
            on this machine.
    """
    places = _places(base_urls)
    results = probe(places, GIVEN_SEC if base_urls else AUTO_SEC)
    found: list[tuple[str, str, str]] = []
    for place, result in zip(places, results, strict=True):
        name = _listed_name(result, model)
        if name and (not found or found[0][:2] == (result.runtime, name)):
            found.append((result.runtime, name, place.url))
    answers = (*(r.line() for r in results), *_unasked(base_urls), _embedded_line())
    if not found:
        return Found(answers=answers)
    runtime, name, url = found[0]
    return Found(runtime, name, url, answers, tuple(u for _, _, u in found))


def probe_all(
    base_urls: Sequence[str] = (), *, timeout_sec: float = CHECK_SEC
) -> tuple[ProbeResult, ...]:
    """What each address says, with models, versions and capabilities; and the embedded runtime.

    Args:
        base_urls: Addresses that the user gave, asked beside the usual ones of this machine.
        timeout_sec: For all of it.
    """
    places = (*(_places(base_urls) if base_urls else ()), *_places(()))
    unique = tuple({place.url.rstrip("/"): place for place in reversed(places)}.values())[::-1]
    return (*probe(unique, timeout_sec, detail=True), _embedded_result())


@dataclass(frozen=True, slots=True)
class Place:
    """An address to ask, and what usually listens there."""

    name: str
    url: str


def probe(
    places: Sequence[Place], timeout_sec: float, *, detail: bool = False
) -> tuple[ProbeResult, ...]:
    """Ask every address at the same time; who has not answered by the limit is said to be late."""
    deadline = time.monotonic() + timeout_sec
    results: dict[int, ProbeResult] = {}

    def ask(position: int, place: Place) -> None:
        results[position] = _ask(place, deadline, detail)

    # Daemon threads: one that hangs in a server's silence must not keep the session.
    threads = [
        threading.Thread(target=ask, args=(i, place), daemon=True) for i, place in enumerate(places)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = f"it did not answer within {timeout_sec:g} s"
    done = dict(results)
    return tuple(
        done.get(i, ProbeResult(place.name, redact_url(place.url), error=late))
        for i, place in enumerate(places)
    )


def _ask(place: Place, deadline: float, detail: bool) -> ProbeResult:
    shown = redact_url(place.url)
    try:
        endpoint = without_credentials(
            Endpoint.parse(place.url, default_port=PORTS.get(place.name))
        )
    except RuntimeFault as fault:
        return ProbeResult(place.name, shown, error=fault.message)
    left = deadline - time.monotonic()
    refused = _refused(endpoint, min(_CONNECT_SEC if endpoint.is_loopback else left, left))
    if refused:
        return ProbeResult(place.name, shown, error=refused)
    identity = identify(endpoint, max(0.05, deadline - time.monotonic() - 0.1))
    if not identity.runtime:
        return ProbeResult(place.name, shown, identity, error=identity.error)
    try:
        return ProbeResult(place.name, shown, identity, _models(identity, endpoint, detail))
    except RuntimeFault as fault:
        return ProbeResult(
            place.name, shown, identity, error=f"its models could not be listed: {fault.message}"
        )


def _models(identity: Identity, endpoint: Endpoint, detail: bool) -> tuple[ModelInfo, ...]:
    from pytest_benchrig.runtimes.registry import connect

    runtime = connect(identity.runtime, "", endpoint.url)
    try:
        listed = runtime.list_models()
        if not detail:
            return listed
        return tuple(
            _described(runtime.describe, model) if i < _SHOWN_MODELS else model
            for i, model in enumerate(listed)
        )
    finally:
        runtime.close()


def _described(describe: Callable[[str], ModelInfo], model: ModelInfo) -> ModelInfo:
    try:
        return describe(model.name)
    except RuntimeFault:
        return model  # the list's own entry is all that it tells


def _refused(endpoint: Endpoint, timeout_sec: float) -> str:
    """Why nothing can be asked there, "" where something listens (or a proxy has to find out)."""
    if proxy_of(endpoint):
        return ""
    try:
        with socket.create_connection((endpoint.host, endpoint.port), max(0.01, timeout_sec)):
            return ""
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return "no connection in time"
    except (OSError, UnicodeError) as problem:
        return f"no connection ({problem})"


def _places(base_urls: Sequence[str]) -> tuple[Place, ...]:
    """The addresses that the user gave, else the usual ones of this machine, each once."""
    if base_urls:
        return tuple(Place("--benchrig-base-url", url) for url in dict.fromkeys(base_urls))
    usual = [Place(name, url) for name in PORTS for url in default_urls(name)]
    usual += [Place(name, f"http://{LOOPBACK}:{port}") for name, port in _OTHER_SERVERS]
    local: dict[tuple[str, int | None], Place] = {}
    for place in usual:
        if is_loopback_url(place.url):
            endpoint = _parsed(place)
            local.setdefault((endpoint.host, endpoint.port) if endpoint else (place.url, 0), place)
    return tuple(local.values())


def _parsed(place: Place) -> Endpoint | None:
    try:
        return Endpoint.parse(place.url, default_port=PORTS.get(place.name))
    except RuntimeFault:
        return None


def _unasked(base_urls: Sequence[str]) -> tuple[str, ...]:
    """Addresses from the environment that are not of this machine, and are never probed."""
    if base_urls:
        return ()
    return tuple(
        f"{runtime} at {redact_url(url)} ({URL_VARIABLES[runtime]}): not asked, it is not this "
        f"machine; name it as {runtime}:MODEL"
        for runtime in URL_VARIABLES
        for url in default_urls(runtime)
        if not is_loopback_url(url)
    )


def _listed_name(result: ProbeResult, model: str) -> str:
    """The name under which the server lists the model, "" if it does not."""
    from pytest_benchrig.runtimes.ollama_models import find_name
    from pytest_benchrig.runtimes.openai import find_model as find_listed

    find = find_name if result.runtime == "ollama" else find_listed
    found = find(model, result.models) or _by_file_name(model, result.models)
    return found.name if found else ""


def _by_file_name(model: str, models: Sequence[ModelInfo]) -> ModelInfo | None:
    """llama.cpp without an alias lists the path of its file."""
    wanted = model.lower().removesuffix(".gguf")
    for known in models:
        name = known.name.replace("\\", "/").rpartition("/")[2].lower()
        if name.endswith(".gguf") and name.removesuffix(".gguf") == wanted:
            return known
    return None


def _first_known() -> str:
    from pytest_benchrig.runtimes.models import KNOWN_MODELS

    return f"embedded:{next(iter(KNOWN_MODELS))}"


def _embedded_line() -> str:
    return f"embedded: never taken by itself; name it, as in {_first_known()}"


def _embedded_result() -> ProbeResult:
    from pytest_benchrig.runtimes.embedded import EmbeddedModels
    from pytest_benchrig.runtimes.models import models_dir

    models = EmbeddedModels()
    version = models.version()
    if not version:
        error = "the package xllamacpp is not installed: pip install 'pytest-benchrig[embedded]'"
        return ProbeResult("embedded", str(models_dir()), error=error)
    here = models.list_models()
    error = "" if here else f"no model fetched yet: --benchrig-pull {_first_known()}"
    return ProbeResult("embedded", str(models_dir()), Identity("embedded", version), here, error)
