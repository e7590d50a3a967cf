"""Scenario files: from the text of a file to scenarios, and to problems that name their place.

Pure: the caller reads the file and the prompt files (:mod:`pytest_benchrig.scenario_io`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_benchrig.core import schema, validation
from pytest_benchrig.core.entries import (
    KINDS,
    build_scenario,
    mark_finding,
    merge_defaults,
    shape_of,
    suite_of_file,
)
from pytest_benchrig.core.findings import (
    Finding,
    JsonPath,
    Problem,
    did_you_mean,
    field_name,
    shown,
)
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.json_text import (
    Document,
    Element,
    JsonFault,
    Positions,
    locate,
    read_document,
)
from pytest_benchrig.core.scenario import Scenario, ToolUseSpec

__all__ = [
    "KINDS",
    "LoadedFile",
    "Problem",
    "PromptProblem",
    "parse_file",
    "scenario_digest",
]


@dataclass(frozen=True, slots=True)
class PromptProblem:
    """Why a prompt file could not be read, and what to do."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The usable scenarios of a file in their order, and what is wrong with the others.

    An entry with a problem gives no scenario; one entry can have several problems, which then
    share ``Problem.index``.
    """

    scenarios: tuple[Scenario, ...]
    problems: tuple[Problem, ...]


ReadPrompt = Callable[[str], "str | PromptProblem"]


def parse_file(
    text: str,
    path: str,
    *,
    read_prompt: ReadPrompt,
    existing_marks: Collection[str] = (),
    check_types: Collection[str] = (),
) -> LoadedFile:
    """Read, validate and type every entry of a scenario file.

    Args:
        text: The file's content.
        path: The file as messages show it; its stem is the default suite.
        read_prompt: Gives the text of a ``prompt_file``, or why it cannot be read.
        existing_marks: Names that no suite or tag may have.
        check_types: Further ``check_type`` names that plugins offer.
    """
    try:
        document = read_document(text)
    except JsonFault as fault:
        message = f"not valid JSON: {fault.message} (line {fault.line}, column {fault.column})"
        return LoadedFile((), (Problem(path, fault.line, "", "", message),))
    with warnings.catch_warnings():
        # What Python or regex thinks of the style of somebody's code is no fault of the file.
        warnings.simplefilter("ignore")
        return _Parse(text, path, document, read_prompt, existing_marks, check_types).run()


class _Parse:
    """One file being read; collects problems as it goes."""

    def __init__(
        self,
        text: str,
        path: str,
        document: Document,
        read_prompt: ReadPrompt,
        existing_marks: Collection[str],
        check_types: Collection[str],
    ) -> None:
        self._text = text
        self._path = path
        self._document = document
        self._read_prompt = read_prompt
        self._marks = frozenset(existing_marks)
        self._check_types = frozenset(check_types)
        self._problems: list[Problem] = []
        self._first_line: dict[str, int] = {}
        self._defaults: Mapping[str, JsonValue] = {}
        self._suite = suite_of_file(PurePosixPath(path.replace("\\", "/")).stem)
        self._good_suites: set[str] = set()

    def run(self) -> LoadedFile:
        document = self._document
        if document.kind == "value":
            got = shown(document.elements[0].value)
            message = f'expected an array of entries, or an object with "scenarios", got {got}'
            self._file_problem(document.elements[0].line, "", message)
            return self._loaded(())
        if document.kind == "object" and not self._take_members():
            return self._loaded(())
        found = [self._entry(i, element) for i, element in enumerate(document.elements)]
        return self._loaded(tuple(s for s in found if s is not None))

    def _loaded(self, scenarios: tuple[Scenario, ...]) -> LoadedFile:
        return LoadedFile(scenarios, tuple(self._problems))

    def _file_problem(self, line: int, field: str, message: str, hint: str = "") -> None:
        self._problems.append(Problem(self._path, line, "", field, message, hint))

    def _take_members(self) -> bool:
        """The file's own members; ``False`` where the entries cannot be read without them."""
        document = self._document
        before = len(self._problems)
        known = schema.fields_of("file")
        if document.repeated is not None:
            key, offset = document.repeated
            self._file_problem(self._line_at(offset), key, "stands in the file twice")
        for name, element in document.members.items():
            if name not in known:
                hint = did_you_mean(name, known) or f"known fields: {', '.join(sorted(known))}"
                self._file_problem(element.line, name, "unknown field of a scenario file", hint)
            elif name == "scenarios":
                self._file_problem(
                    element.line, name, f"expected an array of entries, got {shown(element.value)}"
                )
            elif name == "$schema" and not isinstance(element.value, str):
                self._file_problem(element.line, name, "expected a text (string)")
        if not document.has_list and "scenarios" not in document.members:
            self._file_problem(
                1, "scenarios", "is missing: expected an array of entries", 'add "scenarios": [...]'
            )
        if "suite" in document.members:
            self._take_suite(document.members["suite"])
        if "defaults" in document.members:
            self._take_defaults(document.members["defaults"])
        return len(self._problems) == before

    def _take_suite(self, element: Element) -> None:
        found = schema.findings("suite", element.value)
        if not found:
            marks = mark_finding(element.value, "suite", self._marks)
            found = [marks] if marks else []
        for finding in found:
            self._file_problem(element.line, "suite", finding.message, finding.hint)
        if not found:
            self._suite = element.value

    def _take_defaults(self, element: Element) -> None:
        found = self._text_findings(element)
        if not found:
            found = self._schema_findings("defaults", element.value)
        if not found:
            found = self._tag_findings(element.value)
        positions = locate(self._text, element.start) if found else None
        for finding in found:
            line = self._line_of(positions, finding.path, element.line)
            name = field_name(("defaults", *finding.path))
            self._file_problem(line, name, finding.message, finding.hint)
        if not found:
            self._defaults = element.value

    def _entry(self, index: int, element: Element) -> Scenario | None:
        """One entry: a scenario, or ``None`` with its problems noted."""
        value = element.value
        if not isinstance(value, dict):
            message = f"expected an object with the fields of an entry, got {shown(value)}"
            self._problems.append(Problem(self._path, element.line, "", "", message, index=index))
            return None
        try:
            found, scenario = self._examine(value, element)
        except RecursionError:
            found, scenario = [Finding((), "is nested too deeply")], None
        entry_id = value.get("id", scenario.id if scenario else "")
        found += self._duplicate(entry_id, element.line)
        if not found:
            return scenario
        positions = locate(self._text, element.start)
        for finding in found:
            self._problems.append(
                Problem(
                    self._path,
                    self._line_of(positions, finding.path, element.line),
                    entry_id if isinstance(entry_id, str) else "",
                    field_name(finding.path),
                    finding.message,
                    finding.hint,
                    index,
                )
            )
        return None

    def _examine(
        self, value: dict[str, JsonValue], element: Element
    ) -> tuple[list[Finding], Scenario | None]:
        found = self._text_findings(element)
        if found:
            return found, None
        suite = value.get("suite", self._suite)
        shape = shape_of(value, self._defaults, suite if isinstance(suite, str) else "")
        if shape.finding is not None:
            return [shape.finding], None
        entry = merge_defaults(value, self._defaults, shape.definition)
        if shape.kind == "context" and "id" not in entry:
            entry["id"] = f"ctx_{entry.get('context_size', entry.get('context_tokens'))}"
        found = self._schema_findings(shape.definition, entry)
        if found:
            return found, None
        found = [*self._suite_findings(entry), *self._tag_findings(entry)]
        prompt_text = ""
        if "prompt_file" in entry:
            read = self._read_prompt(entry["prompt_file"])
            if isinstance(read, PromptProblem):
                found.append(Finding(("prompt_file",), read.message, read.hint))
            else:
                prompt_text = read
        scenario = build_scenario(
            entry, shape, suite, path=self._path, line=element.line, prompt_text=prompt_text
        )
        found += validation.entry_findings(scenario, entry)
        return found, scenario

    def _text_findings(self, element: Element) -> list[Finding]:
        found = []
        if element.has_duplicates:
            duplicates = locate(self._text, element.start).duplicates
            found += [
                Finding(where, "stands in the same object twice", "keep one of the two")
                for where, _ in duplicates
            ]
        if element.has_bad_text:
            found.append(Finding((), "holds half of a surrogate pair (\\ud800 to \\udfff)"))
        return found

    def _schema_findings(self, definition: str, value: JsonValue) -> list[Finding]:
        """What the schema says, further check types apart."""
        own = value.get("check_type") if isinstance(value, dict) else None
        if isinstance(own, str) and own in self._check_types:
            value = {**value, "check_type": "exact_or_contains"}
        return schema.findings(definition, value)

    def _suite_findings(self, entry: Mapping[str, JsonValue]) -> list[Finding]:
        suite = entry.get("suite", self._suite)
        if suite in self._good_suites:
            return []
        hint = "" if "suite" in entry else 'the file\'s name gives it; set "suite"'
        found = schema.findings("suite", suite)
        if not found and (mark := mark_finding(suite, "suite", self._marks)):
            found = [mark]
        if not found:
            self._good_suites.add(suite)
        return [Finding(("suite",), f.message, hint or f.hint) for f in found]

    def _tag_findings(self, entry: Mapping[str, JsonValue]) -> list[Finding]:
        found = (
            mark_finding(tag, "tags", self._marks, index)
            for index, tag in enumerate(entry.get("tags", ()))
        )
        return [finding for finding in found if finding is not None]

    def _duplicate(self, entry_id: JsonValue, line: int) -> list[Finding]:
        """The second entry of an id is at fault, whether or not the first can be used."""
        if not isinstance(entry_id, str):
            return []
        first = self._first_line.get(entry_id)
        if first is None:
            self._first_line[entry_id] = line
            return []
        message = f"an entry with this id stands in the file already, in line {first}"
        return [Finding(("id",), message, "give each entry an id of its own")]

    def _line_at(self, offset: int) -> int:
        return self._text.count("\n", 0, offset) + 1

    def _line_of(self, positions: Positions | None, path: JsonPath, line: int) -> int:
        offset = positions.nearest(path) if positions is not None and path else None
        return line if offset is None else self._line_at(offset)


def scenario_digest(scenario: Scenario) -> str:
    """A fingerprint of what defines a scenario: hex sha256 over canonical JSON.

    In it: suite, id, kind, prompt, system message, options, and everything that judges the reply.
    Not in it: where the entry stands, its name, tags, time limit of the request, pass rate, near
    misses, reference solution and category, none of which changes a record.
    """
    spec = _plain(scenario.spec)
    for name in ("reference_solution", "category"):
        spec.pop(name, None)
    if not isinstance(scenario.spec, ToolUseSpec):
        spec = {name: value for name, value in spec.items() if value not in (None, "", ())}
    content = {
        "suite": scenario.suite,
        "id": scenario.id,
        "kind": scenario.kind,
        "prompt": scenario.prompt,
        "system": scenario.system,
        "options": {n: v for n, v in _plain(scenario.sampling).items() if v not in (None, (), {})},
        "spec": spec,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> dict[str, Any]:
    """A value object as plain JSON values; mappings inside are taken as they are."""
    plain: dict[str, Any] = {}
    for part in dataclasses.fields(value):
        inner = getattr(value, part.name)
        plain[part.name] = _plain_value(inner)
    return plain


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(value)
    if isinstance(value, tuple):
        return [_plain_value(inner) for inner in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value
