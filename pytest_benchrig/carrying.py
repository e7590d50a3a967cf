"""How records reach the controller: in the test reports, as plain JSON values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.journal import record_line
from pytest_benchrig.core.record import Record

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
# How the start of every surrogate, lone or not, is spelt in a line of the journal.
_HALF_OF_A_PAIR = "\\ud"


@dataclass(frozen=True, slots=True)
class FinishedRecord:
    """A record in the forms that are needed after its item, each made once.

    Attributes:
        record: The record.
        plain: Its JSON object, which can leave a worker.
        line: Its line of the journal.
    """

    record: Record
    plain: dict[str, JsonValue]
    line: str

    @classmethod
    def of(cls, record: Record) -> FinishedRecord:
        """Bring a record into its forms; what cannot travel is replaced in all of them."""
        plain = record.to_json()
        line = record_line(record)
        if _HALF_OF_A_PAIR in line and (clean := sendable(plain)) != plain:
            record = Record.from_json(clean)
            return cls(record, clean, record_line(record))
        return cls(record, plain, line)


class Carrier:
    """Both ends of the way; a controller that runs the items itself finds its own records again."""

    def __init__(self) -> None:
        self._packed: dict[str, JsonValue] = {}
        self._records: Sequence[FinishedRecord] = ()

    def pack(
        self, records: Sequence[FinishedRecord], facts: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue]:
        """What a test report carries: the records, and what else a worker learned."""
        plain: list[JsonValue] = [finished.plain for finished in records]
        self._packed = {"records": plain, **(sendable(dict(facts)) if facts else {})}
        self._records = records
        return self._packed

    def unpack(self, data: Mapping[str, Any]) -> Sequence[FinishedRecord]:
        """The records that a report carries."""
        if data is self._packed:
            return self._records
        return [FinishedRecord.of(Record.from_json(plain)) for plain in data["records"]]


def sendable(value: JsonValue) -> JsonValue:
    """The value as it can travel from a worker: lone surrogates in its texts become U+FFFD.

    A server can send half of a character as an escape; nothing that has UTF-8 on its way takes it.
    """
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {str(sendable(key)): sendable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [sendable(inner) for inner in value]
    return value
