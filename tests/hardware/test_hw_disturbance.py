"""What disturbs a measurement: exact cases on a written /proc, and real loads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.disturbance import CpuUse, cpu_reasons, foreign_use, swap_reason
from pytest_benchrig.hardware.procfs import process_tree, stat_fields
from pytest_benchrig.hardware.readings import GpuProcess
from pytest_benchrig.hardware.report import WindowReport
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
from tests.hardware.hw_programs import HOG, Child

Plant = Callable[..., Path]
Patient = Callable[..., Sampler]
Start = Callable[..., Child]

OURS, SERVER, RUNNER = os.getpid(), 900001, 900002
TICK = 1 / os.sysconf("SC_CLK_TCK")
MEMINFO = """MemTotal:       16777216 kB
MemFree:         1000000 kB
MemAvailable:    8388608 kB
SwapTotal:       2097152 kB
SwapFree:        1048576 kB
"""


def stat(pid: int, parent: int, cpu_ticks: int, rss_pages: int = 256, name: str = "a b) c") -> str:
    """A line of /proc/PID/stat; the name has all that a name may have."""
    fields = ["0"] * 52
    fields[0], fields[1], fields[2], fields[3] = str(pid), f"({name})", "S", str(parent)
    fields[13], fields[23] = str(cpu_ticks), str(rss_pages)
    return " ".join(fields) + "\n"


def machine(
    busy: int = 0, idle: int = 0, steal: int = 0, swapped: int = 0, ours: int = 0, server: int = 0
) -> dict[str, str]:
    """A machine with two processors, after these ticks; both processes as given."""
    each = f"{busy // 2} 0 0 {idle // 2} 0 0 0 {steal // 2} 0 0"
    whole = f"{busy} 0 0 {idle} 0 0 0 {steal} 0 0"
    return {
        "proc/stat": f"cpu  {whole}\ncpu0 {each}\ncpu1 {each}\nctxt 1\n",
        "proc/meminfo": MEMINFO,
        "proc/vmstat": f"nr_free 5\npswpin {swapped // 2}\npswpout {swapped - swapped // 2}\n",
        f"proc/{OURS}/stat": stat(OURS, 1, ours),
        f"proc/{SERVER}/stat": stat(SERVER, 1, server // 2),
        f"proc/{RUNNER}/stat": stat(RUNNER, SERVER, server - server // 2),
    }


@pytest.fixture
def after(plant: Plant, patient: Patient) -> Callable[..., WindowReport]:
    """A window in which the machine goes from all zero to what is given."""

    def run(serving: Serving | None = None, **figures: int) -> WindowReport:
        root = plant(machine())
        sampler = patient(root=str(root), sensors=[], own_pids=[OURS])
        window = sampler.window(serving or Serving("found", (SERVER,))).open()
        plant(machine(**figures), root)
        return window.close()

    return run


def test_a_quiet_machine_is_not_disturbed(after: Callable[..., WindowReport]) -> None:
    report = after(busy=100, idle=100, ours=10, server=85)
    assert report.disturbed == ""
    assert report.cpu_pct == 50
    assert report.cpu_per_core_pct == (50, 50)
    assert report.own_cpu_share == pytest.approx(0.05)
    assert report.serving_cpu_share == pytest.approx(0.425)
    assert report.other_cpu_share == pytest.approx(0.025)
    assert report.steal_share == 0


def test_others_above_a_tenth_of_the_machine_disturb(after: Callable[..., WindowReport]) -> None:
    report = after(busy=120, idle=80, ours=10, server=80)
    assert report.other_cpu_share == pytest.approx(0.15)
    assert report.disturbed == "other processes used 15 % of the machine's CPU time"


def test_others_up_to_a_tenth_of_the_machine_do_not(after: Callable[..., WindowReport]) -> None:
    assert after(busy=110, idle=90, ours=10, server=80).disturbed == ""


def test_the_servers_own_load_is_never_held_against_it(
    after: Callable[..., WindowReport],
) -> None:
    report = after(busy=200, idle=0, server=200)
    assert report.disturbed == ""
    assert report.serving_cpu_share == 1


def test_our_own_load_is_never_held_against_it(after: Callable[..., WindowReport]) -> None:
    assert after(busy=200, idle=0, ours=200).disturbed == ""


def test_steal_above_one_percent_disturbs(after: Callable[..., WindowReport]) -> None:
    report = after(busy=100, idle=95, steal=5, server=100)
    assert report.steal_share == pytest.approx(0.025)
    assert report.disturbed == "the hypervisor took 2.5 % of the CPU time (steal)"


def test_a_single_tick_of_steal_in_a_short_window_is_rounding(
    after: Callable[..., WindowReport],
) -> None:
    assert after(busy=5, idle=4, steal=1, server=5).disturbed == ""


def test_two_ticks_of_others_in_a_short_window_are_rounding(
    after: Callable[..., WindowReport],
) -> None:
    report = after(busy=7, idle=3, server=5)
    assert report.other_cpu_share == pytest.approx(0.2)
    assert report.disturbed == ""


def test_swapping_disturbs(after: Callable[..., WindowReport]) -> None:
    report = after(busy=10, idle=190, swapped=2048)
    assert report.swapped_mb == pytest.approx(2048 * os.sysconf("SC_PAGE_SIZE") / 2**20)
    assert "swapping" in report.disturbed


def test_some_swapped_pages_do_not(after: Callable[..., WindowReport]) -> None:
    assert after(busy=10, idle=190, swapped=4).disturbed == ""


def test_all_reasons_are_named(after: Callable[..., WindowReport]) -> None:
    report = after(busy=150, idle=40, steal=10, swapped=4096)
    assert report.disturbed.count("; ") == 2


def test_a_server_out_of_sight_is_unverified_and_its_load_nobodys(
    after: Callable[..., WindowReport],
) -> None:
    report = after(Serving("unseen", (), "h:1", "in a container"), busy=190, idle=10)
    assert report.disturbed == ""
    assert report.unverified
    assert report.other_cpu_share is None


def test_steal_disturbs_a_server_out_of_sight_too(after: Callable[..., WindowReport]) -> None:
    report = after(Serving("unseen", (), "h:1", "in a container"), busy=90, idle=80, steal=30)
    assert "steal" in report.disturbed


def test_nothing_of_this_machine_disturbs_a_remote_server(
    after: Callable[..., WindowReport],
) -> None:
    report = after(
        Serving("remote", (), "h:1", "elsewhere"), busy=150, idle=20, steal=30, swapped=9999
    )
    assert report.disturbed == ""
    assert not report.unverified


def test_a_window_shorter_than_a_tick_has_no_shares(after: Callable[..., WindowReport]) -> None:
    report = after()
    assert report.cpu_pct is None
    assert "clock's step" in report.unmeasured["cpu_pct"]
    assert report.disturbed == ""


def test_counters_that_run_backwards_give_no_negative_share(
    after: Callable[..., WindowReport],
) -> None:
    """The kernel's idle and steal counters are known to step back a little."""
    report = after(busy=10, idle=90, server=50)
    assert report.other_cpu_share == 0
    assert report.disturbed == ""


def test_memory_of_host_and_processes_is_read(after: Callable[..., WindowReport]) -> None:
    report = after(busy=2, idle=2)
    page_mb = os.sysconf("SC_PAGE_SIZE") / 2**20
    assert report.memory_total_mb == 16384
    assert report.peak_memory_used_mb == 8192
    assert report.swap_used_mb == 1024
    assert report.server_rss_mb == 2 * 256 * page_mb
    assert report.client_rss_mb == 256 * page_mb
    assert report.peak_rss_mb == 3 * 256 * page_mb
    assert report.memory_used_pct == 50


def test_a_process_born_in_the_window_is_the_servers_from_its_birth(
    plant: Plant, patient: Patient
) -> None:
    root = plant(machine())
    window = patient(root=str(root), sensors=[], own_pids=[OURS]).window(
        Serving("found", (SERVER,))
    )
    window.open()
    plant(machine(busy=100, idle=100), root)
    plant({f"proc/{RUNNER + 1}/stat": stat(RUNNER + 1, SERVER, 95)}, root)
    report = window.close()
    assert report.disturbed == ""
    assert report.serving_cpu_share == pytest.approx(0.475)


def test_broken_files_are_absent_figures(plant: Plant, patient: Patient) -> None:
    files = machine() | {
        "proc/stat": "cpu  a b c\n",
        "proc/meminfo": "MemTotal: much kB\n",
        "proc/vmstat": "pswpin\n",
        f"proc/{OURS}/stat": "nonsense",
    }
    sampler = patient(root=str(plant(files)), sensors=[], own_pids=[OURS])
    report = sampler.window(Serving("found", (SERVER,))).open().close()
    for name in ("cpu_pct", "peak_memory_used_mb", "swapped_mb", "client_rss_mb"):
        assert getattr(report, name) is None, name
        assert report.unmeasured[name], name
    assert report.server_rss_mb is not None


def test_a_real_load_beside_the_server_disturbs(start: Start, patient: Patient) -> None:
    server, hog = start(HOG, "0.01"), start(HOG, "0.4")
    window = patient(sensors=[], own_pids=[]).window(Serving("found", (server.pid,))).open()
    assert hog.next_line() == "burned"
    report = window.close()
    assert "other processes used" in report.disturbed
    assert report.other_cpu_share is not None
    assert report.other_cpu_share > 0.1


def _seconds_of(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


def test_the_load_of_the_real_server_is_its_own(start: Start, patient: Patient) -> None:
    server = start(HOG, "0.4")
    window = patient(sensors=[], own_pids=[]).window(Serving("found", (server.pid,)))
    before = _seconds_of(server.pid)
    window.open()
    opened = _seconds_of(server.pid)
    server.next_line()
    server.next_line()
    closing = _seconds_of(server.pid)
    report = window.close()
    after = _seconds_of(server.pid)
    assert report.cpu_pct is not None
    assert report.serving_cpu_share is not None
    assert report.other_cpu_share is not None
    processors = os.cpu_count() or 1
    burned = report.serving_cpu_share * processors * report.duration_sec
    # What the kernel counted just inside and just outside of the window; both count in ticks.
    assert closing - opened - 4 * TICK <= burned <= after - before + 4 * TICK
    rest = report.cpu_pct / 100 - report.serving_cpu_share
    assert report.other_cpu_share == pytest.approx(max(0.0, rest), abs=0.02)


def test_the_load_of_a_child_of_ours_is_ours(start: Start, patient: Patient) -> None:
    """A sandboxed candidate or another worker, whether it still runs or has ended."""
    hog = start(HOG, "0.3")
    window = patient(sensors=[]).window(Serving("found", (os.getpid(),))).open()
    hog.next_line()
    hog.process.kill()
    hog.process.wait()
    report = window.close()
    assert report.serving_cpu_share is not None
    processors = os.cpu_count() or 1
    assert report.serving_cpu_share * processors * report.duration_sec >= 0.2


seconds = st.floats(0, 1000)


@given(seconds, seconds, seconds, st.none() | seconds, st.none() | seconds, st.integers(0, 99))
def test_shares_are_shares_and_reasons_keep_their_bounds(
    total: float,
    busy: float,
    own: float,
    serving: float | None,
    steal: float | None,
    active: int,
) -> None:
    use = CpuUse(total, busy, own, serving, steal, TICK, active)
    for part in (use.busy_sec, use.own_sec, use.serving_sec, use.other_sec, use.steal_sec):
        share = use.share(part)
        assert share is None or 0 <= share <= 1
    reasons = list(cpu_reasons(use))
    if serving is None:
        assert not any("other" in reason for reason in reasons)
    if any("other" in reason for reason in reasons):
        assert (use.share(use.other_sec) or 0) > 0.1
    if steal is None:
        assert not any("steal" in reason for reason in reasons)


def test_swap_traffic_is_judged_by_its_amount() -> None:
    assert list(swap_reason(None)) == []
    assert list(swap_reason(0.99)) == []
    assert len(list(swap_reason(1.0))) == 1


@pytest.mark.parametrize("same_namespace", [True, False])
def test_in_a_container_an_unknown_process_may_be_the_server(same_namespace: bool) -> None:
    use = foreign_use(
        [GpuProcess("gpu0", 4242, 100.0)], {1}, {4242: ""}, same_namespace=same_namespace
    )
    assert bool(use.reasons) == same_namespace
    assert bool(use.notes) != same_namespace


def test_where_the_server_is_listed_the_numbers_agree() -> None:
    listed = [GpuProcess("gpu0", 4242, 100.0), GpuProcess("gpu0", 7, 50.0)]
    use = foreign_use(listed, {7}, {4242: ""}, same_namespace=False)
    assert len(use.reasons) == 1
    assert use.memory_mb == 100


@given(st.binary(max_size=15), st.integers(1, 2**22))
def test_no_name_of_a_program_breaks_the_reading(name: bytes, parent: int) -> None:
    """The kernel takes any bytes for a name, parentheses and line ends among them."""
    fields = stat_fields(b"7 (%b) R %d 1 2 3" % (name, parent))
    assert fields[:2] == [b"R", str(parent).encode()]


def test_the_tree_of_a_process_is_read_from_the_lists_of_children(plant: Plant) -> None:
    root = plant(
        {
            "proc/10/task/10/children": "11 ",
            "proc/10/task/12/children": "13 ",
            "proc/11/task/11/children": "",
            "proc/13/task/13/children": "14",
            # 14 has ended meanwhile.
        }
    )
    assert process_tree([10], str(root / "proc")) == {10, 11, 13}


def test_the_tree_of_a_process_is_read_from_all_parents_elsewhere(plant: Plant) -> None:
    root = plant(
        {
            f"proc/{pid}/stat": stat(pid, parent, 0)
            for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1))
        }
        | {"proc/10/task/10/stat": "", "proc/11/task/11/stat": "", "proc/12/task/12/stat": ""}
    )
    assert process_tree([10], str(root / "proc")) == {10, 11, 12}
