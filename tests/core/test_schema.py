"""The schema document: the fast check and jsonschema must never disagree."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchrig.core import schema
from tests.core.test_files import ANSWER, CODING, FILE, SPEED, TOOLS, WINDOW

KINDS: dict[str, dict[str, Any]] = {
    "speed": SPEED,
    "coding": {**CODING, "entry_points": ["inc"], "reference_solution": "x = 1"},
    "answer": {**ANSWER, "evaluator": "numeric", "required_patterns": ["a"], "max_words": 9},
    "context_window": {**WINDOW, "id": "ctx_512", "fill_ratio": 0.5},
    "context_file": FILE,
    "tool_use": {
        **TOOLS,
        "turns": [
            *TOOLS["turns"],
            {"expect": {"tool": None, "answer": {"check_type": "regex", "accepted_patterns": []}}},
        ],
    },
}
COMMON = {
    "name": "n",
    "system": "s",
    "options": {"temperature": 0.1, "num_predict": 5, "stop": ["x"], "think": "low", "seed": 1},
    "tags": ["core", "smoke"],
    "timeout": 5,
    "execution_timeout": 2.5,
    "min_pass_rate": 0.5,
    "near_misses": ["x"],
}
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 1.5, 0.0, -0.0, 2**70, 1e300, "", " ", "x", "x\n", "Ä", "7",
    "low", "numeric", [], [""], ["a", "a"], [1], [None], {}, {"x": 1}, {"tool": None}, [[]],
]  # fmt: skip


@functools.cache
def validator(definition: str) -> Any:
    document = schema.load_schema()
    return jsonschema.Draft202012Validator(
        {"$defs": document["$defs"], "$ref": f"#/$defs/{definition}"}
    )


def by_jsonschema(definition: str, value: object) -> bool:
    return bool(validator(definition).is_valid(value))


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, part in inner:
        found += places(part, (*path, key))
    return found


def test_the_document_is_a_schema_of_its_draft() -> None:
    document = schema.load_schema()
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(document)


@pytest.mark.parametrize("definition", KINDS)
def test_each_kind_has_a_valid_example(definition: str) -> None:
    entry = {**KINDS[definition], **COMMON}
    assert by_jsonschema(definition, entry)
    assert schema.findings(definition, entry) == []


@pytest.mark.parametrize("definition", KINDS)
def test_both_checks_agree_on_every_single_change(definition: str) -> None:
    common = COMMON if definition == "speed" else {}
    entry = json.loads(json.dumps({**KINDS[definition], **common}))
    for path in places(entry):
        for odd in ODD:
            changed = copy.deepcopy(entry)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = odd
            fast = schema.checker(definition)(changed)
            assert fast == by_jsonschema(definition, changed), (path, odd)
            assert fast == (schema.findings(definition, changed) == []), (path, odd)
        if isinstance(path[-1], str):
            del parent[path[-1]]
            assert schema.checker(definition)(changed) == by_jsonschema(definition, changed), path


values = st.recursive(
    st.sampled_from(ODD),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted({*schema.fields_of("partial"), "expect", "tool", "seed", "x"})),
            inner,
            max_size=6,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*KINDS, "defaults", "suite"]), values)
def test_both_checks_agree_on_anything(definition: str, value: object) -> None:
    assert schema.checker(definition)(value) == by_jsonschema(definition, value)


@pytest.mark.parametrize(
    ("content", "valid"),
    [
        ([SPEED, CODING, ANSWER, {**WINDOW}, FILE, TOOLS], True),
        ({"$schema": "x", "suite": "mine", "scenarios": [SPEED]}, True),
        ({"defaults": {"kind": "speed"}, "scenarios": [{"id": "a", "prompt": "x"}]}, True),
        ({"scenarios": [{"id": "a", "promt": "x"}]}, False),
        ({"defaults": {}, "scenarios": [{"id": "a", "promt": "x"}]}, False),
        ({"scenario": [SPEED]}, False),
        ([{**CODING, "check_type": "regex"}], False),
        (42, False),
    ],
)
def test_an_editor_can_use_the_whole_document(content: object, valid: bool) -> None:
    whole = jsonschema.Draft202012Validator(schema.load_schema())
    assert whole.is_valid(content) is valid


def test_an_unknown_keyword_of_the_document_is_not_passed_over() -> None:
    with pytest.raises(KeyError, match="maxLength"):
        schema._compile({"type": "string", "maxLength": 3})


def test_every_field_is_described_for_an_editor() -> None:
    definitions = schema.load_schema()["$defs"]
    for name, part in definitions["partial"]["properties"].items():
        target = definitions[part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part
        assert "description" in part or "description" in target or name == "kind", name
