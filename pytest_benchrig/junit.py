"""What the JUnit file says beyond pytest's own: flat properties, the type of a missed answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from pytest_benchrig.core.record import Record
from pytest_benchrig.reports.escape import xml_text

MISSED_PREFIX = "MISSED: "
_FIELDS = (
    "suite",
    "task_id",
    "target",
    "outcome",
    "verdict",
    "ttft_sec",
    "answer_ttft_sec",
    "prompt_tok_per_sec",
    "prefill_eff_tok_per_sec",
    "eval_tok_per_sec",
    "prompt_tokens_actual",
    "completion_tokens",
    "total_time_sec",
    "finish_reason",
    "passed_tests",
    "total_tests",
    "sandbox_isolation",
    "extracted_answer",
    "disturbed",
)


def properties(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Flat strings of the item's last record, named ``benchrig.<field>``, and the pass count."""
    if not records:
        return []
    last = records[-1]
    found = [
        (f"benchrig.{name}", _flat(value))
        for name in _FIELDS
        if (value := getattr(last, name)) is not None and value != ""
    ]
    judged = [r for r in records if r.passed is not None]
    if judged:
        found.append(
            ("benchrig.passed_runs", f"{sum(bool(r.passed) for r in judged)}/{len(judged)}")
        )
    return found


def _flat(value: object) -> str:
    if isinstance(value, str):
        return xml_text(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def mark_missed(path: Path) -> None:
    """Give the skipped elements of missed answers their own type.

    pytest writes ``type="pytest.skip"`` for everything that neither passed nor failed; dashboards
    tell a missed answer from a skipped test by ``benchrig.missed``.
    """
    tree = ElementTree.parse(path)
    changed = False
    for skipped in tree.iter("skipped"):
        message = skipped.get("message", "")
        if message.startswith(MISSED_PREFIX):
            skipped.set("type", "benchrig.missed")
            skipped.set("message", message.removeprefix(MISSED_PREFIX))
            changed = True
    if changed:
        temporary = path.with_name(path.name + ".tmp")
        tree.write(temporary, encoding="utf-8", xml_declaration=True)
        temporary.replace(path)
