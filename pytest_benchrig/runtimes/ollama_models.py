"""Ollama's models: names and tags, what the server tells about them, and fetching."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from pytest_benchrig.core.generation import JsonValue, Message, ModelInfo
from pytest_benchrig.runtimes.clock import StampedEvent
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.reply import Reply, decode_event

DEFAULT_TAG = "latest"
_LIBRARY = re.compile(r"\A(?:registry\.ollama\.ai/)?(?:library/)?", re.IGNORECASE)
_STEP_PCT = 5
_LONGEST_TOKEN_BYTES = 24
_FEWEST_BYTES_PER_TOKEN = 2


def normalise(name: str) -> str:
    """The full name of a model: with its tag, without the default registry, in lower case.

    >>> normalise("Qwen3"), normalise("library/qwen3:8B"), normalise("hf.co/Org/Name-GGUF:Q4_K_M")
    ('qwen3:latest', 'qwen3:8b', 'hf.co/org/name-gguf:q4_k_m')
    """
    bare = _LIBRARY.sub("", name.strip()).lower()
    return bare if ":" in bare.rpartition("/")[2] else f"{bare}:{DEFAULT_TAG}"


def same_name(one: str, other: str) -> bool:
    """Whether two names mean the same model."""
    return normalise(one) == normalise(other)


def find_name(name: str, models: Sequence[ModelInfo]) -> ModelInfo | None:
    """The listed model that the name means."""
    return next((m for m in models if m.name == name), None) or next(
        (m for m in models if same_name(m.name, name)), None
    )


def listed_model(entry: Mapping[str, JsonValue]) -> ModelInfo:
    """One entry of ``/api/tags``, without its capabilities: only ``/api/show`` has them all."""
    details = _object(entry.get("details"))
    name = str(entry.get("name") or entry.get("model"))
    bare = name.removesuffix(f":{DEFAULT_TAG}")
    return ModelInfo(
        name,
        context_length=whole_number(details.get("context_length")) or None,
        digest=str(entry.get("digest") or ""),
        quantisation=str(details.get("quantization_level") or ""),
        parameters=str(details.get("parameter_size") or ""),
        size_bytes=whole_number(entry.get("size")) or None,
        aliases=(bare,) if bare != name else (),
    )


def shown_model(name: str, value: Mapping[str, JsonValue], listed: ModelInfo | None) -> ModelInfo:
    """What ``/api/show`` tells, with size and digest from the list."""
    details = _object(value.get("details"))
    window = next(
        (
            length
            for key, entry in _object(value.get("model_info")).items()
            if key.endswith(".context_length") and (length := whole_number(entry))
        ),
        None,
    )
    said = value.get("capabilities")
    return ModelInfo(
        name,
        context_length=window or (listed.context_length if listed else None),
        capabilities=frozenset(c for c in said if isinstance(c, str))
        if isinstance(said, list)
        else None,
        digest=listed.digest if listed else "",
        quantisation=str(details.get("quantization_level") or ""),
        parameters=str(details.get("parameter_size") or ""),
        size_bytes=listed.size_bytes if listed else None,
        aliases=listed.aliases if listed else (),
    )


def fewest_tokens(messages: Sequence[Message]) -> int:
    """A number of tokens that no usual tokenizer can encode these texts in fewer than.

    Tokens do not reach over blanks between words, and hardly any is longer than 24 bytes.
    """
    return sum(
        math.ceil(len(word.encode("utf-8", "replace")) / _LONGEST_TOKEN_BYTES)
        for message in messages
        for word in message.content.split()
    )


def may_exceed(messages: Sequence[Message], window: int) -> bool:
    """Whether these texts could be larger than the window, at two bytes a token."""
    size = sum(len(message.content.encode("utf-8", "replace")) for message in messages)
    return size / _FEWEST_BYTES_PER_TOKEN > window


class PullReply(Reply):
    """The progress of ``/api/pull``, told in steps of 5 %; the last status is ``success``.

    Args:
        progress: Called with a line.
    """

    def __init__(self, progress: Callable[[str], None]) -> None:
        super().__init__()
        self._progress = progress
        self._told: dict[str, int] = {}

    def feed(self, event: StampedEvent) -> None:
        """Take one line."""
        value = decode_event(event.data)
        status = value.get("status")
        if not isinstance(status, str) or not status:
            return
        total, done = whole_number(value.get("total")), whole_number(value.get("completed"))
        if total:
            step = int(100 * (done or 0) / total) // _STEP_PCT * _STEP_PCT
            if self._told.get(status) != step:
                self._told[status] = step
                self._progress(f"{status}: {step} % of {total / 1e6:,.0f} MB")
        elif status not in self._told:
            self._told[status] = 0
            self._progress(status)
        if status == "success":
            self.complete = self.ended = True


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
