"""The journal: JSON lines, a header first, then one record per line.

The controller appends and flushes a line as each item finishes, so a run that is killed loses at
most what was in flight, and the last line may be torn. The codec is pure text; writing is the
session's part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_benchrig.core.checked import checked_record
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.record_text import RecordText

JOURNAL_SCHEMA = 1
_HEADER_START = '{"benchrig_journal":'


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal as far as it could be read.

    Attributes:
        run: The header's ``run`` object; empty where the header is missing.
        records: Its records in order.
        warnings: What the reader should know, such as a torn last line.
    """

    run: Mapping[str, JsonValue]
    records: tuple[Record, ...]
    warnings: tuple[str, ...] = ()


def header_line(run: Mapping[str, JsonValue]) -> str:
    """The first line, with its line end."""
    header = {"benchrig_journal": JOURNAL_SCHEMA, "run": dict(run)}
    # ASCII, so that no character (U+2028, lone surrogates) can end or break a line.
    return json.dumps(header, ensure_ascii=True, separators=(",", ":")) + "\n"


def record_line(record: Record) -> str:
    """One record's line, with its line end."""
    return f'{{"record":{_RECORD_TEXT.write(record)}}}\n'


_RECORD_TEXT = RecordText(",", ":")


def load_journal(text: str) -> Journal:
    """Read a journal.

    A last line that does not parse is ignored with a warning: it was being written when the
    process died. So is a damaged line elsewhere (a full disk leaves such), because the records
    around it are worth keeping; the warning names it.

    Raises:
        ValueError: With the line's number: not a journal, or of a later version.
    """
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    run: Mapping[str, JsonValue] = {}
    records: list[Record] = []
    warnings: list[str] = []
    for position, (number, line) in enumerate(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            if not position and len(lines) == 1 and line.startswith(_HEADER_START):
                warnings.append(f"line {number}, the header, is torn: nothing was kept after it")
                continue
            if not position:
                raise ValueError(f"line {number}: not JSON: {problem}") from None
            if position == len(lines) - 1:
                warnings.append(f"line {number} is torn and was ignored (the run was cut off)")
            else:
                warnings.append(f"line {number} is damaged and was ignored: its record is lost")
            continue
        if not isinstance(value, dict):
            raise ValueError(f"line {number}: expected an object, found {type(value).__name__}")
        if "benchrig_journal" in value:
            _check_schema(value["benchrig_journal"], number)
            header = value.get("run")
            run = run or (header if isinstance(header, dict) else {})
            continue
        if not isinstance(value.get("record"), dict):
            raise ValueError(f"line {number}: expected a record; this is no benchrig journal")
        try:
            records.append(checked_record(value["record"]))
        except ValueError as problem:
            raise ValueError(f"line {number}: {problem}") from None
    if not lines:
        raise ValueError("the file is empty; a journal starts with a header line")
    if not run:
        warnings.append("the journal has no header, so its run cannot be compared with another")
    return Journal(run, tuple(records), tuple(warnings))


def _check_schema(schema: JsonValue, number: int) -> None:
    if schema != JOURNAL_SCHEMA:
        raise ValueError(
            f"line {number}: journal format {schema!r}; this version reads {JOURNAL_SCHEMA}; "
            "install the pytest-benchrig that wrote it"
        )
