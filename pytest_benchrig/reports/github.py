"""GitHub Actions: the step summary and annotations, as text; writing them is the session's part."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports import decisions, markdown
from pytest_benchrig.reports.escape import one_line, visible

SUMMARY_BYTES = 1_000_000
"""GitHub refuses a step summary above 1 MiB."""
ANNOTATIONS = 10
"""GitHub shows at most ten error annotations of a step."""
MESSAGE = 400


def step_summary(run: RunFile) -> str:
    """The Markdown report, cut at a line end where it would be too large."""
    text = markdown.render(run)
    if len(text.encode()) <= SUMMARY_BYTES:
        return text
    kept: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        size += len(line.encode())
        if size > SUMMARY_BYTES - 200:
            break
        kept.append(line)
    return "".join(kept) + "\n\nCut here: the whole report is in the results directory.\n"


def annotate(
    run: RunFile,
    *,
    locations: Iterable[tuple[str, str, str, int]] = (),
) -> list[str]:
    """Workflow commands: an error per violated threshold, then per failed scenario.

    Args:
        run: The run with its decisions.
        locations: Suite, scenario id, file and line (1-based) of scenarios, for annotations on
            the JSON entry.
    """
    where = {(suite, task_id): (file, line) for suite, task_id, file, line in locations}
    lines = [
        command("error", decisions.threshold_line(result), title="benchrig threshold")
        for result in decisions.as_json(None, run, "thresholds")
        if not result.get("held")
    ]
    seen: set[tuple[str, str, str]] = set()
    for record in markdown.failed_records(run):
        key = (record.suite, record.task_id, record.target)
        if record.outcome == "skipped" or key in seen:
            continue
        seen.add(key)
        file, line = where.get((record.suite, record.task_id), ("", 0))
        lines.append(command("error", _message(record), title=_title(record), file=file, line=line))
    more = len(lines) - ANNOTATIONS
    if more > 0:
        lines = [
            *lines[: ANNOTATIONS - 1],
            command("error", f"{more + 1} more failures are in the step summary"),
        ]
    return lines


def _title(record: Record) -> str:
    return f"{record.suite}/{record.task_id} [{record.target}]"


def _message(record: Record) -> str:
    return one_line(record.detail or record.error or record.verdict or record.outcome, MESSAGE)


def command(kind: str, message: str, *, title: str = "", file: str = "", line: int = 0) -> str:
    """One workflow command; neither its message nor its properties can start another.

    Escapes are those of the Actions toolkit: ``%``, CR and LF in the message, also ``:`` and
    ``,`` in properties.
    """
    properties = [("title", one_line(title)), ("file", one_line(file))]
    words = [f"{name}={_property(value)}" for name, value in properties if value]
    if file and line > 0:
        words.append(f"line={line}")
    head = f"::{kind} {','.join(words)}" if words else f"::{kind}"
    return f"{head}::{_data(visible(message, keep=chr(10)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
