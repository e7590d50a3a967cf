"""The command line by which ``bwrap`` makes the outer sandbox of the zygotes."""

from __future__ import annotations

from pathlib import PurePath

from pytest_benchrig.sandbox.namespaces import HOSTNAME, LINKS_TO_TMP, SOURCES_INSIDE
from pytest_benchrig.sandbox.sights import DEVICES, Visible
from pytest_benchrig.sandbox.stem import StemSettings
from pytest_benchrig.sandbox.syscalls import NOBODY

_EMPTY = ("/dev", "/etc", "/tmp", "/var")


def outer_command(
    bwrap: str, settings: StemSettings, sources: str, command: list[str]
) -> list[str]:
    """What to execute so that ``command`` is the first process of a sandbox.

    There is no ``/proc`` inside at all. Root needs no user namespace: it keeps the two
    capabilities by which the stem becomes nobody, for the kernel too.
    """
    shown = Visible(**settings.shown)
    options = [
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--hostname",
        HOSTNAME,
        "--new-session",
        "--die-with-parent",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
    ]
    if settings.real_root:
        for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            options += ["--cap-add", name]
    else:
        options += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    for link, target in shown.links:
        options += ["--symlink", target, link]
    for folder in [*folders_above(shown.shown), *_EMPTY]:
        # Left to itself bwrap copies the mode of the folder outside, which may be closed.
        options += ["--perms", "0755", "--dir", folder]
    for path in shown.shown:
        options += ["--ro-bind", path, path]
    for path in DEVICES:
        options += ["--dev-bind", path, path]
    options += ["--ro-bind", sources, SOURCES_INSIDE]
    for path in shown.hidden:
        options += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
    for path in LINKS_TO_TMP:
        options += ["--symlink", "/tmp", path]
    options += ["--remount-ro", "/", "--chdir", "/"]
    return [bwrap, *options, "--", *command]


def folders_above(paths: tuple[str, ...]) -> list[str]:
    """Every folder on the way to one of the paths, the outer ones first."""
    found = {str(folder) for path in paths for folder in PurePath(path).parents}
    return sorted(found - {"/"}, key=lambda path: (path.count("/"), path))
