"""200 hostile programs in a row leave no process, no file and no changed file behind."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
import time
from itertools import cycle, islice
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import isolation
from pytest_benchrig.sandbox.launch import Unavailable
from tests.sandbox.isolation_support import CONTAINED, descendants, launcher, run_on

HOSTILE = {
    "exits": "import os\nos._exit(0)",
    "is killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "ignores signals": "import signal\nfor n in range(1, 32):\n  try: signal.signal(n, 1)\n"
    "  except (OSError, ValueError): pass\nwhile True: pass",
    "leaves files": "open('left', 'w').write('x')\nopen('/tmp/left', 'w').write('x')",
    "digs deep": "import os\nfor _ in range(1500):\n  os.mkdir('d'); os.chdir('d')",
    "closes doors": "import os\nos.mkdir('d'); open('d/f', 'w').close(); os.chmod('d', 0)",
    "daemonises": "import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n"
    "    while True: pass",
    "bombs": "import os\nwhile True: os.fork()",
    "threads": "import threading, time\nwhile True: threading.Thread(target=time.sleep, "
    "args=(99,)).start()",
    "floods": "while True: print('x' * 10000)",
    "allocates": "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "fills": "import os\nfor n in range(99):\n  open(str(n), 'wb').write(b'x' * (1 << 20))",
    "writes outside": "import json, os\nfor p in ('/root/x', '/etc/x', '/usr/lib/x', '/dev/shm/x', "
    "json.__file__ + 'x', json.__file__):\n  try: open(p, 'a').write('x')\n  except OSError: pass",
    "talks to all": "import os\nfor fd in range(256):\n  try: os.write(fd, b'garbage' * 99)\n"
    "  except OSError: pass",
}
LONG = {
    "stops itself",
    "ignores signals",
    "digs deep",
    "bombs",
    "threads",
    "floods",
    "allocates",
}
"""Those that take until the time limit, or their removal long; the others are run more often."""

PROGRAMS = [source for name, source in HOSTILE.items() if name in LONG for _ in range(4)]
PROGRAMS += islice(cycle(source for name, source in HOSTILE.items() if name not in LONG), 172)
PR_SET_CHILD_SUBREAPER = 36


def files(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file below these folders, with its size and when it was changed."""
    found = {}
    for folder in folders:
        for place in [folder, *folder.rglob("*")]:
            if "__pycache__" not in place.parts:
                facts = place.lstat()
                changed = 0 if place.is_dir() else facts.st_mtime_ns
                found[str(place)] = (0 if place.is_dir() else facts.st_size, changed)
    return found


def told(pid: int) -> str:
    """What a process is, for the message of a failure."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("latin-1").splitlines()
        command = Path(f"/proc/{pid}/cmdline").read_text("latin-1")
    except OSError:
        return "gone"
    return f"{status[:8]} {command[-200:]!r}"


def descriptors() -> int:
    """Descriptors that this process holds."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("level", CONTAINED)
def test_nothing_is_left(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher(level)
    assert len(PROGRAMS) == 200
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        leave_nothing(level, tmp_path, monkeypatch)
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def leave_nothing(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    library = Path(os.__file__).parent / "json"
    before = files(tmp_path), files(library)
    known = descendants(os.getpid())
    held = descriptors()
    # A launcher of its own, so that what it keeps warm can be ended and counted.
    fresh = isolation._works.__wrapped__(level)
    assert not isinstance(fresh, Unavailable)
    threads = [
        threading.Thread(
            target=run_on,
            args=(fresh, source),
            kwargs={
                "wall_sec": 0.6,
                "file_size_mb": 2,
                "allow_fork": "fork" in source,
            },
        )
        for source in PROGRAMS
    ]
    waiting = iter(threads)
    running = [thread for _, thread in zip(range(3), waiting, strict=False)]
    for thread in running:
        thread.start()
    for thread in waiting:
        running.pop(0).join()
        thread.start()
        running.append(thread)
    for thread in running:
        thread.join()
    fresh.close()
    assert files(tmp_path) == before[0]
    assert descriptors() == held
    # Closing kills; the kernel takes a moment to tear the namespaces down.
    deadline = time.monotonic() + 10
    while descendants(os.getpid()) - known and time.monotonic() < deadline:
        os.sched_yield()
    assert {pid: told(pid) for pid in descendants(os.getpid()) - known} == {}
    assert files(library) == before[1]
