"""Requests as Ollama wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from pytest_benchrig.core.generation import JsonValue, Message, Request

_OPTIONS = ("temperature", "num_predict", "top_p", "top_k", "seed", "repeat_penalty", "num_ctx")
_GENERATE_ONLY = frozenset({"raw", "template", "suffix", "context"})
_TOP_LEVEL = _GENERATE_ONLY | {
    *("format", "keep_alive", "truncate", "shift", "logprobs", "top_logprobs", "system", "images"),
}


def body_of(
    request: Request, *, think: bool, refused: AbstractSet[str] = frozenset()
) -> dict[str, JsonValue]:
    """The body of ``/api/chat``, or of ``/api/generate`` for a raw or templated prompt.

    Options that are no top-level fields go into ``options``. The server is told not to cut:
    ``truncate: false`` makes a prompt larger than the window an error instead of another prompt,
    ``shift: false`` ends a reply at the window's edge instead of dropping the prompt's beginning
    on the way. Older servers ignore both.

    Args:
        request: What is asked.
        think: Whether the model takes ``think``.
        refused: Fields of ours that this server does not take.
    """
    sampling = request.sampling
    options: dict[str, JsonValue] = {
        name: value for name in _OPTIONS if (value := getattr(sampling, name)) is not None
    }
    if sampling.stop:
        options["stop"] = list(sampling.stop)
    top: dict[str, JsonValue] = {"truncate": False, "shift": False}
    for name, value in sampling.extra.items():
        (top if name in _TOP_LEVEL else options)[name] = value
    body: dict[str, JsonValue] = {"model": request.model, "stream": request.stream}
    if _GENERATE_ONLY & set(sampling.extra):
        body["prompt"] = "\n\n".join(m.content for m in request.messages if m.role != "system")
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        if system:
            body["system"] = system
    else:
        body["messages"] = wire_messages(request.messages)
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
    if think:
        body["think"] = sampling.think
    body["options"] = options
    body.update((name, value) for name, value in top.items() if name not in refused)
    return body


def wire_messages(messages: Sequence[Message]) -> list[dict[str, JsonValue]]:
    """Messages in Ollama's form: arguments are objects, results name their tool."""
    sent: list[dict[str, JsonValue]] = []
    for message in messages:
        one: dict[str, JsonValue] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            one["tool_calls"] = [
                {
                    **({"id": call.id} if call.id else {}),
                    "function": {"name": call.name, "arguments": _object_of(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.role == "tool":
            if message.tool_name:
                one["tool_name"] = message.tool_name
            if message.tool_call_id:
                one["tool_call_id"] = message.tool_call_id
        sent.append(one)
    return sent


def _object_of(arguments: str) -> JsonValue:
    """The arguments as an object; a text that is none is sent as an empty one."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
