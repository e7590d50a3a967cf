"""What each level stops, by programs that try it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import isolation
from pytest_benchrig.sandbox.launch import Launcher, Limits, Unavailable
from pytest_benchrig.sandbox.probe import probe
from tests.sandbox.isolation_support import CONTAINED, descendants, launcher, marked, run

HONEST = "def f():\n    return 1\n"
contained = pytest.mark.parametrize("level", CONTAINED)
everywhere = pytest.mark.parametrize("level", isolation.LEVELS)


@everywhere
def test_an_honest_program_passes(level: str) -> None:
    ran = run(level, HONEST)
    assert ran.passed == [True]
    assert ran.outcome.judge_exit == 0
    assert ran.outcome.judge_stderr == b""
    assert 0 < ran.outcome.wall_sec < 10


@everywhere
def test_a_launcher_that_nobody_closed_ends_with_the_harness(level: str) -> None:
    launcher(level)
    harness = (
        "from tests.sandbox.isolation_support import run\n"
        f"assert run({level!r}, {HONEST!r}).passed == [True]\n"
    )
    command = [sys.executable, "-X", "dev", "-c", harness]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (ended.returncode, ended.stderr) == (0, "")


@everywhere
def test_what_programs_use_works(level: str) -> None:
    source = """
        import asyncio, tempfile, threading, decimal, json, random, sqlite3, zoneinfo
        from concurrent.futures import ThreadPoolExecutor

        def f():
            async def wait():
                await asyncio.sleep(0)
                return 1
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(str, range(20)))
            with tempfile.NamedTemporaryFile("w+") as stream:
                stream.write("kept")
                stream.seek(0)
                assert stream.read() == "kept"
            return asyncio.run(wait())
    """
    ran = run(level, textwrap.dedent(source))
    assert ran.passed == [True], ran.outcome


@contained
def test_no_socket_of_this_machine_is_reached(level: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = f"""
import socket
def attempt(kind, place):
    try:
        with socket.socket(kind[0], kind[1]) as made:
            made.connect(place)
        return "reached"
    except OSError:
        return "refused"
def f():
    return [attempt(*pair) for pair in (
        ((socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", {port})),
        ((socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", {port})),
        ((socket.AF_UNIX, socket.SOCK_STREAM), "/run/systemd/private"),
        ((socket.AF_NETLINK, socket.SOCK_RAW), (0, 0)),
    )]
"""
        assert run(level, source, "assert f() == ['refused'] * 4").passed == [True]


@contained
def test_no_file_of_the_user_is_read_or_written(level: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept")
    secret.chmod(0o666)
    tmp_path.chmod(0o777)
    source = f"""
import os
def attempt(action, *args):
    try:
        action(*args)
        return "done"
    except OSError:
        return "refused"
def f():
    home = {str(Path.home())!r}
    return [
        attempt(open, {str(secret)!r}),
        attempt(open, {str(secret)!r}, "a"),
        attempt(open, {str(tmp_path / "new")!r}, "w"),
        attempt(os.unlink, {str(secret)!r}),
        attempt(os.rename, {str(secret)!r}, {str(tmp_path / "other")!r}),
        attempt(os.symlink, "/", {str(tmp_path / "link")!r}),
        attempt(open, home + "/.benchrig-canary", "w"),
        attempt(open, os.__file__, "a"),
        attempt(open, "/etc/shadow"),
        attempt(os.listdir, {str(Path(__file__).parent)!r}),
    ]
"""
    ran = run(level, source, "assert f() == ['refused'] * 10")
    assert ran.passed == [True], ran.outcome.reports
    assert secret.read_text() == "kept"
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


@contained
def test_no_process_outside_is_signalled_or_looked_into(level: str) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={"A_SECRET_OF_THE_USER": "1"},
    )
    try:
        source = f"""
import os, signal
def f():
    done = []
    # Process 1 of a namespace is the candidate's own, and the kernel lets no signal of it through.
    for pid in ({victim.pid}, {os.getpid()}, os.getppid()):
        if pid <= 1 or pid == os.getpid():
            continue
        try:
            os.kill(pid, signal.SIGKILL)
            done.append(pid)
        except OSError:
            pass
        for name in ("environ", "mem", "maps"):
            try:
                with open(f"/proc/{{pid}}/{{name}}", "rb") as stream:
                    if b"A_SECRET_OF_THE_USER" in stream.read(4096) or name == "mem":
                        done.append(name)
            except OSError:
                pass
    return done
"""
        ran = run(level, source, "assert f() == []")
        assert ran.passed == [True], ran.outcome.reports
        assert victim.poll() is None
    finally:
        assert victim.stdin is not None
        victim.stdin.close()
        victim.wait()


@contained
def test_a_fork_bomb_does_not_start(level: str) -> None:
    source = """
import os
def f():
    for make in (os.fork, os.forkpty, lambda: os.posix_spawn("/bin/true", ["true"], {})):
        try:
            if make() == 0:
                os._exit(0)
            return "forked"
        except OSError:
            pass
    return "refused"
"""
    assert run(level, source, "assert f() == 'refused'").passed == [True]


@contained
def test_forking_is_a_switch(level: str) -> None:
    source = """
import subprocess, sys
def f():
    child = subprocess.run([sys.executable, "-S", "-c", "print(41 + 1)"], capture_output=True)
    return child.stdout + child.stderr
"""
    assert run(level, source, "assert f() == b'42\\n'", allow_fork=True).passed == [True]


@everywhere
def test_memory_is_limited(level: str) -> None:
    source = """
def f(size=900 << 20):
    try:
        return len(bytearray(size))
    except MemoryError:
        return "refused"
"""
    assert run(level, source, "assert f() == 'refused'", memory_mb=256).passed == [True]
    assert run(level, source, "assert f(100 << 20) == 100 << 20", memory_mb=256).passed == [True]


@contained
def test_memory_is_not_found_beside_the_limit(level: str) -> None:
    source = """
import ctypes, os
def f():
    libc = ctypes.CDLL(None)
    made = [libc.shmget(0, 1 << 20, 0o1600)]
    try:
        made.append(os.memfd_create("x"))
    except OSError:
        made.append(-1)
    return made
"""
    assert run(level, source, "assert f() == [-1, -1]").passed == [True]


@contained
def test_a_disk_flood_ends(level: str) -> None:
    source = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def f():
    total = 0
    for folder in ("/tmp", "/dev/shm", os.getcwd()):
        for number in range(40):
            try:
                with open(f"{folder}/{number}", "wb") as stream:
                    for _ in range(8):
                        total += stream.write(b"x" * (1 << 20))
            except OSError:
                break
    return total
"""
    ran = run(level, source, "assert f() <= 8 << 20", file_size_mb=2, wall_sec=20)
    assert ran.passed == [True] or ran.outcome.ended_by == "file_size"


@everywhere
def test_a_program_that_never_ends_is_ended(level: str) -> None:
    ran = run(level, "while True: pass", wall_sec=1.0)
    assert ran.outcome.ended_by == "wall"
    assert ran.passed == []


@everywhere
def test_cpu_time_is_limited(level: str) -> None:
    ran = run(level, HONEST + "while True: pass", wall_sec=20.0, cpu_sec=1.0)
    assert ran.outcome.ended_by == "cpu"


@everywhere
def test_a_flood_of_output_is_cut_and_its_end_kept(level: str) -> None:
    ran = run(level, HONEST + "print('x' * 3_000_000)\nprint('the end')")
    assert ran.passed == [True]
    assert len(ran.outcome.stdout) == 64 << 10
    assert ran.outcome.stdout.endswith(b"x\nthe end\n")


@everywhere
def test_nothing_is_inherited_but_the_pipe(level: str) -> None:
    held, other = os.pipe()
    try:
        os.set_inheritable(held, True)
        source = """
import os
def f():
    found = []
    for fd in range(3, 256):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    return len(found)
"""
        assert run(level, source, "assert f() == 1").passed == [True]
    finally:
        os.close(held)
        os.close(other)


@everywhere
def test_the_environment_holds_no_secret(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    source = "import os, sys\ndef f():\n    return dict(os.environ), sys.path, hash('a')\n"
    names = (
        "{'HOME', 'LANG', 'LC_ALL', 'PATH', 'TMPDIR', 'TZ', 'PYTHONHASHSEED', 'PYTHONUTF8',"
        " 'PYTHONSAFEPATH', 'PYTHONDONTWRITEBYTECODE', 'PWD', 'BENCHRIG_PROGRAM'}"
    )
    ran = run(
        level,
        source,
        f"assert set(f()[0]) <= {names}",
        "assert '/somewhere' not in f()[1] and '' not in f()[1]",
        "assert not any('site-packages' in entry for entry in f()[1])",
    )
    assert ran.passed == [True] * 3, ran.outcome.reports


@contained
def test_a_program_hashes_the_same_each_time(level: str) -> None:
    source = "print(hash('a'))\n" + HONEST
    assert run(level, source).said == run(level, source).said


@contained
def test_root_is_not_root_inside(level: str) -> None:
    source = """
import os
def f():
    import ctypes
    libc = ctypes.CDLL(None)
    sets = (ctypes.c_uint32 * 6)()
    libc.capget(ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)), sets)
    try:
        os.chown(".", 0, 0)
        changed = True
    except OSError:
        changed = False
    return os.getuid(), os.geteuid(), list(sets), changed
"""
    # Reading (bit 2) may be left where file rules say what can be read.
    most = 4 if level == "landlock" else 0
    ran = run(
        level,
        source,
        "assert 0 not in f()[:2]",
        f"assert all(word | {most} == {most} for word in f()[2])",
        "assert not f()[3]",
    )
    assert ran.passed == [True] * 3, ran.outcome.reports


@contained
def test_the_judge_is_not_seen(level: str) -> None:
    source = """
import os
def f():
    found = []
    for number in range(1, 1 << 17):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as stream:
                found.append(b'"judge"' in stream.read())
        except OSError:
            pass
    return any(found)
"""
    assert run(level, source, "assert f() is False").passed == [True]


@everywhere
def test_a_daemonised_grandchild_is_ended(level: str) -> None:
    mark = f"bench{os.getpid()}"
    source = f"""
import os, signal, sys
def f():
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork() == 0:
            for fd in range(3, 64):
                try:
                    os.close(fd)
                except OSError:
                    pass
            spin = [sys.executable, "-S", "-c", "while True: pass", "{mark}"]
            os.execve(sys.executable, spin, {{}})
        os._exit(0)
    return 1
"""
    ran = run(level, source, allow_fork=True)
    assert ran.passed == [True], ran.outcome
    assert marked(mark) == []


@contained
def test_everything_ends_with_the_harness(level: str, tmp_path: Path) -> None:
    launcher(level)
    root = Path(isolation.__file__).parents[2]
    code = f"""
import sys
sys.path.insert(0, {str(root)!r})
from tests.sandbox.isolation_support import run
print("started", flush=True)
run({level!r}, "while True: pass", wall_sec=300)
"""
    harness = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert harness.stdout is not None
    assert harness.stderr is not None
    assert harness.stdout.readline() == b"started\n"
    _until(lambda: _busy(descendants(harness.pid)))
    below = descendants(harness.pid)
    assert below
    harness.kill()
    harness.wait()
    harness.stdout.close()
    harness.stderr.close()
    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def _busy(pids: set[int]) -> bool:
    """Whether one of them has computed for half a second: the program inside has started."""
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[11]) >= 0.5 * os.sysconf("SC_CLK_TCK"):
            return True
    return False


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        os.sched_yield()


class Leaky:
    """A launcher that contains nothing and says that it does."""

    level = "namespace"

    def __init__(self) -> None:
        self._inner = launcher("process")

    def run(self, program):  # type: ignore[no-untyped-def]
        return self._inner.run(program)

    def close(self) -> None:
        self._inner.close()


def test_the_probe_sees_that_nothing_is_contained() -> None:
    leaky: Launcher = Leaky()
    assert probe(leaky).startswith("a program was not contained: ")


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown sandbox level 'jail': choose one of auto, "):
        isolation.choose("jail")


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="sandbox limit memory_mb must be positive, not -1"):
        Limits(memory_mb=-1)


def test_automatic_is_the_strongest_that_works() -> None:
    working = [name for name in CONTAINED if not isinstance(isolation.choose(name), Unavailable)]
    found = isolation.choose("auto")
    if working:
        assert found is isolation.choose(working[0])
    else:
        assert isinstance(found, Unavailable)
        assert found.remedy


def test_each_level_is_told_with_what_to_do() -> None:
    lines = isolation.survey()
    assert [line.partition(":")[0] for line in lines] == list(isolation.LEVELS)
    for line in lines:
        assert ": works" in line or ": no: " in line
