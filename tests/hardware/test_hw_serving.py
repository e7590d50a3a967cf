"""Finding the serving process from its endpoint: real processes on real sockets."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.listeners import Listener, best_matches, kernel_address
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving, find_serving, resolve
from tests.hardware.hw_programs import HOG, REPOSITORY, SERVER, Child

Start = Callable[..., Child]
Patient = Callable[..., Sampler]


def url(server: Child, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.first_line}/v1"


@pytest.fixture
def server(start: Start) -> Child:
    return start(SERVER, "127.0.0.1", "0")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_the_owner_of_the_listening_socket_is_found(server: Child, host: str) -> None:
    assert find_serving(url(server, host)) == Serving(
        "found", (server.pid,), f"{host}:{server.first_line}", devices_told=True
    )


def test_a_server_on_all_addresses_is_found(start: Start) -> None:
    server = start(SERVER, "0.0.0.0", "0")
    assert find_serving(url(server)).pids == (server.pid,)
    assert find_serving(url(server, "0.0.0.0")).pids == (server.pid,)


def test_a_server_on_ipv6_is_found(start: Start) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("needs IPv6 on the loopback interface")
    server = start(SERVER, "::1", "0")
    assert find_serving(url(server, "[::1]")).pids == (server.pid,)


def test_of_workers_that_share_a_socket_the_parent_is_the_server(start: Start) -> None:
    server = start(SERVER, "127.0.0.1", "3")
    serving = find_serving(url(server))
    assert serving.pids == (server.pid,)


def test_a_server_on_this_machines_outer_address_is_found(start: Start) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.7", 9))  # sends nothing, chooses the way out
        except OSError:
            pytest.skip("needs a network interface besides the loopback")
        outer = probe.getsockname()[0]
    server = start(SERVER, outer, "0")
    assert find_serving(url(server, outer)).pids == (server.pid,)
    assert find_serving(url(server)).kind == "unseen"


@pytest.mark.parametrize("endpoint", ["http://224.0.0.1:80", "http://255.255.255.255:80"])
def test_an_address_that_is_no_machine_is_not_this_one(endpoint: str) -> None:
    assert find_serving(endpoint).kind == "remote"


def test_a_server_is_found_without_proc_too(server: Child, tmp_path: Path) -> None:
    """As on macOS and Windows, where psutil is asked."""
    serving = find_serving(url(server), root=str(tmp_path))
    assert (serving.kind, serving.pids) == ("found", (server.pid,))
    assert find_serving(url(server), server.pid, root=str(tmp_path)).kind == "own"
    server.process.kill()
    server.process.wait()
    assert find_serving("", server.pid, root=str(tmp_path)).kind == "unseen"


def test_figures_without_proc_are_those_of_proc(
    start: Start, patient: Patient, tmp_path: Path
) -> None:
    server = start(SERVER, "127.0.0.1", "2")
    serving = find_serving(url(server))
    plain = patient(sensors=[]).window(serving).open().close()
    portable = patient(sensors=[], root=str(tmp_path)).window(serving).open().close()
    assert portable.server_rss_mb == pytest.approx(plain.server_rss_mb, rel=0.02)
    assert portable.client_rss_mb == pytest.approx(plain.client_rss_mb, rel=0.02)
    assert portable.memory_total_mb == pytest.approx(plain.memory_total_mb)
    assert portable.peak_memory_used_mb == pytest.approx(plain.peak_memory_used_mb, rel=0.2)


def test_a_server_that_dies_is_told_without_proc_too(
    server: Child, patient: Patient, tmp_path: Path
) -> None:
    sampler = patient(sensors=[], root=str(tmp_path))
    window = sampler.window(Serving("own", (server.pid,))).open()
    server.process.kill()
    server.process.wait()
    report = window.close()
    assert report.server_rss_mb is not None
    assert "the serving process ended during the window" in report.notes


def test_the_servers_own_pid_wins(server: Child) -> None:
    serving = find_serving("http://127.0.0.1:9", server.pid)
    assert (serving.kind, serving.pids) == ("own", (server.pid,))


def test_a_model_in_this_process_needs_no_endpoint() -> None:
    serving = find_serving("", os.getpid())
    assert (serving.kind, serving.pids) == ("own", (os.getpid(),))


def test_a_server_that_has_ended_is_not_seen(server: Child) -> None:
    server.process.kill()
    server.process.wait()
    assert find_serving("", server.pid).kind == "unseen"
    serving = find_serving(url(server))
    assert serving.kind == "unseen"
    assert "no process is seen to listen" in serving.reason


def test_a_new_server_on_the_same_port_is_found_anew(start: Start) -> None:
    code = SERVER.replace("server.bind", "server.setsockopt(1, 2, 1)\nserver.bind")
    first = start(code, "127.0.0.1", "0")
    assert find_serving(url(first)).pids == (first.pid,)
    first.process.kill()
    first.process.wait()
    second = start(code.replace(", 0))", f", {first.first_line}))"), "127.0.0.1", "0")
    assert find_serving(url(second)).pids == (second.pid,)


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        ("http://192.0.2.7:11434", "remote"),
        ("http://[2001:db8::7]:11434", "remote"),
        ("https://192.0.2.7", "remote"),
        ("http://name.invalid:80", "remote"),
        ("http://127.0.0.1:1", "unseen"),
        ("http://127.0.0.1:99999", "unseen"),
        ("http://", "unseen"),
        ("http://[::1", "unseen"),
        ("", "unseen"),
    ],
)
def test_what_is_elsewhere_or_nowhere_is_said(endpoint: str, kind: str) -> None:
    serving = find_serving(endpoint)
    assert serving.kind == kind
    assert serving.reason
    assert not serving.seen
    assert serving.local == (kind != "remote")


def test_credentials_of_an_endpoint_go_nowhere() -> None:
    for endpoint in ("http://user:secret@192.0.2.7:1/v1", "user:secret@[::1"):
        assert "secret" not in repr(find_serving(endpoint))


def test_a_port_that_is_only_passed_on_hides_the_server(start: Start, tmp_path: Path) -> None:
    """As docker's proxy does: its own memory is not the server's."""
    if not sys.platform.startswith("linux"):
        pytest.skip("sets a process's name the way Linux does")
    name = "import ctypes\nctypes.CDLL(None).prctl(15, b'docker-proxy', 0, 0, 0)\n"
    proxy = start(name + SERVER, "127.0.0.1", "0")
    serving = find_serving(url(proxy))
    assert serving.kind == "unseen"
    assert "docker-proxy" in serving.reason


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to become another user"
)

BECOME = "os.setgid(4343); os.setuid(4343)\n"

FIND = """
import json, os, pwd, sys
from pytest_benchrig.hardware.serving import find_serving
find_serving("http://127.0.0.1:2")  # loads all that the other user may not read
os.setgroups([]); os.setgid(4242); os.setuid(4242)
found = find_serving(sys.argv[1])
print(json.dumps([found.kind, found.pids, found.reason]))
"""


def find_as_another_user(endpoint: str) -> list[Any]:
    import json

    done = subprocess.run(
        [sys.executable, "-c", FIND, endpoint],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[Any] = json.loads(done.stdout)
    return result


@needs_root
def test_a_service_under_its_own_user_is_found_by_that_user(start: Start) -> None:
    """As Ollama's service: its descriptors are hidden, its memory is not."""
    server = start(SERVER.replace("family =", BECOME + "family ="), "127.0.0.1", "0")
    kind, pids, _ = find_as_another_user(url(server))
    assert (kind, pids) == ("found", [server.pid])


@needs_root
def test_a_user_with_several_programs_leaves_it_open_which_serves(start: Start) -> None:
    server = start(SERVER.replace("family =", BECOME + "family ="), "127.0.0.1", "0")
    start("import os\n" + BECOME + HOG, "0.01")
    kind, pids, reason = find_as_another_user(url(server))
    assert (kind, pids) == ("unseen", [])
    assert "uid 4343" in reason


@needs_root
def test_a_server_of_root_is_not_guessed(server: Child) -> None:
    kind, _, reason = find_as_another_user(url(server))
    assert kind == "unseen"
    assert "root" in reason


def rss_mb(pids: Sequence[int]) -> float:
    """Resident memory as /proc/PID/status says."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1]
        total += int(status.split()[0])
    return total / 1024


def test_memory_is_that_of_client_and_server_with_its_children(
    start: Start, patient: Patient
) -> None:
    server = start(SERVER, "127.0.0.1", "2")
    report = patient().window(find_serving(url(server))).open().close()
    family = [server.pid, *(c.pid for c in psutil.Process(server.pid).children(recursive=True))]
    assert len(family) == 3
    assert report.rss_coverage == "client_and_server"
    assert report.server_rss_mb == pytest.approx(rss_mb(family), rel=0.02)
    assert report.client_rss_mb == pytest.approx(rss_mb([os.getpid()]), rel=0.02)
    assert report.client_rss_mb is not None
    assert report.server_rss_mb is not None
    assert report.peak_rss_mb == pytest.approx(report.server_rss_mb + report.client_rss_mb)


def test_a_model_in_this_process_is_counted_once(patient: Patient) -> None:
    report = patient(own_pids=[os.getpid()]).window(find_serving("", os.getpid())).open().close()
    assert report.rss_coverage == "client_and_server"
    assert report.peak_rss_mb == report.server_rss_mb


def test_an_unseen_server_leaves_the_client_alone_and_unverified(patient: Patient) -> None:
    report = patient().window(find_serving("http://127.0.0.1:1")).open().close()
    assert report.rss_coverage == "client_only"
    assert report.unverified
    assert report.server_rss_mb is None
    assert "127.0.0.1:1" in report.unmeasured["server_rss_mb"]
    assert any(note.startswith("unverified") for note in report.notes)
    assert report.peak_rss_mb == report.client_rss_mb
    assert report.other_cpu_share is None
    assert "other processes" not in report.disturbed


def test_a_remote_server_is_not_judged_by_this_machine(patient: Patient) -> None:
    report = patient().window(find_serving("http://192.0.2.7:80")).open().close()
    assert report.rss_coverage == "remote"
    assert report.disturbed == ""
    assert not report.unverified
    assert "another machine" in report.unmeasured["energy_j"]


def test_a_server_that_dies_in_the_window_is_told(start: Start, patient: Patient) -> None:
    server = start(SERVER, "127.0.0.1", "0")
    window = patient().window(find_serving(url(server))).open()
    server.process.kill()
    server.process.wait()
    report = window.close()
    assert report.server_rss_mb is not None
    assert "the serving process ended during the window" in report.notes


def test_a_server_that_was_gone_before_the_window_has_no_memory(
    start: Start, patient: Patient
) -> None:
    server = start(SERVER, "127.0.0.1", "0")
    serving = find_serving(url(server))
    server.process.kill()
    server.process.wait()
    report = patient().window(serving).open().close()
    assert report.server_rss_mb is None
    assert "ended" in report.unmeasured["server_rss_mb"]
    assert report.rss_coverage == "client_only"


def test_a_name_that_does_not_resolve_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    never = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [never.wait()][1:])
    try:
        assert resolve("slow.invalid", timeout_sec=0.01) == []
    finally:
        never.set()


@given(st.ip_addresses(v=4))
def test_the_kernels_ipv4_addresses_are_read(address: ipaddress.IPv4Address) -> None:
    raw = address.packed if sys.byteorder == "big" else address.packed[::-1]
    assert kernel_address(raw.hex().upper()) == address


@given(st.ip_addresses(v=6))
def test_the_kernels_ipv6_addresses_are_read(address: ipaddress.IPv6Address) -> None:
    words = [address.packed[i : i + 4] for i in range(0, 16, 4)]
    raw = b"".join(w if sys.byteorder == "big" else w[::-1] for w in words)
    assert kernel_address(raw.hex().upper()) == address


def test_a_socket_on_the_address_itself_comes_before_one_on_all() -> None:
    def at(address: str, inode: int) -> Listener:
        return Listener(ipaddress.ip_address(address), 80, 0, inode)

    every, exact, other = at("0.0.0.0", 1), at("127.0.0.1", 2), at("192.0.2.1", 3)
    target = [ipaddress.ip_address("127.0.0.1")]
    assert best_matches([every, exact, other], target) == [exact]
    assert best_matches([every, other], target) == [every]
    assert best_matches([other], target) == []
    assert best_matches([at("::", 4)], target) == [at("::", 4)]
    assert best_matches([every], [ipaddress.ip_address("::1")]) == []
