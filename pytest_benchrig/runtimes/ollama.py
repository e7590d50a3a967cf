"""Ollama, by its native API: its own counts and durations, thinking, windows, placement.

What decides whether its numbers are right, all seen on a real server: a prompt that is larger than
``num_ctx`` is cut without a word, a changed ``num_ctx`` reloads the model inside the request, a
prompt seen before is counted whole though it was not read again, and other servers that speak this
protocol invent the durations.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_benchrig.core.generation import (
    Generation,
    JsonValue,
    ModelInfo,
    Placement,
    Request,
    RuntimeFault,
)
from pytest_benchrig.runtimes.bases import ServedRuntime
from pytest_benchrig.runtimes.endpoints import PORTS
from pytest_benchrig.runtimes.faults import fault_of_status, model_not_found
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.identify import identify
from pytest_benchrig.runtimes.ollama_models import (
    PullReply,
    fewest_tokens,
    find_name,
    listed_model,
    may_exceed,
    normalise,
    same_name,
    shown_model,
)
from pytest_benchrig.runtimes.ollama_reply import OllamaReply
from pytest_benchrig.runtimes.ollama_request import body_of

_LOAD_TIMEOUT_SEC = 600.0
_UNLOAD_SEC = 10.0
_PULL_TIMEOUT_SEC = 24 * 3600.0
_PULL_SILENCE_SEC = 300.0


class OllamaRuntime(ServedRuntime):
    """An Ollama server; see :class:`ServedRuntime` for the arguments.

    A ``/v1`` at the end of the address is ignored; a key is for a proxy in front of it.
    """

    name = "ollama"
    default_port = PORTS["ollama"]

    def _begin(self) -> None:
        self._version: str | None = None
        self._described: dict[str, ModelInfo] = {}
        self._plain: set[str] = set()

    def version(self) -> str:
        """``Ollama 0.33.0``."""
        if self._version is None:
            answer = self.http.ask("GET", self._path("/api/version"), phase="list")
            value = answer.json() if answer.ok else None
            said = value.get("version") if isinstance(value, dict) else None
            self._version = f"Ollama {said}" if isinstance(said, str) and said else "Ollama"
        return self._version

    def list_models(self) -> tuple[ModelInfo, ...]:
        """What ``/api/tags`` lists, but for models that say that they cannot complete a text."""
        value = self.http.json("GET", self._path("/api/tags"), phase="list")
        entries = value.get("models") if isinstance(value, dict) else None
        if not isinstance(entries, list):
            raise self.site.fault(
                "http",
                "/api/tags does not list models",
                phase="list",
                remedy="Check that the address is Ollama's",
            )
        return tuple(
            listed_model(entry)
            for entry in entries
            if isinstance(entry, dict)
            and isinstance(entry.get("name") or entry.get("model"), str)
            and "completion" in (entry.get("capabilities") or ["completion"])
        )

    def describe(self, model: str) -> ModelInfo:
        """What ``/api/show`` tells; ``qwen3`` means ``qwen3:latest``."""
        answer = self.http.ask("POST", self._path("/api/show"), {"model": model}, phase="describe")
        if answer.status == 404:
            known = [m.name for m in self.list_models()]
            raise model_not_found(self.site, model, known, phase="describe")
        if not answer.ok:
            raise fault_of_status(
                self.site, answer.status, answer.headers, answer.body, phase="describe"
            )
        value = answer.json()
        listed = find_name(model, self.list_models())
        info = shown_model(model, value if isinstance(value, dict) else {}, listed)
        self._described[model] = info
        self.version()
        return info

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Have the model in memory with this window, so that no request contains its loading.

        Returns:
            Seconds that the load took as seen from here; ``None`` where it was loaded already.
        """
        loaded = self._running(model)
        if loaded is not None and num_ctx in (None, whole_number(loaded.get("context_length"))):
            return None
        body: dict[str, JsonValue] = {"model": model, "stream": False}
        if num_ctx is not None:
            body["options"] = {"num_ctx": num_ctx}
        began = time.perf_counter()
        self.http.json(
            "POST",
            self._path("/api/generate"),
            body,
            phase="load",
            timeout_sec=_LOAD_TIMEOUT_SEC,
        )
        return time.perf_counter() - began

    def unload(self, model: str) -> bool:
        """Free the model (``keep_alive: 0``) and wait until it is gone.

        Sent only to a server that was identified as Ollama: others that answer its paths take the
        empty prompt for a real one and start to generate.
        """
        if identify(self.endpoint).runtime != self.name:
            return False
        self.http.json(
            "POST",
            self._path("/api/generate"),
            {"model": model, "keep_alive": 0, "stream": False},
            phase="unload",
            timeout_sec=60.0,
        )
        deadline = time.monotonic() + _UNLOAD_SEC
        while self._running(model) is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def generate(self, request: Request) -> Generation:
        """One reply of ``/api/chat``, or of ``/api/generate`` for a raw or templated prompt.

        Raises:
            RuntimeFault: Also ``context_window``, for a reply to a prompt that the server cut.
        """
        notes = self._prepare(request)
        while True:
            body = body_of(request, think=self._thinks(request), refused=frozenset(self._plain))
            path = self._path("/api/generate" if "prompt" in body else "/api/chat")
            make_reply = functools.partial(self._reply, request, body, notes)
            try:
                generation = self._stream.post(path, body, make_reply, request, framing="ndjson")
            except RuntimeFault as fault:
                refused = self._refused_field(fault, body)
                if refused:
                    self._plain.add(refused)
                    notes = [*notes, f"the server refuses the field {refused}; it was left out"]
                    continue
                if fault.kind == "model_not_found":
                    known = self.list_models()
                    raise self.not_found(normalise(request.model), known, fault) from None
                raise
            return self._whole_prompt(request, generation)

    def placement(self, model: str) -> Placement:
        """What ``/api/ps`` says: how much of the loaded model is in device memory.

        ``size_vram`` equal to ``size`` was also seen on a machine without a GPU, so only zero and
        part of it name a device.
        """
        entry = self._running(model)
        if entry is None:
            return Placement()
        size, vram = whole_number(entry.get("size")), whole_number(entry.get("size_vram"))
        device = "unknown"
        if size and (vram or 0) < size:
            device = "cpu+gpu" if vram else "cpu"
        return Placement(device, size, vram or 0, whole_number(entry.get("context_length")) or None)

    def pull(self, model: str, progress: Callable[[str], None]) -> str:
        """Fetch the model on the server, with its progress.

        Raises:
            RuntimeFault: ``fetch`` where the server could not.
        """
        request = Request(
            model,
            (),
            timeout_sec=_PULL_TIMEOUT_SEC,
            stall_timeout_sec=_PULL_SILENCE_SEC,
        )
        body: dict[str, JsonValue] = {"model": model, "stream": True}
        try:
            self._stream.post(
                self._path("/api/pull"),
                body,
                lambda: PullReply(progress),
                request,
                framing="ndjson",
            )
        except RuntimeFault as fault:
            if fault.kind in ("stream_error", "http", "model_not_found", "timeout"):
                raise self.site.fault(
                    "fetch",
                    f"the server could not fetch {model!r}: {fault.message}",
                    phase="fetch",
                    remedy="Check the model's name and the server's connection",
                    status=fault.status,
                ) from None
            raise
        info = find_name(model, self.list_models())
        size = f" ({info.size_bytes / 1e9:.1f} GB)" if info and info.size_bytes else ""
        return f"ready on {self.base_url}{size}"

    def _prepare(self, request: Request) -> list[str]:
        """Ask once, before the clock starts, what the model can do, where it matters."""
        notes = []
        if request.tools and self._can(request.model, "tools") is False:
            raise self.site.fault(
                "unsupported",
                f"the model {request.model!r} has no tools, by its template",
                phase="request",
                remedy="Choose a model that lists the capability tools",
            )
        if request.sampling.think is not None and not self._thinks(request):
            notes.append(
                f"think={json.dumps(request.sampling.think)} was not sent: the model does not "
                "list the capability thinking"
            )
        return notes

    def _thinks(self, request: Request) -> bool:
        """Whether ``think`` is asked for and may be sent."""
        return request.sampling.think is not None and bool(self._can(request.model, "thinking"))

    def _can(self, model: str, capability: str) -> bool | None:
        if model not in self._described:
            self.describe(model)
        capabilities = self._described[model].capabilities
        return None if capabilities is None else capability in capabilities

    def _reply(
        self, request: Request, body: Mapping[str, JsonValue], notes: Sequence[str]
    ) -> OllamaReply:
        kept = ("model", "messages", "tools", "prompt", "stream", "options")
        told = {**body["options"], **{k: v for k, v in body.items() if k not in kept}}
        reply = OllamaReply(
            endpoint=self.base_url,
            options_sent=told,
            asked_model=request.model,
            same=same_name,
        )
        reply.engine = self._version or "Ollama"
        reply.notes.extend(notes)
        return reply

    def _whole_prompt(self, request: Request, generation: Generation) -> Generation:
        """Refuse the reply where the server cut the prompt to its window without a word."""
        read = generation.usage.prompt_tokens
        sent = fewest_tokens(request.messages)
        if read is None or read >= sent:
            return generation
        window = request.sampling.num_ctx
        if window is None and (entry := self._running(request.model)):
            window = whole_number(entry.get("context_length"))
        if window and not may_exceed(request.messages, window):
            return generation  # older servers do not count what came from the prompt cache
        said = f"num_ctx {window}" if window else "its default num_ctx"
        raise self.site.fault(
            "context_window",
            f"the server cut the prompt to its window without a word: at least {sent:,} tokens "
            f"were sent, it read {read:,} ({said})",
            phase="request",
            remedy="Raise num_ctx (--benchrig-option num_ctx=N), or choose a model with a larger "
            "window",
            partial=replace(generation, flags=(*generation.flags, "prompt_truncated")),
        )

    def _refused_field(self, fault: RuntimeFault, body: Mapping[str, JsonValue]) -> str:
        """A field of ours that a stricter server of this protocol does not take."""
        if fault.status not in (400, 422):
            return ""
        return next((f for f in ("truncate", "shift") if f in body and f in fault.message), "")

    def loaded(self) -> Mapping[str, float | None]:
        """Models that ``/api/ps`` lists, with the device memory that it says they hold."""
        sizes = {name: whole_number(entry.get("size_vram")) for name, entry in self._in_memory()}
        return {name: None if size is None else size / 2**20 for name, size in sizes.items()}

    def _running(self, model: str) -> Mapping[str, JsonValue] | None:
        """The loaded model's entry in ``/api/ps``."""
        return next((entry for name, entry in self._in_memory() if same_name(name, model)), None)

    def _in_memory(self) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
        answer = self.http.ask("GET", self._path("/api/ps"), phase="list")
        value = answer.json() if answer.ok else None
        entries = value.get("models") if isinstance(value, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield str(entry.get("name") or entry.get("model") or ""), entry

    def _path(self, path: str) -> str:
        return f"{self.endpoint.root}{path}"
