"""File rules, and a fall from root, that a process puts on itself where it has no namespaces.

Structures and bits are those of the kernel's ``landlock.h``; what an older kernel does not know is
left out, and ``scopes_signals`` tells the caller what then needs other means.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Sequence

NOBODY = 65534
"""The user and group that root becomes."""

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_MAKE_DEVICES = 1 << 6 | 1 << 11
_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_SIGNALS = 0b10

_PR_SET_KEEPCAPS = 8
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _AMBIENT_RAISE = 47, 2
_CAP_DAC_READ_SEARCH = 2
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION_3 = 0x20080522


class LandlockError(OSError):
    """The rules cannot be put in force here."""


def version() -> int:
    """The kernel's Landlock version, 0 where there is none or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_syscall(_CREATE, None, 0, _VERSION)))


def scopes_signals(abi: int) -> bool:
    """Whether signals to processes outside are refused by the rules."""
    return abi >= 6


def restrict(read_only: list[str], read_write: list[str], *, listed: Sequence[str] = ()) -> None:
    """Leave this process these paths, reading and writing, and nothing else of the file system.

    The names below ``listed`` folders can be read, and nothing more of them.

    TCP, abstract sockets and signals to processes outside go too where the kernel can.

    Raises:
        LandlockError: No Landlock, or it refused.
    """
    abi = version()
    if not abi:
        raise LandlockError("this kernel has no Landlock, or it is switched off")
    rights = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= abi)]
    attributes = struct.pack("=Q", rights)
    if abi >= 4:
        attributes += struct.pack("=Q", _TCP)
    if scopes_signals(abi):
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = _checked("create", _syscall(_CREATE, attributes, len(attributes), 0))
    try:
        for path in read_only:
            _allow(ruleset, path, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in listed:
            _allow(ruleset, path, rights & _READ_DIR)
        for path in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", *read_write):
            _allow(ruleset, path, rights & ~_MAKE_DEVICES)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _checked("enforce", _syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def keep_signals_inside() -> None:
    """Let this process signal itself and what it starts, and nothing else.

    Raises:
        LandlockError: The kernel's version is below 6, or it refused.
    """
    attributes = struct.pack("=3Q", 0, 0, _SIGNALS)
    ruleset = _checked("create", _syscall(_CREATE, attributes, len(attributes), 0))
    try:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _checked("enforce", _syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, parent)
        _checked(f"allow {path}", _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(parent)


def leave_root(needed: list[str], *, reading: bool) -> None:
    """Become nobody if this process is root, with no capability.

    With ``reading`` one is kept where one of the needed paths lies behind folders that are closed
    to others, such as an interpreter under root's home: to read. Call ``restrict`` before, so that
    it opens no more than that allows.

    Raises:
        LandlockError: The kernel refused.
    """
    if os.geteuid() != 0:
        return
    closed = reading and not all(_open_to_others(path) for path in needed)
    kept = 1 << _CAP_DAC_READ_SEARCH if closed else 0
    _prctl(_PR_SET_KEEPCAPS, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_LAST_CAPABILITY + 1):
        if not kept >> capability & 1:
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    sets = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
    _checked("drop capabilities", libc.capset(header, sets))
    if kept:
        _prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)
    _prctl(_PR_SET_KEEPCAPS, 0)


def _open_to_others(path: str) -> bool:
    folders = [path]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    return all(os.stat(folder).st_mode & stat.S_IXOTH for folder in folders[1:]) and bool(
        os.stat(path).st_mode & stat.S_IROTH
    )


def _prctl(option: int, first: int, second: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(f"prctl {option}", libc.prctl(option, first, second, 0, 0))


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return int(function(ctypes.c_long(number), *arguments))


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise LandlockError(number, f"cannot {what}: {os.strerror(number)}")
    return result
