"""Processes that end while they are looked at, from a /proc of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchrig.hardware.portable import PsutilSensor
from pytest_benchrig.hardware.processes import ProcessSet
from pytest_benchrig.hardware.procfs import ProcHost

Plant = Callable[..., Path]

HOST = {
    "proc/stat": "cpu  10 0 10 80 0 0 0 0\ncpu0 10 0 10 80 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n",
}


def process(pid: int, *children: int, state: str = "S", ticks: int = 0) -> dict[str, str]:
    """The files of one process, as proc(5) has them: field 14 is its time, field 24 its pages."""
    fields = [state, *["0"] * 10, str(ticks), *["0"] * 9, "256", *["0"] * 20]
    return {
        f"proc/{pid}/stat": f"{pid} (a) b) {' '.join(fields)}\n",
        f"proc/{pid}/statm": "1000 256 0 0 0 0 0\n",
        f"proc/{pid}/task/{pid}/children": " ".join(map(str, children)),
    }


def followed(root: Path, *pids: int) -> ProcessSet:
    found = ProcessSet(ProcHost(str(root)), pids)
    found.open()
    return found


def test_a_child_that_ends_between_the_listing_and_the_reading_is_left_out(plant: Plant) -> None:
    child = process(5)
    del child["proc/5/stat"]
    found = followed(plant(HOST | process(4, 5, 6) | child), 4)
    assert found.pids == {4}


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_child_that_only_waits_to_be_reaped_has_no_memory(plant: Plant, state: str) -> None:
    found = followed(plant(HOST | process(4, 5) | process(5, state=state)), 4)
    assert [handle.pid for handle in found.handles] == [4]


def test_a_child_born_later_counts_from_its_birth(plant: Plant) -> None:
    root = plant(HOST | process(4))
    found = followed(root, 4)
    plant(process(4, 5, ticks=100) | process(5, ticks=50), root)
    found.refresh()
    found.read_cpu()
    assert found.cpu_sec() == pytest.approx(1.5)
    assert found.active == 2


def test_the_time_of_a_process_that_ended_is_kept(plant: Plant) -> None:
    root = plant(HOST | process(4, ticks=100) | process(5, ticks=100))
    found = followed(root, 4, 5)
    plant(process(5, ticks=300), root)
    found.read_cpu()
    plant(process(5, ticks=300, state="Z"), root)
    found.read_cpu()
    assert found.cpu_sec() == pytest.approx(2.0)
    assert [handle.pid for handle in found.handles] == [4]


def test_memory_is_read_without_statm_too(plant: Plant) -> None:
    files = process(4)
    del files["proc/4/statm"]
    with_it = followed(plant(HOST | process(3)), 3).handles[0]
    without = followed(plant(HOST | files), 4).handles[0]
    size = without.rss_mb(without.read_rss())
    assert size is not None
    assert size == with_it.rss_mb(with_it.read_rss())


def test_clock_and_battery_of_other_systems_are_there_or_have_a_reason() -> None:
    sensor = PsutilSensor()
    sensor.probe()
    reading = sensor.read()
    assert (reading.cpu_mhz is None) == ("cpu_mhz" in reading.missing)
    assert (reading.battery is None) == ("battery" in reading.missing)
