"""The paths that are shown inside, as data: this module is read inside too, and imports little."""

from __future__ import annotations

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
