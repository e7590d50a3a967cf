"""The JSON Schema of scenario files: one document, checked fast, explained slowly.

``scenarios.schema.json`` is the only source of what an entry may hold. Checking every entry with
the jsonschema library would dominate the collection of a large suite, so the keywords which the
document uses are compiled to plain functions; only an entry that they refuse is shown to
jsonschema, for the words of the error. Both must agree, which a test shows.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_benchrig.core.findings import Finding, JsonPath, did_you_mean, listed, shown
from pytest_benchrig.core.generation import JsonValue

Check: TypeAlias = Callable[[Any], bool]
SCHEMA_FILE = "scenarios.schema.json"
_ANNOTATIONS = frozenset({"description", "title", "errorMessage", "$schema", "$defs"})
_MISSING = "is missing"
_ARTICLES = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


@functools.cache
def load_schema() -> dict[str, Any]:
    """The schema document that ships with the package."""
    resource = importlib.resources.files(__package__ or "pytest_benchrig.core") / SCHEMA_FILE
    document: dict[str, Any] = json.loads(resource.read_text("utf-8"))
    return document


def fields_of(definition: str) -> frozenset[str]:
    """The field names that a definition of the schema knows."""
    return _fields()[definition]


@functools.cache
def _fields() -> dict[str, frozenset[str]]:
    return {
        name: frozenset(part.get("properties", ())) for name, part in load_schema()["$defs"].items()
    }


@functools.cache
def checker(definition: str) -> Check:
    """A fast predicate with jsonschema's verdict for one definition of the schema."""
    return _compile({"$ref": f"#/$defs/{definition}"})


def _compile(schema: Mapping[str, Any]) -> Check:
    parts: list[Check] = []
    for word in sorted(schema, key=_cost):
        if word in _ANNOTATIONS or word in ("required", "additionalProperties", "then", "else"):
            continue
        parts.append(_COMPILERS[word](schema))
    if "required" in schema:
        parts.append(_required(schema["required"]))
    return parts[0] if len(parts) == 1 else _every(parts)


def _every(checks: Iterable[Check]) -> Check:
    every = tuple(checks)

    def check(value: Any) -> bool:
        for part in every:  # noqa: SIM110 - a generator would double the cost
            if not part(value):
                return False
        return True

    return check


def _cost(word: str) -> tuple[bool, str]:
    return word != "type", word


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, Check] = {
    "string": lambda v: isinstance(v, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


def _type(schema: Mapping[str, Any]) -> Check:
    wanted = schema["type"]
    if isinstance(wanted, str):
        return _TYPES[wanted]
    checks = [_TYPES[name] for name in wanted]
    return lambda v: any(check(v) for check in checks)


def _required(names: Sequence[str]) -> Check:
    needed = frozenset(names)
    return lambda v: not isinstance(v, dict) or needed <= v.keys()


def _properties(schema: Mapping[str, Any]) -> Check:
    checks = {name: _compile(part) for name, part in schema["properties"].items()}
    closed = schema.get("additionalProperties") is False

    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        for name, inner in value.items():
            part = checks.get(name)
            if part is None:
                if closed:
                    return False
            elif not part(inner):
                return False
        return True

    return check


def _items(schema: Mapping[str, Any]) -> Check:
    part = _compile(schema["items"])
    return lambda v: not isinstance(v, list) or all(map(part, v))


def _unique(schema: Mapping[str, Any]) -> Check:
    def check(value: Any) -> bool:
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            return True  # the items' own type refuses them
        return len(set(value)) == len(value)

    return check


def _choice(schema: Mapping[str, Any]) -> Check:
    choices = schema["enum"] if "enum" in schema else [schema["const"]]
    if not all(isinstance(c, str) for c in choices):
        raise TypeError("only texts are compared; JSON's 1, 1.0 and true would need more care")
    allowed = frozenset(choices)
    return lambda v: isinstance(v, str) and v in allowed


def _pattern(schema: Mapping[str, Any]) -> Check:
    search = re.compile(schema["pattern"]).search
    return lambda v: not isinstance(v, str) or search(v) is not None


def _bound(word: str, holds: Callable[[Any, Any], bool]) -> Callable[[Mapping[str, Any]], Check]:
    def compiler(schema: Mapping[str, Any]) -> Check:
        limit = schema[word]
        return lambda v: not _is_number(v) or holds(v, limit)

    return compiler


def _any_of(schema: Mapping[str, Any]) -> Check:
    checks = tuple(_compile(part) for part in schema["anyOf"])

    def check(value: Any) -> bool:
        for part in checks:  # noqa: SIM110 - a generator would double the cost
            if part(value):
                return True
        return False

    return check


def _one_of(schema: Mapping[str, Any]) -> Check:
    checks = [_compile(part) for part in schema["oneOf"]]
    return lambda v: sum(check(v) for check in checks) == 1


def _all_of(schema: Mapping[str, Any]) -> Check:
    return _every([_compile(part) for part in schema["allOf"]])


def _if(schema: Mapping[str, Any]) -> Check:
    condition = _compile(schema["if"])
    then, other = _compile(schema.get("then", {})), _compile(schema.get("else", {}))
    return lambda v: then(v) if condition(v) else other(v)


def _ref(schema: Mapping[str, Any]) -> Check:
    name = schema["$ref"].removeprefix("#/$defs/")
    return _compile(load_schema()["$defs"][name])


_COMPILERS: dict[str, Callable[[Mapping[str, Any]], Check]] = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "items": _items,
    "uniqueItems": _unique,
    "enum": _choice,
    "const": _choice,
    "pattern": _pattern,
    "minLength": lambda s: lambda v: not isinstance(v, str) or len(v) >= s["minLength"],
    "minItems": lambda s: lambda v: not isinstance(v, list) or len(v) >= s["minItems"],
    "minimum": _bound("minimum", lambda v, limit: v >= limit),
    "maximum": _bound("maximum", lambda v, limit: v <= limit),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda v, limit: v > limit),
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "if": _if,
}


def findings(definition: str, value: JsonValue) -> list[Finding]:
    """What breaks one definition of the schema, in the order of the fields; empty if nothing."""
    if checker(definition)(value):
        return []
    validator = _validator(definition)
    found: list[Finding] = []
    for error in validator.iter_errors(value):
        found += _words(error, definition)
    meant = {f.hint.removeprefix('did you mean "').removesuffix('"?') for f in found if f.hint}
    found = [f for f in found if f.message != _MISSING or f.path[-1] not in meant]
    order = {name: place for place, name in enumerate(value)} if isinstance(value, dict) else {}
    return sorted(found, key=lambda f: order.get(f.path[0], len(order)) if f.path else len(order))


@functools.cache
def _validator(definition: str) -> Any:
    import jsonschema

    document = load_schema()
    return jsonschema.Draft202012Validator(
        {"$defs": document["$defs"], "$ref": f"#/$defs/{definition}"}
    )


def _words(error: Any, definition: str) -> Iterable[Finding]:
    path: JsonPath = tuple(error.absolute_path)
    word, limit, value = error.validator, error.validator_value, error.instance
    own = error.schema.get("errorMessage", "") if isinstance(error.schema, dict) else ""
    if word == "additionalProperties":
        known = error.schema["properties"]
        for name in value:
            if name not in known:
                yield _unknown((*path, name), name, known, definition)
    elif word == "required":
        for name in limit:
            if name not in value:
                yield Finding((*path, name), _MISSING)
    elif word == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        expected = " or ".join(_ARTICLES[kind] for kind in kinds)
        plain = " (string)" if "string" in kinds else ""
        yield Finding(path, f"expected {expected}{plain}, got {_described(value)}")
    elif word in ("enum", "const"):
        choices = limit if word == "enum" else [limit]
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        yield Finding(path, f"expected {listed(choices)}, got {shown(value)}", hint)
    elif inner := _alternatives(error):
        for part in inner:
            yield from _words(part, definition)
    elif own:
        yield Finding(path, f"{own}, got {shown(value)}" if path else own)
    elif word in _LIMITS:
        yield Finding(path, f"expected {_LIMITS[word]} {limit}, got {shown(value)}")
    elif word == "minItems":
        yield Finding(path, "expected at least one element, got an empty list")
    elif word == "minLength":
        yield Finding(path, "expected a text that is not empty")
    elif word == "uniqueItems":
        twice = next(v for v in value if value.count(v) > 1)
        yield Finding(path, f"{shown(twice)} stands in the list twice")
    else:
        yield Finding(path, error.message)


def _alternatives(error: Any) -> list[Any]:
    """What is wrong with the alternative that was meant, where the value's type shows which."""
    if error.validator != "anyOf" or all("required" in part for part in error.validator_value):
        return []
    return [e for e in error.context if e.path or e.validator not in ("type", "enum")]


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "a number above",
}


def _described(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return f"{'' if isinstance(value, bool) else 'the number '}{shown(value)}"
    kind = "text" if isinstance(value, str) else "list" if isinstance(value, list) else "object"
    return f"the {kind} {shown(value)}"


def _unknown(path: JsonPath, name: str, known: Iterable[str], definition: str) -> Finding:
    if len(path) == 1 and (kinds := kinds_with(name)) and definition in _BY_KIND:
        mine = "context" if definition.startswith("context_") else definition
        if mine in kinds:
            return Finding(path, "belongs to the other form of a context entry")
        return Finding(path, f"belongs to kind {listed(kinds)}, and this entry is kind {mine}")
    hint = did_you_mean(name, known)
    if not hint and path[:1] == ("options",):
        hint = "options of one engine can be given with --benchrig-option"
    return Finding(path, "unknown field", hint or f"known fields: {', '.join(sorted(known))}")


_BY_KIND = {
    "speed": "speed",
    "coding": "coding",
    "answer": "answer",
    "context_window": "context",
    "context_file": "context",
    "tool_use": "tool_use",
}


def kinds_with(name: str) -> tuple[str, ...]:
    """The kinds that have a field of this name."""
    return _kinds_by_field().get(name, ())


@functools.cache
def _kinds_by_field() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for part, kind in _BY_KIND.items():
        for name in fields_of(part):
            found.setdefault(name, {})[kind] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


@functools.cache
def telling_fields() -> dict[str, tuple[str, ...]]:
    """The fields that tell of a kind, with the kinds that have them."""
    common = common_fields()
    return {name: kinds for name, kinds in _kinds_by_field().items() if name not in common}


@functools.cache
def common_fields() -> frozenset[str]:
    """The fields that every kind has."""
    every = [fields_of(part) for part in _BY_KIND]
    return frozenset.intersection(*every)
