"""The process from which both zygotes are forked: a sandbox is entered, modules are imported once.

It never reads a job or a line of a model's code. It ends when either zygote ends, and everything
with it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, Literal, NamedTuple

from pytest_benchrig.sandbox import syscalls

Way = Literal["bwrap", "own", "landlock"]
Role = Literal["candidate", "judge"]


class StemSettings(NamedTuple):
    """What the launcher tells a stem; nothing in it is secret.

    Attributes:
        way: How the outer sandbox comes about; ``bwrap`` has made it already.
        controls: The descriptor of each zygote's control socket.
        proc: A descriptor of ``/proc``.
        sources: The folder of these modules, outside.
        shown: The fields of ``Visible``.
        homes: The private folder of each zygote, where there is no namespace for it.
        real_root: Whether root outside is root for the machine.
    """

    way: Way
    controls: dict[Role, int]
    proc: int
    sources: str
    shown: dict[str, Any]
    homes: dict[Role, str]
    real_root: bool


def main(text: str) -> None:
    """Become a stem, and through it two zygotes; does not return."""
    settings = StemSettings(**json.loads(text))
    # What is imported stays: looking for garbage in it would only keep the first program waiting.
    gc.disable()
    try:
        _run(settings)
    except OSError as problem:
        os.write(2, f"{problem.strerror or problem}\n".encode("utf-8", "replace"))
    os._exit(1)


def _run(settings: StemSettings) -> None:
    if settings.way == "own":
        from pytest_benchrig.sandbox import namespaces
        from pytest_benchrig.sandbox.sights import Visible

        shown = Visible(**settings.shown)
        namespaces.enter(shown, settings.sources, settings.proc)
        _look_for_modules_in(namespaces.SOURCES_INSIDE)
    elif settings.real_root:
        from pytest_benchrig.sandbox import landlock

        needed = [*settings.shown["shown"], settings.sources]
        landlock.leave_root(needed, reading=settings.way == "landlock")
        if settings.way == "landlock":
            # The stem outlives the launcher, to clean up behind it.
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        else:
            syscalls.after_change_of_user()
    if settings.way == "landlock":
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    _warm()
    zygotes = set()
    for role, control in settings.controls.items():
        pid = os.fork()
        if not pid:
            _become_zygote(settings, role, control)
        zygotes.add(pid)
    for control in settings.controls.values():
        os.close(control)
    os.close(settings.proc)
    _wait(settings, zygotes)


def _look_for_modules_in(folder: str) -> None:
    sys.modules["pytest_benchrig.sandbox"].__path__ = [folder]


def _warm() -> None:
    """Import what every program needs, and keep the pages of it shared after a fork."""
    import importlib

    from pytest_benchrig.sandbox.inventory import SANDBOX_MODULES

    for name in (*SANDBOX_MODULES, "pytest_benchrig.sandbox.zygote"):
        importlib.import_module(name)
    # Programs get the finders of an ordinary interpreter.
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder.__module__ != "__main__"]
    gc.freeze()
    gc.enable()


def _become_zygote(settings: StemSettings, role: Role, control: int) -> None:
    try:
        for other, fd in settings.controls.items():
            if other != role:
                os.close(fd)
        from pytest_benchrig.sandbox import zygote

        zygote.main(settings, role, control)
    except BaseException as problem:
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _wait(settings: StemSettings, started: set[int]) -> None:
    """End with the first zygote that ends.

    With namespaces the forked process is only what steps into them: the zygote is its child, which
    this process inherits.
    """
    nested = settings.way != "landlock"
    while True:
        pid, _ = os.wait()
        if not (nested and pid in started):
            break
        started.discard(pid)
    if settings.way != "landlock":
        os._exit(0)
    from pytest_benchrig.sandbox.process import remove_tree
    from pytest_benchrig.sandbox.reaper import kill_children_of_this_process

    kill_children_of_this_process()
    for home in settings.homes.values():
        remove_tree(home)
    os._exit(0)
