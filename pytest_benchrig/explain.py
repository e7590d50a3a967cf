"""The explanation of a failed item: what was asked, answered, expected, and why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_benchrig.core.generation import Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.reports.escape import plain

PROMPT_CHARS = 300
ANSWER_CHARS = 400
LINE_CHARS = 500
"""Characters of one line of an explanation; the record keeps all of them."""
HEADLINE_LINES = 12
BLOCK_LINES = 60
LONGEST_CYCLE = 12
"""Lines of a repeated block, such as the frames of functions that call each other."""


def failure_text(scenario: Scenario, target: Target, records: Sequence[Record]) -> str:
    """A short readable text; the first line stands alone in summaries and JUnit messages."""
    judged = [r for r in records if r.passed is not None]
    failed = [r for r in judged if not r.passed]
    first = failed[0]
    headline = readable(first.detail or str(first.verdict), HEADLINE_LINES)
    if len(judged) > 1:
        passed = len(judged) - len(failed)
        headline = (
            f"{passed}/{len(judged)} passed (needed {scenario.min_pass_rate:.0%}); "
            f"run {first.run_index + 1}: {headline}"
        )
    lines = [plain(headline), ""]
    lines += _block("prompt", shorten(first.prompt, PROMPT_CHARS))
    if first.kind == "coding":
        lines += _block("code", first.extracted_code or "(no code)")
        lines += _block("why", first.sandbox_error or "")
    else:
        lines += _block("answer", shorten(first.response, ANSWER_CHARS, keep_end=True) or "(empty)")
        lines += _block("extracted", first.extracted_answer or "")
        lines += _block("expected", first.expected_answer or "")
    lines += _block("rule", first.rule)
    lines += _block("measured", numbers(first))
    lines += _block("scenario", f"{scenario.path}:{scenario.line}" if scenario.path else "")
    lines += _block("target", str(target))
    return "\n".join(lines)


def plain_test_text(target: Target, headline: str, records: Sequence[Record]) -> str:
    """The same for a plain Python test, which judges by itself: the last reply that it got."""
    lines = [plain(readable(headline, HEADLINE_LINES))]
    if records:
        last = records[-1]
        lines += ["", *_block("prompt", shorten(last.prompt, PROMPT_CHARS))]
        answer = shorten(last.response, ANSWER_CHARS, keep_end=True) or "(empty)"
        lines += [*_block("answer", answer), *_block("measured", numbers(last))]
        lines += _block("target", str(target))
    return "\n".join(lines)


def numbers(record: Record) -> str:
    """Tokens and timings of a record in one line; ``n/a`` for what was not measured."""

    def show(value: float | None, form: str) -> str:
        return "n/a" if value is None else form.format(value)

    parts = [
        f"{show(record.prompt_tokens_actual, '{:d}')} prompt tokens",
        f"{show(record.completion_tokens, '{:d}')} completion tokens",
        f"finish {record.finish_reason or 'n/a'}",
        f"TTFT {show(record.ttft_sec, '{:.3f} s')}",
        f"decode {show(record.eval_tok_per_sec, '{:.1f} t/s')}",
        f"total {show(record.total_time_sec, '{:.2f} s')}",
    ]
    if record.flags:
        parts.append("flags " + ", ".join(record.flags))
    return ", ".join(parts)


def shorten(text: str, limit: int, *, keep_end: bool = False) -> str:
    """At most ``limit`` characters, with a mark where something was left out."""
    if len(text) <= limit:
        return text
    return "..." + text[-limit:] if keep_end else text[:limit] + "..."


def _block(label: str, text: str) -> list[str]:
    if not text:
        return []
    first, *rest = readable(plain(text)).splitlines() or [""]
    return [f"{label + ':':<11}{first}", *(" " * 11 + line for line in rest)]


def readable(text: str, most_lines: int = BLOCK_LINES) -> str:
    """The text as a reader can take it: no endless line, no endless list of lines.

    Blocks of lines that repeat, as recursion leaves them in a traceback, are shown once. What is
    left out is said in its place.
    """
    lines = [_cut(line) for line in _without_repeats(text.splitlines())]
    left_out = len(lines) - most_lines
    if left_out > 0:
        head = most_lines * 2 // 3
        tail = most_lines - head
        lines = [*lines[:head], f"[{left_out} lines left out]", *lines[-tail:]]
    return "\n".join(lines)


def _cut(line: str) -> str:
    left_out = len(line) - LINE_CHARS
    if left_out <= 0:
        return line
    end = LINE_CHARS // 3
    return f"{line[: LINE_CHARS - end]}[{left_out} characters left out]{line[-end:]}"


def _without_repeats(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(lines):
        size, more = _repeats(lines, at)
        found += lines[at : at + size]
        if more:
            what = "line" if size == 1 else f"{size} lines"
            found.append(f"[the {what} above, {more} more times]")
        at += size * (more + 1)
    return found


def _repeats(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Lines of the block that repeats itself from here on, and how often; ``(1, 0)``: none does."""
    for size in range(1, LONGEST_CYCLE + 1):
        block = lines[at : at + size]
        more = 0
        start = at + size
        while len(block) == size and lines[start : start + size] == block:
            more += 1
            start += size
        if more >= 3:
            return size, more
    return 1, 0
