"""The level ``landlock``: file rules, a system call filter, a fall from root; no namespaces."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from pytest_benchrig.sandbox.boot import SOURCES, command, read_only_paths, site_packages
from pytest_benchrig.sandbox.inside import Settings
from pytest_benchrig.sandbox.landlock import NOBODY, scopes_signals, version
from pytest_benchrig.sandbox.launch import Limits
from pytest_benchrig.sandbox.pair import (
    PairLauncher,
    Role,
    Side,
    Streams,
    settings_text,
    spawn,
)
from pytest_benchrig.sandbox.process import environment, remove_tree


class LandlockLauncher(PairLauncher):
    """Runs each side under rules that it puts on itself, with a reaper of its own outside them."""

    level = "landlock"
    name = "landlock"

    @contextlib.contextmanager
    def _home(self) -> Iterator[str]:
        home = tempfile.mkdtemp(prefix="benchrig-")
        try:
            if os.geteuid() == 0:
                os.chown(home, NOBODY, NOBODY)
            yield home
        finally:
            remove_tree(home)

    def _start(
        self, role: Role, limits: Limits, settings: Settings, home: str, streams: Streams
    ) -> Side:
        packages = site_packages() if role == "candidate" and limits.site_packages else []
        settings = replace(
            settings,
            path=tuple(packages),
            read_only=(*read_only_paths(), str(SOURCES), *packages),
            read_write=(home,) if role == "candidate" else (),
            leave_root=True,
            guard=True,
            launcher=os.getpid(),
            signal_only_itself=not (scopes_signals(version()) and limits.allow_fork),
        )
        return Side(
            spawn(
                command(str(SOURCES), settings_text(settings)),
                (*settings.descriptors, settings.lifeline),
                streams,
                env=environment(home),
                cwd=home,
            )
        )
