"""Chat completions of OpenAI's format, streamed and whole, as compatible servers really send them.

Format: the chat completion (chunk) object of the OpenAI API reference. Beyond it: ``reasoning``
(vLLM, Ollama, MLX) and ``reasoning_content`` (llama.cpp, Foundry), content as a list of parts
(Mistral), running usage on every chunk (vLLM), and error objects under status 200.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_benchrig.core.generation import JsonValue, Usage
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.faults import ServerError, decode_json, error_in, excerpt
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage, Reply, decode_event
from pytest_benchrig.runtimes.sse import GARBAGE

_DONE = b"[DONE]"
_PARTS = ("prompt", "completion")
_GGUF = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf\Z", re.IGNORECASE)


class ChatReply(Reply):
    """One chat completion; a dialect overrides :meth:`extra` for what its server adds."""

    def __init__(self, *, asked_model: str = "", **known: Any) -> None:
        super().__init__(**known)
        self._asked_model = asked_model
        self._counted = 0
        self._chunk_tokens: int | None = None
        self._slots: dict[int, int] = {}
        self._ids: dict[int, str] = {}

    def feed(self, event: StampedEvent) -> None:
        """Take one event: a chunk, an error, or ``[DONE]``.

        ``[DONE]`` ends the stream and says nothing about success: vLLM sends it after an error.
        """
        data = event.data.strip()
        if event.name in ("error", GARBAGE):
            raise _foreign(event)
        if data == _DONE:
            self.ended = True
            return
        if not data:
            return
        value = decode_event(data)
        self._common(value)
        choices = value.get("choices")
        if choices is None and not value:
            return
        if choices is not None and not isinstance(choices, list):
            raise Garbage(f"choices is no list: {excerpt(data)!r}")
        for choice in choices or ():
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                self._choice(event.ns, choice)

    def whole(self, value: Mapping[str, JsonValue]) -> None:
        """Take a completion that came in one piece; it has no arrivals."""
        self._common(value)
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise Garbage(f"no choices: {excerpt(json.dumps(value).encode())!r}")
        message = choices[0].get("message")
        if not isinstance(message, dict):
            raise Garbage("the choice holds no message")
        self.raw_message = message
        self._message(0, message)
        self.arrivals.clear()
        self._finish(choices[0].get("finish_reason"))
        self.complete = True

    def extra(self, value: Mapping[str, JsonValue]) -> None:
        """What one server adds to a chunk or body beside OpenAI's fields."""

    def running_total(self, value: Mapping[str, JsonValue]) -> int | None:
        """The completion tokens so far that this very chunk states."""
        usage = value.get("usage")
        return whole_number(usage.get("completion_tokens")) if isinstance(usage, dict) else None

    def _common(self, value: Mapping[str, JsonValue]) -> None:
        model = value.get("model")
        if isinstance(model, str) and model and model != self.served_model:
            self.served_model = model
            if not same_model(self._asked_model, model):
                self.flag("wrong_model")
                self.note(f"asked for the model {self._asked_model!r}, {model!r} answered")
        usage = value.get("usage")
        if isinstance(usage, dict):
            self.usage = self._usage_of(usage)
        total = self.running_total(value)
        self._chunk_tokens = None
        if total is not None:
            if total > self._counted:
                self._chunk_tokens = total - self._counted
            self._counted = total
        self.extra(value)

    def _usage_of(self, usage: Mapping[str, JsonValue]) -> Usage:
        """OpenAI's usage object; a thinking count of 0 is vLLM's "not counted".

        Tokens of a prediction that was rejected are billed as completion but are not in the reply.
        """
        prompt, completion = (usage.get(f"{name}_tokens_details") for name in _PARTS)
        prompt = prompt if isinstance(prompt, dict) else {}
        completion = completion if isinstance(completion, dict) else {}
        count = self.count("completion_tokens", usage.get("completion_tokens"))
        rejected = whole_number(completion.get("rejected_prediction_tokens")) or 0
        if count is not None and rejected < count:
            count -= rejected
        return Usage(
            self.count("prompt_tokens", usage.get("prompt_tokens")),
            count,
            self.count("cached_prompt_tokens", prompt.get("cached_tokens")),
            self.count("thinking_tokens", completion.get("reasoning_tokens")) or None,
        )

    def _choice(self, ns: int, choice: Mapping[str, JsonValue]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        before = len(self.arrivals)
        if isinstance(delta, dict):
            self._message(ns, delta)
        if len(self.arrivals) > before:
            self.blank_tail = 0
        elif before and isinstance(delta, dict) and delta.get("content") == "":
            self.blank_tail += not choice.get("finish_reason")
        self._finish(choice.get("finish_reason"))

    def _finish(self, reason: JsonValue) -> None:
        if not isinstance(reason, str) or not reason:
            return
        if reason == "error":
            raise ErrorInStream(ServerError("the server gave the finish reason 'error'"))
        self.finish_reason = reason
        self.complete = True

    def _message(self, ns: int, message: Mapping[str, JsonValue]) -> None:
        trace = message.get("reasoning_content")
        if not isinstance(trace, str) or not trace:
            trace = message.get("reasoning")
        if isinstance(trace, str) and trace:
            self.trace(ns, trace, self._tokens())
        content = message.get("content")
        if isinstance(content, str):
            if content:
                self.answer(ns, content, self._tokens())
        elif isinstance(content, list):
            self._parts(ns, content)
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for position, call in enumerate(calls):
                if isinstance(call, dict):
                    self._call(ns, position, call)
        elif isinstance(function := message.get("function_call"), dict):
            self._call(ns, 0, {"function": function})

    def _parts(self, ns: int, parts: list[JsonValue]) -> None:
        for part in parts:
            if not isinstance(part, dict):
                continue
            inner = part.get("thinking")
            if isinstance(inner, list):
                inner = "".join(str(p.get("text", "")) for p in inner if isinstance(p, dict))
            if isinstance(inner, str) and inner:
                self.trace(ns, inner, self._tokens())
            elif isinstance(text := part.get("text"), str) and text:
                self.answer(ns, text, self._tokens())

    def _call(self, ns: int, position: int, call: Mapping[str, JsonValue]) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        name = function.get("name")
        call_id = call.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        index = call.get("index")
        index = index if isinstance(index, int) else position
        slot = self._slots.get(index, index)
        if call_id and self._ids.get(slot, call_id) != call_id:
            # Servers that never count the index up start a new call with a new id.
            slot = self._slots[index] = max((*self._ids, index)) + 1
        if call_id:
            self._ids[slot] = call_id
        self.call(
            ns,
            slot,
            name=name if isinstance(name, str) else "",
            arguments=arguments,
            call_id=call_id,
            tokens=self._tokens(),
        )

    def _tokens(self) -> int | None:
        """The chunk's own count, given to the first arrival in it."""
        tokens, self._chunk_tokens = self._chunk_tokens, None
        return tokens


def same_model(asked: str, served: str) -> bool:
    """Whether a served name can be the one asked for.

    Servers name a path or file for a model, add a date or revision, or leave out the publisher.
    """
    if not asked or not served:
        return True
    one, other = _plain(asked), _plain(served)
    if one == other or other.startswith((f"{one}-", f"{one}:", f"{one}@")):
        return True
    return one.rpartition("/")[2] == other.rpartition("/")[2]


def _plain(name: str) -> str:
    return _GGUF.sub("", name.strip().replace("\\", "/").lower())


def _foreign(event: StampedEvent) -> Exception:
    value = decode_json(event.data)
    if isinstance(value, dict):
        error = error_in(value) or (error_in({"error": value}) if event.name == "error" else None)
        if error is not None:
            return ErrorInStream(error)
    if event.name == "error":
        return ErrorInStream(ServerError(excerpt(event.data) or "an error without a text"))
    return Garbage(repr(excerpt(event.data)))
