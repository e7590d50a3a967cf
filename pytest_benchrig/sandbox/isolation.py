"""Which level of containment works here: asked of a hostile program that each has to stop."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from pytest_benchrig.sandbox import remedies
from pytest_benchrig.sandbox.launch import Launcher, Unavailable
from pytest_benchrig.sandbox.probe import probe

LEVELS = ("namespace-bwrap", "namespace-own", "landlock", "seatbelt", "process")
"""The ways to run a program, strongest first; the last contains nothing."""

_NAMESPACES = LEVELS[:2]

CHOICES = ("auto", "strict", "namespace", *LEVELS)
"""What a user may ask for."""


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
        "auto": LEVELS[:-1],
        "strict": _NAMESPACES,
        "namespace": _NAMESPACES,
    }.get(level, (level,))
    refusals: list[tuple[str, Unavailable]] = []
    for name in wanted:
        found = _works(name)
        if not isinstance(found, Unavailable):
            return found
        refusals.append((name, found))
    own_platform = [entry for entry in refusals if _belongs_here(entry[0])]
    refusals = own_platform or refusals
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


def _belongs_here(name: str) -> bool:
    """Whether a level is made for this operating system."""
    return (name == "seatbelt") == (sys.platform == "darwin")


@functools.cache
def _works(name: str) -> Launcher | Unavailable:
    launchers, reason, remedy = _MAKERS[name]()
    for launcher in launchers:
        reason = "" if name == "process" else probe(launcher)
        if not reason:
            # It is kept for the whole process, and so outlives every runner that closes it.
            atexit.register(_close_own, launcher, os.getpid())
            return launcher
        launcher.close()
    return Unavailable(reason, remedy)


def _close_own(launcher: Launcher, owner: int) -> None:
    if os.getpid() == owner:
        launcher.close()


Made: TypeAlias = tuple[list[Launcher], str, str]
"""Launchers to try, the fast ones first; why there is none; the way out."""


def _facts() -> remedies.Facts:
    from pytest_benchrig.sandbox.bwrap import find
    from pytest_benchrig.sandbox.landlock import version

    return remedies.facts_of(bwrap=find() or "", landlock=version())


def _bwrap() -> Made:
    facts = _facts()
    remedy = remedies.for_namespaces(facts)
    if not facts.system.startswith("linux"):
        return [], "bwrap is for Linux alone", remedy
    if not facts.bwrap:
        return [], "bwrap is not installed", remedy
    from pytest_benchrig.sandbox.bwrap import BwrapLauncher
    from pytest_benchrig.sandbox.warm import WarmLauncher

    # Where a profile lets bwrap alone make namespaces, zygotes cannot: then one bwrap a side.
    made: list[Launcher] = [WarmLauncher("bwrap", facts.bwrap)]
    if facts.root:
        made.append(BwrapLauncher(facts.bwrap, user_namespace=False))
    else:
        made.append(BwrapLauncher(facts.bwrap))
    return made, "", remedy


def _own() -> Made:
    facts = _facts()
    remedy = remedies.for_namespaces(facts)
    if not facts.system.startswith("linux"):
        return [], "namespaces are for Linux alone", remedy
    from pytest_benchrig.sandbox.warm import WarmLauncher

    return [WarmLauncher("own")], "", remedy


def _landlock() -> Made:
    facts = _facts()
    remedy = remedies.for_landlock(facts)
    if not facts.landlock:
        return [], "this kernel has no Landlock, or it is switched off", remedy
    from pytest_benchrig.sandbox.warm import WarmLauncher

    return [WarmLauncher("landlock")], "", remedy


def _seatbelt() -> Made:
    from pytest_benchrig.sandbox.seatbelt import EXECUTABLE, SeatbeltLauncher

    remedy = remedies.for_seatbelt(_facts())
    if sys.platform != "darwin" or not Path(EXECUTABLE).exists():
        return [], "there is no sandbox-exec here", remedy
    return [SeatbeltLauncher()], "", remedy


def _process() -> Made:
    if os.name != "posix":
        return [], "this is no POSIX system", "use WSL2"
    from pytest_benchrig.sandbox.process import ProcessLauncher

    return [ProcessLauncher()], "", ""


_MAKERS: dict[str, Callable[[], Made]] = {
    "namespace-bwrap": _bwrap,
    "namespace-own": _own,
    "landlock": _landlock,
    "seatbelt": _seatbelt,
    "process": _process,
}
