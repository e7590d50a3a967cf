"""The run file: ``{"schema": 1, "run": {...}, "scorecards": [...], "records": [...]}``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_benchrig.core.checked import checked_record
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.journal import Journal, load_journal
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.record_text import RecordText
from pytest_benchrig.core.scorecard import Scorecard, ScoreSettings, build_scorecard

SCHEMA = 1
_RECORDS = '\n"records": [\n'
_BETWEEN = ",\n"
_END = "\n]}\n"
_AT_A_TIME = 1_000_000
"""Characters of records that are decoded together."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """One run: what it was, its scorecards, its records.

    Attributes:
        run: Environment, versions, options, targets, fingerprint; decided thresholds and
            comparisons too, so that every report can be made again from the file alone.
        scorecards: One per target.
        records: All records, warm-ups and repeated attempts included.
        warnings: What was odd about the file it was read from; never written.
    """

    run: Mapping[str, JsonValue]
    scorecards: tuple[Scorecard, ...] = ()
    records: tuple[Record, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, JsonValue]:
        """The run file's object."""
        return {
            "schema": SCHEMA,
            "run": dict(self.run),
            "scorecards": [card.to_json() for card in self.scorecards],
            "records": [record.to_json() for record in self.records],
        }

    def dumps(self) -> str:
        """The run file's text: one line per record, so that it can be read and compared."""
        head = json.dumps(dict(self.run), ensure_ascii=True, indent=1)
        cards = ",\n".join(_compact(card.to_json()) for card in self.scorecards)
        records = ",\n".join(_RECORD_TEXT.write(record) for record in self.records)
        return (
            f'{{"schema": {SCHEMA},\n"run": {head},\n"scorecards": [\n{cards}\n],'
            f"{_RECORDS}{records}{_END}"
        )


_RECORD_TEXT = RecordText(", ", ": ")  # as _compact does


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=True)


def latest_attempts(records: Sequence[Record]) -> tuple[Record, ...]:
    """The records that count: of an item that was rerun only the last attempt; all warm-ups."""
    last: dict[tuple[str, str, str], int] = {}
    for record in records:
        key = (record.target, record.suite, record.task_id)
        last[key] = max(last.get(key, 0), record.attempt)
    return tuple(
        r for r in records if r.phase == "warmup" or r.attempt == last[r.target, r.suite, r.task_id]
    )


def load_run(text: str, *, scored: bool = True) -> RunFile:
    """A run from the text of a run file or of a journal.

    Args:
        text: The file's content.
        scored: Build the scorecards of a journal, which holds none.

    Raises:
        ValueError: It is neither, is damaged, or has a later format.
    """
    if text.startswith("\ufeff"):
        text = text[1:]
    first = text.lstrip()[:200].split("\n", 1)[0]
    if '"benchrig_journal"' in first or first.startswith('{"record"'):
        return from_journal(load_journal(text), scored=scored)
    data, records = _in_parts(text)
    if data is None:
        try:
            data = json.loads(text)
        except RecursionError:
            raise ValueError("not a run file: nested too deeply") from None
        except ValueError as problem:
            raise ValueError(f"not a run file or journal: {problem}") from None
    run = from_json(data)
    return replace(run, records=records) if records else run


def _in_parts(text: str) -> tuple[JsonValue, tuple[Record, ...]]:
    """A run file as :meth:`RunFile.dumps` lays it out: all but its records, and those.

    Its records stand one a line. Taking some at a time keeps the JSON objects of 100,000, many
    times the size of the records, from being held at once. For any other layout, and for a faulty
    record, ``(None, ())``: the whole is then read as JSON, which knows the place of a fault.
    """
    start = text.find(_RECORDS)
    if start < 0 or not text.endswith(_END):
        return None, ()
    records: list[Record] = []
    at, end = start + len(_RECORDS), len(text) - len(_END)
    try:
        rest = json.loads(text[:start] + _RECORDS + _END)
        while at < end:
            cut = text.find(_BETWEEN, at + _AT_A_TIME, end)
            cut = end if cut < 0 else cut
            records += map(checked_record, json.loads(f"[{text[at:cut]}]"))
            at = cut + len(_BETWEEN)
    except (ValueError, RecursionError):
        return None, ()
    return rest, tuple(records)


def from_json(data: JsonValue) -> RunFile:
    """A run from a run file's object.

    Raises:
        ValueError: It is none, or of a later format.
    """
    if not isinstance(data, dict) or "schema" not in data:
        raise ValueError('not a run file: expected an object with "schema"')
    schema = data["schema"]
    if schema != SCHEMA or isinstance(schema, bool):
        if isinstance(schema, int) and schema > SCHEMA:
            raise ValueError(
                f"run file format {schema} is newer than this version, which reads up to "
                f"{SCHEMA}; upgrade pytest-benchrig"
            )
        raise ValueError(f"run file format {schema!r} is unknown; this version reads {SCHEMA}")
    for name, kind in (("run", dict), ("scorecards", list), ("records", list)):
        if not isinstance(data.get(name), kind):
            raise ValueError(f'not a run file: "{name}" is missing or of the wrong type')
    records = []
    for number, entry in enumerate(data["records"]):
        try:
            records.append(checked_record(entry))
        except ValueError as problem:
            raise ValueError(f"records[{number}]: {problem}") from None
    scorecards = []
    for number, entry in enumerate(data["scorecards"]):
        try:
            scorecards.append(Scorecard.from_json(entry))
        except ValueError as problem:
            raise ValueError(f"scorecards[{number}]: {problem}") from None
    return RunFile(data["run"], tuple(scorecards), tuple(records))


def score_settings(run: Mapping[str, JsonValue]) -> ScoreSettings:
    """The score settings that a run's header records; the defaults for what it does not."""
    options = run.get("options")
    options = options if isinstance(options, Mapping) else {}
    default = ScoreSettings()
    weights = options.get("composite_weights")
    runs = options.get("runs_max")
    reference = options.get("reference_tok_per_sec")
    return ScoreSettings(
        weights={**default.weights, **weights} if isinstance(weights, Mapping) else default.weights,
        reference_tok_per_sec=float(reference or default.reference_tok_per_sec),
        runs=int(runs or default.runs),
    )


def from_journal(journal: Journal, *, scored: bool = True) -> RunFile:
    """A run from a journal: the scorecards are built again from its records, unless not wanted."""
    if not scored:
        return RunFile(journal.run, (), journal.records, journal.warnings)
    settings = score_settings(journal.run)
    counted = latest_attempts(journal.records)
    by_target: dict[str, list[Record]] = {}
    for record in counted:
        by_target.setdefault(record.target, []).append(record)
    cards = tuple(
        build_scorecard(target, records, settings=settings) for target, records in by_target.items()
    )
    return RunFile(journal.run, cards, journal.records, journal.warnings)


def with_decisions(
    run: RunFile, thresholds: Sequence[JsonValue], comparisons: Sequence[JsonValue]
) -> RunFile:
    """The run with decided thresholds and comparisons, as JSON objects, in its ``run`` block."""
    block = {**run.run, "thresholds": list(thresholds), "comparisons": list(comparisons)}
    return replace(run, run=block)


def merge_runs(runs: Sequence[RunFile]) -> RunFile:
    """Several runs side by side: scorecards and records of all.

    A target that occurs in more than one run carries its run's id behind it.

    Raises:
        ValueError: No run was given.
    """
    if not runs:
        raise ValueError("no run to merge")
    seen: dict[str, int] = {}
    for run in runs:
        for target in dict.fromkeys(card.target for card in run.scorecards):
            seen[target] = seen.get(target, 0) + 1
    names = _run_names(runs)
    cards: list[Scorecard] = []
    records: list[Record] = []
    for run, name in zip(runs, names, strict=True):
        label = {t: f"{t} @ {name}" if count > 1 else t for t, count in seen.items()}
        cards += [replace(card, target=label[card.target]) for card in run.scorecards]
        records += [r.replace(target=label.get(r.target, r.target)) for r in run.records]
    block = {
        "id": " + ".join(names),
        "merged": [dict(run.run) for run in runs],
        "targets": [card.target for card in cards],
    }
    warnings = tuple(warning for run in runs for warning in run.warnings)
    return RunFile(block, tuple(cards), tuple(records), warnings)


def _run_names(runs: Sequence[RunFile]) -> list[str]:
    names = [str(run.run.get("id") or f"run {n}") for n, run in enumerate(runs, 1)]
    return [name if names.count(name) == 1 else f"{name} ({n})" for n, name in enumerate(names, 1)]
