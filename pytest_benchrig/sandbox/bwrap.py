"""The level ``namespace`` by ``bwrap``, one sandbox for each side."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from pytest_benchrig.sandbox.boot import (
    SOURCES,
    command,
    read_only_paths,
    site_packages,
)
from pytest_benchrig.sandbox.inside import Settings
from pytest_benchrig.sandbox.landlock import NOBODY
from pytest_benchrig.sandbox.launch import Limits
from pytest_benchrig.sandbox.outer_bwrap import folders_above
from pytest_benchrig.sandbox.pair import (
    PairLauncher,
    Role,
    Side,
    Streams,
    pidfd_open,
    settings_text,
    spawn,
)
from pytest_benchrig.sandbox.process import environment

_FOLDER = "/benchrig/sandbox"
_SEARCH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"


def find() -> str | None:
    """Where ``bwrap`` is; folders that a user's PATH adds are not asked."""
    return shutil.which("bwrap", path=_SEARCH)


class BwrapLauncher(PairLauncher):
    """Runs each side in all namespaces that there are, on a read-only root of its own.

    Args:
        path: The ``bwrap`` to use.
        user_namespace: Needed unless this process is root. Root without one becomes nobody for
            the kernel too, so that limits on processes count.
    """

    level = "namespace"
    name = "namespace-bwrap"

    def __init__(self, path: str, *, user_namespace: bool = True) -> None:
        super().__init__()
        self._path = path
        self._user_namespace = user_namespace
        self._fixed = self._options()

    def _options(self) -> list[str]:
        options = [
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--hostname",
            "benchrig",
            "--cap-drop",
            "ALL",
            "--clearenv",
        ]
        if self._user_namespace:
            options += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        else:
            for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                options += ["--cap-add", name]
        for key, value in environment("/tmp").items():
            options += ["--setenv", key, value]
        options += ["--setenv", "HOME", "/nonexistent"]
        paths = read_only_paths()
        for folder in [*folders_above(tuple(paths)), "/benchrig"]:
            # Left to itself bwrap copies the mode of the folder outside, which may be closed.
            options += ["--perms", "0755", "--dir", folder]
        options += root_of(paths)
        options += ["--ro-bind", str(SOURCES), _FOLDER, "--proc", "/proc", "--dev", "/dev"]
        return options

    def _start(
        self, role: Role, limits: Limits, settings: Settings, home: str, streams: Streams
    ) -> Side:
        options = [*self._fixed]
        packages = site_packages()
        if role == "candidate" and limits.site_packages:
            for path in packages:
                options += ["--ro-bind", path, path]
            settings = replace(settings, path=tuple(packages))
        else:
            for path in packages:
                if any(path.startswith(f"{shown}/") for shown in read_only_paths()):
                    options += ["--tmpfs", path, "--remount-ro", path]
        size = str(limits.file_size_mb << 20)
        for path in ("/tmp", "/dev/shm"):
            options += ["--perms", "1777", "--size", size, "--tmpfs", path]
        options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
        settings = replace(settings, leave_root=not self._user_namespace)
        info, writing = os.pipe()
        try:
            process = spawn(
                [
                    self._path,
                    "--info-fd",
                    str(writing),
                    *options,
                    "--",
                    *command(_FOLDER, settings_text(settings)),
                ],
                (*settings.descriptors, settings.lifeline, writing),
                streams,
                env={},
            )
        finally:
            os.close(writing)
        side = Side(process)
        with os.fdopen(info, "rb") as stream:
            text = stream.read()
        # Nothing was started where there is no text, and bwrap says why on its stderr.
        if text:
            with contextlib.suppress(ProcessLookupError):
                side.init = pidfd_open(json.loads(text)["child-pid"])
        return side


def root_of(paths: list[str]) -> list[str]:
    """Options that show these paths, links as links, on an empty root."""
    options: list[str] = []
    for path in paths:
        if Path(path).is_symlink() and Path(path).parent == Path("/"):
            options += ["--symlink", str(Path(path).readlink()), path]
        elif not any(path.startswith(f"{shown}/") for shown in paths):
            options += ["--ro-bind", path, path]
    return options
