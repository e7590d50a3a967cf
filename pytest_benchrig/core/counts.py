"""Whether a server's token counts can be true. Pure: what cannot be is refused, with the reason.

A count is held against what was shown. A token is at least one byte of text or one event, so far
more tokens than both are wrong, or were never shown: engines that end a text early and go on to
their budget count what nobody sees. Thinking that the server hides but counts
(``reasoning_tokens``) is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_benchrig.core.generation import EngineTimings, Generation, Message, Request, Usage

REFUSED_FLAG = "usage_refused"
"""On a generation whose server sent at least one count that was refused."""
MOST_TOKENS = 100_000_000
"""No prompt and no reply is longer; the largest windows are a tenth of it."""
UNSHOWN_TOKENS = 64
"""Tokens of a reply that servers count and do not show: its end, roles, channels, tags of a call;
as many again for each tool call."""
TEMPLATE_TOKENS = 16_384
"""What a chat template, or the server's own system prompt, may add to a prompt."""
MOST_CHARS_PER_TOKEN = 128
"""The longest tokens of usual vocabularies are runs of that many blanks."""


def believed(generation: Generation, request: Request | None = None) -> Generation:
    """The generation without the counts that cannot be true, flagged and with a note for each.

    Args:
        generation: What came back. One that was checked before comes back as it is.
        request: What was asked; without it a prompt's count is held against a ceiling only.
    """
    usage = generation.usage
    refused = dict(_refused(generation, request))
    if not refused:
        return generation
    marks = generation.marks
    if refused.keys() & {"completion_tokens", "event_tokens"}:
        uncounted = tuple(replace(arrival, tokens=None) for arrival in marks.arrivals)
        marks = replace(marks, arrivals=uncounted)
    wrong = {name: None for name in refused if name != "event_tokens"}
    return replace(
        generation,
        marks=marks,
        usage=replace(usage, **wrong),
        flags=_with(generation.flags, REFUSED_FLAG),
        notes=_with(generation.notes, *(refusal(name, why) for name, why in refused.items())),
    )


_MORE_PROMPT = frozenset({"context", "images", "suffix", "system", "template"})
"""Options that add to the prompt what cannot be seen here."""
_WORDS = {
    "completion_tokens": "the reply's tokens",
    "event_tokens": "each event's tokens",
    "prompt_tokens": "the prompt's tokens",
    "cached_prompt_tokens": "cached prompt tokens",
    "thinking_tokens": "thinking tokens",
}


def refusal(name: str, why: str) -> str:
    """The note on a refused count; ``name`` is a field of the usage."""
    return f"the server's count of {_WORDS[name]} is refused: {why}"


def refused_before(generation: Generation, name: str) -> str:
    """The note on this count where it was refused, else ""."""
    start = refusal(name, "")
    return next((note for note in generation.notes if note.startswith(start)), "")


def _refused(generation: Generation, request: Request | None) -> Iterator[tuple[str, str]]:
    usage = generation.usage
    if usage.thinking_tokens is not None and (why := _thinking_is_wrong(usage)):
        yield "thinking_tokens", why
        usage = replace(usage, thinking_tokens=None)
    if usage.completion_tokens is not None and (why := _reply_is_wrong(generation, usage)):
        yield "completion_tokens", why
        usage = replace(usage, completion_tokens=None)
    if why := _events_are_wrong(generation, usage):
        yield "event_tokens", why
    if usage.prompt_tokens is not None and (why := _prompt_is_wrong(usage.prompt_tokens, request)):
        yield "prompt_tokens", why
        usage = replace(usage, prompt_tokens=None)
    if usage.cached_prompt_tokens is not None and (why := _cached_is_wrong(usage)):
        yield "cached_prompt_tokens", why


def _thinking_is_wrong(usage: Usage) -> str:
    thinking, completion = usage.thinking_tokens or 0, usage.completion_tokens
    if thinking < 0 or thinking > MOST_TOKENS:
        return f"{_short(thinking)} is no number of tokens"
    if completion is not None and thinking > completion:
        return f"{thinking:,} is more than the {_short(completion)} of the whole reply"
    return ""


def _reply_is_wrong(generation: Generation, usage: Usage) -> str:
    count = usage.completion_tokens or 0
    if count < 0 or count > MOST_TOKENS:
        return f"{_short(count)} is no number of tokens"
    text = _shown(generation)
    most = most_shown(generation)
    if count - (usage.thinking_tokens or 0) > most:
        return (
            f"{count:,}, but what was shown cannot be more than {most:,} tokens "
            f"({len(text):,} characters in {len(generation.marks.arrivals):,} events)"
        )
    if count * MOST_CHARS_PER_TOKEN < len(text):
        return f"{count:,} tokens cannot hold {len(text):,} characters"
    return ""


def _events_are_wrong(generation: Generation, usage: Usage) -> str:
    counted = sum(arrival.tokens or 0 for arrival in generation.marks.arrivals)
    most = usage.completion_tokens
    if most is None:
        most = most_shown(generation)
    if counted > most:
        return f"together {_short(counted)}, but the reply has no more than {most:,}"
    return ""


def _prompt_is_wrong(count: int, request: Request | None) -> str:
    if count < 0 or count > MOST_TOKENS:
        return f"{_short(count)} is no number of tokens"
    if request is None:
        return ""
    size = sum(_size(message) for message in request.messages)
    if count == 0 and size:
        return "0 for a prompt that is not empty"
    most = size + sum(len(str(tool).encode()) for tool in request.tools) + TEMPLATE_TOKENS
    if count > most and not _MORE_PROMPT & set(request.sampling.extra):
        return f"{count:,}, but {size:,} bytes were sent"
    return ""


def _cached_is_wrong(usage: Usage) -> str:
    cached = usage.cached_prompt_tokens or 0
    if cached < 0 or cached > MOST_TOKENS:
        return f"{_short(cached)} is no number of tokens"
    if usage.prompt_tokens is not None and cached > usage.prompt_tokens:
        return f"{cached:,} is more than the prompt's {usage.prompt_tokens:,}"
    return ""


def most_shown(generation: Generation) -> int:
    """The most tokens that the shown part of a reply can have."""
    return (
        len(_shown(generation).encode("utf-8", "replace"))
        + len(generation.marks.arrivals)
        + generation.marks.blank_tail
        + UNSHOWN_TOKENS * (1 + len(generation.tool_calls))
    )


def hidden_thinking(generation: Generation) -> int:
    """Thinking tokens that the server counts but did not show, 0 where it showed its trace."""
    shown = bool(generation.thinking) or any(
        a.kind == "thinking" for a in generation.marks.arrivals
    )
    return 0 if shown else generation.usage.thinking_tokens or 0


def engine_counts_wrong(engine: EngineTimings, generation: Generation) -> str:
    """Why the engine's own counts cannot be true of this reply; "" where they can."""
    decoded, prompt = engine.decode_tokens, engine.prompt_tokens
    most = most_shown(generation) + (generation.usage.thinking_tokens or 0)
    if decoded is not None and not 0 <= decoded <= most:
        return f"it counts {_short(decoded)} tokens of a reply that cannot have more than {most:,}"
    if prompt is not None and not 0 <= prompt <= MOST_TOKENS:
        return f"it counts {_short(prompt)} tokens of the prompt"
    return ""


def _shown(generation: Generation) -> str:
    calls = (call.name + call.arguments for call in generation.tool_calls)
    return "".join((generation.thinking, generation.text, *calls))


def _size(message: Message) -> int:
    texts = (message.content, *(c.name + c.arguments for c in message.tool_calls))
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def _short(number: int) -> str:
    return f"{number:,}" if abs(number) < 10**15 else f"a number of {number.bit_length()} bits"


def _with(known: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))
