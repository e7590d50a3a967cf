"""Why containment does not work on a machine, and the words that tell its owner what to do.

:func:`facts_of` reads what the kernel says of itself; everything after it is a function of those
facts and of the error met, so that causes that are not here can be tested here.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_CONTAINER_GROUPS = ("docker", "kubepods", "containerd", "lxc", "libpod")


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether containment can work.

    Attributes:
        system: ``sys.platform``.
        release: The kernel's release.
        root: Whether the process is root.
        bwrap: Where ``bwrap`` is, "" if it is not installed.
        landlock: The kernel's Landlock version, 0 for none.
        apparmor_restricts: AppArmor forbids user namespaces to plain programs (Ubuntu 23.10+).
        namespaces_off: The sysctl that switches user namespaces off, "" if none does.
        container: Whether this looks like a container.
        wsl: 0 outside of the Windows Subsystem for Linux, else its version.
    """

    system: str
    release: str
    root: bool
    bwrap: str
    landlock: int
    apparmor_restricts: bool = False
    namespaces_off: str = ""
    container: bool = False
    wsl: int = 0


def facts_of(root: Path = Path("/"), *, bwrap: str = "", landlock: int = 0) -> Facts:
    """The facts of this machine; ``root`` is where its ``/proc`` and ``/run`` are looked for."""

    def text(path: str) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (root / path).read_text("utf-8").strip()
        return ""

    off = ""
    if text("proc/sys/kernel/unprivileged_userns_clone") == "0":
        off = "kernel.unprivileged_userns_clone=1"
    elif text("proc/sys/user/max_user_namespaces") == "0":
        off = "user.max_user_namespaces=15000"
    release = text("proc/sys/kernel/osrelease") or platform.release()
    groups = text("proc/1/cgroup") + text("proc/self/cgroup")
    container = any((root / path).exists() for path in _CONTAINER_FILES)
    windows = "microsoft" in release.lower()
    return Facts(
        system=sys.platform,
        release=release,
        root=hasattr(os, "geteuid") and os.geteuid() == 0,
        bwrap=bwrap,
        landlock=landlock,
        apparmor_restricts=text("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
        namespaces_off=off,
        container=container or any(word in groups for word in _CONTAINER_GROUPS),
        wsl=0 if not windows else 2 if "wsl2" in release.lower() else 1,
    )


def for_namespaces(facts: Facts) -> str:
    """What to install or set so that the level ``namespace`` works."""
    if not facts.system.startswith("linux"):
        return "use Linux, or WSL2 on Windows"
    if facts.wsl == 1:
        return "convert the distribution to WSL2 (wsl --set-version NAME 2): WSL1 has no namespaces"
    if facts.namespaces_off and not facts.root:
        return f"switch user namespaces on: sudo sysctl -w {facts.namespaces_off}"
    if facts.apparmor_restricts and not facts.root:
        install = "" if facts.bwrap else "sudo apt install bubblewrap, then "
        return (
            f"{install}allow bwrap user namespaces: write the profile in docs/sandbox.md to "
            "/etc/apparmor.d/bwrap and run sudo apparmor_parser -r /etc/apparmor.d/bwrap "
            "(or allow them to every program: sudo sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    if facts.container:
        return (
            "start the container with --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined (in GitHub Actions: container.options), "
            "or run outside of it"
        )
    if not facts.bwrap:
        return (
            "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, "
            "pacman -S bubblewrap, apk add bubblewrap)"
        )
    return "run bwrap --unshare-all --ro-bind / / true and follow what it says"


def for_landlock(facts: Facts) -> str:
    """What to set so that the level ``landlock`` works."""
    if not facts.system.startswith("linux"):
        return "use Linux, or WSL2 on Windows"
    if facts.landlock:
        return "start the container with a seccomp profile that allows seccomp and landlock"
    return (
        "use Linux 5.13 or later with Landlock on: landlock in CONFIG_LSM or in the boot "
        "parameter lsm="
    )


def for_seatbelt(facts: Facts) -> str:
    """What to do so that the level ``seatbelt`` works."""
    if facts.system != "darwin":
        return "seatbelt is part of macOS"
    return "run outside of another sandbox: macOS allows none inside a sandbox"
