"""A system call filter that a process puts on itself, for good, by ``ctypes`` alone.

Numbers are those of the kernel's ``unistd`` tables for x86_64 and aarch64; the program is classic
BPF over ``struct seccomp_data`` (number at byte 0, architecture at 4, arguments from 16, 8 each).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["whole", "zygote", "program"]

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_COLUMNS = ("x86_64", "aarch64")
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "ioprio_set": (251, 30),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listen": (50, 201),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_FORKING: dict[str, tuple[int | None, int | None]] = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
}
_ON_SHARED_FILES: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "chown": (92, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "futimesat": (261, None),
    "inotify_add_watch": (254, 27),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "openat2": (437, 437),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "truncate": (76, 45),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
}
"""What changes or watches a file by its name or by a descriptor that is open for reading only:
file rules do not cover it, and the files of this machine are in sight where they are all there is.
"""
_OPENING: tuple[tuple[tuple[int | None, int | None], int], ...] = (
    ((2, None), 1),
    ((257, 56), 2),
)
"""``open`` and ``openat``, with the argument that holds the flags."""
_FOR_A_ZYGOTE = ("mount", "pidfd_open", "setns", "umount2", "unshare")
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_FCNTL = (72, 25)
_IOCTL = (16, 29)
_PRCTL = (157, 167)
_SOCKETPAIR = (53, 199)
_SIGNALLING = ((62, 129), (234, 131))
_TKILL = (200, 130)
_OF_ITSELF = ((302, 261), (203, 122))
"""``prlimit64`` and ``sched_setaffinity``: of the calling process only, which they call 0."""

_AF_UNIX = 1
_CLONE_THREAD = 0x10000
_CLONE_NAMESPACES = 0x7E020080
_TERMINAL_INPUT = (0x5412, 0x541C)
_SIGNAL_OWNER = (0x8901, 0x8902)
_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)
_OWNER_COMMANDS = (8, 10, 15)
"""``F_SETOWN``, ``F_SETSIG``, ``F_SETOWN_EX``: have the kernel send a signal to anybody."""
_SET_DUMPABLE = (4,)
_TRUNCATE = 0x200
_ACCESS_MODE = 3

_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_AND = 0x54
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2


class SeccompError(OSError):
    """The filter cannot be put in force here."""


def _machine() -> str:
    """The kind of processor, by the kernel's name."""
    return os.uname().machine if hasattr(os, "uname") else ""


def supported() -> bool:
    """Whether there is a table for this system; only the kernel knows whether it takes it."""
    return sys.platform.startswith("linux") and _machine() in _ARCHITECTURES


def program(
    machine: str,
    *,
    allow_fork: bool,
    own_pid: int | None,
    shared_files: bool = False,
    part: Part = "whole",
) -> bytes:
    """The filter for a machine, as an array of ``struct sock_filter``.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        allow_fork: Let it start processes and other programs; new namespaces never.
        own_pid: Let it signal this process alone; ``None`` leaves signals to other means.
        shared_files: The files of this machine are in sight: refuse what would change their
            owner, mode, times or attributes, or truncate them without a right to write.
        part: ``zygote`` leaves out what the process that forks programs has to do itself,
            ``program`` is only that rest, for the fork that has the other part already.

    Raises:
        SeccompError: There is no table for the machine.
    """
    if machine not in _ARCHITECTURES:
        raise SeccompError(errno.ENOSYS, f"no system call table for {machine}")
    column = _COLUMNS.index(machine)
    steps: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    table: dict[str, tuple[int | None, int | None]] = {}
    if part != "program":
        steps += _for_good(column, shared_files)
        table |= {name: entry for name, entry in _DENIED.items() if name not in _FOR_A_ZYGOTE}
        table |= _ON_SHARED_FILES if shared_files else {}
    if part != "zygote":
        steps += _once_forked(column, allow_fork, own_pid)
        table |= {name: _DENIED[name] for name in _FOR_A_ZYGOTE}
        table |= {} if allow_fork else _FORKING
    denied = [entry[column] for entry in table.values()]
    numbers_denied = sorted(number for number in denied if number is not None)
    count = len(numbers_denied)
    steps += [(_EQUAL, count - place, 0, number) for place, number in enumerate(numbers_denied)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _for_good(column: int, shared_files: bool) -> list[tuple[int, int, int, int]]:
    """What depends on arguments and can be refused to a zygote too."""
    steps = [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += _when(_SOCKETPAIR[column], 0, (_EQUAL, _AF_UNIX), holds=True)
    for numbers in _OF_ITSELF:
        steps += _when(numbers[column], 0, (_EQUAL, 0), holds=True)
    refused = (*_TERMINAL_INPUT, *_SIGNAL_OWNER, *(_FILE_FLAGS if shared_files else ()))
    steps += _unless_among(_IOCTL[column], 1, refused)
    steps += _unless_among(_FCNTL[column], 1, _OWNER_COMMANDS)
    if shared_files:
        for opening, argument in _OPENING:
            number = opening[column]
            if number is not None:
                steps += _unless_truncating(number, argument)
    return steps


def _once_forked(
    column: int, allow_fork: bool, own_pid: int | None
) -> list[tuple[int, int, int, int]]:
    """What depends on arguments and is refused to a program alone."""
    if allow_fork:
        steps = _when(_CLONE[column], 0, (_ANY_BIT, _CLONE_NAMESPACES), holds=False)
    else:
        steps = _when(_CLONE[column], 0, (_ANY_BIT, _CLONE_THREAD), holds=True)
    if own_pid is not None:
        for numbers in _SIGNALLING:
            steps += _when(numbers[column], 0, (_EQUAL, own_pid), holds=True)
        steps += [(_EQUAL, 0, 1, _TKILL[column]), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    return [*steps, *_unless_among(_PRCTL[column], 0, _SET_DUMPABLE)]


def _when(
    number: int, argument: int, test: tuple[int, int], *, holds: bool
) -> list[tuple[int, int, int, int]]:
    """Allow a call when the test of an argument's low word comes out so, else refuse it."""
    kind, value = test
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, 16 + 8 * argument),
        (kind, 0 if holds else 1, 1 if holds else 0, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _unless_among(
    number: int, argument: int, values: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """Refuse a call when the low word of an argument is one of the values."""
    count = len(values)
    return [
        (_EQUAL, 0, count + 3, number),
        (_LOAD, 0, 0, 16 + 8 * argument),
        *((_EQUAL, count - place, 0, value) for place, value in enumerate(values)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _unless_truncating(number: int, argument: int) -> list[tuple[int, int, int, int]]:
    """Refuse to open a file for reading that is emptied by it; go on with the number otherwise."""
    return [
        (_EQUAL, 0, 6, number),
        (_LOAD, 0, 0, 16 + 8 * argument),
        (_ANY_BIT, 0, 3, _TRUNCATE),
        (_AND, 0, 0, _ACCESS_MODE),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """A filter made ready, so that a fork only has to put it on.

    Raises:
        SeccompError: The machine has no table here.
    """

    def __init__(
        self,
        *,
        allow_fork: bool,
        own_pid: int | None,
        shared_files: bool = False,
        part: Part = "whole",
    ) -> None:
        self._code = program(
            _machine() if supported() else sys.platform,
            allow_fork=allow_fork,
            own_pid=own_pid,
            shared_files=shared_files,
            part=part,
        )
        self._buffer = ctypes.create_string_buffer(self._code, len(self._code))
        self._described = _Program(len(self._code) // 8, ctypes.cast(self._buffer, ctypes.c_void_p))
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._prctl.argtypes = (ctypes.c_int, *(ctypes.c_void_p,) * 4)

    def install(self) -> None:
        """Filter this process from now on, and all that it starts; there is no way back.

        Raises:
            SeccompError: The kernel refused.
        """
        for option, value, extra in (
            (_PR_SET_NO_NEW_PRIVS, 1, None),
            (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(self._described)),
        ):
            if self._prctl(option, value, extra, None, None):
                number = ctypes.get_errno()
                raise SeccompError(number, f"system call filter refused: {os.strerror(number)}")


def install(*, allow_fork: bool, signal_only_itself: bool) -> None:
    """Filter this process, as :meth:`Filter.install` does."""
    Filter(allow_fork=allow_fork, own_pid=os.getpid() if signal_only_itself else None).install()
