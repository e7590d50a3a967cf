"""The paths that are shown inside, as data: this module is read inside too, and imports little."""

from __future__ import annotations

import os
from typing import NamedTuple

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Visible(NamedTuple):
    """Paths of this machine, each shown where it is.

    Attributes:
        shown: Folders and files, read-only, none inside another.
        links: Links in the root folder, such as ``/lib``, with where they point.
        hidden: Folders inside the shown ones that must look empty: installed packages.
        packages: Folders of installed packages that are shown and belong on ``sys.path``.
    """

    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    packages: tuple[str, ...] = ()


def without_hidden(shown: Visible) -> tuple[list[str], list[str]]:
    """The same view for rules that can only allow: what may be read, what may only be listed.

    A folder with something hidden inside is listed, and its other entries are read one by one.
    """
    readable: list[str] = []
    listed: list[str] = []
    waiting = list(shown.shown)
    for path in waiting:
        if path in shown.hidden:
            continue
        if any(hidden.startswith(f"{path}/") for hidden in shown.hidden):
            listed.append(path)
            waiting += sorted(f"{path}/{name}" for name in os.listdir(path))
        else:
            readable.append(path)
    return readable, listed
