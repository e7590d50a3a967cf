"""llama.cpp's server: OpenAI's format with the engine's own timings, and its native routes.

Facts of the format: ``predicted_ms`` runs from the first sampled token, so it covers
``predicted_n - 1`` intervals; with a cached prompt ``prompt_n`` counts only what was processed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from pytest_benchrig.core.generation import (
    EngineTimings,
    JsonValue,
    ModelInfo,
    Placement,
    Request,
    Usage,
)
from pytest_benchrig.runtimes.faults import fault_of_status
from pytest_benchrig.runtimes.figures import number, whole_number
from pytest_benchrig.runtimes.openai import OpenAIRuntime, find_model
from pytest_benchrig.runtimes.openai_reply import ChatReply

_LOAD_TIMEOUT_SEC = 600.0
_LOAD_POLL_SEC = 0.1


class LlamaCppReply(ChatReply):
    """A chat completion with ``timings``."""

    def extra(self, value: Mapping[str, JsonValue]) -> None:
        """Take the engine's figures and its build."""
        build = value.get("system_fingerprint")
        if isinstance(build, str) and build:
            self.engine = f"llama.cpp {build}"
        timings = value.get("timings")
        if isinstance(timings, dict):
            self.engine_timings = engine_timings_of(timings)
            self.usage = complete_usage(self.usage, timings)

    def running_total(self, value: Mapping[str, JsonValue]) -> int | None:
        """The count of a chunk's own ``timings`` (``timings_per_token``)."""
        timings = value.get("timings")
        if isinstance(timings, dict) and value.get("choices"):
            return whole_number(timings.get("predicted_n"))
        return super().running_total(value)


class LlamaCppRuntime(OpenAIRuntime):
    """A llama.cpp server, of one model or in router mode; see :class:`OpenAIRuntime`."""

    name = "llamacpp"
    default_port = 8080
    reply_type = LlamaCppReply
    can_ignore_eos = True
    _router = False
    """Whether :meth:`describe` found the model behind a router."""

    def version(self) -> str:
        """``llama.cpp b4567-abcdef``."""
        build = self.props().get("build_info")
        return f"llama.cpp {build}" if isinstance(build, str) and build else "llama.cpp"

    def props(self, model: str = "") -> Mapping[str, JsonValue]:
        """The server's ``/props``, in router mode those of one model; empty where switched off."""
        query = f"?model={quote(model, safe='')}" if model else ""
        answer = self.http.ask("GET", f"{self.endpoint.root}/props{query}", phase="list")
        if answer.status in (401, 403):
            raise fault_of_status(
                self.site, answer.status, answer.headers, answer.body, phase="list"
            )
        value = answer.json() if answer.ok else None
        return value if isinstance(value, dict) else {}

    def slots(self) -> Sequence[Mapping[str, JsonValue]]:
        """What each slot is doing; empty where the route is switched off."""
        answer = self.http.ask("GET", f"{self.endpoint.root}/slots", phase="list")
        value = answer.json() if answer.ok else None
        return [s for s in value if isinstance(s, dict)] if isinstance(value, list) else []

    def metrics(self) -> Mapping[str, float]:
        """The counters of ``/metrics`` by name; empty where the route is switched off."""
        answer = self.http.ask("GET", f"{self.endpoint.root}/metrics", phase="list")
        if not answer.ok:
            return {}
        found: dict[str, float] = {}
        for line in answer.text.splitlines():
            name, _, value = line.rpartition(" ")
            if name and not line.startswith("#"):
                try:
                    found[name.strip()] = float(value)
                except ValueError:
                    continue
        return found

    def model_info(self, entry: Mapping[str, JsonValue]) -> ModelInfo:
        """One entry of the list, with what its ``meta`` tells."""
        meta = entry.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        aliases = entry.get("aliases")
        parameters = whole_number(meta.get("n_params"))
        return ModelInfo(
            str(entry["id"]),
            context_length=whole_number(meta.get("n_ctx") or meta.get("n_ctx_train")) or None,
            quantisation=str(meta.get("ftype") or ""),
            parameters=f"{parameters / 1e9:.3g}B" if parameters else "",
            size_bytes=whole_number(meta.get("size")) or None,
            aliases=tuple(a for a in aliases if isinstance(a, str))
            if isinstance(aliases, list)
            else (),
        )

    def describe(self, model: str) -> ModelInfo:
        """One model, with the window of a slot and what its chat template can do.

        llama.cpp answers whatever name it is asked for, so the name is checked here. In router mode
        the model is loaded first: what is not loaded tells nothing.
        """
        self._router = self._router_status(model) is not None
        if self._router:
            self.load(model)
        info = super().describe(model)
        props = self.props(info.name if self._router else "")
        settings = props.get("default_generation_settings")
        window = whole_number(settings.get("n_ctx")) if isinstance(settings, dict) else None
        return replace(
            info,
            context_length=window or info.context_length,
            capabilities=capabilities_of(props),
        )

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """In router mode, have the model loaded; else it is loaded since the server's start.

        The router answers before the model is there, so its list is asked until it says so.

        Returns:
            Seconds that it took as seen from here; ``None`` where it was loaded already.

        Raises:
            RuntimeFault: ``http`` where the model's own process ended, ``timeout``.
        """
        status = self._router_status(model)
        if status is None or status.get("value") == "loaded":
            return None
        began = time.perf_counter()
        if status.get("value") == "sleeping":
            self._wake(model)
        elif status.get("value") == "unloaded":
            self._tell_router("load", model, _LOAD_TIMEOUT_SEC)
        while True:
            status = self._router_status(model) or {}
            value = status.get("value")
            if value == "loaded":
                return time.perf_counter() - began
            if value in (None, "unloaded"):
                raise self.site.fault(
                    "http",
                    f"the router could not load the model {model!r} (its process ended with exit "
                    f"status {status.get('exit_code', 'unknown')})",
                    phase="load",
                    remedy="See the router's log, or serve the model alone to see why",
                )
            if time.perf_counter() - began > _LOAD_TIMEOUT_SEC:
                raise self.site.fault(
                    "timeout",
                    f"the router did not load the model {model!r} within {_LOAD_TIMEOUT_SEC:g} s",
                    phase="load",
                    remedy="See the router's log",
                )
            time.sleep(_LOAD_POLL_SEC)

    def unload(self, model: str) -> bool:
        """In router mode, free the model; a server of one model cannot."""
        if self._router_status(model) is None:
            return False
        self._tell_router("unload", model, 60.0)
        return True

    def check(self, request: Request) -> None:
        """Refuse tools where the chat template would silently drop them.

        In router mode the model may have been unloaded for another one: it is loaded here, so that
        no request contains its loading.
        """
        if self._router:
            self.load(request.model)
        if not request.tools:
            return
        capabilities = capabilities_of(self.props(request.model if self._is_router() else ""))
        if capabilities is not None and "tools" not in capabilities:
            raise self.site.fault(
                "unsupported",
                "the model's chat template has no tools; llama.cpp would drop them silently",
                phase="request",
                remedy="Start the server with a --chat-template that has tools, "
                "or choose a model that was trained for them",
            )

    def body(self, request: Request) -> dict[str, JsonValue]:
        """OpenAI's request, with the cache said explicitly."""
        body = super().body(request)
        if "cache_prompt" not in self._refused:
            body.setdefault("cache_prompt", request.cache_prompt)
        return body

    def count_tokens(self, model: str, text: str) -> int | None:
        """What ``/tokenize`` counts, without special tokens."""
        answer = self.http.ask(
            "POST",
            f"{self.endpoint.root}/tokenize",
            {"content": text, "model": model},
            phase="tokenize",
            timeout_sec=60.0,
        )
        value = answer.json() if answer.ok else None
        tokens = value.get("tokens") if isinstance(value, dict) else None
        return len(tokens) if isinstance(tokens, list) else None

    def placement(self, model: str) -> Placement:
        """Size and window; where the layers live, llama.cpp tells only its log."""
        info = find_model(model, self.list_models())
        if info is None:
            return Placement()
        return Placement(size_bytes=info.size_bytes, context_length=info.context_length)

    def _entries(self) -> list[Mapping[str, JsonValue]]:
        value = self.http.json("GET", f"{self.api_path}/models", phase="list")
        data = value.get("data") if isinstance(value, dict) else None
        return [e for e in data if isinstance(e, dict)] if isinstance(data, list) else []

    def _is_router(self) -> bool:
        return any(isinstance(entry.get("status"), dict) for entry in self._entries())

    def _tell_router(self, verb: str, model: str, timeout_sec: float) -> None:
        path = f"{self.endpoint.root}/models/{verb}"
        self.http.json("POST", path, {"model": model}, phase=verb, timeout_sec=timeout_sec)

    def _wake(self, model: str) -> None:
        """A model that sleeps is woken by a request and by nothing else."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 1,
        }
        path = f"{self.api_path}/chat/completions"
        self.http.json("POST", path, body, phase="load", timeout_sec=_LOAD_TIMEOUT_SEC)

    def _router_status(self, model: str) -> Mapping[str, JsonValue] | None:
        """The model's status in router mode, ``None`` on a server of one model."""
        for entry in self._entries():
            status = entry.get("status")
            if isinstance(status, dict) and find_model(model, [self.model_info(entry)]):
                return status
        return None


def capabilities_of(props: Mapping[str, JsonValue]) -> frozenset[str] | None:
    """Capabilities in Ollama's words from ``/props``; ``None`` where it tells nothing."""
    caps = props.get("chat_template_caps")
    if not isinstance(caps, dict):
        return None
    found = {"completion"}
    if caps.get("supports_tools") or caps.get("supports_tool_calls"):
        found.add("tools")
    template = props.get("chat_template")
    if isinstance(template, str) and ("<think>" in template or "enable_thinking" in template):
        found.add("thinking")
    modalities = props.get("modalities")
    if isinstance(modalities, dict) and modalities.get("vision"):
        found.add("vision")
    return frozenset(found)


def engine_timings_of(timings: Mapping[str, JsonValue]) -> EngineTimings:
    """llama.cpp's ``timings`` object in our terms; milliseconds become seconds."""
    decoded = whole_number(timings.get("predicted_n"))
    decode_ms = number(timings.get("predicted_ms"))
    prompt_ms = number(timings.get("prompt_ms"))
    return EngineTimings(
        prompt_tokens=whole_number(timings.get("prompt_n")),
        prompt_sec=None if prompt_ms is None else prompt_ms / 1e3,
        decode_tokens=decoded,
        decode_intervals=None if decoded is None else max(0, decoded - 1),
        decode_sec=None if decode_ms is None else decode_ms / 1e3,
        decode_tok_per_sec=number(timings.get("predicted_per_second")),
    )


def complete_usage(usage: Usage, timings: Mapping[str, JsonValue]) -> Usage:
    """Fill in from ``timings`` what the usage object does not say."""
    cached = whole_number(timings.get("cache_n"))
    processed = whole_number(timings.get("prompt_n"))
    prompt = None if processed is None else processed + (cached or 0)
    return Usage(
        usage.prompt_tokens if usage.prompt_tokens is not None else prompt,
        usage.completion_tokens
        if usage.completion_tokens is not None
        else whole_number(timings.get("predicted_n")),
        usage.cached_prompt_tokens if usage.cached_prompt_tokens is not None else cached,
        usage.thinking_tokens,
    )
