"""LM Studio: OpenAI's format for chat, its own REST API for models.

Format: the REST API v1 (LM Studio 0.4 on) and the older v0, as its documentation describes them;
neither was run here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_benchrig.core.generation import JsonValue, ModelInfo, Placement
from pytest_benchrig.runtimes.faults import fault_of_status
from pytest_benchrig.runtimes.figures import number, whole_number
from pytest_benchrig.runtimes.openai import OpenAIRuntime, find_model

_LOAD_TIMEOUT_SEC = 600.0


class LmStudioRuntime(OpenAIRuntime):
    """An LM Studio server; see :class:`OpenAIRuntime` for the arguments."""

    name = "lmstudio"
    default_port = 1234

    def list_models(self) -> tuple[ModelInfo, ...]:
        """Models for chat: from ``/api/v1/models``, else ``/api/v0``, else ``/v1``."""
        return tuple(info for info, _ in self._listed()) or super().list_models()

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Load with the given window (v1 API); older servers load at the first request."""
        for info, entry in self._listed():
            if find_model(model, [info]) and "key" in entry:
                instances = _instances(entry)
                if any(num_ctx in (None, _window(one)) for one in instances):
                    return None
                body: dict[str, JsonValue] = {"model": str(entry["key"])}
                if num_ctx is not None:
                    self.unload(model)
                    body["context_length"] = num_ctx
                value = self.http.json(
                    "POST",
                    f"{self.endpoint.root}/api/v1/models/load",
                    body,
                    phase="load",
                    timeout_sec=_LOAD_TIMEOUT_SEC,
                )
                return number(value.get("load_time_seconds")) if isinstance(value, dict) else None
        return None

    def unload(self, model: str) -> bool:
        """Unload every loaded instance of the model; ``False`` where the v1 API is missing."""
        done = False
        for info, entry in self._listed():
            if not find_model(model, [info]):
                continue
            for instance in _instances(entry):
                if isinstance(identity := instance.get("id"), str):
                    self.http.json(
                        "POST",
                        f"{self.endpoint.root}/api/v1/models/unload",
                        {"instance_id": identity},
                        phase="unload",
                        timeout_sec=60.0,
                    )
                    done = True
        return done

    def placement(self, model: str) -> Placement:
        """The window of the loaded instance and the model's size; the device is not told."""
        for info, entry in self._listed():
            if find_model(model, [info]):
                windows = [w for one in _instances(entry) if (w := _window(one))]
                loaded = whole_number(entry.get("loaded_context_length"))
                return Placement(
                    size_bytes=info.size_bytes,
                    context_length=windows[0] if windows else loaded,
                )
        return Placement()

    def loaded(self) -> Mapping[str, float | None]:
        """Models with an instance in memory; how much memory is not told."""
        return {info.name: None for info, entry in self._listed() if _instances(entry)}

    def _listed(self) -> list[tuple[ModelInfo, Mapping[str, JsonValue]]]:
        for path, key, read in (
            ("/api/v1/models", "models", _info_v1),
            ("/api/v0/models", "data", _info_v0),
        ):
            answer = self.http.ask("GET", f"{self.endpoint.root}{path}", phase="list")
            if answer.status in (401, 403):
                raise fault_of_status(
                    self.site, answer.status, answer.headers, answer.body, phase="list"
                )
            value = answer.json() if answer.ok else None
            entries = value.get(key) if isinstance(value, dict) else None
            if isinstance(entries, list):
                return [
                    (read(entry), entry)
                    for entry in entries
                    if isinstance(entry, dict)
                    and isinstance(entry.get("key") or entry.get("id"), str)
                    and entry.get("type") not in ("embedding", "embeddings")
                ]
        return []


def _info_v1(entry: Mapping[str, JsonValue]) -> ModelInfo:
    quantisation = entry.get("quantization")
    said = entry.get("capabilities")
    capabilities: set[str] | None = None
    if isinstance(said, dict):
        capabilities = {"completion"}
        if said.get("trained_for_tool_use"):
            capabilities.add("tools")
        if said.get("vision"):
            capabilities.add("vision")
        if said.get("reasoning"):
            capabilities.add("thinking")
    return ModelInfo(
        str(entry["key"] if "key" in entry else entry["id"]),
        context_length=whole_number(entry.get("max_context_length")) or None,
        capabilities=None if capabilities is None else frozenset(capabilities),
        quantisation=str(quantisation.get("name") or "") if isinstance(quantisation, dict) else "",
        parameters=str(entry.get("params_string") or ""),
        size_bytes=whole_number(entry.get("size_bytes")) or None,
        aliases=tuple(
            str(one["id"]) for one in _instances(entry) if isinstance(one.get("id"), str)
        ),
    )


def _info_v0(entry: Mapping[str, JsonValue]) -> ModelInfo:
    said = entry.get("capabilities")
    capabilities: frozenset[str] | None = None
    if isinstance(said, list):
        capabilities = frozenset(
            {"completion", *(["tools"] if "tool_use" in said else [])}
            | ({"vision"} if entry.get("type") == "vlm" else set())
        )
    return ModelInfo(
        str(entry["id"]),
        context_length=whole_number(entry.get("max_context_length")) or None,
        capabilities=capabilities,
        quantisation=str(entry.get("quantization") or ""),
    )


def _instances(entry: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    instances = entry.get("loaded_instances")
    return [i for i in instances if isinstance(i, dict)] if isinstance(instances, list) else []


def _window(instance: Mapping[str, JsonValue]) -> int | None:
    config = instance.get("config")
    return whole_number(config.get("context_length")) if isinstance(config, dict) else None
