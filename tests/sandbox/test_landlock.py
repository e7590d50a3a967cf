"""File rules and the fall from root, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import landlock

pytestmark = pytest.mark.skipif(
    not landlock.version(), reason="this kernel has no Landlock, or it is switched off"
)
ROOT = str(Path(landlock.__file__).parents[2])


def confined(body: str) -> object:
    """What a fresh interpreter prints as JSON after this code."""
    code = f"""
import json, os, sys
sys.path.insert(0, {ROOT!r})
from pytest_benchrig.sandbox import landlock
def attempt(action, *args):
    try:
        action(*args)
    except OSError as problem:
        return type(problem).__name__
    return "done"
{body}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_only_what_is_given_can_be_read_and_written(tmp_path: Path) -> None:
    for name in ("seen", "own", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    body = f"""
base = {str(tmp_path)!r}
landlock.restrict([base + "/seen"], [base + "/own"])
print(json.dumps([
    attempt(open, base + "/seen/file"),
    attempt(open, base + "/seen/file", "a"),
    attempt(open, base + "/seen/new", "w"),
    attempt(os.unlink, base + "/seen/file"),
    attempt(open, base + "/own/file", "a"),
    attempt(open, base + "/own/new", "w"),
    attempt(os.mkdir, base + "/own/folder"),
    attempt(open, base + "/other/file"),
    attempt(os.listdir, base),
    attempt(os.rename, base + "/own/file", base + "/other/moved"),
    attempt(open, "/dev/null", "w"),
]))
"""
    refused = "PermissionError"
    assert confined(body) == [
        "done",
        refused,
        refused,
        refused,
        "done",
        "done",
        "done",
        refused,
        refused,
        refused,
        "done",
    ]
    assert (tmp_path / "seen" / "file").read_text() == "seen"


def test_a_single_file_can_be_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    body = f"""
base = {str(tmp_path)!r}
landlock.restrict([base + "/one", base + "/missing"], [])
print(json.dumps([attempt(open, base + "/one"), attempt(open, base + "/two")]))
"""
    assert confined(body) == ["done", "PermissionError"]


@pytest.mark.skipif(landlock.version() < 6, reason="this kernel's Landlock does not scope signals")
def test_no_signal_leaves() -> None:
    body = """
parent = os.getppid()
landlock.restrict([], [])
print(json.dumps([attempt(os.kill, parent, 0), attempt(os.kill, os.getpid(), 0)]))
"""
    assert confined(body) == ["PermissionError", "done"]


@pytest.mark.skipif(os.geteuid() != 0, reason="this is not root")
@pytest.mark.parametrize("reading", [False, True])
def test_root_becomes_nobody(reading: bool, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    secret = tmp_path / "secret"
    secret.write_text("closed")
    secret.chmod(0o600)
    body = f"""
landlock.leave_root([{str(secret)!r}], reading={reading})
print(json.dumps([
    os.getuid(), os.getegid(), os.getgroups(),
    attempt(open, {str(secret)!r}), attempt(open, {str(secret)!r}, "a"),
    attempt(os.setuid, 0), attempt(os.chown, {str(tmp_path)!r}, 0, 0),
]))
"""
    refused = "PermissionError"
    nobody = landlock.NOBODY
    seen = "done" if reading else refused
    assert confined(body) == [nobody, nobody, [], seen, refused, refused, refused]


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
def test_who_is_not_root_stays_who_they_are() -> None:
    body = "landlock.leave_root([], reading=True)\nprint(json.dumps(os.getuid()))"
    assert confined(body) == os.getuid()
