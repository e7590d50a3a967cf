"""Asserts that must have held: nothing of the program can make one of them not count."""

from __future__ import annotations

import pytest

from pytest_benchrig.sandbox.runner import SandboxRunner

SWALLOWS = (
    "import asyncio\n"
    "class CM:\n"
    "    def __enter__(self): return 0\n"
    "    def __exit__(self, *fault): return True\n"
    "def each(values, call):\n"
    "    for value in values:\n"
    "        try: call(value)\n"
    "        except BaseException: pass\n"
    "asyncio.run = lambda coroutine: coroutine.close()\n"
    "async def zero(): return 0\n"
)


@pytest.mark.parametrize(
    ("assertion", "detail"),
    [
        ("with CM() as v:\n    assert v == 5", "line 2: the program swallowed the failure"),
        ("with CM() as v:\n    v.x\n    assert v == 5", "line 3: this assert was not reached"),
        ("def f(v): assert v == 5\neach([1], f)", "line 1: the program swallowed the failure"),
        (
            "import asyncio\nasync def main():\n    assert await zero() == 5\nasyncio.run(main())",
            "line 3: this assert was not reached",
        ),
    ],
)
def test_a_swallowed_assert_fails(runner: SandboxRunner, assertion: str, detail: str) -> None:
    result = runner.run(SWALLOWS, [assertion, "assert CM"])
    assert [outcome.passed for outcome in result.assertions] == [False, True]
    assert result.assertions[0].detail.startswith(detail)


@pytest.mark.parametrize(
    "assertion",
    [
        "with CM() as v:\n    assert v == 0",
        "with CM() as v:\n    raise ValueError\n    assert v == 5",
        "with CM() as v:\n    assert False",
        "def f(v): assert False\neach([1], f)",
        "def f(v): assert v == 1\neach([1], f)",
        "try:\n    with CM() as v:\n        assert v == 0\nexcept KeyError:\n    assert v == 1",
        "from contextlib import suppress\nwith suppress(TypeError):\n    each()\n    assert v == 5",
        "async def unused():\n    assert await zero() == 5",
    ],
)
def test_an_assert_that_need_not_hold_is_not_counted(runner: SandboxRunner, assertion: str) -> None:
    result = runner.run(SWALLOWS, [assertion])
    assert result.passed, result.error


def test_an_object_that_answers_by_chance_is_caught(runner: SandboxRunner) -> None:
    code = (
        "class P:\n"
        "    asked = 0\n"
        "    def __contains__(self, value):\n"
        "        P.asked += 1\n"
        "        return P.asked % 3 > 0\n"
    )
    result = runner.run(code, ["p = P()", *["assert 4 in p"] * 8])
    assert result.verdict == "tampered"
    assert "answers the same question differently" in result.detail
