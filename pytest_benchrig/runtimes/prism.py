"""Prism (``prism-local``): OpenAI's format in front of ONNX Runtime GenAI, with a telemetry block.

Seen on a real one: HTTP/1.0, headers and the role chunk long before the first token, one request at
a time with 503 and ``Retry-After`` for the others, the model loaded inside the first request.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from pytest_benchrig.core.generation import (
    EngineTimings,
    Generation,
    JsonValue,
    ModelInfo,
    Placement,
    Request,
)
from pytest_benchrig.runtimes.endpoints import PORTS
from pytest_benchrig.runtimes.faults import fault_of_status
from pytest_benchrig.runtimes.figures import number
from pytest_benchrig.runtimes.openai import OpenAIRuntime, find_model
from pytest_benchrig.runtimes.openai_reply import ChatReply

_HEALTH_PATHS = ("/health", "/v1/health", "/v1/status")
_LOAD_TIMEOUT_SEC = 600.0


class PrismReply(ChatReply):
    """A chat completion with ``telemetry``."""

    def extra(self, value: Mapping[str, JsonValue]) -> None:
        """Take Prism's own figures and the device that it used."""
        telemetry = value.get("telemetry")
        if not isinstance(telemetry, dict):
            return
        device = telemetry.get("device")
        if isinstance(device, str) and device:
            self.device = device.lower()
        self.engine_timings = EngineTimings(
            prompt_tokens=self.usage.prompt_tokens,
            decode_tokens=self.usage.completion_tokens,
            ttft_sec=number(telemetry.get("ttft_sec")),
            decode_tok_per_sec=number(telemetry.get("decode_tok_per_sec")) or None,
        )


class PrismRuntime(OpenAIRuntime):
    """A Prism server; see :class:`OpenAIRuntime` for the arguments."""

    name = "prism"
    default_port = PORTS["prism"]
    reply_type = PrismReply

    def version(self) -> str:
        """Its name, and its version where it says one."""
        version = self.health().get("version")
        return f"Prism {version}" if isinstance(version, str) and version else "Prism"

    def health(self) -> Mapping[str, JsonValue]:
        """What it says of itself: ``active_model``, ``active_device``, ``hardware``."""
        for path in _HEALTH_PATHS:
            answer = self.http.ask("GET", f"{self.endpoint.root}{path}", phase="list")
            value = answer.json() if answer.ok else None
            if isinstance(value, dict):
                return value
        return {}

    def model_info(self, entry: Mapping[str, JsonValue]) -> ModelInfo:
        """One entry of the list; ``owned_by`` names the engine behind it."""
        name = str(entry["id"])
        owner = entry.get("owned_by")
        if isinstance(owner, str) and owner:
            self._owners[name] = owner
        size = number(entry.get("size_mb"))
        return ModelInfo(name, size_bytes=round(size * 1024 * 1024) if size else None)

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Have the model in memory by asking it for one token: there is no other way.

        Returns:
            ``None``: the time would be that of the token too.
        """
        if self.health().get("active_model") == model:
            return None
        self.http.json(
            "POST",
            f"{self.api_path}/chat/completions",
            {"model": model, "messages": [{"role": "user", "content": "."}], "max_tokens": 1},
            phase="load",
            timeout_sec=_LOAD_TIMEOUT_SEC,
        )
        return None

    def unload(self, model: str) -> bool:
        """Free the model where the server has a route for it (0.2.0 has none).

        Sent only to a server whose health is Prism's: others have a route of that name.
        """
        if "active_device" not in self.health():
            return False
        answer = self.http.ask(
            "POST",
            f"{self.endpoint.root}/v1/unload",
            {"model": model},
            phase="unload",
            timeout_sec=60.0,
        )
        if answer.status in (404, 405, 501):
            return False
        if not answer.ok:
            raise fault_of_status(
                self.site, answer.status, answer.headers, answer.body, phase="unload"
            )
        return True

    def generate(self, request: Request) -> Generation:
        """One chat completion; another model in memory is replaced before the clock starts."""
        active = self.health().get("active_model")
        if isinstance(active, str) and active != request.model:
            self.load(request.model)
        generation = super().generate(request)
        owner = self._owners.get(request.model, "")
        return replace(generation, engine=f"Prism ({owner})" if owner else "Prism")

    def placement(self, model: str) -> Placement:
        """The device of the model in memory."""
        health = self.health()
        device = health.get("active_device")
        if health.get("active_model") != model or not isinstance(device, str):
            return Placement()
        listed = find_model(model, self.list_models())
        return Placement(device.lower(), listed.size_bytes if listed else None)

    @functools.cached_property
    def _owners(self) -> dict[str, str]:
        """The engine behind each listed model."""
        return {}
