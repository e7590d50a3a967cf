"""What came back so far: a dialect feeds events into it, and it becomes the Generation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from pytest_benchrig.core.counts import REFUSED_FLAG, refusal
from pytest_benchrig.core.generation import (
    EMPTY,
    Arrival,
    EngineTimings,
    Generation,
    JsonValue,
    TimingMarks,
    ToolCall,
    Usage,
)
from pytest_benchrig.core.thinking import StreamSplitter
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.faults import ServerError, error_in, excerpt
from pytest_benchrig.runtimes.figures import whole_number

_DECODER = json.JSONDecoder()

ArrivalKind: TypeAlias = Literal["thinking", "answer", "tool_call"]


class ErrorInStream(Exception):  # noqa: N818 - named for what it reports
    """The server sent an error object inside the stream."""

    def __init__(self, error: ServerError) -> None:
        super().__init__(error.message)
        self.error = error


class Garbage(Exception):  # noqa: N818 - named for what it reports
    """A line or event that the dialect cannot be saying."""


class Reply:
    """One reply while it arrives. A dialect subclasses it and implements :meth:`feed`.

    Attributes:
        complete: The server said that the reply is finished (finish reason, ``done: true``).
        ended: Nothing of interest can follow (``[DONE]``, ``done: true``).
        blank_tail: Empty events since the last token.
        body: A reply that came in one piece, byte for byte; set before :meth:`whole` is called.
    """

    def __init__(
        self,
        *,
        endpoint: str = "",
        options_sent: Mapping[str, JsonValue] = EMPTY,
    ) -> None:
        self.endpoint = endpoint
        self.options_sent = options_sent
        self.complete = False
        self.ended = False
        self.body = b""
        self.arrivals: list[Arrival] = []
        self.blank_tail = 0
        self.finish_reason = ""
        self.usage = Usage()
        self.engine_timings: EngineTimings | None = None
        self.engine = ""
        self.served_model = ""
        self.device = ""
        self.notes: list[str] = []
        self.flags: list[str] = []
        self.raw_message: Mapping[str, JsonValue] = EMPTY
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, tuple[str, str, str]] = {}
        self._splitter = StreamSplitter()
        self._known: Literal["thinking", "answer"] | None = None
        self._open_from: int | None = None
        self._reopened = False

    def feed(self, event: StampedEvent) -> None:
        """Take one event of the stream.

        Raises:
            ErrorInStream: The event is an error object.
            Garbage: The event is nothing that this dialect says.
        """
        raise NotImplementedError

    def whole(self, value: Mapping[str, JsonValue]) -> None:
        """Take a reply that came in one piece, without arrivals."""
        raise NotImplementedError

    def answer(self, ns: int, piece: str, tokens: int | None = None) -> None:
        """A piece of the content; in-band thinking in it is told apart for the marks."""
        if not piece:
            return
        self._text.append(piece)
        kind = self._splitter.feed(piece)
        at = len(self.arrivals)
        if kind is None:
            # Only tags or blanks: they belong to what follows; for now, to what came before.
            self._open_from = at if self._open_from is None else self._open_from
            guess = self._known or ("thinking" if "<" in piece else "answer")
            self.arrivals.append(Arrival(ns, guess, tokens))
        else:
            if self._open_from is not None:
                self._recast(self._open_from, kind)
            self._open_from = None
            self._known = kind
            self.arrivals.append(Arrival(ns, kind, tokens))
        if self._splitter.bare_close and not self._reopened:
            self._reopened = True
            self._recast(0, "thinking", until=at)

    def _recast(
        self, start: int, kind: Literal["thinking", "answer"], until: int | None = None
    ) -> None:
        """Say anew what the content's arrivals in this range were."""
        self.arrivals[start:until] = [
            a if a.kind == "tool_call" else Arrival(a.ns, kind, a.tokens)
            for a in self.arrivals[start:until]
        ]

    def trace(self, ns: int, piece: str, tokens: int | None = None) -> None:
        """A piece of the trace that the server itself separated."""
        if piece:
            self._thinking.append(piece)
            self.arrivals.append(Arrival(ns, "thinking", tokens))

    def call(
        self,
        ns: int,
        index: int,
        *,
        name: str = "",
        arguments: str = "",
        call_id: str = "",
        tokens: int | None = None,
    ) -> None:
        """A fragment of the structured call number ``index``; fragments of arguments are joined."""
        if not (name or arguments or call_id):
            return
        known = self._calls.get(index, ("", "", ""))
        self._calls[index] = (known[0] or name, known[1] + arguments, known[2] or call_id)
        if name or arguments:
            self.arrivals.append(Arrival(ns, "tool_call", tokens))

    def count(self, name: str, value: JsonValue) -> int | None:
        """A count that the server sent; one that is no number of tokens is refused and said.

        Args:
            name: Its field of the usage.
            value: As it was sent.
        """
        count = whole_number(value)
        if count is None and value is not None:
            self.flag(REFUSED_FLAG)
            self.note(refusal(name, f"{excerpt(repr(value).encode())} is no number of tokens"))
        return count

    @property
    def text(self) -> str:
        """The content so far."""
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        """The separated trace so far."""
        return "".join(self._thinking)

    def note(self, text: str) -> None:
        """Add a plain sentence, once."""
        if text not in self.notes:
            self.notes.append(text)

    def flag(self, word: str) -> None:
        """Add a machine-readable trap, once."""
        if word not in self.flags:
            self.flags.append(word)

    def generation(self, marks: TimingMarks) -> Generation:
        """What came back, with the marks of the transport."""
        return Generation(
            text=self.text,
            marks=marks,
            thinking=self.thinking,
            tool_calls=tuple(ToolCall(*self._calls[i]) for i in self._calls),
            finish_reason=self.finish_reason,
            usage=self.usage,
            engine_timings=self.engine_timings,
            engine=self.engine,
            served_model=self.served_model,
            endpoint=self.endpoint,
            device=self.device,
            options_sent=self.options_sent,
            notes=tuple(self.notes),
            flags=tuple(self.flags),
            raw_message=self.raw_message,
        )


def decode_event(data: bytes) -> Mapping[str, JsonValue]:
    """The JSON object of one event.

    Raises:
        Garbage: It is none.
        ErrorInStream: It carries an error.
    """
    try:
        text = data.decode("utf-8", "replace")
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Garbage(f"not JSON: {excerpt(data)!r}") from None
    if not isinstance(value, dict):
        raise Garbage(f"not a JSON object: {excerpt(data)!r}")
    if "error" in value or "detail" in value or value.get("object") == "error":
        error = error_in(value)
        if error is not None:
            raise ErrorInStream(error)
    return value
