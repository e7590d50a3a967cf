"""From an entry's JSON to a typed scenario: its kind, the file's defaults, the value objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pytest_benchrig.core import schema
from pytest_benchrig.core.findings import Finding, did_you_mean, listed, nearest, shown
from pytest_benchrig.core.generation import JsonValue, Sampling
from pytest_benchrig.core.scenario import (
    AnswerSpec,
    CodingSpec,
    ContextSpec,
    Evaluator,
    Kind,
    Scenario,
    Spec,
    SpeedSpec,
    ToolTurn,
    ToolUseSpec,
)

KINDS: tuple[Kind, ...] = ("speed", "coding", "answer", "context", "tool_use")
JUDGED_SUITES = frozenset({"coding", "reasoning", "context", "polish", "tool_use"})
"""Bundled suites of judged scenarios: an entry there that judges nothing lacks something."""
_FILE_FORM = ("prompt_file", "query")
_WINDOW_FORM = ("needle", "instruction", "fill_ratio", "needle_depth")
_SYNONYMS = (("context_size", "context_tokens"), ("instruction", "prompt"), ("query", "prompt"))
_EVALUATORS = ("numeric", "numeric_text")


@dataclass(frozen=True, slots=True)
class Shape:
    """What an entry is: its kind, the schema's definition for it, and why it is not clear."""

    kind: Kind
    definition: str
    finding: Finding | None = None


def shape_of(
    entry: Mapping[str, JsonValue], defaults: Mapping[str, JsonValue], suite: str
) -> Shape:
    """The kind of an entry: as it says, as its fields show, else as the file's defaults do."""
    if "kind" in entry:
        said = entry["kind"]
        if said in KINDS:
            return _form(said, entry, defaults)
        hint = did_you_mean(said, KINDS) if isinstance(said, str) else ""
        message = f"expected {listed(KINDS)}, got {shown(said)}"
        return Shape("speed", "", Finding(("kind",), message, hint))
    for source in (entry, defaults):
        signs = _signs(source)
        if len(signs) > 1 and source is entry:
            told = " and ".join(f"{kind} ({', '.join(names)})" for kind, names in signs.items())
            message = f"fields of more than one kind: {told}"
            return Shape("speed", "", Finding((), message, 'say which with "kind"'))
        if source is entry and not signs:
            meant = _misspelt_kind(entry)
            if meant is not None:
                return _form(meant, entry, defaults)
        if source is defaults and "kind" in defaults:
            return _form(defaults["kind"], entry, defaults)
        if len(signs) == 1:
            return _form(next(iter(signs)), entry, defaults)
    if suite in JUDGED_SUITES:
        return Shape(
            "speed",
            "",
            Finding(
                (),
                f"nothing says how a reply of suite {suite} is judged",
                'add "check_type", "test_assertions" or the like, or "kind": "speed" to time only',
            ),
        )
    return Shape("speed", "speed")


def _misspelt_kind(entry: Mapping[str, JsonValue]) -> Kind | None:
    """The kind whose field an unknown name was meant to be."""
    fields = sorted(schema.fields_of("partial"))
    for name in entry:
        meant = "" if name in fields else nearest(name, fields)
        if meant in schema.telling_fields():
            return cast(Kind, schema.kinds_with(meant)[0])
    return None


def _signs(entry: Mapping[str, JsonValue]) -> dict[Kind, list[str]]:
    """The kinds that the entry's fields tell of, with those fields."""
    telling = schema.telling_fields()
    found: dict[Kind, list[str]] = {}
    for name in entry:
        for kind in telling.get(name, ()):
            found.setdefault(cast(Kind, kind), []).append(name)
    return found


def _form(kind: Kind, entry: Mapping[str, JsonValue], defaults: Mapping[str, JsonValue]) -> Shape:
    if kind != "context":
        return Shape(kind, kind)
    of_file = [n for n in _FILE_FORM if n in entry]
    of_window = [n for n in _WINDOW_FORM if n in entry]
    if not of_file and not of_window:
        of_file = [n for n in _FILE_FORM if n in defaults]
    if of_file and of_window:
        message = (
            f"fields of both forms of a context entry: {', '.join(of_file)} belong to a text in a "
            f"file, {', '.join(of_window)} to a window of filler text"
        )
        return Shape(kind, "", Finding((), message, "keep one of the two"))
    return Shape(kind, "context_file" if of_file else "context_window")


def merge_defaults(
    entry: Mapping[str, JsonValue], defaults: Mapping[str, JsonValue], definition: str
) -> dict[str, JsonValue]:
    """The entry with the defaults of its kind: its own fields win, options by name, tags add."""
    if not defaults:
        return dict(entry)
    known = schema.fields_of(definition)
    left_out = {"kind", *_replaced_by(entry)}
    merged = {n: v for n, v in defaults.items() if n in known and n not in left_out}
    merged.update(entry)
    options, own = defaults.get("options"), entry.get("options")
    if isinstance(options, dict) and isinstance(own, dict):
        merged["options"] = {**options, **own}
    tags, own = defaults.get("tags"), entry.get("tags")
    if isinstance(tags, list) and isinstance(own, list):
        merged["tags"] = [*tags, *(tag for tag in own if tag not in tags)]
    return merged


def _replaced_by(entry: Mapping[str, JsonValue]) -> frozenset[str]:
    """Names of one thing: the entry's own word for it replaces a default in the other word."""
    names: set[str] = set()
    for pair in (
        ("context_size", "context_tokens"),
        ("instruction", "prompt"),
        ("query", "prompt"),
    ):
        if any(name in entry for name in pair):
            names.update(pair)
    return frozenset(names)


def window_of(entry: Mapping[str, JsonValue]) -> int:
    """The window of a context entry, in tokens."""
    return int(entry.get("context_size", entry.get("context_tokens", 0)))


def build_scenario(
    entry: Mapping[str, JsonValue],
    shape: Shape,
    suite: str,
    *,
    path: str,
    line: int,
    prompt_text: str = "",
) -> Scenario:
    """The typed scenario of a merged entry that its schema accepts."""
    in_context = shape.kind == "context"
    return Scenario(
        id=entry["id"],
        suite=suite,
        kind=shape.kind,
        spec=_SPECS[shape.kind](entry, prompt_text),
        prompt="" if in_context else entry["prompt"],
        name=entry.get("name", ""),
        system=entry.get("system", ""),
        sampling=sampling(entry.get("options", {})),
        tags=tuple(entry.get("tags", ())),
        timeout=entry.get("timeout"),
        min_pass_rate=entry.get("min_pass_rate", 1.0),
        near_misses=tuple(entry.get("near_misses", ())),
        path=path,
        line=line,
    )


def sampling(options: Mapping[str, JsonValue]) -> Sampling:
    """The typed options of an entry; whole numbers may be written ``512.0``."""
    if not options:
        return Sampling()
    values: dict[str, Any] = dict(options)
    for name in ("num_predict", "top_k", "seed", "num_ctx"):
        if name in values:
            values[name] = int(values[name])
    stop = values.get("stop", ())
    values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(**values)


def _coding(entry: Mapping[str, JsonValue], _: str) -> Spec:
    return CodingSpec(
        test_assertions=tuple(entry["test_assertions"]),
        entry_points=tuple(entry.get("entry_points", ())),
        reference_solution=entry.get("reference_solution", ""),
        execution_timeout=entry.get("execution_timeout", 10.0),
    )


def _answer(entry: Mapping[str, JsonValue], _: str = "") -> AnswerSpec:
    evaluator = entry.get("evaluator", "")
    known = evaluator in _EVALUATORS
    most, least = entry.get("max_words"), entry.get("min_words")
    return AnswerSpec(
        check_type=entry["check_type"],
        expected_answer=entry.get("expected_answer", ""),
        accepted_patterns=tuple(entry.get("accepted_patterns", ())),
        evaluator=cast(Evaluator, evaluator) if known else None,
        unknown_evaluator="" if known else evaluator,
        required_patterns=tuple(entry.get("required_patterns", ())),
        max_words=None if most is None else int(most),
        min_words=None if least is None else int(least),
    )


def _context(entry: Mapping[str, JsonValue], prompt_text: str) -> Spec:
    asked = entry.get("prompt", "")
    in_file = "prompt_file" in entry
    return ContextSpec(
        context_size=window_of(entry),
        fill_ratio=entry.get("fill_ratio", 0.75),
        needle=entry.get("needle", ""),
        needle_depth=entry.get("needle_depth", 0.5),
        instruction="" if in_file else entry.get("instruction", asked),
        expected=entry.get("expected", ""),
        prompt_file=entry.get("prompt_file", ""),
        prompt_text=prompt_text,
        query=entry.get("query", asked) if in_file else "",
    )


def _tool_use(entry: Mapping[str, JsonValue], _: str) -> Spec:
    return ToolUseSpec(
        tools=tuple(entry["tools"]),
        turns=tuple(_turn(turn) for turn in entry["turns"]),
        category=entry.get("category", ""),
    )


def _turn(turn: Mapping[str, JsonValue]) -> ToolTurn:
    expect = turn["expect"]
    answer = expect.get("answer")
    if isinstance(answer, str):
        spec: AnswerSpec | None = AnswerSpec("exact_or_contains", expected_answer=answer)
    else:
        spec = None if answer is None else _answer(answer)
    return ToolTurn(
        tool=expect["tool"],
        args=expect.get("args", {}),
        answer=spec,
        tool_result=turn.get("tool_result"),
        prompt=turn.get("prompt", ""),
    )


_SPECS: dict[Kind, Any] = {
    "speed": lambda entry, _: SpeedSpec(),
    "coding": _coding,
    "answer": _answer,
    "context": _context,
    "tool_use": _tool_use,
}


def suite_of_file(stem: str) -> str:
    """The suite that a file's name gives: ``context_scaling`` is the suite ``context``."""
    return "context" if stem == "context_scaling" else stem


def mark_finding(
    name: str, where: str, existing_marks: Collection[str], index: int | None = None
) -> Finding | None:
    """Why a suite or tag cannot be a mark, ``None`` if it can."""
    path: tuple[str | int, ...] = (where,) if index is None else (where, index)
    if name in existing_marks or name in PYTEST_MARKS:
        return Finding(path, f'"{name}" is the name of an existing mark', "choose another name")
    if name in _EXPRESSION_WORDS:
        return Finding(path, f'"{name}" is a word of -m expressions', "choose another name")
    if where == "suite" and name == "all":
        return Finding(path, '"all" means the bundled suites', "choose another name")
    return None


PYTEST_MARKS = frozenset(
    {
        "benchrig",
        "filterwarnings",
        "flaky",
        "parametrize",
        "skip",
        "skipif",
        "timeout",
        "tryfirst",
        "trylast",
        "usefixtures",
        "xdist_group",
        "xfail",
    }
)
"""Marks that mean something to pytest or to its usual companions, registered or not."""
_EXPRESSION_WORDS = frozenset({"and", "or", "not", "True", "False", "None"})
