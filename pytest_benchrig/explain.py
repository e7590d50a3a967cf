"""The explanation of a failed item: what was asked, answered, expected, and why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_benchrig.core.generation import Target
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import Scenario
from pytest_benchrig.reports.escape import plain

PROMPT_CHARS = 300
ANSWER_CHARS = 400


def failure_text(scenario: Scenario, target: Target, records: Sequence[Record]) -> str:
    """A short readable text; the first line stands alone in summaries and JUnit messages."""
    judged = [r for r in records if r.passed is not None]
    failed = [r for r in judged if not r.passed]
    first = failed[0]
    headline = first.detail or str(first.verdict)
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
    first, *rest = plain(text).splitlines() or [""]
    return [f"{label + ':':<11}{first}", *(" " * 11 + line for line in rest)]
