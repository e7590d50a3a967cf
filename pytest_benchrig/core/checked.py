"""Values read from a file are checked before anything computes with them."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.metrics import ACCURACY_SUFFIX, METRICS
from pytest_benchrig.core.record import Record

_BY_WORD: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
    "None": (type(None),),
}


def _types(annotation: str) -> tuple[type, ...]:
    """The JSON types of a field; a literal's alias is text."""
    outer = re.sub(r"\[.*\]", "", annotation)
    return tuple(kind for word in outer.split("|") for kind in _BY_WORD.get(word.strip(), (str,)))


RECORD_TYPES: Mapping[str, tuple[type, ...]] = {
    spec.name: _types(str(spec.type)) for spec in dataclasses.fields(Record)
}


_MEASURED = [name for name, kinds in RECORD_TYPES.items() if float in kinds]
_NEVER_NEGATIVE = frozenset(
    ("ttft_sec", "prompt_tok_per_sec", "eval_tok_per_sec", "total_time_sec", "load_time_sec")
)


def checked_record(data: JsonValue) -> Record:
    """A record from a file's JSON object.

    Raises:
        ValueError: It is no object, lacks a required field, a field has another type, or a figure
            is none that can be measured.
    """
    if not isinstance(data, dict):
        raise ValueError(f"expected an object, found {_name(data)}")
    name = _wrong_field(tuple(data), tuple(map(type, data.values())))
    if name:
        words = " or ".join("null" if t is type(None) else t.__name__ for t in RECORD_TYPES[name])
        raise ValueError(f"{name}: expected {words}, found {_name(data[name])}")
    for name in _MEASURED:
        figure = data.get(name)
        if figure is not None and not -math.inf < figure < math.inf:
            raise ValueError(f"{name}: expected a finite number, found {figure}")
        if figure is not None and figure < 0 and name in _NEVER_NEGATIVE:
            raise ValueError(f"{name}: expected no less than 0, found {figure}")
    return Record.from_json(data)


@functools.lru_cache(maxsize=1024)
def _wrong_field(names: tuple[str, ...], kinds: tuple[type, ...]) -> str:
    """The first field of another type, "" if there is none.

    The records of a run come in few shapes, and looking a shape up is cheaper than its 99 types.
    """
    for name, kind in zip(names, kinds, strict=True):
        allowed = RECORD_TYPES.get(name)
        if allowed is not None and not issubclass(kind, allowed):
            return name
    return ""


def check_scorecard(data: Mapping[str, JsonValue]) -> None:
    """Check the types of a scorecard's JSON object.

    Raises:
        ValueError: Names the field and says what was expected.
    """
    for name, value in data.items():
        metric = METRICS.get(name)
        if metric is None and name.endswith(ACCURACY_SUFFIX):
            _expect(value is None or _is_number(value), name, "a number or null", value)
        if metric is None or value is None:
            continue
        if metric.kind == "text":
            _expect(isinstance(value, str | int), name, "text", value)
        elif metric.kind == "flag":
            _expect(isinstance(value, bool), name, "true, false or null", value)
        elif metric.kind == "ratio":
            _expect(_is_ratio(value), name, '{"passed": n, "of": m}', value)
        else:
            _expect(_is_number(value), name, "a number or null", value)
    for name in ("spread", "ci95"):
        for key, pair in _object(data, name).items():
            _expect(_is_pair(pair), f"{name}.{key}", "two numbers", pair)
    for suite, entry in _object(data, "suites").items():
        _expect(isinstance(entry, dict), f"suites.{suite}", "an object", entry)
    for k, entry in _object(data, "pass_at_k").items():
        good = isinstance(entry, dict) and {"pass_at_k", "pass_hat_k"} <= entry.keys()
        _expect(good, f"pass_at_k.{k}", "pass_at_k and pass_hat_k", entry)
    _object(data, "unmeasured")
    scenarios = data.get("scenarios") or []
    _expect(isinstance(scenarios, list), "scenarios", "a list", scenarios)
    for number, row in enumerate(scenarios):
        good = isinstance(row, dict) and {"suite", "task_id", "passed", "runs"} <= row.keys()
        _expect(good, f"scenarios[{number}]", "suite, task_id, passed and runs", row)


def _object(data: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    value = data.get(name) or {}
    _expect(isinstance(value, dict), name, "an object", value)
    return value if isinstance(value, dict) else {}


def _expect(good: bool, name: str, what: str, value: JsonValue) -> None:
    if not good:
        raise ValueError(f"{name}: expected {what}, found {_name(value)}")


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_pair(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and len(value) == 2 and all(map(_is_number, value))


def _is_ratio(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), int) for k in ("passed", "of"))


def _name(value: JsonValue) -> str:
    if isinstance(value, str | int | float | bool):
        return f"{value!r:.60}"
    return {dict: "an object", list: "a list", type(None): "null"}.get(
        type(value), "something else"
    )
