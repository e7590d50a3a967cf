"""Who serves the model: found from the endpoint, or said to be out of sight."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pytest_benchrig.hardware import peek
from pytest_benchrig.hardware.listeners import (
    Address,
    Listener,
    best_matches,
    listeners,
    plain,
    processes_of_user,
)

ServingKind: TypeAlias = Literal["own", "found", "unseen", "remote"]

RESOLVE_SEC = 2.0
"""How long a host name may take to resolve before its server counts as remote."""

RECHECK_SEC = 5.0
"""How long "no process listens there" is believed before it is looked up again."""

_NAME_LENGTH = 15  # where Linux cuts a program's name

_FORWARDERS = frozenset(
    name[:_NAME_LENGTH]
    for name in (  # noqa: SIM905 - a list of thirty quoted words reads worse
        "docker-proxy dockerd com.docker.backend com.docker.vpnkit vpnkit vpnkit-bridge "
        "rootlessport slirp4netns pasta passt gvproxy limactl colima kubectl ssh sshd socat "
        "wslrelay.exe wslhost.exe systemd launchd svchost.exe nginx haproxy caddy traefik envoy "
        "cloudflared tailscaled"
    ).split()
)
"""Programs that hold a port for a server which is somewhere else."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The processes that serve a model, as far as they can be seen.

    Attributes:
        kind: ``own`` (a process that the plugin started, or this one), ``found`` (the owner of
            the listening socket), ``unseen`` (on this machine, but in a container, of another
            user, behind a forwarder, or not running) or ``remote``.
        pids: The serving processes without their children, which are looked up at each window.
        endpoint: ``host:port``.
        reason: Why the processes cannot be seen; empty for ``own`` and ``found``.
        visible_devices: ``CUDA_VISIBLE_DEVICES`` of the serving process, ``None`` where it is
            not set or not to be read.
        devices_told: Whether its environment could be read, so that ``None`` means "not set".
    """

    kind: ServingKind
    pids: tuple[int, ...] = ()
    endpoint: str = ""
    reason: str = ""
    visible_devices: str | None = None
    devices_told: bool = False

    @property
    def local(self) -> bool:
        """Whether the model is served by this machine."""
        return self.kind != "remote"

    @property
    def seen(self) -> bool:
        """Whether the serving processes can be measured."""
        return bool(self.pids)


@dataclass(frozen=True, slots=True)
class _Remembered:
    serving: Serving
    sockets: tuple[tuple[str, str], ...]  # (/proc/PID/fd/N, what it was)
    at: float

    def holds(self) -> bool:
        if self.serving.kind == "remote":
            return True
        if self.sockets:
            return all(_link(path) == target for path, target in self.sockets)
        return time.monotonic() - self.at < RECHECK_SEC


_remembered: dict[tuple[str, str], _Remembered] = {}


def find_serving(base_url: str, pid: int | None = None, *, root: str = "/") -> Serving:
    """Find the processes behind an endpoint; never raises.

    What was found is remembered and only checked afterwards (the same process still holds the same
    socket), so that asking again before every request costs microseconds.

    Args:
        base_url: The endpoint; may be empty when ``pid`` is given.
        pid: The server's own pid, where the plugin started it; it wins over the socket.
        root: Where /proc lies.
    """
    endpoint = _endpoint(base_url)
    if pid is not None:
        if peek.alive(pid, root):
            devices, told = peek.variable(pid, "CUDA_VISIBLE_DEVICES", root)
            return Serving("own", (pid,), endpoint, "", devices, told)
        if not base_url:
            return Serving("unseen", (), endpoint, f"the serving process {pid} has ended")
    key = (base_url, root)
    known = _remembered.get(key)
    if known is not None and known.holds():
        return known.serving
    found, sockets = _find(base_url, endpoint, root)
    _remembered[key] = _Remembered(found, sockets, time.monotonic())
    return found


def _find(base_url: str, endpoint: str, root: str) -> tuple[Serving, tuple[tuple[str, str], ...]]:
    try:
        parts = _split(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError as problem:
        return Serving("unseen", (), endpoint, f"{endpoint!r} is not a URL: {problem}"), ()
    if not host:
        return Serving("unseen", (), endpoint, f"{endpoint!r} names no host"), ()
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    addresses = resolve(host)
    local = [a for a in addresses if is_local(a)]
    if not local:
        why = "is another machine" if addresses else "has no address that could be found"
        return Serving("remote", (), endpoint, f"{host} {why}"), ()
    targets = [_loopback(a) if a.is_unspecified else a for a in local]
    try:
        matches = best_matches(listeners(port, root), targets)
    except OSError as problem:
        return Serving("unseen", (), endpoint, f"listening sockets: {problem}"), ()
    return _owner(matches, endpoint, root)


def _owner(
    matches: list[Listener], endpoint: str, root: str
) -> tuple[Serving, tuple[tuple[str, str], ...]]:
    if not matches:
        reason = (
            f"no process is seen to listen on {endpoint}: the server is not running, or is in a "
            "container"
        )
        return Serving("unseen", (), endpoint, reason), ()
    sockets = tuple((m.descriptor, _link(m.descriptor)) for m in matches if m.descriptor)
    holders = sorted({pid for match in matches for pid in match.pids})
    if not holders:
        return _by_user(matches[0], endpoint, root), ()
    names = {pid: peek.name(pid, root) for pid in holders}
    servers = [pid for pid in holders if names[pid][:_NAME_LENGTH] not in _FORWARDERS]
    if not servers:
        reason = (
            f"{endpoint} is held by {names[holders[0]]} (pid {holders[0]}), which passes requests "
            "on to a server that cannot be seen from here"
        )
        return Serving("unseen", (), endpoint, reason), sockets
    roots = _topmost(servers, root)
    devices, told = peek.variable(roots[0], "CUDA_VISIBLE_DEVICES", root)
    return Serving("found", tuple(roots), endpoint, "", devices, told), sockets


def _by_user(match: Listener, endpoint: str, root: str) -> Serving:
    """The owner of a socket whose descriptors may not be listed, where only one comes in question.

    A service (Ollama under its own user, say) is the usual case: its memory and processor time
    are open to everyone, only its descriptors are not.
    """
    uid = match.uid
    who = f"user {peek.user_name(uid)}" if uid is not None else "another user"
    reason = (
        f"{endpoint} is held by a process of {who} that this user may not inspect; run the tests "
        "as that user, or as root, to have its memory"
    )
    if uid is None or uid == 0 or (hasattr(os, "getuid") and uid == os.getuid()):
        return Serving("unseen", (), endpoint, reason)
    theirs = processes_of_user(uid, root)
    tops = [pid for pid, parent in theirs.items() if parent not in theirs]
    if len(tops) != 1:
        return Serving("unseen", (), endpoint, reason)
    return Serving("found", tuple(tops), endpoint)


def resolve(host: str, timeout_sec: float = RESOLVE_SEC) -> list[Address]:
    """The addresses of a host in the order in which a client tries them; empty if there are none.

    Names are asked for on a thread of their own, since a resolver can take many seconds.
    """
    literal = host.partition("%")[0]
    try:
        return [plain(ipaddress.ip_address(literal))]
    except ValueError:
        pass  # a name
    found: list[Address] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return  # no such name: the list stays empty
        for answer in answers:
            found.append(plain(ipaddress.ip_address(str(answer[4][0]).partition("%")[0])))

    if host == "localhost" or host.endswith(".localhost"):
        ask()
        return list(found) or [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    asking = threading.Thread(target=ask, name="benchrig-resolve", daemon=True)
    asking.start()
    asking.join(timeout_sec)
    return list(dict.fromkeys(found))


def is_local(address: Address) -> bool:
    """Whether a connection to this address ends on this machine.

    The system is asked which address it would call from: for one of its own, that very address.
    Connecting a datagram socket sends nothing.
    """
    if address.is_loopback or address.is_unspecified:
        return True
    if address.is_multicast:
        return False
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            own = str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return False
    return ipaddress.ip_address(own) == address


def _loopback(address: Address) -> Address:
    return ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")


def _split(base_url: str) -> SplitResult:
    """The parts of a URL; ``host:port`` alone is taken for http."""
    return urlsplit(base_url if "://" in base_url else f"http://{base_url}")


def _endpoint(base_url: str) -> str:
    """``host:port`` of a URL; user and password stay out of it."""
    try:
        return _split(base_url).netloc.rpartition("@")[2]
    except ValueError:
        return base_url.rpartition("@")[2]


def _topmost(pids: Iterable[int], root: str) -> list[int]:
    """Those of the processes whose parent is not one of them."""
    among = list(pids)
    if len(among) < 2:
        return among
    return [pid for pid in among if peek.parent(pid, root) not in among] or among


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
