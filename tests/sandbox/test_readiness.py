"""What is made ready before a program is there: bundles, rehearsals, walks, turns."""

from __future__ import annotations

import ast
import linecache
import marshal
import sys
import threading
from types import CodeType
from typing import Any

import pytest

from pytest_benchrig.sandbox.isolation import choose
from pytest_benchrig.sandbox.launch import Launcher, Unavailable
from pytest_benchrig.sandbox.trees import walk
from pytest_benchrig.sandbox.turn import Turn
from tests.sandbox.isolation_support import run_on

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="for Linux alone")


@pytest.mark.parametrize(
    "source",
    [
        "assert f([1, {'k': (2, None)}])[0].x == 1 < 3, 'no'",
        "try:\n    f(*a, **k)\nexcept (A, B) as e:\n    del e.x\nelse:\n    x = lambda y=1: y",
        "async def g():\n    async with a as b:\n        return [c async for c in d if c]",
        "match p:\n    case {'a': [1, *_], **rest}:\n        global z\n        z = f'{p!r:>{w}}'",
        "",
    ],
)
def test_a_walk_finds_every_node_but_contexts(source: str) -> None:
    tree = ast.parse(source)
    wanted = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    assert walk(tree) == wanted


@linux
def test_a_bundle_holds_what_is_needed_as_if_it_came_from_inside() -> None:
    from pytest_benchrig.sandbox import boot
    from pytest_benchrig.sandbox.inventory import SANDBOX_MODULES, STEM_MODULES

    codes: dict[str, CodeType] = marshal.loads(boot.bundle("/inside"))
    assert set(codes) == {*SANDBOX_MODULES, *STEM_MODULES}
    for name, code in codes.items():
        files = {part.co_filename for part in _all_codes(code)}
        assert files == {f"/inside/{name.rpartition('.')[2]}.py"}


def _all_codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [code, *(found for part in inner for found in _all_codes(part))]


@linux
def test_a_rehearsal_passes_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_benchrig.sandbox import rehearse

    told: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(rehearse, "_say", lambda event, **facts: told.append((event, facts)))
    modules, depth = set(sys.modules), sys.getrecursionlimit()
    rehearse.rehearse()
    verdicts = [facts["passed"] for event, facts in told if event == "assertion"]
    assert verdicts
    assert all(verdicts), told
    assert sys.getrecursionlimit() == depth
    assert "solution" not in set(sys.modules) - modules
    assert "solution.py" not in linecache.cache


def test_a_turn_is_left_until_something_holds() -> None:
    turn = Turn()
    order: list[str] = []

    def other() -> None:
        with turn, turn:
            order.append("other")
            turn.notify_all()

    thread = threading.Thread(target=other)
    with turn, turn:
        thread.start()
        turn.wait_for(lambda: "other" in order)
        order.append("first")
        turn.wait_for(lambda: True)
    thread.join()
    assert order == ["other", "first"]


@pytest.fixture(params=["namespace-bwrap", "namespace-own", "landlock"])
def warm(request: pytest.FixtureRequest) -> Launcher:
    found = choose(request.param)
    if isinstance(found, Unavailable):
        pytest.skip(f"{request.param} does not work here: {found.reason}; {found.remedy}")
    return found


@linux
def test_programs_get_an_ordinary_interpreter_before_and_after_the_rehearsal(
    warm: Launcher,
) -> None:
    """``threading`` would have each fork repair its tables before anything else."""
    source = """
import sys, resource
def f():
    kinds = [getattr(finder, "__name__", "") for finder in sys.meta_path]
    return kinds, "threading" in sys.modules, "solution.py" == __file__
def room():
    pages = resource.getrlimit(resource.RLIMIT_AS)[0]
    return pages > 512 << 20
"""
    wanted = "(['BuiltinImporter', 'FrozenImporter', 'PathFinder'], False, True)"
    warm.close()
    for _ in range(4):
        ran = run_on(warm, source, f"assert f() == {wanted}", "assert room()")
        assert ran.passed == [True, True], ran.outcome


@linux
def test_each_program_may_take_its_memory_also_after_the_rehearsal(warm: Launcher) -> None:
    source = "def f(size):\n    return len(bytearray(size << 20))\n"
    warm.close()
    for _ in range(4):
        ran = run_on(warm, source, "assert f(40) == 40 << 20", memory_mb=48)
        assert ran.passed == [True], ran.outcome
