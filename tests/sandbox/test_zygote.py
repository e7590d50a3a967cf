"""Warm zygotes: nothing is shared, nothing is learned, and a lost one is replaced."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_benchrig
from pytest_benchrig.sandbox import reaper
from pytest_benchrig.sandbox.bwrap import find
from pytest_benchrig.sandbox.isolation import LEVELS, choose
from pytest_benchrig.sandbox.launch import Unavailable
from pytest_benchrig.sandbox.stem import Way
from pytest_benchrig.sandbox.warm import WarmLauncher
from tests.sandbox.isolation_support import run_on

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="zygotes are for Linux alone"
)
WAYS: dict[str, Way] = {
    "namespace-bwrap": "bwrap",
    "namespace-own": "own",
    "landlock": "landlock",
}


@pytest.fixture(params=WAYS)
def warm(request: pytest.FixtureRequest) -> Iterator[WarmLauncher]:
    """A launcher of its own, so that a test may look below it and break it."""
    found = choose(request.param)
    if isinstance(found, Unavailable):
        pytest.skip(f"{request.param} does not work here: {found.reason}; {found.remedy}")
    made = WarmLauncher(WAYS[request.param], find() or "")
    yield made
    made.close()


def below() -> set[int]:
    """The interpreters of zygotes below this process."""
    return {
        pid
        for pid in reaper.descendants(os.getpid(), reaper.parents())
        if b"sandbox.stem" in _command_line(pid)
    }


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_program_leaves_nothing_to_the_next(warm: WarmLauncher) -> None:
    leaves = """
import builtins, json, os, tempfile
builtins.left = 1
json.loads = None
os.environ["LEFT"] = "1"
open(os.path.join(tempfile.gettempdir(), "left"), "w").close()
def f():
    return 1
"""
    looks = """
import builtins, json, os, tempfile
def f():
    return [hasattr(builtins, "left"), json.loads is None, "LEFT" in os.environ,
            os.listdir(tempfile.gettempdir())]
"""
    assert run_on(warm, leaves).passed == [True]
    assert run_on(warm, looks, "assert f() == [False, False, False, []]").passed == [True]


def test_no_process_that_programs_are_forked_from_has_seen_an_assertion(
    warm: WarmLauncher,
) -> None:
    needle = "expected " + "value of this test"
    run_on(warm, f"def f():\n    return {needle!r}\n", f"assert f() == {needle!r}")
    looked_into, knowing = 0, []
    for pid in below():
        try:
            found = _memory_holds(pid, needle.encode())
        except OSError:
            continue
        looked_into += 1
        if found:
            knowing.append(pid)
    assert looked_into or os.geteuid() != 0
    # A judge may go on to the next program. Nothing is forked from it, and no program runs in it.
    assert len(knowing) <= 1
    assert not any(reaper.descendants(pid, reaper.parents()) for pid in knowing)


def _memory_holds(pid: int, needle: bytes) -> bool:
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            low, high = (int(end, 16) for end in place.split("-"))
            memory.seek(low)
            if needle in memory.read(high - low):
                return True
    return False


def test_a_dead_zygote_is_replaced(warm: WarmLauncher) -> None:
    before = below()
    assert run_on(warm, "def f():\n    return 1\n").passed == [True]
    for pid in below() - before:
        reaper.kill(pid)
    assert run_on(warm, "def f():\n    return 1\n").passed == [True]


def test_programs_run_side_by_side(warm: WarmLauncher) -> None:
    wrong = []

    def work(number: int) -> None:
        for _ in range(3):
            ran = run_on(warm, f"def f():\n    return {number}\n", f"assert f() == {number}")
            if ran.passed != [True]:
                wrong.append(ran)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_sandbox_outlives_the_thread_that_first_needed_it(warm: WarmLauncher) -> None:
    before = below()
    thread = threading.Thread(target=run_on, args=(warm, "def f():\n    return 1\n"))
    thread.start()
    thread.join()
    kept = below() - before
    assert kept
    assert run_on(warm, "def f():\n    return 1\n").passed == [True]
    assert below() & kept


def test_closing_ends_every_process_and_leaves_no_file(
    warm: WarmLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    before = below()
    run_on(warm, "def f():\n    return 1\n")
    assert below() - before
    warm.close()
    assert not below() - before
    assert list(tmp_path.iterdir()) == []


def test_the_process_that_holds_the_namespace_is_out_of_reach(warm: WarmLauncher) -> None:
    source = """
import os, signal
def f():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        for pid in (1, os.getppid()):
            if pid:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
    return 1
"""
    for _ in range(3):
        assert run_on(warm, source, allow_fork=True).passed == [True]


def test_a_signal_of_its_own_ends_a_program(warm: WarmLauncher) -> None:
    ran = run_on(warm, "import os\ndef f():\n    os.kill(os.getpid(), 15)\n    return 1\n")
    assert ran.outcome.candidate_exit == -signal.SIGTERM
    assert ran.passed == [False]


def test_output_of_a_program_that_ends_is_whole(warm: WarmLauncher) -> None:
    ran = run_on(warm, "print('kept', end='')\ndef f():\n    return 1\n")
    assert ran.said == "kept"


def test_deep_values_fit_the_stack_of_the_judge(warm: WarmLauncher) -> None:
    source = "def f():\n    x = []\n    for _ in range(400):\n        x = [x]\n    return x\n"
    deep = "[" * 80 + "]" * 80
    assert run_on(warm, source, f"assert str(f()).startswith('{deep[:80]}')").passed == [True]


def test_limits_hold_for_the_program_that_asks_for_them(warm: WarmLauncher) -> None:
    source = "import resource\ndef f():\n    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
    assert run_on(warm, source, "assert f() == 40", open_files=40).passed == [True]
    assert run_on(warm, source, "assert f() == 128").passed == [True]


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from pytest_benchrig.sandbox.isolation import choose
from pytest_benchrig.sandbox.launch import Unavailable
from pytest_benchrig.sandbox.runner import SandboxRunner
for level in {levels!r}:
    found = choose(level)
    if isinstance(found, Unavailable):
        print(level, "unavailable:", found.reason)
        continue
    with SandboxRunner(launcher=found) as runner:
        source = "import os\\ndef f():\\n    open('x', 'w').close()\\n    return os.getuid()\\n"
        print(level, runner.run(source, ["assert f() != 0"]).verdict)
"""


@pytest.fixture
def readable_copy() -> Iterator[Path]:
    """A folder with the package that any user can read, wherever the checkout lies."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        package = Path(pytest_benchrig.__file__).parent
        shutil.copytree(package, Path(folder, package.name))
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to be root")
def test_plain_users_are_contained_too(readable_copy: Path) -> None:
    """Root becomes a plain user; its own interpreter may lie where that user cannot go."""
    for python in (sys.executable, "/usr/bin/python3"):
        check = "import sys; assert sys.version_info >= (3, 10)"
        if _as_user([python, "-c", check]).returncode == 0:
            break
    else:
        pytest.skip("no interpreter of 3.10 or later that a plain user can run")
    levels = [name for name in LEVELS if not isinstance(choose(name), Unavailable)]
    program = PROGRAM.format(root=str(readable_copy), levels=levels)
    done = _as_user([python, "-B", "-c", program])
    assert done.stdout.splitlines() == [f"{name} pass" for name in levels], done.stderr


def _as_user(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            user=54321,
            group=54321,
            extra_groups=[],
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            cwd="/",
            capture_output=True,
            text=True,
        )
    except PermissionError as problem:
        return subprocess.CompletedProcess(command, 1, "", str(problem))
