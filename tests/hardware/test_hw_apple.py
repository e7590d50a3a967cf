"""Apple Silicon: the real parsers on the output of the real commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.apple import (
    IOREG,
    SYSCTL,
    THERM,
    VM_STAT,
    AppleSensor,
    parse_ioreg,
    parse_sysctl,
    parse_therm,
    parse_vm_stat,
    run_command,
)
from pytest_benchrig.hardware.readings import SensorError
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
from tests.hardware.hw_programs import DATA

RECORDED = {IOREG: "ioreg", SYSCTL: "sysctl", VM_STAT: "vm_stat", THERM: "pmset_therm"}


def recorded(name: str) -> str:
    return (DATA / "apple" / f"{name}.txt").read_text()


def mac(**instead: str) -> Callable[[Sequence[str]], str]:
    """A Mac that answers every command as it was recorded, or as said."""

    def run(command: Sequence[str]) -> str:
        name = RECORDED[tuple(command)]
        return instead.get(name, "") if name in instead else recorded(name)

    return run


def test_the_gpu_tells_its_use_and_its_memory() -> None:
    [gpu] = parse_ioreg(recorded("ioreg"))
    assert (gpu.name, gpu.util_pct, gpu.memory_used_mb) == ("Apple M1 Max", 71, 5120)


def test_the_machines_sizes_are_read() -> None:
    sizes = parse_sysctl(recorded("sysctl"))
    assert sizes["hw.memsize"] == "34359738368"
    assert sizes["machdep.cpu.brand_string"] == "Apple M1 Max"


def test_paging_is_counted_in_the_machines_own_pages() -> None:
    paging = parse_vm_stat(recorded("vm_stat"))
    assert (paging["Swapins"], paging["Swapouts"]) == (1000, 2000)
    assert paging["Translation faults"] == 934881524 / 64


def test_a_speed_limit_is_read_where_there_is_one() -> None:
    assert parse_therm(recorded("pmset_therm")) is None
    assert parse_therm(recorded("pmset_therm_limited")) == 72


def test_a_window_on_a_mac(patient: Callable[..., Sampler]) -> None:
    sampler = patient(sensors=[AppleSensor(mac())])
    report = sampler.window(Serving("own", (os.getpid(),))).open().close()
    assert report.peak_vram_mb == 5120
    assert report.vram_total_mb == 32768
    assert report.gpu_util_pct == 71
    assert report.energy_j is None
    assert "powermetrics" in report.unmeasured["gpu_energy_j"]
    # Memory of the GPU is memory of the machine: adding both would count it twice.
    assert report.memory_growth_source == "host"
    assert "throttled" not in report.disturbed


def test_a_mac_that_is_held_down_by_heat_is_disturbed(patient: Callable[..., Sampler]) -> None:
    hot = mac(pmset_therm=recorded("pmset_therm_limited"))
    report = (
        patient(sensors=[AppleSensor(hot)]).window(Serving("own", (os.getpid(),))).open().close()
    )
    assert "throttled: gpu0: speed limit" in report.disturbed


def test_a_limit_set_for_the_gpus_memory_is_its_total() -> None:
    limited = recorded("sysctl").replace("wired_limit_mb: 0", "wired_limit_mb: 28000")
    sensor = AppleSensor(mac(sysctl=limited))
    sensor.probe()
    assert sensor.read().gpus[0].memory_total_mb == 28000


def test_a_mac_without_such_a_gpu_has_no_sensor() -> None:
    with pytest.raises(SensorError, match="PerformanceStatistics"):
        AppleSensor(mac(ioreg="")).probe()


def test_a_command_that_is_not_there_is_a_reason() -> None:
    with pytest.raises(SensorError, match="no-such-command"):
        run_command(["no-such-command"])


def test_a_command_that_fails_is_a_reason() -> None:
    with pytest.raises(SensorError, match="exit status 3: bad"):
        run_command(["sh", "-c", "echo bad >&2; exit 3"])


@given(st.text())
def test_no_output_breaks_the_parsers(text: str) -> None:
    for broken in (text, recorded("ioreg")[: len(text)], f"+-o {text}"):
        parse_ioreg(broken)
        parse_sysctl(broken)
        parse_therm(broken)
    with pytest.raises(SensorError, match="page size"):
        parse_vm_stat(text)
