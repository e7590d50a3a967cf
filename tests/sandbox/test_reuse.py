"""Which judge may judge another program: one in which nothing of the last can be left."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import reaper
from pytest_benchrig.sandbox.bwrap import find
from pytest_benchrig.sandbox.inventory import FORKS_AHEAD
from pytest_benchrig.sandbox.isolation import choose
from pytest_benchrig.sandbox.launch import Unavailable
from pytest_benchrig.sandbox.limits import apply_limits, ceilings, renew_cpu_limit
from pytest_benchrig.sandbox.plainness import is_plain
from pytest_benchrig.sandbox.stem import Way
from pytest_benchrig.sandbox.trees import walk
from pytest_benchrig.sandbox.warm import WarmLauncher
from tests.sandbox.isolation_support import run_on

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="zygotes are for Linux alone"
)
WAYS: dict[str, Way] = {
    "namespace-bwrap": "bwrap",
    "namespace-own": "own",
    "landlock": "landlock",
}
ONE = "def f(*given):\n    return 1\n"
PLAIN = "assert f() == 1"


@pytest.fixture(params=WAYS)
def warm(request: pytest.FixtureRequest) -> Iterator[WarmLauncher]:
    """A launcher whose zygotes have run what they run before they are at their best."""
    found = choose(request.param)
    if isinstance(found, Unavailable):
        pytest.skip(f"{request.param} does not work here: {found.reason}; {found.remedy}")
    made = WarmLauncher(WAYS[request.param], find() or "")
    for _ in range(3):
        assert run_on(made, ONE).passed == [True]
    yield made
    made.close()


def below() -> set[int]:
    """The processes of the sandbox."""
    return reaper.descendants(os.getpid(), reaper.parents())


def judges(warm: WarmLauncher) -> set[int]:
    """The processes that plain programs neither started nor ended."""
    before = below()
    for _ in range(FORKS_AHEAD + 1):
        assert run_on(warm, ONE, PLAIN).passed == [True]
    return before & below()


@linux
def test_a_judge_that_met_only_data_judges_the_next_program(warm: WarmLauncher) -> None:
    kept = judges(warm)
    for number in range(3):
        source = f"def f(given):\n    return [given, {{'k': {number}}}]\n"
        assert run_on(warm, source, f"assert f((1, 'a')) == [(1, 'a'), {{'k': {number}}}]").passed
        assert kept <= below()


@linux
@pytest.mark.parametrize(
    ("source", "assertion"),
    [
        (ONE, "assert f() == 2"),
        (ONE, "import math\nassert f() == 1"),
        (ONE, "import random\nrandom.seed(1)\nassert f() == 1"),
        (ONE, "assert f(lambda: 1) == 1"),
        (ONE, "assert f(iter([1])) == 1"),
        ("class Box: pass\ndef f():\n    return Box()\n", "assert f() is not None"),
        ("import os\ndef f():\n    os._exit(0)\n", "assert f() == 1"),
        ("class C:\n    def __eq__(self, other): return True\n", "assert C() == 1"),
        ("def f(): return 1\nraise SystemExit\n", "assert f() == 1"),
        ("def f(): return 'x' * 40_000_000\n", "assert len(f()) == 40_000_000"),
    ],
    ids=[
        "it-fails",
        "an-import",
        "a-seed",
        "a-callback",
        "an-iterator",
        "an-object",
        "an-exit",
        "a-lie",
        "not-loaded",
        "much-data",
    ],
)
def test_after_anything_else_the_next_program_has_a_judge_of_its_own(
    warm: WarmLauncher, source: str, assertion: str
) -> None:
    kept = judges(warm)
    run_on(warm, source, assertion)
    assert run_on(warm, ONE, PLAIN).passed == [True]
    assert kept - below()


@linux
def test_a_judge_that_was_killed_between_programs_is_replaced(warm: WarmLauncher) -> None:
    for pid in judges(warm):
        if not reaper.descendants(pid, reaper.parents()):
            reaper.kill(pid)
    assert run_on(warm, ONE, PLAIN).passed == [True]


@linux
def test_a_candidate_that_was_killed_before_its_program_came_is_replaced(
    warm: WarmLauncher,
) -> None:
    judges(warm)
    for _ in range(FORKS_AHEAD):
        table = reaper.parents()
        for pid in reaper.descendants(os.getpid(), table):
            if not reaper.descendants(pid, table):
                reaper.kill(pid)
        assert run_on(warm, ONE, PLAIN).passed == [True]


@linux
def test_a_program_that_may_start_processes_is_run_between_others(warm: WarmLauncher) -> None:
    kept = judges(warm)
    zygotes = {pid for pid in kept if reaper.descendants(pid, reaper.parents())}
    forks = (
        "import os\n"
        "def f():\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        os._exit(1)\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
    )
    for source, may_start in [(ONE, False), (forks, True), (forks, True), (ONE, False)]:
        assert run_on(warm, source, PLAIN, allow_fork=may_start).passed == [True]
    assert zygotes <= below()


@linux
def test_a_program_that_hangs_is_ended_in_a_judge_that_was_used_before(
    warm: WarmLauncher,
) -> None:
    hangs = "def f():\n    while True: pass\n"
    ran = run_on(warm, hangs, PLAIN, wall_sec=0.5)
    assert (any(ran.passed), ran.outcome.ended_by) == (False, "wall")
    for seconds in (0.5, 10, 10):
        assert run_on(warm, ONE, PLAIN, wall_sec=seconds).passed == [True]


@linux
def test_many_programs_are_judged(warm: WarmLauncher) -> None:
    wrong = [
        number
        for number in range(300)
        if run_on(warm, f"def f():\n    return {number}\n", f"assert f() == {number}").passed
        != [True]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "assert merge([[1, 3], [2, 6]]) == [[1, 6]]",
        "x = f(1)\nassert x.items[0]['k'] == -1 and not x.done",
        "assert sorted(f('a', key=2, *[1])) == [y for y in range(3) if y != 1]",
        "a, b = f()\nassert (a if b else 1) in {1, 2} and a[1:2] == 'x'",
        "d = 0\nfor n in range(9):\n    d += n\n    if f(n):\n        break\nassert d == 1",
        "assert sorted(f(), key=lambda pair: pair[1]) == [f'{x}-{y!r:>3}', (z := 1)]",
        "c = Cache(2)\nc.put(1, 1)\nassert c.get(1) == 1 and isinstance(c, Cache)",
    ],
)
def test_what_computes_and_compares_is_plain(text: str) -> None:
    assert is_plain(walk(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "import math",
        "from random import seed",
        "random.seed(1)",
        "x.y = 1",
        "x['k'] = 1",
        "for x.y in f(): pass",
        "for x[0] in f(): pass",
        "x.y += 1",
        "(lambda: __import__('os'))()",
        "f'{x.__class__}'",
        "del x[0]",
        "x._hidden",
        "x.__class__",
        "__builtins__",
        "setattr(x, 'y', 1)",
        "getattr(x, 'y')",
        "exec('1')",
        "eval('1')",
        "open('x')",
        "print(1)",
        "type(x)",
        "vars()",
        "globals()",
        "def g(): pass",
        "class C: pass",
        "global x",
        "try:\n    f()\nexcept ValueError:\n    pass",
        "with f():\n    pass",
        "async def g():\n    await f()",
        "@f\nclass C: pass",
    ],
)
def test_what_could_leave_something_is_not_plain(text: str) -> None:
    assert not is_plain(walk(ast.parse(text)))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_the_cpu_limit_counts_from_the_program_on() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            apply_limits({"RLIMIT_CPU": 100}, 0, ceilings(), renewable=True)
            renew_cpu_limit(1000)
            os.write(writing, b"%d" % resource.getrlimit(resource.RLIMIT_CPU)[0])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        soft = int(told.read())
    os.waitpid(child, 0)
    assert soft > 1000
    assert soft < 1000 + 60 * 60 * 24


def test_the_hard_cpu_limit_of_a_program_cannot_be_renewed() -> None:
    command = (
        "import resource; from pytest_benchrig.sandbox.limits import *\n"
        "apply_limits({'RLIMIT_CPU': 100}, 0, ceilings())\n"
        "renew_cpu_limit(1000)\n"
        "print(resource.getrlimit(resource.RLIMIT_CPU))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert ran.stdout.strip() == "(101, 101)"
