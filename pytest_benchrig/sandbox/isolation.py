"""Which level of containment works here: asked of a hostile program that each has to stop."""

from __future__ import annotations

import functools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_benchrig.sandbox.launch import Launcher, Limits, Outcome, Program, Unavailable

LEVELS = ("namespace-bwrap", "landlock", "process")
"""The ways to run a program, strongest first; the last contains nothing."""

CHOICES = ("auto", "strict", "namespace", *LEVELS)
"""What a user may ask for."""

_SYMPTOMS = {
    "network": "it reached a socket of this machine",
    "read": "it read a file of the user's",
    "write": "it changed a file of the user's",
    "signal": "it may send signals to other processes",
    "forks": "it started as many processes as it liked",
    "environment": "it saw the user's environment",
}
_PROBE_LIMITS = Limits(memory_mb=512, wall_sec=20.0, processes=16)

_PROBE = """\
import os, signal, socket

def hostile(port, canary, target, secret):
    done = []
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
        done.append("network")
    except OSError:
        pass
    for name, mode in (("read", "r"), ("write", "a")):
        try:
            with open(canary, mode) as stream:
                stream.read() if mode == "r" else stream.write("!")
            done.append(name)
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
    return sorted(set(done))
"""


def choose(level: str) -> Launcher | Unavailable:
    """The launcher for what the user asked for.

    Args:
        level: One of ``CHOICES``. ``auto`` is the strongest level that contains and works here,
            ``strict`` is ``namespace`` and nothing else.

    Raises:
        ValueError: There is no such level.
    """
    if level not in CHOICES:
        raise ValueError(f"unknown sandbox level {level!r}: choose one of {', '.join(CHOICES)}")
    wanted = {
        "auto": ("namespace-bwrap", "landlock"),
        "strict": ("namespace-bwrap",),
        "namespace": ("namespace-bwrap",),
    }.get(level, (level,))
    refusals: list[tuple[str, Unavailable]] = []
    for name in wanted:
        found = _works(name)
        if not isinstance(found, Unavailable):
            return found
        refusals.append((name, found))
    remedies = dict.fromkeys(refusal.remedy for _, refusal in refusals)
    return Unavailable(
        reason="; ".join(f"{name}: {refusal.reason}" for name, refusal in refusals),
        remedy="; or ".join(remedies),
    )


def survey() -> list[str]:
    """One line for each level: works, or why not and what to do about it."""
    lines = []
    for name in LEVELS:
        found = _works(name)
        if isinstance(found, Unavailable):
            lines.append(f"{name}: no: {found.reason}; {found.remedy}")
        elif name == "process":
            lines.append(f"{name}: works, limits only: nothing is contained")
        else:
            lines.append(f"{name}: works, a hostile program was stopped")
    return lines


@functools.cache
def _works(name: str) -> Launcher | Unavailable:
    reason = ""
    launchers, remedy = _MAKERS[name]()
    for launcher in launchers:
        if name == "process":
            return launcher
        reason = probe(launcher)
        if not reason:
            return launcher
        launcher.close()
    return Unavailable(reason or _ABSENT[name](), remedy)


def probe(launcher: Launcher) -> str:
    """Run a hostile program through a launcher: what it did that it must not, "" if it could not.

    It tries a socket of this machine, a canary file of this user's, a signal to a process of this
    user's, a row of forks and the environment of its parents.
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
        port = server.getsockname()[1]
        call = f"hostile({port}, {str(canary)!r}, {target.pid}, {secret!r})"
        # Each assertion holds when that one thing was not done; the first one shows that it ran.
        claims = [f"done = {call}\nassert isinstance(done, list)"]
        claims += [f"assert {symptom!r} not in done" for symptom in _SYMPTOMS]
        token = secrets.token_hex(16)
        job = job_of(token, _PROBE, claims, ["hostile"], site_packages=False)
        outcome = launcher.run(Program(job, _PROBE_LIMITS))
        passed = _passed(outcome, token)
        if canary.read_text("utf-8") != secret:
            return _SYMPTOMS["write"]
        if target.poll() is not None:
            return _SYMPTOMS["signal"]
    if not passed.get(0):
        said = (outcome.setup_error or _last(outcome.judge_stderr) or _last(outcome.stderr)).strip()
        return f"a program does not run: {said or 'it ended without a word'}"
    wrong = [
        words for index, words in enumerate(_SYMPTOMS.values(), 1) if not passed.get(index, False)
    ]
    return f"a program was not contained: {', '.join(wrong)}" if wrong else ""


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


def _bwrap() -> tuple[list[Launcher], str]:
    remedy = (
        "install bubblewrap (apt install bubblewrap, dnf install bubblewrap) and allow user "
        "namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu 24.04; in a "
        "container --security-opt seccomp=unconfined, or --privileged)"
    )
    if not sys.platform.startswith("linux"):
        return [], "use Linux, or WSL2"
    from pytest_benchrig.sandbox.bwrap import BwrapLauncher, find

    path = find()
    if path is None:
        return [], remedy
    made: list[Launcher] = []
    if os.geteuid() == 0:
        made.append(BwrapLauncher(path, user_namespace=False))
    made.append(BwrapLauncher(path))
    return made, remedy


def _landlock() -> tuple[list[Launcher], str]:
    remedy = "use a Linux kernel of 5.13 or newer with landlock in its lsm= list"
    if not sys.platform.startswith("linux"):
        return [], remedy
    from pytest_benchrig.sandbox.landlock import version
    from pytest_benchrig.sandbox.landlocked import LandlockLauncher

    return ([LandlockLauncher()] if version() else []), remedy


def _process() -> tuple[list[Launcher], str]:
    if os.name != "posix":
        return [], "use WSL2"
    from pytest_benchrig.sandbox.process import ProcessLauncher

    return [ProcessLauncher()], ""


_MAKERS: dict[str, Callable[[], tuple[list[Launcher], str]]] = {
    "namespace-bwrap": _bwrap,
    "landlock": _landlock,
    "process": _process,
}
_ABSENT: dict[str, Callable[[], str]] = {
    "namespace-bwrap": lambda: "there is no bwrap here",
    "landlock": lambda: "this kernel has no Landlock, or it is switched off",
    "process": lambda: "this is no POSIX system",
}
