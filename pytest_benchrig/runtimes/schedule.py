"""A reply on an exact schedule: which bytes go out when. The scripted server plays it.

A schedule is a word list such as ``ttft250-itl10-n100-pack5``, given as the model's name, so that
any client can ask for it. Times are milliseconds after the request arrived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue

Dialect: TypeAlias = Literal["openai", "ollama"]
SendKind: TypeAlias = Literal["head", "role", "ping", "token", "finish", "usage", "end", "half"]

_WORD = re.compile(r"([a-z]+)(\d+(?:\.\d+)?)?\Z")
_TEXT = "zażółć"


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a schedule's words say.

    Attributes:
        ttft: First token.
        itl: Between tokens.
        n: Tokens.
        think: How many of them are thinking.
        pack: Tokens in one event.
        burst: Events in one segment.
        hdr: The response head goes out then (default: with the first bytes of the body).
        role: A role chunk goes out then; ``None``: together with the first token.
        ping: A comment every so often.
        tail: The finish event comes so much after the last token.
        usage: 0 none, 1 at the end, 2 at the end with the cached part, 3 on every event.
        tm: llama.cpp's ``timings`` on the last event.
        split: Each event goes out in two segments, cut inside a character, so far apart.
        cttft: First token of a prompt that was seen before.
        load: Loading the model takes so long, before anything goes out.
        stall: After the token of this number nothing comes for ``stallms``.
        drop: The connection is closed after the token of this number.
        err: Answer with this status, the first ``errx`` times, with ``Retry-After: ra``.
        raw: Body until close, HTTP/1.0.
        ka: 0: the connection is closed after the response.
        crlf: Lines end with CR LF.
        nosp: No blank after ``data:``.
    """

    ttft: float = 50.0
    itl: float = 10.0
    n: int = 20
    think: int = 0
    pack: int = 1
    burst: int = 1
    hdr: float | None = None
    role: float | None = None
    ping: float | None = None
    tail: float = 0.0
    usage: int = 1
    tm: bool = False
    split: float | None = None
    cttft: float | None = None
    load: float = 0.0
    stall: int | None = None
    stallms: float = 500.0
    drop: int | None = None
    err: int | None = None
    errx: int = 1
    ra: int | None = None
    raw: bool = False
    ka: int = 1
    crlf: bool = False
    nosp: bool = False

    @classmethod
    def parse(cls, words: str) -> Schedule:
        """A schedule from its words.

        Raises:
            ValueError: A word that there is not.
        """
        known = {f.name: f.type for f in fields(cls)}
        values: dict[str, JsonValue] = {}
        for word in words.split("-"):
            match = _WORD.match(word)
            if match is None or match[1] not in known:
                raise ValueError(f"no word of a schedule: {word!r}")
            kind = str(known[match[1]])
            if kind == "bool":
                values[match[1]] = True
            elif match[2] is None:
                raise ValueError(f"a number is missing behind {word!r}")
            else:
                values[match[1]] = float(match[2]) if "float" in kind else int(match[2])
        return cls(**values)

    @property
    def chunks(self) -> list[int]:
        """Tokens in each event; an event never holds thinking and answer."""
        sizes: list[int] = []
        for part in (self.think, self.n - self.think):
            whole, rest = divmod(part, self.pack)
            sizes += [self.pack] * whole + ([rest] if rest else [])
        return sizes


@dataclass(frozen=True, slots=True)
class Send:
    """One write: when (ms after the request), what, and how many tokens are complete with it.

    ``kind`` "half" is the first part of an event that a later write completes.
    """

    at: float
    data: bytes
    kind: SendKind
    tokens: int = 0


def plan(schedule: Schedule, dialect: Dialect, model: str, *, cached: bool = False) -> list[Send]:
    """Every write of the body, in order, without HTTP framing."""
    make = (
        _OllamaEvents(schedule, model, cached)
        if dialect == "ollama"
        else _ChatEvents(schedule, model, cached)
    )
    ttft = schedule.cttft if cached and schedule.cttft is not None else schedule.ttft
    ttft += schedule.load
    sends: list[Send] = []
    if schedule.role is not None and (role := make.role()):
        sends.append(Send(schedule.role, role, "role"))
    pending: list[tuple[bytes, int]] = []
    done = 0
    at = ttft
    sizes = schedule.chunks
    for number, size in enumerate(sizes):
        data = make.token(done, size)
        if number == 0 and schedule.role is None:
            data = make.role() + data
        pending.append((data, size))
        last = number == len(sizes) - 1
        if len(pending) == schedule.burst or last:
            at = ttft + max(0, done - sizes[0] * schedule.burst + size) * schedule.itl
            if schedule.stall is not None and done >= schedule.stall:
                at += schedule.stallms
            sends += _token_sends(schedule, at, pending)
            pending = []
        done += size
        if schedule.drop is not None and done >= schedule.drop:
            return _with_pings(schedule, sends, make.ping())
    at += schedule.tail
    sends += [Send(at, data, kind) for data, kind in make.closing()]
    return _with_pings(schedule, sends, make.ping())


def _token_sends(schedule: Schedule, at: float, events: list[tuple[bytes, int]]) -> Iterator[Send]:
    data = b"".join(event for event, _ in events)
    tokens = sum(size for _, size in events)
    cut = data.find("ż".encode()) + 1
    if schedule.split is None or cut <= 0:
        yield Send(at, data, "token", tokens)
        return
    yield Send(at - schedule.split, data[:cut], "half")
    yield Send(at, data[cut:], "token", tokens)


def _with_pings(schedule: Schedule, sends: list[Send], ping: bytes) -> list[Send]:
    if schedule.ping is None or not ping or not sends:
        return sends
    first = next(s.at for s in sends if s.kind == "token")
    count = int((first - 1) / schedule.ping)
    pings = [Send(schedule.ping * (i + 1), ping, "ping") for i in range(count)]
    return sorted([*pings, *sends], key=lambda send: send.at)


class _ChatEvents:
    """OpenAI's chunks."""

    def __init__(self, schedule: Schedule, model: str, cached: bool) -> None:
        self._schedule = schedule
        self._model = model
        self._cached = cached

    def role(self) -> bytes:
        return self._event(self._choice({"role": "assistant", "content": None}), 0)

    def ping(self) -> bytes:
        return b": keep-alive" + self._line_end() * 2

    def token(self, done: int, size: int) -> bytes:
        name = "reasoning_content" if done < self._schedule.think else "content"
        return self._event(self._choice({name: _words(done, size)}), done + size)

    def closing(self) -> Iterator[tuple[bytes, SendKind]]:
        schedule = self._schedule
        last = self._choice({}, "length")
        if schedule.usage != 1 and schedule.usage != 2 and schedule.tm:
            last["timings"] = self._timings()
        yield self._event(last, schedule.n), "finish"
        if schedule.usage in (1, 2):
            body: dict[str, JsonValue] = {"choices": [], "usage": self._usage(schedule.n)}
            if schedule.tm:
                body["timings"] = self._timings()
            yield self._event(body, None), "usage"
        yield b"data: [DONE]" + self._line_end() * 2, "end"

    def _choice(
        self, delta: Mapping[str, JsonValue], finish: str | None = None
    ) -> dict[str, JsonValue]:
        return {"choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    def _event(self, body: Mapping[str, JsonValue], total: int | None) -> bytes:
        value = {"object": "chat.completion.chunk", "model": self._model, **body}
        if self._schedule.usage == 3 and total is not None:
            value["usage"] = self._usage(total)
        data = json.dumps(value, ensure_ascii=False).encode()
        return (b"data:" if self._schedule.nosp else b"data: ") + data + self._line_end() * 2

    def _usage(self, total: int) -> dict[str, JsonValue]:
        usage: dict[str, JsonValue] = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": total}
        if self._schedule.usage == 2:
            cached = PROMPT_TOKENS - 1 if self._cached else 0
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        return usage

    def _timings(self) -> dict[str, JsonValue]:
        schedule = self._schedule
        cache_n = PROMPT_TOKENS - 1 if self._cached else 0
        ttft = schedule.cttft if self._cached and schedule.cttft is not None else schedule.ttft
        return {
            "cache_n": cache_n,
            "prompt_n": PROMPT_TOKENS - cache_n,
            "prompt_ms": ttft,
            "predicted_n": schedule.n,
            "predicted_ms": (schedule.n - 1) * schedule.itl,
        }

    def _line_end(self) -> bytes:
        return b"\r\n" if self._schedule.crlf else b"\n"


class _OllamaEvents:
    """Ollama's lines."""

    def __init__(self, schedule: Schedule, model: str, cached: bool) -> None:
        self._schedule = schedule
        self._model = model
        self._cached = cached

    def role(self) -> bytes:
        return b""

    def ping(self) -> bytes:
        return b""

    def token(self, done: int, size: int) -> bytes:
        name = "thinking" if done < self._schedule.think else "content"
        message = {"role": "assistant", "content": "", name: _words(done, size)}
        return self._line({"message": message, "done": False})

    def closing(self) -> Iterator[tuple[bytes, SendKind]]:
        schedule = self._schedule
        ttft = schedule.cttft if self._cached and schedule.cttft is not None else schedule.ttft
        decode = (schedule.n - 1) * schedule.itl
        body: dict[str, JsonValue] = {
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "length",
        }
        if schedule.usage:
            body |= {
                "total_duration": int((schedule.load + ttft + decode + 0.05) * 1e6),
                "load_duration": int(schedule.load * 1e6),
                "prompt_eval_count": PROMPT_TOKENS,
                "prompt_eval_duration": int(ttft * 1e6),
                "eval_count": schedule.n,
                "eval_duration": int(decode * 1e6),
            }
        yield self._line(body), "end"

    def _line(self, body: Mapping[str, JsonValue]) -> bytes:
        value = {"model": self._model, "created_at": "2030-01-01T00:00:00Z", **body}
        end = b"\r\n" if self._schedule.crlf else b"\n"
        return json.dumps(value, ensure_ascii=False).encode() + end


PROMPT_TOKENS = 128
"""What the scripted server says of every prompt."""


def _words(done: int, size: int) -> str:
    return "".join(f" {_TEXT}{done + i}" for i in range(size))
