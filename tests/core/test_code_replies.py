"""Whole replies, as models write them: the code in them, or what must be said instead."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.code_blocks import extract_code

REPLIES = json.loads((Path(__file__).parents[1] / "data/extraction/replies.json").read_bytes())


def adds(code: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the code defines a function that adds; only ever for the replies of that file."""
    names: dict[str, Any] = {"__name__": "candidate"}
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(code, "candidate", "exec", dont_inherit=True), names)
            return bool(names["add"](2, 3) == 5 and names["add"](-1, 1) == 0)
        except (SyntaxError, NameError, KeyError, EOFError, TypeError):
            return False


@pytest.mark.parametrize("case", REPLIES, ids=[case["id"] for case in REPLIES])
def test_a_reply_is_read_as_its_reader_would(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = case["reply"].split("</think>")[-1]

    found = extract_code(answer, cut_off=case["cut_off"], budget="512", wanted=("add",))

    kind: str = found.kind
    if kind == "code":
        kind = "pass" if adds(found.code, monkeypatch) else "fail"
    assert kind == case["expect"], found
