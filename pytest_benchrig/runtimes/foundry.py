"""Foundry Local's web service: OpenAI's format, with its own way to load and unload models.

Seen on a real one: chat wants a model's id (``name:1``), loading wants its alias; a model that is
not loaded is an error, not a reason to load it; while it reads a prompt it sends comments every
250 ms from the start; errors inside a stream come under status 200 without ``[DONE]``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from pytest_benchrig.core.generation import Generation, JsonValue, ModelInfo, Request, RuntimeFault
from pytest_benchrig.runtimes.endpoints import PORTS, foundry_daemon_url
from pytest_benchrig.runtimes.faults import fault_of_status, model_not_found
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.openai import OpenAIRuntime, find_model

_LOAD_TIMEOUT_SEC = 600.0


class FoundryRuntime(OpenAIRuntime):
    """A Foundry Local web service; see :class:`OpenAIRuntime` for the arguments."""

    name = "foundry"
    default_port = PORTS["foundry"]

    def version(self) -> str:
        """Its name, and its version where it says one."""
        answer = self.http.ask("GET", f"{self.endpoint.root}/status", phase="list")
        value = answer.json() if answer.ok else None
        version = value.get("version") if isinstance(value, dict) else None
        return f"Foundry Local {version}" if isinstance(version, str) else "Foundry Local"

    def list_models(self) -> tuple[ModelInfo, ...]:
        """What ``/v1/models`` lists.

        Raises:
            RuntimeFault: ``unreachable`` says where the daemon's address is found.
        """
        try:
            return super().list_models()
        except RuntimeFault as fault:
            raise self._moved(fault) from None

    def model_info(self, entry: Mapping[str, JsonValue]) -> ModelInfo:
        """One entry of the list; the alias is what loading wants."""
        name = str(entry["id"])
        said = [entry.get(key) for key in ("alias", "parent")]
        aliases = [a for a in said if isinstance(a, str) and a and a != name]
        tools = next(
            (entry[key] for key in ("toolCalling", "supportsToolCalling") if key in entry), None
        )
        capabilities = None
        if isinstance(tools, bool):
            capabilities = frozenset({"completion", *(["tools"] if tools else [])})
        window = entry.get("maxInputTokens") or entry.get("contextLength")
        return ModelInfo(
            name,
            context_length=whole_number(window) or None,
            capabilities=capabilities,
            aliases=tuple(dict.fromkeys((*aliases, name.rpartition(":")[0] or name))),
        )

    def describe(self, model: str) -> ModelInfo:
        """A model by its id, its alias, or its id without the version."""
        models = self.list_models()
        found = find_model(model, models)
        if found is None:
            loaded = self._id_by_prefix(model, [m.name for m in models])
            found = find_model(loaded, models) if loaded else None
        if found is None:
            raise model_not_found(self.site, model, [m.name for m in models], phase="describe")
        return found

    def loaded(self) -> Mapping[str, float | None]:
        """Ids of the models in memory; how much memory is not told."""
        answer = self.http.ask("GET", f"{self.endpoint.root}/models/loaded", phase="list")
        value = answer.json() if answer.ok else None
        return {m: None for m in value if isinstance(m, str)} if isinstance(value, list) else {}

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Load the model; its window is fixed in its files.

        Returns:
            Seconds that the load took as seen from here; ``None`` where it was loaded already.
        """
        info = self.describe(model)
        if info.name in self.loaded():
            return None
        began = time.perf_counter()
        self._command("load", info)
        return time.perf_counter() - began

    def unload(self, model: str) -> bool:
        """Free the model."""
        info = self.describe(model)
        if info.name not in self.loaded():
            return True
        self._command("unload", info)
        return info.name not in self.loaded()

    def generate(self, request: Request) -> Generation:
        """One chat completion, asked for by the model's id, which is loaded first if it is not."""
        info = self.describe(request.model)
        self.load(info.name)
        generation = super().generate(replace(request, model=info.name))
        if info.name != request.model:
            note = f"{request.model!r} is served as {info.name!r}"
            generation = replace(generation, notes=(*generation.notes, note))
        return replace(generation, engine=generation.engine or "Foundry Local")

    def _command(self, verb: str, info: ModelInfo) -> None:
        """Load or unload by whichever name the service takes: alias first, then the id."""
        names = (*info.aliases, info.name)
        for position, name in enumerate(names):
            answer = self.http.ask(
                "GET",
                f"{self.endpoint.root}/models/{verb}/{quote(name, safe='')}",
                phase=verb,
                timeout_sec=_LOAD_TIMEOUT_SEC,
            )
            if answer.ok:
                return
            if answer.status != 404 or position == len(names) - 1:
                raise fault_of_status(
                    self.site, answer.status, answer.headers, answer.body, phase=verb
                )

    def _id_by_prefix(self, alias: str, ids: list[str]) -> str:
        """The only id that begins with the alias, as in ``phi-4-mini`` for one of its variants."""
        folded = alias.lower()
        matches = [i for i in ids if i.lower().startswith((f"{folded}-", f"{folded}:"))]
        loaded = [i for i in self.loaded() if i in matches] if len(matches) > 1 else matches
        return loaded[0] if len(loaded) == 1 else ""

    def _moved(self, fault: RuntimeFault) -> RuntimeFault:
        """Tell where the service's address is found: it takes a new port at each start."""
        if fault.kind == "unreachable":
            now = foundry_daemon_url()
            fault.remedy = (
                f"Its daemon file says {now}: run again, or give that with --benchrig-base-url"
                if now and now != self.base_url
                else "Start it with 'foundry server start' ('foundry status' shows its address); "
                "or set FOUNDRY_BASE_URL"
            )
        return fault
