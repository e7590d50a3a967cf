"""Which processes listen on an address of this machine."""

# Paths are plain strings here: they are built for every process of every window.
# ruff: noqa: PTH113, PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pytest_benchrig.hardware.files import under
from pytest_benchrig.hardware.procfs import stat_fields

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket: its address, its user and, where they could be seen, its holders.

    ``inode`` is 0 where the system does not tell it; ``descriptor`` is where the first holder has
    it (``/proc/PID/fd/N``), to see cheaply later whether it still does.
    """

    address: Address
    port: int
    uid: int | None
    inode: int
    pids: tuple[int, ...] = ()
    descriptor: str = ""


def plain(address: Address) -> Address:
    """An IPv4 address written as IPv6 (``::ffff:1.2.3.4``) in its own form."""
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address


def best_matches(listeners: Iterable[Listener], targets: Sequence[Address]) -> list[Listener]:
    """The sockets that a connection to the first reachable target would meet.

    As the system does it: a socket bound to the address itself comes before one that is bound to
    all addresses.
    """
    every = list(listeners)
    for target in targets:
        exact = [found for found in every if plain(found.address) == target]
        if exact:
            return exact
        for found in every:
            dual = found.address.version == 6 and target.version == 4
            if found.address.is_unspecified and (dual or found.address.version == target.version):
                return [x for x in every if x.address == found.address]
    return []


def listeners(port: int, root: str = "/") -> list[Listener]:
    """The listening sockets of this port.

    Raises:
        OSError: Neither /proc nor psutil could be asked.
    """
    proc = under(root, "proc")
    if os.path.isfile(f"{proc}/net/tcp"):
        return _with_holders(_from_proc(port, proc), proc)
    return _from_psutil(port)


def _from_proc(port: int, proc: str) -> list[Listener]:
    found = []
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{table}", encoding="ascii", errors="replace") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue  # no IPv6 on this machine
        for line in lines:
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTEN:
                continue
            host, _, number = fields[1].rpartition(":")
            try:
                if int(number, 16) == port:
                    address, uid, inode = kernel_address(host), int(fields[7]), int(fields[9])
                    found.append(Listener(address, port, uid, inode))
            except ValueError:
                continue  # a line of another format says nothing about this port
    return found


def kernel_address(text: str) -> Address:
    """An address of /proc/net/tcp: words of 32 bits in the machine's byte order, in hexadecimal."""
    raw = bytes.fromhex(text)
    if sys.byteorder == "little":
        raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    return ipaddress.ip_address(raw)


def _with_holders(found: list[Listener], proc: str) -> list[Listener]:
    wanted = {f"socket:[{listener.inode}]": listener.inode for listener in found}
    holders: dict[int, list[tuple[int, str]]] = {}
    if not wanted:
        return []
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        folder = f"{proc}/{name}/fd"
        try:
            descriptors = os.listdir(folder)
        except OSError:
            continue  # it has ended, or belongs to another user
        for descriptor in descriptors:
            path = f"{folder}/{descriptor}"
            try:
                inode = wanted.get(os.readlink(path))
            except OSError:
                continue  # closed meanwhile
            if inode is not None:
                holders.setdefault(inode, []).append((int(name), path))
                break
    result = []
    for listener in found:
        held = holders.get(listener.inode, [])
        result.append(
            Listener(
                listener.address,
                listener.port,
                listener.uid,
                listener.inode,
                tuple(pid for pid, _ in held),
                held[0][1] if held else "",
            )
        )
    return result


def processes_of_user(uid: int, root: str = "/") -> dict[int, int]:
    """The processes of one user with their parents, from /proc; empty where it is not there."""
    proc = under(root, "proc")
    found = {}
    try:
        names = os.listdir(proc)
    except OSError:
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            if os.stat(f"{proc}/{name}").st_uid != uid:
                continue
            with open(f"{proc}/{name}/stat", "rb") as file:
                found[int(name)] = int(stat_fields(file.read())[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended between the listing and the reading
    return found


def _from_psutil(port: int) -> list[Listener]:
    try:
        import psutil
    except ImportError as problem:
        raise OSError(f"psutil cannot be imported: {problem}") from None

    try:
        table = [
            (c.laddr, c.pid) for c in psutil.net_connections(kind="tcp") if c.status == "LISTEN"
        ]
    except (psutil.AccessDenied, PermissionError):
        # macOS lets an ordinary user see the sockets of his own processes only.
        table = []
        for process in psutil.process_iter():
            try:
                query = getattr(process, "net_connections", None) or process.connections
                opened = query(kind="tcp")
            except (psutil.Error, OSError):
                continue
            table += [(c.laddr, process.pid) for c in opened if c.status == "LISTEN"]
    by_address: dict[str, list[int]] = {}
    for local, pid in table:
        if local and local.port == port:
            held = by_address.setdefault(local.ip, [])
            if pid is not None:
                held.append(pid)
    return [
        Listener(ipaddress.ip_address(ip.partition("%")[0]), port, None, 0, tuple(pids))
        for ip, pids in by_address.items()
    ]
