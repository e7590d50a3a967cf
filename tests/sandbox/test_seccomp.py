"""The system call filter, interpreted instruction by instruction, and in force."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import seccomp

ALLOW = 0x7FFF0000
REFUSED = 0x00050000 | errno.EPERM
UNKNOWN = 0x00050000 | errno.ENOSYS
KILLED = 0x80000000
X86, ARM = 0xC000003E, 0xC00000B7


def judge(code: bytes, number: int, arch: int, *arguments: int) -> int:
    """What the kernel would return: classic BPF over ``struct seccomp_data``."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(*arguments, *(0,) * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", code))
    accumulator = place = 0
    while True:
        kind, yes, no, value = steps[place]
        place += 1
        if kind == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif kind == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[kind]
            place += yes if holds else no


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        pytest.param(0, (), ALLOW, id="read"),
        pytest.param(56, (0x3D0F00,), ALLOW, id="clone for a thread"),
        pytest.param(56, (0x1200011,), REFUSED, id="clone for a process"),
        pytest.param(57, (), REFUSED, id="fork"),
        pytest.param(58, (), REFUSED, id="vfork"),
        pytest.param(59, (), REFUSED, id="execve"),
        pytest.param(435, (), UNKNOWN, id="clone3"),
        pytest.param(41, (2, 1), REFUSED, id="socket"),
        pytest.param(53, (1, 1), ALLOW, id="socketpair of AF_UNIX"),
        pytest.param(53, (2, 1), REFUSED, id="socketpair of another family"),
        pytest.param(101, (), REFUSED, id="ptrace"),
        pytest.param(62, (77, 9), ALLOW, id="kill itself"),
        pytest.param(62, (78, 9), REFUSED, id="kill another"),
        pytest.param(62, (2**64 - 1, 9), REFUSED, id="kill all"),
        pytest.param(234, (77, 77, 9), ALLOW, id="tgkill itself"),
        pytest.param(302, (0, 7), ALLOW, id="prlimit64 of itself"),
        pytest.param(302, (1, 7), REFUSED, id="prlimit64 of another"),
        pytest.param(16, (0, 0x5401), ALLOW, id="ioctl"),
        pytest.param(16, (0, 0x5412), REFUSED, id="ioctl TIOCSTI"),
        pytest.param(16, (0, 0x541C), REFUSED, id="ioctl TIOCLINUX"),
        pytest.param(0x40000000 | 57, (), UNKNOWN, id="fork by the x32 table"),
    ],
)
def test_system_calls_of_x86_64(number: int, arguments: tuple[int, ...], expected: int) -> None:
    code = seccomp.program("x86_64", allow_fork=False, own_pid=77)
    assert judge(code, number, X86, *arguments) == expected


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        pytest.param(63, (), ALLOW, id="read"),
        pytest.param(220, (0x3D0F00,), ALLOW, id="clone for a thread"),
        pytest.param(220, (17,), REFUSED, id="clone for a process"),
        pytest.param(221, (), REFUSED, id="execve"),
        pytest.param(435, (), UNKNOWN, id="clone3"),
        pytest.param(198, (2, 1), REFUSED, id="socket"),
        pytest.param(117, (), REFUSED, id="ptrace"),
        pytest.param(129, (77, 9), ALLOW, id="kill itself"),
        pytest.param(129, (78, 9), REFUSED, id="kill another"),
    ],
)
def test_system_calls_of_aarch64(number: int, arguments: tuple[int, ...], expected: int) -> None:
    code = seccomp.program("aarch64", allow_fork=False, own_pid=77)
    assert judge(code, number, ARM, *arguments) == expected


def test_processes_by_a_switch_but_never_namespaces() -> None:
    code = seccomp.program("x86_64", allow_fork=True, own_pid=None)
    assert judge(code, 57, X86) == ALLOW
    assert judge(code, 59, X86) == ALLOW
    assert judge(code, 56, X86, 0x1200011) == ALLOW
    assert judge(code, 56, X86, 0x10000000 | 17) == REFUSED
    assert judge(code, 62, X86, 1, 9) == ALLOW


@pytest.mark.parametrize(("machine", "other"), [("x86_64", ARM), ("x86_64", 0x40000003)])
def test_system_calls_of_another_table_kill(machine: str, other: int) -> None:
    code = seccomp.program(machine, allow_fork=False, own_pid=None)
    assert judge(code, 0, other) == KILLED


def test_a_machine_without_a_table_is_refused() -> None:
    with pytest.raises(seccomp.SeccompError, match="no system call table for riscv64"):
        seccomp.program("riscv64", allow_fork=False, own_pid=None)


@pytest.mark.skipif(not seccomp.supported(), reason="no system call filter on this system")
@pytest.mark.parametrize("allow_fork", [False, True])
def test_in_force(allow_fork: bool) -> None:
    code = f"""
import os, sys, threading
sys.path.insert(0, {str(Path(seccomp.__file__).parents[2])!r})
from pytest_benchrig.sandbox import seccomp
seccomp.install(allow_fork={allow_fork}, signal_only_itself=False)
thread = threading.Thread(target=print, args=("thread",))
thread.start()
thread.join()
sys.stdout.flush()
try:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    print("forked")
except PermissionError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["thread", "forked" if allow_fork else "refused"]
