"""A hostile program that every level of containment has to stop before it is believed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_benchrig.sandbox.launch import Launcher, Limits, Outcome, Program

SYMPTOMS = {
    "network": "it reached a socket of this machine",
    "read": "it read a file of the user's",
    "write": "it changed a file of the user's",
    "signal": "it may send signals to other processes",
    "forks": "it started as many processes as it liked",
    "environment": "it saw the user's environment",
    "root": "it ran as root",
}
"""What the program tries, and what is said where it succeeds."""

_LIMITS = Limits(memory_mb=512, wall_sec=20.0, processes=16)

_HOSTILE = """\
import os, signal, socket

def hostile(port, files, target, secret):
    done = []
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
        done.append("network")
    except OSError:
        pass
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.sendto(secret.encode(), ("127.0.0.1", port))
        done.append("network")
    except OSError:
        pass
    for path in files:
        for name, mode in (("read", "r"), ("write", "r+")):
            try:
                with open(path, mode) as stream:
                    stream.read(1) if mode == "r" else stream.write("")
                done.append(name)
            except OSError:
                pass
        try:
            os.chmod(path, 0o600)
            done.append("write")
        except OSError:
            pass
    for number in (target, os.getppid()):
        if number > 1:
            try:
                os.kill(number, signal.SIGTERM)
                done.append("signal")
            except OSError:
                pass
    count = 0
    try:
        while count < 40:
            child = os.fork()
            if not child:
                os._exit(0)
            count += 1
    except OSError:
        pass
    if count:
        done.append("forks")
    if secret in os.environ:
        done.append("environment")
    for number in ("self", os.getppid(), target):
        try:
            with open(f"/proc/{number}/environ", "rb") as stream:
                if secret.encode() in stream.read():
                    done.append("environment")
        except OSError:
            pass
    if 0 in os.getresuid() if hasattr(os, "getresuid") else os.getuid() == 0:
        done.append("root")
    return sorted(set(done))
"""


def probe(launcher: Launcher) -> str:
    """Run the hostile program: what it did that it must not, "" if it could not.

    It tries sockets of this machine, a canary file of this user's and one in the home, a signal
    to its parent and to a process of this user's, a row of forks and the environment of others.
    """
    from pytest_benchrig.sandbox.judge import job_of

    secret = f"BENCHRIG_CANARY_{secrets.token_hex(8)}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        tempfile.TemporaryDirectory(prefix="benchrig-canary-") as folder,
        _Bystander({**os.environ, secret: "1"}) as target,
    ):
        canary = Path(folder, "canary")
        canary.write_text(secret, "utf-8")
        canary.chmod(0o666)
        Path(folder).chmod(0o755)
        files = [str(canary), *_file_at_home()]
        port = server.getsockname()[1]
        call = f"hostile({port}, {files!r}, {target.pid}, {secret!r})"
        # Each assertion holds when that one thing was not done; the first one shows that it ran.
        claims = [f"done = {call}\nassert isinstance(done, list)"]
        claims += [f"assert {symptom!r} not in done" for symptom in SYMPTOMS]
        token = secrets.token_hex(16)
        job = job_of(token, _HOSTILE, claims, ["hostile"], site_packages=False)
        outcome = launcher.run(Program(job, _LIMITS))
        passed = _passed(outcome, token)
        if canary.read_text("utf-8") != secret or canary.stat().st_mode & 0o777 != 0o666:
            return f"a program was not contained: {SYMPTOMS['write']}"
        if target.poll() is not None:
            return f"a program was not contained: {SYMPTOMS['signal']}"
    if not passed.get(0):
        said = (outcome.setup_error or _last(outcome.judge_stderr) or _last(outcome.stderr)).strip()
        return f"a program does not run: {said or 'it ended without a word'}"
    wrong = [
        words for index, words in enumerate(SYMPTOMS.values(), 1) if not passed.get(index, False)
    ]
    return f"a program was not contained: {', '.join(wrong)}" if wrong else ""


def _file_at_home() -> list[str]:
    """A file in the user's home that the user can read, if there is one."""
    try:
        entries = sorted(Path("~").expanduser().iterdir())
    except (OSError, RuntimeError):
        return []
    return [str(entry) for entry in entries if entry.is_file() and os.access(entry, os.R_OK)][:1]


class _Bystander:
    """A process of the user's that a contained program must not reach."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            env=self._env,
        )
        return self._process

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _passed(outcome: Outcome, token: str) -> dict[int, bool]:
    found = {}
    for line in outcome.reports.splitlines():
        event = json.loads(line)
        if event["token"] == token and event["event"] == "assertion":
            found[event["index"]] = event["passed"] is True
    return found


def _last(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
