"""Which server answers at an address, told by what it answers; keys are never sent.

Several servers answer paths of another: KoboldCpp and Lemonade speak Ollama's, most speak OpenAI's.
So the questions go from what only one server answers to what many do, and the first match wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.runtimes.http import Answer, Endpoint, HttpClient

_ASK_SEC = 0.4
_ASK_REMOTE_SEC = 2.0
_FRAMEWORKS = ("uvicorn", "hypercorn", "werkzeug", "basehttp", "gunicorn", "aiohttp", "waitress")
"""Python servers by their ``Server`` header; Ollama is written in Go and sends none."""

_OWNERS: Mapping[str, tuple[str, str]] = {
    "vllm": ("vllm", "vLLM"),
    "sglang": ("openai", "SGLang"),
    "llamacpp": ("llamacpp", "llama.cpp"),
    "koboldcpp": ("openai", "KoboldCpp"),
    "library": ("ollama", "Ollama"),
    "onnx runtime genai": ("prism", "Prism"),
}
"""What ``owned_by`` in ``/v1/models`` gives away: the runtime to speak, and the server's name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What was found out about a server.

    Attributes:
        runtime: The runtime that speaks its protocol best, "" where nothing was recognised.
        server: The server's name for people.
        version: As it says, "" if it does not.
        warning: What is suspicious about it.
        error: Why nothing was recognised.
    """

    runtime: str = ""
    server: str = ""
    version: str = ""
    warning: str = ""
    error: str = ""


class _Silent(Exception):  # noqa: N818 - a signal
    """The server does not answer; the text says how."""


class _Questions:
    """Asks within a deadline, each path once."""

    def __init__(self, client: HttpClient, deadline: float) -> None:
        self._client = client
        self._deadline = deadline
        self._ask_sec = _ASK_SEC if client.endpoint.is_loopback else _ASK_REMOTE_SEC
        self._known: dict[str, Answer] = {}
        self._late = 0
        self.locked = False

    def get(self, path: str) -> Answer:
        """The answer of a path.

        Raises:
            _Silent: None came.
        """
        if path not in self._known:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise _Silent("it did not answer in time")
            try:
                self._known[path] = self._client.ask(
                    "GET",
                    f"{self._client.endpoint.root}{path}",
                    phase="probe",
                    timeout_sec=min(self._ask_sec, left),
                )
            except RuntimeFault as fault:
                # One path may hang (a catalogue that is fetched); a server that hangs does twice.
                self._late += fault.kind == "timeout"
                if fault.kind == "unreachable" or self._late > 1:
                    raise _Silent(fault.message) from None
                self._known[path] = Answer(0, {}, b"")
            if self._known[path].status in (401, 403):
                self.locked = True
        return self._known[path]

    def object(self, path: str) -> Mapping[str, JsonValue]:
        """The JSON object of a path that answers with 2xx, else an empty one."""
        answer = self.get(path)
        value = answer.json() if answer.ok else None
        return value if isinstance(value, dict) else {}

    def text(self, path: str) -> str:
        """The body of a path that answers with 2xx, else ""."""
        answer = self.get(path)
        return answer.text.strip() if answer.ok else ""


def without_credentials(endpoint: Endpoint) -> Endpoint:
    """The endpoint as a probe may use it."""
    headers = {k: v for k, v in endpoint.headers.items() if k.lower() != "authorization"}
    return replace(endpoint, headers=headers, key_env="", secrets=())


def identify(endpoint: Endpoint, timeout_sec: float = 5.0) -> Identity:
    """Ask until one answer gives the server away; about a dozen small requests at most.

    Args:
        endpoint: Where; its credentials are not used.
        timeout_sec: For all of it.
    """
    client = HttpClient(without_credentials(endpoint), "probe")
    questions = _Questions(client, time.monotonic() + timeout_sec)
    try:
        for recognise in _IN_ORDER:
            found = recognise(questions)
            if found is not None:
                return found
    except _Silent as silent:
        return Identity(error=str(silent))
    finally:
        client.close()
    if questions.locked:
        return Identity(
            error="it wants a key, which a probe never sends: name the runtime in front of the "
            "model and the key's variable with --benchrig-api-key-env"
        )
    return Identity(error="it answers, but not like any known model server")


def _koboldcpp(ask: _Questions) -> Identity | None:
    value = ask.object("/api/extra/version")
    if value.get("result") == "KoboldCpp":
        return Identity("openai", "KoboldCpp", _word(value.get("version")))
    return None


def _lemonade(ask: _Questions) -> Identity | None:
    for path in ("/v1/health", "/api/v1/health"):
        value = ask.object(path)
        if "all_models_loaded" in value:
            return Identity("openai", "Lemonade", _word(value.get("version")))
    return None


def _lmstudio(ask: _Questions) -> Identity | None:
    models = ask.object("/api/v1/models").get("models")
    if isinstance(models, list) and all(
        isinstance(m, dict) and "key" in m and "loaded_instances" in m for m in models
    ):
        return Identity("lmstudio", "LM Studio")
    data = ask.object("/api/v0/models").get("data")
    if isinstance(data, list) and all(
        isinstance(m, dict) and ("state" in m or "compatibility_type" in m) for m in data
    ):
        return Identity("lmstudio", "LM Studio")
    return None


def _ollama(ask: _Questions) -> Identity | None:
    if ask.text("/") != "Ollama is running":
        return None
    version = _word(ask.object("/api/version").get("version"))
    running = ask.object("/api/ps").get("models")
    if not version or not (isinstance(running, list) or running is None):
        return None
    server = ask.get("/").headers.get("server", "")
    if server.lower().startswith(_FRAMEWORKS):
        return Identity(
            "openai",
            "an Ollama look-alike",
            version,
            f"it says that it is Ollama, but its Server header is {server!r}: it is spoken to "
            "by OpenAI's protocol, and as ollama: only when you name it so",
        )
    return Identity("ollama", "Ollama", version)


def _llamacpp(ask: _Questions) -> Identity | None:
    value = ask.object("/props")
    if isinstance(value.get("default_generation_settings"), dict):
        return Identity("llamacpp", "llama.cpp", _word(value.get("build_info")))
    return None


def _foundry(ask: _Questions) -> Identity | None:
    value = ask.object("/status")
    if "modelCachePath" in value or "modelDirPath" in value:
        return Identity("foundry", "Foundry Local", _word(value.get("version")))
    return None


def _prism(ask: _Questions) -> Identity | None:
    value = ask.object("/health")
    if "active_device" in value and "active_model" in value:
        return Identity("prism", "Prism", _word(value.get("version")))
    return None


def _tgi(ask: _Questions) -> Identity | None:
    value = ask.object("/info")
    if "model_id" in value and "max_concurrent_requests" in value:
        return Identity("openai", "TGI", _word(value.get("version")))
    return None


def _by_owner(ask: _Questions) -> Identity | None:
    models = ask.object("/v1/models").get("data")
    if not isinstance(models, list):
        return None
    owners = {str(m.get("owned_by") or "").strip().lower() for m in models if isinstance(m, dict)}
    for owner, (runtime, server) in _OWNERS.items():
        if owner in owners:
            version = ""
            if runtime == "vllm":
                version = _word(ask.object("/version").get("version"))
            return Identity(runtime, server, version)
    return Identity("openai", "an OpenAI-compatible server")


_IN_ORDER: tuple[Callable[[_Questions], Identity | None], ...] = (
    _koboldcpp,
    _lemonade,
    _lmstudio,
    _ollama,
    _llamacpp,
    _foundry,
    _prism,
    _tgi,
    _by_owner,
)


def _word(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
