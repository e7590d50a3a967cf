"""Tool-use metrics, each with numerator and denominator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.samples import Sample, Samples, key_of


def tool_samples(records: Sequence[Record]) -> dict[str, Samples]:
    """The tool metrics' samples.

    Turn metrics count every planned turn of each conversation that began, so a turn that was
    never reached stays failed evidence. Unsupported and skipped records are in no denominator;
    an error before the first turn leaves no turns and so counts in none.
    """
    asked = [r for r in records if not r.unsupported and r.outcome != "skipped"]
    calls = [(r, t) for r in asked for t in turns_of(r) if t.get("expected_tool") is not None]
    quiet = [(r, t) for r in asked for t in turns_of(r) if t.get("expected_tool") is None]
    return {
        "tool_task_success": Samples(
            tuple(
                Sample(key_of(r), r.run_index, float(r.passed), 1.0)
                for r in asked
                if r.passed is not None and r.outcome != "error"
            ),
            percent=True,
        ),
        "tool_selection_accuracy": _share(calls, "tool_ok"),
        "tool_argument_accuracy": _share(calls, "args_ok"),
        "tool_structured_call_rate": _share(calls, "structured"),
        "tool_abstention_accuracy": _share(quiet, "passed"),
        "tool_false_call_rate": _share(quiet, "called"),
    }


def turns_of(record: Record) -> list[Mapping[str, JsonValue]]:
    """The evidence of each planned turn."""
    return [turn for turn in record.turns or () if isinstance(turn, Mapping)]


def turn_counts(records: Sequence[Record]) -> tuple[int, int]:
    """Planned turns never reached, and turns that the infrastructure failed."""
    turns = [t for r in records if not r.unsupported for t in turns_of(r)]
    errors = sum(bool(t.get("error")) for t in turns)
    skipped = sum(t.get("reached") is False and not t.get("error") for t in turns)
    return skipped, errors


def _share(turns: Iterable[tuple[Record, Mapping[str, JsonValue]]], evidence: str) -> Samples:
    return Samples(
        tuple(
            Sample(key_of(r), r.run_index, float(bool(turn.get(evidence))), 1.0)
            for r, turn in turns
        ),
        percent=True,
    )


def as_ratio(samples: Samples) -> dict[str, int] | None:
    """``{"passed": n, "of": m}``; ``None`` for a zero denominator."""
    of = round(sum(row.below for row in samples.rows))
    return {"passed": round(sum(row.above for row in samples.rows)), "of": of} if of else None
