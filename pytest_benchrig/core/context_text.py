"""Needle retrieval: building prompts of a wanted size, and judging what was retrieved."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.scenario import ContextSpec
from pytest_benchrig.core.verdict import Verdict

CHARS_PER_TOKEN = 4
"""The estimate where the runtime cannot count tokens."""
MAX_COUNTS = 4
"""Counting asks the server; so many times at the most for one prompt."""
RESERVED_TOKENS = 96
"""What a file prompt leaves of the window for the chat template and the reply."""
EXCERPT_CHARS = 400

CountTokens = Callable[[str], "int | None"]

_PLACES = (
    "harbour", "mill", "orchard", "library", "station", "bakery", "lighthouse", "quarry",
    "market", "museum", "chapel", "sawmill", "granary", "tannery", "ferry", "brewery",
)  # fmt: skip
_PEOPLE = (
    "the keeper", "a carpenter", "the baker", "two students", "the postman", "an old sailor",
    "the miller", "a botanist", "the clerk", "a cartographer", "the gardener", "three cousins",
)  # fmt: skip
_DEEDS = (
    "counted the barrels", "repaired the fence", "wrote a long letter", "swept the courtyard",
    "painted the shutters", "sorted the seeds", "mended a torn sail", "polished the lamps",
    "measured the well", "stacked the firewood", "copied the ledger", "aired the blankets",
)  # fmt: skip
_TIMES = (
    "Before sunrise", "In the late morning", "After the rain", "At noon", "Towards evening",
    "On a quiet Tuesday", "While the bells rang", "When the fog lifted", "During the fair",
)  # fmt: skip
_ENDS = (
    "and nobody thought more of it", "as the custom had always been",
    "which took longer than planned",
    "while the kettle warmed on the stove", "and the cat watched from the sill",
    "because the season asked for it", "and said little about it afterwards",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContextPrompt:
    """A built prompt.

    Attributes:
        text: What is sent as the user's message.
        estimated_tokens: Its size, as counted or estimated.
        counted: Whether the runtime counted it.
        notes: What a reader should know (a file that was cut).
    """

    text: str
    estimated_tokens: int
    counted: bool
    notes: tuple[str, ...] = ()


class _Filler:
    """Varied plain sentences, the same for the same scenario id, different from the first word."""

    def __init__(self, scenario_id: str) -> None:
        digest = hashlib.sha256(scenario_id.encode("utf-8")).digest()
        self._random = random.Random(digest)
        self._sentences: list[str] = []
        mark = "".join(chr(ord("a") + byte % 26) for byte in digest[:8])
        self._opening = f"Notes {mark} from the {self._random.choice(_PLACES)} archive."

    def sentences(self, count: int) -> list[str]:
        """The opening and the first ``count`` sentences."""
        while len(self._sentences) < count:
            pick = self._random.choice
            # Words for digits: a filler number must never be mistaken for the needle's.
            self._sentences.append(
                f"{pick(_TIMES)} {pick(_PEOPLE)} of the {pick(_PLACES)} "
                f"{pick(_DEEDS)} near the {pick(_PLACES)}, {pick(_ENDS)}."
            )
        return [self._opening, *self._sentences[:count]]


def build_window_prompt(
    scenario_id: str, spec: ContextSpec, count_tokens: CountTokens | None = None
) -> ContextPrompt:
    """The window form: filler to about ``fill_ratio`` of the window, the needle at its depth.

    Deterministic per id, and no two ids share a prefix, so no prompt cache answers for the engine.

    Args:
        scenario_id: Seeds the filler.
        spec: Window, ratio, needle, depth, instruction.
        count_tokens: The runtime's own tokenizer; ``None`` or a ``None`` answer: 4 characters a
            token.
    """
    wanted = max(1, int(spec.context_size * spec.fill_ratio))
    filler = _Filler(scenario_id)

    def assemble(count: int) -> str:
        sentences = filler.sentences(count)
        # At a sentence boundary, never before the opening that keeps the prefix its own.
        place = 1 + round((len(sentences) - 1) * spec.needle_depth)
        body = [*sentences[:place], spec.needle, *sentences[place:]]
        return " ".join(body) + "\n\n" + spec.instruction

    sample = assemble(16)
    rate = len(sample) / CHARS_PER_TOKEN
    counted = count_tokens(sample) if count_tokens is not None else None
    per_sentence = (counted if counted is not None else rate) / 17
    count = max(0, int(wanted / max(per_sentence, 1.0)))
    if counted is None or count_tokens is None:
        count = _fit(lambda n: len(assemble(n)) // CHARS_PER_TOKEN, count, wanted)
        text = assemble(count)
        return ContextPrompt(text, len(text) // CHARS_PER_TOKEN, counted=False)
    return _counted_prompt(assemble, count_tokens, count, wanted, per_sentence)


def _counted_prompt(
    assemble: Callable[[int], str],
    count_tokens: CountTokens,
    count: int,
    wanted: int,
    per_sentence: float,
) -> ContextPrompt:
    best: tuple[int, str] | None = None
    for _ in range(MAX_COUNTS):
        text = assemble(count)
        tokens = count_tokens(text)
        if tokens is None:
            return ContextPrompt(text, len(text) // CHARS_PER_TOKEN, counted=False)
        if tokens <= wanted and (best is None or tokens > best[0]):
            best = (tokens, text)
        step = int((wanted - tokens) / per_sentence)
        if step == 0:
            if tokens <= wanted:
                break
            step = -1
        count = max(0, count + step)
        if count == 0:
            break
    if best is None:
        text = assemble(0)
        best = (count_tokens(text) or len(text) // CHARS_PER_TOKEN, text)
    return ContextPrompt(best[1], best[0], counted=True)


def _fit(size: Callable[[int], int], guess: int, wanted: int) -> int:
    """The largest count whose size does not exceed what is wanted."""
    low, high = 0, max(guess * 2, 1)
    while size(high) <= wanted:
        low, high = high, high * 2
    while low < high - 1:
        middle = (low + high) // 2
        if size(middle) <= wanted:
            low = middle
        else:
            high = middle
    return low


def build_file_prompt(
    scenario_id: str, spec: ContextSpec, count_tokens: CountTokens | None = None
) -> ContextPrompt:
    """The file form: the file's text, then the query.

    A file that does not fit the window is cut at its end, at a line boundary, so that text, query
    and a reserve of 96 tokens for template and reply fit; the cut is noted. With an ``expected``
    answer that the cut would remove, nothing is cut: the window is then the engine's to refuse.
    """
    room = spec.context_size - RESERVED_TOKENS
    text = spec.prompt_text.rstrip("\n")

    def assemble(body: str) -> str:
        return f"{body}\n\n{spec.query}"

    def size(body: str) -> tuple[int, bool]:
        full = assemble(body)
        counted = count_tokens(full) if count_tokens is not None else None
        if counted is not None:
            return counted, True
        return len(full) // CHARS_PER_TOKEN, False

    tokens, counted = size(text)
    if tokens <= room:
        return ContextPrompt(assemble(text), tokens, counted)
    cut = text
    for _ in range(MAX_COUNTS):
        share = max(0.0, room / tokens) * 0.98
        cut = cut[: int(len(cut) * share)]
        boundary = cut.rfind("\n")
        cut = cut[:boundary] if boundary > 0 else cut
        tokens, counted = size(cut)
        if tokens <= room:
            break
    if spec.expected and spec.expected in text and spec.expected not in cut:
        tokens, counted = size(text)
        note = f"the prompt has {tokens} tokens and the window {spec.context_size}"
        return ContextPrompt(assemble(text), tokens, counted, (note,))
    note = f"the prompt file was cut from {len(text)} to {len(cut)} characters to fit the window"
    return ContextPrompt(assemble(cut), tokens, counted, (note,))


def judge_context(
    spec: ContextSpec,
    answer: str,
    *,
    truncated_thinking: bool = False,
) -> Verdict:
    """A step passes when the answer holds the expected number as a whole number.

    Without ``expected`` (file form) it passes when any answer arrives, and counts for timing only:
    ``retrieved`` stays ``None``, which keeps it out of every accuracy.
    """
    from pytest_benchrig.core.matching import contains

    text = "" if truncated_thinking else answer
    fields: dict[str, JsonValue] = {
        "expected_answer": spec.expected or None,
        "answer_excerpt": text[-EXCERPT_CHARS:],
    }
    if not spec.expected:
        if text.strip():
            return Verdict(None, rule="context: timing only", fields=fields)
        return Verdict("fail", "no answer arrived", rule="context: timing only", fields=fields)
    found = contains(spec.expected, text)
    fields |= {
        "retrieved": found,
        "correct": found,
        "extracted_answer": spec.expected if found else _first_number(text),
    }
    rule = "context: the expected number as a whole number, in the answer only"
    if found:
        return Verdict("pass", rule=rule, fields=fields)
    said = repr(text.strip()[:80]) if text.strip() else "nothing"
    return Verdict("fail", f"expected {spec.expected}, the answer says {said}", rule, fields)


def _first_number(text: str) -> str | None:
    match = re.search(r"[-+]?\d[\d.,]*", text)
    return match[0].rstrip(".,") if match else None
