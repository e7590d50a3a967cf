"""A way into namespaces of our own, where ``bwrap`` is missing or does not work.

:func:`enter` moves the calling process into new user, mount, pid, network, ipc, uts and cgroup
namespaces and onto a read-only root that shows what :class:`Visible` names and nothing else.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable

from pytest_benchrig.sandbox import syscalls
from pytest_benchrig.sandbox.sights import DEVICES, Visible
from pytest_benchrig.sandbox.syscalls import NOBODY

SOURCES_INSIDE = "/benchrig"
"""Where the modules of both sides are shown."""

HOSTNAME = "sandbox"
LINKS_TO_TMP = ("/dev/shm", "/var/tmp")
"""One private file system serves all three, so that one size bounds them together."""

_OLD = "/.old"
_WHOLE_RANGE = 4294967295

FILES = {
    "/etc/passwd": f"nobody:x:{NOBODY}:{NOBODY}:nobody:/tmp:/bin/sh\n",
    "/etc/group": f"nogroup:x:{NOBODY}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
}
"""Small files that the standard library looks for."""


def is_real_root() -> bool:
    """Whether this process is root for the machine too, and not only in a container of its user's.

    A user namespace that maps a single user has no other number to become, and its root is some
    ordinary user outside.
    """
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as stream:
            lines = stream.readlines()
    except OSError:
        return True
    ranges = [tuple(map(int, line.split())) for line in lines if line.strip()]
    return any(first <= NOBODY < first + count for first, _, count in ranges)


def enter(shown: Visible, sources: str, proc: int) -> None:
    """Go on as the first process of a sandbox; the calling process waits for it and ends with it.

    Args:
        shown: What is visible inside.
        sources: The folder to show at ``SOURCES_INSIDE``.
        proc: A descriptor of ``/proc``, for which there is no place inside.

    Raises:
        OSError: The machine refuses namespaces, mounts or the change of the user.
    """
    real_root = is_real_root()
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    _new_user(real_root, proc)
    flags = (
        syscalls.CLONE_NEWNS
        | syscalls.CLONE_NEWPID
        | syscalls.CLONE_NEWNET
        | syscalls.CLONE_NEWIPC
        | syscalls.CLONE_NEWUTS
    )
    try:
        syscalls.unshare(flags | syscalls.CLONE_NEWCGROUP)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
        # Kernels without control groups have no namespace for them.
        syscalls.unshare(flags)
    _become_first()
    _build(shown, sources)
    socket.sethostname(HOSTNAME)
    if real_root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        syscalls.after_change_of_user()


def _new_user(real_root: bool, proc: int) -> None:
    """A new user namespace: of a plain user alone, of root with nobody to become."""
    uid, gid = os.geteuid(), os.getegid()
    if not real_root:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        syscalls.map_single_user(proc, uid, gid)
        return
    text = f"0 0 1\n{NOBODY} {NOBODY} 1\n"

    def write(pid: int) -> None:
        syscalls.write_at(proc, f"{pid}/uid_map", text)
        syscalls.write_at(proc, f"{pid}/gid_map", text)

    _with_helper(write)


def _with_helper(write: Callable[[int], None]) -> None:
    """Enter a new user namespace whose maps a child that stays outside writes."""
    reading, writing = os.pipe()
    target = os.getpid()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(writing)
            if os.read(reading, 1):
                write(target)
                status = 0
        except OSError as problem:
            status = problem.errno or 1
        finally:
            os._exit(status)
    os.close(reading)
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        os.write(writing, b"1")
    finally:
        os.close(writing)
        _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    if number:
        raise OSError(number, f"map the users of a namespace: {os.strerror(number)}")


def _become_first() -> None:
    """Fork: the child is process 1 inside, the parent ends when it does."""
    child = os.fork()
    if child:
        os.closerange(0, 64)
        _, status = os.waitpid(child, 0)
        os._exit(0 if status == 0 else 1)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _build(shown: Visible, sources: str) -> None:
    """Build the root on a file system of memory and make it the only one."""
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", "/tmp", "tmpfs", flags, "size=1m,mode=755")
    os.mkdir(f"/tmp{_OLD}")
    syscalls.pivot_root("/tmp", f"/tmp{_OLD}")
    os.chdir("/")
    for path in ("/tmp", "/dev", "/etc", "/var"):
        os.makedirs(path, exist_ok=True)
    for path in LINKS_TO_TMP:
        os.symlink("/tmp", path)
    for path, text in FILES.items():
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    for link, target in shown.links:
        os.symlink(target, link)
    for path in shown.shown:
        _show(f"{_OLD}{path}", path)
    for path in DEVICES:
        _show(f"{_OLD}{path}", path, devices=True)
    _show(f"{_OLD}{sources}", SOURCES_INSIDE)
    for path in shown.hidden:
        syscalls.mount("tmpfs", path, "tmpfs", flags | syscalls.MS_RDONLY, "size=4k,mode=755")
    syscalls.unmount(_OLD)
    os.rmdir(_OLD)
    syscalls.mount(
        "none", "/", "", syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | flags
    )


def _show(source: str, target: str, *, devices: bool = False) -> None:
    """Bind a folder or file, read-only."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # Links are followed here by hand: they point into the root that was left.
    real = _inside_old(source)
    if os.path.isdir(real):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
    syscalls.mount(real, target, "", syscalls.MS_BIND | syscalls.MS_REC)
    syscalls.read_only(target, devices=devices)


def _inside_old(path: str) -> str:
    """The path without links, each absolute one read from the old root."""
    for _ in range(40):
        parts = path.split("/")
        for count in range(3, len(parts) + 1):
            place = "/".join(parts[:count])
            if os.path.islink(place):
                target = os.readlink(place)
                if os.path.isabs(target):
                    new = f"{_OLD}{target}"
                else:
                    new = os.path.normpath(f"{os.path.dirname(place)}/{target}")
                path = "/".join((new, *parts[count:]))
                break
        else:
            return path
    raise OSError(errno.ELOOP, f"show {path}: {os.strerror(errno.ELOOP)}")
