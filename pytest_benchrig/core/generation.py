"""What is asked of a model and what comes back: requests, generations, marks, the protocol.

Every time is an ``int`` of nanoseconds on one monotonic clock (``time.perf_counter_ns`` of the
measuring process); every duration derived from it is a ``float`` of seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

JsonValue: TypeAlias = Any
"""A value that ``json.loads`` can return."""

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""An empty mapping for default arguments."""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One structured call. ``arguments`` is the JSON text as the server sent it.

    Ollama sends an object; its bytes are kept as text here so that duplicate keys stay visible.
    """

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; ``tool_call_id`` and ``tool_name`` belong to role ``tool``."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling and engine options in Ollama's names; ``None`` means "not sent".

    ``extra`` holds engine options without a field of their own, sent as they are.
    """

    temperature: float | None = None
    num_predict: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    repeat_penalty: float | None = None
    num_ctx: int | None = None
    think: bool | str | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One request to one model.

    Attributes:
        model: The name the server knows.
        messages: The conversation; the cache marker, if any, already stands in it.
        sampling: Options as they are to be sent.
        tools: OpenAI function tools; empty for none.
        marker: Session-unique text that was put in front of the prompt so that no prompt cache
            can answer; kept so that a replay can compare without it.
        cache_prompt: Whether the server may reuse a cached prefix.
        ignore_eos: Ask the server to decode the whole budget, where it can.
        stream: ``False`` for tool use: one body, latency is wall time.
        timeout_sec: Limit of the whole request.
        stall_timeout_sec: Longest silence after the first token; never counts the prefill.
    """

    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    tools: tuple[Mapping[str, JsonValue], ...] = ()
    marker: str = ""
    cache_prompt: bool = True
    ignore_eos: bool = False
    stream: bool = True
    timeout_sec: float = 600.0
    stall_timeout_sec: float = 60.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event that carried at least one token.

    ``tokens`` is the number the server itself gave for this event, else ``None``.
    """

    ns: int
    kind: Literal["thinking", "answer", "tool_call"]
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TimingMarks:
    """The client's marks of one request, all in ns of one monotonic clock.

    Attributes:
        start_ns: Just before the first byte of the request was written.
        end_ns: The last byte of the body, or the fault.
        arrivals: Token-bearing events in order (role chunk, pings, empty deltas are none).
        connect_ns: Duration of connecting (and TLS), kept apart; ``None`` on a reused connection.
        headers_ns: Arrival of the response head.
        kernel_stamps: Whether arrivals carry the kernel's stamp of the segment.
        coalesced: Several events came in one read after a gap, so single gaps are not exact.
        retry_wait_ns: Time spent waiting on 429 or 503 before ``start_ns``; in no other figure.
        blank_tail: Empty events after the last token: tokens that show nothing, such as the end
            token again and again where the server was asked to ignore it.
    """

    start_ns: int
    end_ns: int
    arrivals: tuple[Arrival, ...] = ()
    connect_ns: int | None = None
    headers_ns: int | None = None
    kernel_stamps: bool = False
    coalesced: bool = False
    retry_wait_ns: int = 0
    blank_tail: int = 0

    @property
    def first_token_ns(self) -> int | None:
        """Arrival of the first token of any kind."""
        return self.arrivals[0].ns if self.arrivals else None

    @property
    def last_token_ns(self) -> int | None:
        """Arrival of the last token; never the finish, usage or end event."""
        return self.arrivals[-1].ns if self.arrivals else None

    @property
    def first_answer_ns(self) -> int | None:
        """Arrival of the first token of the answer's text: no trace and no tool call."""
        return next((a.ns for a in self.arrivals if a.kind == "answer"), None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server sent them; ``None`` where it sent none."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    thinking_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """What the engine says of itself, in its own terms.

    ``decode_tokens`` is the engine's count n for ``decode_sec``; ``decode_intervals`` is the number
    of token gaps that duration covers (n - 1 for llama.cpp and Ollama), so the comparable rate is
    ``decode_intervals / decode_sec``. ``refused`` says why the figures are not to be believed
    (a look-alike server with zero or equal durations).
    """

    prompt_tokens: int | None = None
    prompt_sec: float | None = None
    decode_tokens: int | None = None
    decode_intervals: int | None = None
    decode_sec: float | None = None
    load_sec: float | None = None
    total_sec: float | None = None
    queue_sec: float | None = None
    ttft_sec: float | None = None
    decode_tok_per_sec: float | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """What came back for one request.

    Attributes:
        text: The content exactly as received; in-band ``<think>`` tags are still in it.
        thinking: The trace that the server itself separated, else "".
        tool_calls: Structured calls in order.
        finish_reason: As the server says it (``stop``, ``length``, ``tool_calls``), "" if it
            sends none.
        usage: The server's counts.
        marks: The client's marks.
        engine_timings: The engine's own figures, ``None`` where it gives none.
        engine: Name and version of the engine where known.
        served_model: The model the server says it used.
        endpoint: Base URL, credentials redacted.
        device: The device the engine reports for this request, "" if unknown.
        options_sent: The options as they went over the wire.
        notes: Plain sentences about what the reader should know (an option was dropped, ...).
        flags: Machine-readable traps found by the dialect: ``prompt_truncated``, ``tools_dropped``,
            ``wrong_model``, ``reloaded``, ``queued``, ``short_budget``.
        raw_message: The assistant message as the server sent it (non-streaming tool use).
    """

    text: str
    marks: TimingMarks
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    engine_timings: EngineTimings | None = None
    engine: str = ""
    served_model: str = ""
    endpoint: str = ""
    device: str = ""
    options_sent: Mapping[str, JsonValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    raw_message: Mapping[str, JsonValue] = field(default_factory=dict)


FaultKind: TypeAlias = Literal[
    "unreachable",  # refused, DNS, TLS
    "http",  # a status that none of the others names
    "auth",  # 401 and 403
    "model_not_found",
    "busy",  # 429 and 503 after the bounded waits
    "stall",  # silence after the first token
    "timeout",  # the whole request
    "broken_stream",  # cut, no terminal signal, garbage, wrong content type, too long a line
    "stream_error",  # an error object inside the stream
    "out_of_memory",
    "context_window",  # the window is refused, cannot be allocated, or was silently cut
    "unsupported",  # the target cannot do it
    "fetch",  # a model could not be fetched
    "judging",  # the reply came, but the scenario's own check could not judge it
    "start",  # a runtime that the plugin starts did not come up
]


class RuntimeFault(Exception):  # noqa: N818 - a fault of the infrastructure, never of the answer
    """A request that gave no usable answer; never the model's wrong answer.

    Attributes:
        kind: The class of the fault.
        message: What happened, in one sentence.
        target: ``runtime:model``.
        url: Where, credentials redacted.
        phase: ``connect``, ``request``, ``prefill``, ``stream``, ``load``, ``list`` ...
        remedy: What the user can do.
        status: The HTTP status, if there was one.
        partial: What had arrived until then.
    """

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        target: str = "",
        url: str = "",
        phase: str = "",
        remedy: str = "",
        status: int | None = None,
        partial: Generation | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.target = target
        self.url = url
        self.phase = phase
        self.remedy = remedy
        self.status = status
        self.partial = partial

    def __str__(self) -> str:
        where = ", ".join(
            part
            for part in (
                self.target,
                self.url,
                f"phase {self.phase}" if self.phase else "",
                f"HTTP {self.status}" if self.status is not None else "",
            )
            if part
        )
        text = f"{self.kind}: {self.message}"
        if where:
            text += f" ({where})"
        return f"{text}. {self.remedy}" if self.remedy else text


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a runtime tells about one model; ``None`` and empty mean "it does not say".

    ``capabilities`` uses Ollama's words (``completion``, ``tools``, ``thinking``, ``vision``).
    """

    name: str
    context_length: int | None = None
    capabilities: frozenset[str] | None = None
    digest: str = ""
    quantisation: str = ""
    parameters: str = ""
    size_bytes: int | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the engine says that a loaded model lives; sizes in bytes."""

    device: str = "unknown"
    size_bytes: int | None = None
    size_vram_bytes: int | None = None
    context_length: int | None = None


class Runtime(Protocol):
    """What every runtime offers. Only ``generate`` is timed; the rest may be slow.

    Every method raises :class:`RuntimeFault` and nothing else for what goes wrong outside.
    """

    name: str
    base_url: str

    def version(self) -> str:
        """The server's name and version, "" if it does not say."""
        ...

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The models this runtime can serve."""
        ...

    def describe(self, model: str) -> ModelInfo:
        """One model; fault ``model_not_found``, with near names, where it is not there."""
        ...

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Bring the model into memory, untimed for results; the load time in seconds if known."""
        ...

    def unload(self, model: str) -> bool:
        """Free the model; ``False`` where the runtime cannot."""
        ...

    def generate(self, request: Request) -> Generation:
        """Answer one request; streaming and timed when ``request.stream``."""
        ...

    def count_tokens(self, model: str, text: str) -> int | None:
        """Tokens of the text, ``None`` where the runtime cannot count."""
        ...

    def placement(self, model: str) -> Placement:
        """Where the loaded model lives."""
        ...

    def loaded(self) -> Mapping[str, float | None]:
        """Models in memory now, with their MiB of device memory where told; empty if not told."""
        ...

    def server_pid(self) -> int | None:
        """The pid of the serving process where the plugin itself started it, else ``None``."""
        ...

    def close(self) -> None:
        """Close connections; stop what this object started."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """``runtime:model``, the pair every result belongs to."""

    runtime: str
    model: str
    endpoints: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.runtime}:{self.model}" if self.model else self.runtime
