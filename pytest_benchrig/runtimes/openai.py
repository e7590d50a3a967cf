"""Any OpenAI-compatible server; the base of vLLM, LM Studio, llama.cpp and others."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pytest_benchrig.core.generation import (
    Generation,
    JsonValue,
    Message,
    ModelInfo,
    Placement,
    Request,
    RuntimeFault,
)
from pytest_benchrig.runtimes.bases import ServedRuntime
from pytest_benchrig.runtimes.faults import model_not_found
from pytest_benchrig.runtimes.openai_reply import ChatReply

_REFUSAL = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|not supported|does not support|unexpected|"
    r"extra (?:fields|inputs)|not permitted|not allowed|additional propert|extraneous|"
    r"invalid (?:parameter|argument|field|option|key)",
    re.IGNORECASE,
)
_KEPT = frozenset({"model", "messages", "stream", "tools"})


class OpenAIRuntime(ServedRuntime):
    """A server that speaks ``/v1/chat/completions``; see :class:`ServedRuntime` for the arguments.

    Without a path in the base URL, ``/v1`` is meant; a path is taken as it stands, as OpenAI's own
    clients do.
    """

    name: str = "openai"
    reply_type: ClassVar[type[ChatReply]] = ChatReply
    sampling_names: ClassVar[Mapping[str, str]] = {"num_predict": "max_tokens"}
    """Our sampling names where the server's differ."""
    can_ignore_eos: ClassVar[bool] = False

    def _begin(self) -> None:
        self.api_path = self.endpoint.prefix or "/v1"
        self._refused: dict[str, str] = {}

    def version(self) -> str:
        """Not told by this format."""
        return ""

    def list_models(self) -> tuple[ModelInfo, ...]:
        """What ``/v1/models`` lists."""
        value = self.http.json("GET", f"{self.api_path}/models", phase="list")
        data = value.get("data") if isinstance(value, dict) else value
        if not isinstance(data, list):
            raise self.site.fault(
                "http",
                f"{self.api_path}/models does not list models",
                phase="list",
                remedy="Check the runtime's name and --benchrig-base-url",
            )
        return tuple(
            self.model_info(entry)
            for entry in data
            if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        )

    def model_info(self, entry: Mapping[str, JsonValue]) -> ModelInfo:
        """One entry of the list."""
        return ModelInfo(str(entry["id"]))

    def describe(self, model: str) -> ModelInfo:
        """One model as the list has it; just its name where the server keeps no list."""
        try:
            models = self.list_models()
        except RuntimeFault as fault:
            if fault.kind == "http" and fault.status in (404, 405, 501):
                return ModelInfo(model)
            raise
        found = find_model(model, models)
        if found is None:
            raise model_not_found(self.site, model, [m.name for m in models], phase="describe")
        return found

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Nothing to do: the server holds its models on its own."""
        return None

    def unload(self, model: str) -> bool:
        """Not offered."""
        return False

    def generate(self, request: Request) -> Generation:
        """One chat completion.

        An option that the server does not know is dropped once, with a note, and stays dropped for
        this object's life.
        """
        self.check(request)
        while True:
            body = self.body(request)
            notes = [
                f"the server refuses the option {name}; it was "
                + (f"sent as {instead}" if instead else "left out")
                for name, instead in self._refused.items()
            ]
            make_reply = functools.partial(self.reply, request, body, notes)
            path = f"{self.api_path}/chat/completions"
            try:
                return self._stream.post(path, body, make_reply, request)
            except RuntimeFault as fault:
                if self._give_up_option(fault, body):
                    continue
                if fault.kind == "model_not_found":
                    raise self._with_near_names(fault, request.model) from None
                raise

    def check(self, request: Request) -> None:
        """Refuse what this server would silently get wrong."""

    def reply(
        self, request: Request, body: Mapping[str, JsonValue], notes: Sequence[str]
    ) -> ChatReply:
        """An empty reply for one attempt."""
        reply = self.reply_type(
            endpoint=self.base_url,
            options_sent={k: v for k, v in body.items() if k not in _KEPT},
            asked_model=request.model,
        )
        reply.notes.extend(notes)
        return reply

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request as this server wants it."""
        sampling = request.sampling
        body: dict[str, JsonValue] = {
            "model": request.model,
            "messages": wire_messages(request.messages),
        }
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        options: dict[str, JsonValue] = {
            name: value
            for name in ("temperature", "top_p", "top_k", "seed", "repeat_penalty")
            if (value := getattr(sampling, name)) is not None
        }
        if sampling.num_predict is not None and sampling.num_predict >= 0:
            options["num_predict"] = sampling.num_predict
        if sampling.stop:
            options["stop"] = list(sampling.stop)
        body.update((self.sampling_names.get(name, name), v) for name, v in options.items())
        if request.ignore_eos and self.can_ignore_eos:
            body["ignore_eos"] = True
        if request.stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        body.update(sampling.extra)
        for name, instead in self._refused.items():
            if name in body:
                value = body.pop(name)
                if instead:
                    body[instead] = value
        return body

    def placement(self, model: str) -> Placement:
        """Not told by this format."""
        return Placement()

    def _give_up_option(self, fault: RuntimeFault, body: Mapping[str, JsonValue]) -> bool:
        """Whether the fault is an option that the server does not know and that is now dropped."""
        if fault.status not in (400, 422) or not _REFUSAL.search(fault.message):
            return False
        named = [
            name
            for name in body
            if name not in _KEPT and re.search(rf"\b{re.escape(name)}\b", fault.message)
        ]
        if not named:
            return False
        name = named[0]
        takes_other = name == "max_tokens" and "max_completion_tokens" in fault.message
        self._refused[name] = "max_completion_tokens" if takes_other else ""
        return True

    def _with_near_names(self, fault: RuntimeFault, model: str) -> RuntimeFault:
        known: tuple[ModelInfo, ...] = ()
        with contextlib.suppress(RuntimeFault):
            known = self.list_models()
        return self.not_found(model, known, fault)


def wire_messages(messages: Sequence[Message]) -> list[dict[str, JsonValue]]:
    """Messages in OpenAI's form; calls that came without an id get one, and their results too."""
    sent: list[dict[str, JsonValue]] = []
    pending: list[str] = []
    for turn, message in enumerate(messages):
        one: dict[str, JsonValue] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            pending = []
            calls = []
            for position, call in enumerate(message.tool_calls):
                call_id = call.id or f"call_{turn}_{position}"
                pending.append(call_id)
                function = {"name": call.name, "arguments": call.arguments}
                calls.append({"id": call_id, "type": "function", "function": function})
            one["tool_calls"] = calls
        if message.role == "tool":
            following = pending.pop(0) if pending else ""
            one["tool_call_id"] = message.tool_call_id or following
            if message.tool_name:
                one["name"] = message.tool_name
        sent.append(one)
    return sent


def find_model(model: str, models: Sequence[ModelInfo]) -> ModelInfo | None:
    """The entry that the name means: its id, then an alias, then either but for case."""
    for known in models:
        if known.name == model:
            return known
    for known in models:
        if model in known.aliases:
            return known
    folded = model.lower()
    for known in models:
        if folded in (known.name.lower(), *(a.lower() for a in known.aliases)):
            return known
    return None
