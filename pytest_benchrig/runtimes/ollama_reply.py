"""Ollama's native replies: ``/api/chat`` and ``/api/generate``, line by line and whole.

Format (Ollama's API documentation, checked against a real server): one JSON object a line, the last
one with ``done: true``, counts, and durations in ns; zero values are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_benchrig.core.generation import EngineTimings, JsonValue, Usage
from pytest_benchrig.core.timing import QUEUE_SEC, RELOAD_SEC
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.faults import ServerError, excerpt
from pytest_benchrig.runtimes.figures import number, whole_number
from pytest_benchrig.runtimes.raw_json import elements, find, members
from pytest_benchrig.runtimes.reply import ErrorInStream, Garbage, Reply, decode_event

_DURATIONS = ("load_duration", "prompt_eval_duration", "eval_duration", "total_duration")


class OllamaReply(Reply):
    """One reply of Ollama.

    Args:
        same: Whether a served name can be the model that was asked for.
        asked_model: The name that was asked for.
        known: What every :class:`Reply` takes.
    """

    def __init__(
        self, *, asked_model: str = "", same: Callable[[str, str], bool], **known: Any
    ) -> None:
        super().__init__(**known)
        self._asked_model = asked_model
        self._same = same
        self._count = 0

    def feed(self, event: StampedEvent) -> None:
        """Take one line."""
        self._line(event.ns, decode_event(event.data), event.data)

    def whole(self, value: Mapping[str, JsonValue]) -> None:
        """Take a reply that came in one piece; it has no arrivals."""
        if not isinstance(value.get("done"), bool):
            raise Garbage(f"no 'done': {excerpt(self.body)!r}")
        message = value.get("message")
        self.raw_message = message if isinstance(message, dict) else {}
        self._line(0, value, self.body)
        self.arrivals.clear()

    def _line(self, ns: int, value: Mapping[str, JsonValue], data: bytes) -> None:
        if not ("message" in value or "response" in value or "done" in value):
            raise Garbage(f"neither 'message' nor 'response' nor 'done': {excerpt(data)!r}")
        model = value.get("model")
        if isinstance(model, str) and model and not self.served_model:
            self.served_model = model
            if self._asked_model and not self._same(self._asked_model, model):
                self.flag("wrong_model")
                self.note(f"asked for the model {self._asked_model!r}, {model!r} answered")
        logprobs = value.get("logprobs")
        tokens = len(logprobs) if isinstance(logprobs, list) and logprobs else None
        message = value.get("message")
        if isinstance(message, dict):
            self._piece(ns, message.get("thinking"), message.get("content"), tokens)
            if message.get("tool_calls"):
                self._calls_of(ns, message, data)
        else:
            self._piece(ns, value.get("thinking"), value.get("response"), tokens)
        if value.get("done") is True:
            self._finish(value)

    def _piece(self, ns: int, thinking: JsonValue, content: JsonValue, tokens: int | None) -> None:
        if isinstance(thinking, str) and thinking:
            self.trace(ns, thinking, None if content else tokens)
        if isinstance(content, str) and content:
            self.answer(ns, content, None if thinking else tokens)

    def _calls_of(self, ns: int, message: Mapping[str, JsonValue], data: bytes) -> None:
        calls = message["tool_calls"]
        if not isinstance(calls, list):
            raise Garbage("tool_calls is no list")
        texts = argument_texts(data.decode("utf-8", "replace"))
        for position, call in enumerate(calls):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                raise Garbage("a tool call holds no function")
            name, call_id = function.get("name"), call.get("id")
            arguments = function.get("arguments")
            if position < len(texts):
                text = texts[position]
            else:
                text = json.dumps(arguments, ensure_ascii=False)
            self.call(
                ns,
                self._count,
                name=name if isinstance(name, str) else "",
                arguments=arguments if isinstance(arguments, str) else text,
                call_id=call_id if isinstance(call_id, str) else "",
            )
            self._count += 1

    def _finish(self, value: Mapping[str, JsonValue]) -> None:
        reason = value.get("done_reason")
        if reason == "error":
            raise ErrorInStream(ServerError("the server gave the done_reason 'error'"))
        self.finish_reason = reason if isinstance(reason, str) else ""
        self.usage = Usage(
            self.count("prompt_tokens", value.get("prompt_eval_count")),
            self.count("completion_tokens", value.get("eval_count")),
        )
        self.engine_timings = engine_timings_of(value)
        self._tell(self.engine_timings)
        self.complete = self.ended = True

    def _tell(self, timings: EngineTimings) -> None:
        """Say what the figures reveal: a look-alike, a load, a queue."""
        if timings.refused:
            self.note(f"the server's own figures are not believed: {timings.refused}")
            return
        if timings.load_sec is not None and timings.load_sec >= RELOAD_SEC:
            self.flag("reloaded")
            self.note(
                f"{timings.load_sec:.2f} s of the request went into loading the model, "
                "or into waiting for it to be loaded"
            )
        if timings.queue_sec is not None and timings.queue_sec >= QUEUE_SEC:
            self.flag("queued")
            self.note(f"the request waited {timings.queue_sec:.2f} s in the server's queue")


def argument_texts(line: str) -> list[str]:
    """The text of each call's ``arguments`` object in a line, as it was sent.

    Ollama sends objects; decoded, a key that the model wrote twice would be gone.
    """
    try:
        start = find(line, len(line) - len(line.lstrip()), "message", "tool_calls")
        if start is None:
            return []
        texts = []
        for begin, _ in elements(line, start):
            function = find(line, begin, "function")
            if function is None:
                return []
            spans = [(b, e) for key, b, e in members(line, function) if key == "arguments"]
            texts.append(line[spans[-1][0] : spans[-1][1]] if spans else "{}")
    except (ValueError, RecursionError):
        return []
    return texts


def engine_timings_of(value: Mapping[str, JsonValue]) -> EngineTimings:
    """The last line's figures in our terms; ns become seconds.

    ``eval_duration`` starts when the first token has been sampled, so it covers one interval less
    than ``eval_count``.
    """
    load, prompt, decode, total = (_seconds(value.get(name)) for name in _DURATIONS)
    decoded = whole_number(value.get("eval_count"))
    queue = None
    if total is not None and prompt is not None and decode is not None:
        queue = max(0.0, total - (load or 0.0) - prompt - decode)
    return EngineTimings(
        prompt_tokens=whole_number(value.get("prompt_eval_count")),
        prompt_sec=prompt,
        decode_tokens=decoded,
        decode_intervals=None if decoded is None else max(0, decoded - 1),
        decode_sec=decode,
        load_sec=load,
        total_sec=total,
        queue_sec=queue,
        refused=why_refused(value),
    )


def why_refused(value: Mapping[str, JsonValue]) -> str:
    """Why these figures cannot be Ollama's own measurements; "" where they can.

    Ollama leaves out what is zero, and measures the parts of a request apart; servers that only
    speak its protocol send zeros, or one wall time under several names.
    """
    zero = [name for name in _DURATIONS if name in value and not value[name]]
    if zero:
        return f"{' and '.join(zero)} {'is' if len(zero) == 1 else 'are'} zero"
    wrong = [name for name in _DURATIONS if name in value and number(value[name]) is None]
    if wrong:
        return f"{wrong[0]} is {value[wrong[0]]!r}"
    eval_ns, total_ns = value.get("eval_duration"), value.get("total_duration")
    if eval_ns is not None and total_ns is not None and eval_ns >= total_ns:
        return "eval_duration is not shorter than total_duration"
    prompt_ns = value.get("prompt_eval_duration")
    if prompt_ns is not None and prompt_ns == eval_ns:
        return "prompt_eval_duration equals eval_duration"
    return ""


def _seconds(nanoseconds: JsonValue) -> float | None:
    value = number(nanoseconds)
    return None if value is None else value / 1e9
