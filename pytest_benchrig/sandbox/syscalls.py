"""The few kernel calls of Linux that Python 3.10 does not offer, by ``ctypes`` alone.

Every function raises :class:`OSError` with the kernel's error number and what was tried.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
from typing import Any

NOBODY = 65534
"""The user and group that programs run as."""

CLONE_VM = 0x00000100
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x20080522
_M_ARENA_MAX = -8
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.mount.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_ulong,
        ctypes.c_char_p,
    ]
    libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return libc


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones."""
    _checked(_libc().unshare(flags), f"unshare {flags:#x}")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind a descriptor."""
    _checked(_libc().setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind or remount."""
    result = _libc().mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) or None,
        flags,
        os.fsencode(data) or None,
    )
    _checked(result, f"mount {source} on {target}")


def read_only(target: str, *, devices: bool = False) -> None:
    """Make a mount and everything below it read-only, without set-user-id programs.

    Kernels before 5.12 know no recursive way: there only the mount itself is changed, with the
    flags it already has, and mounts below it keep theirs.
    """
    flags = MS_RDONLY | MS_NOSUID | (0 if devices else MS_NODEV)
    attributes = struct.pack("=4Q", flags, 0, 0, 0)
    libc = _libc()
    result = libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE),
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    if result == 0:
        return
    kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC | 0x400 | 0x800)
    mount("none", target, "", MS_REMOUNT | MS_BIND | flags | kept)


def unmount(target: str) -> None:
    """Take a mount away, even while it is in use."""
    _checked(_libc().umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make a mount the root and put the old root below it."""
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    result = _libc().syscall(ctypes.c_long(number), os.fsencode(new), os.fsencode(old))
    _checked(result, "pivot_root")


def prctl(option: int, value: int) -> None:
    """Change an attribute of this process."""
    _checked(_libc().prctl(option, value, 0, 0, 0), f"prctl {option}")


def after_change_of_user() -> None:
    """Restore what the kernel takes from a process that changes its user.

    These are the signal at the end of its parent and the right to its own entries in ``/proc``.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_DUMPABLE, 1)


def map_single_user(proc: int, uid: int, gid: int) -> None:
    """Be nobody in the new user namespace of this process, who is this user outside of it.

    Args:
        proc: A descriptor of ``/proc``.
        uid: The user outside.
        gid: The group outside.
    """
    write_at(proc, "self/setgroups", "deny")
    write_at(proc, "self/uid_map", f"{NOBODY} {uid} 1")
    write_at(proc, "self/gid_map", f"{NOBODY} {gid} 1")


def write_at(folder: int, path: str, text: str) -> None:
    """Write a file below an open folder."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(fd, text.encode("utf-8"))
    finally:
        os.close(fd)


class Powerless:
    """Made ready to give up every capability of the process that asks for it."""

    def __init__(self) -> None:
        self._header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
        self._none = ctypes.create_string_buffer(struct.pack("=6I", *[0] * 6))
        self._set = _libc().capset

    def become(self) -> None:
        """Give them up, for good."""
        _checked(self._set(self._header, self._none), "drop capabilities")


def share_heaps() -> None:
    """Let threads share two heaps, since each heap reserves address space, which is limited."""
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)


class Sleeper:
    """Starts processes that do nothing but hold a namespace open, as cheaply as can be.

    Such a process shares this one's memory and executes the C library's ``pause`` on a stack of
    its own, so that no page table is copied. It runs no Python and ends by SIGKILL only.
    """

    def __init__(self) -> None:
        libc = _libc()
        size = 1 << 15
        self._stack = ctypes.create_string_buffer(size)
        self._top = (ctypes.addressof(self._stack) + size - 256) & ~0xFF
        self._pause = ctypes.cast(libc.pause, ctypes.c_void_p)
        self._clone = libc.clone

    def start(self, flags: int = 0) -> int:
        """Start one, in new namespaces if flags say so; its process id as seen from here."""
        result = self._clone(self._pause, self._top, CLONE_VM | flags | signal.SIGCHLD, None)
        return _checked(result, "clone")
