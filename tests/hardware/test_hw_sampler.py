"""The sampler: windows, threads, and sensors that hang, fail or are slow."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from pytest_benchrig.hardware.readings import (
    EnergyCounter,
    GpuProcess,
    GpuReading,
    SensorError,
    SlowReading,
)
from pytest_benchrig.hardware.report import FIGURES, WindowReport
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.sensor import SensorThread, bounded, pause_sec
from pytest_benchrig.hardware.serving import Serving

Patient = Callable[..., Sampler]


class Scripted:
    """A GPU whose readings the test decides."""

    name = "nvml"

    def __init__(self, cadence_sec: float = 0.2) -> None:
        self.cadence_sec = cadence_sec
        self.memory_mb = 100.0
        self.reads = 0
        self.may_read = threading.Event()
        self.may_read.set()
        self.problem: Exception | None = None

    def probe(self) -> None:
        if isinstance(self.problem, SensorError):
            raise self.problem

    def read(self) -> SlowReading:
        self.may_read.wait()
        if self.problem is not None:
            raise self.problem
        self.reads += 1
        gpu = GpuReading("gpu0", "scripted", self.memory_mb, 1000.0, power_w=50.0)
        return SlowReading(gpus=(gpu,))

    def processes(self) -> tuple[GpuProcess, ...]:
        return ()


@pytest.fixture
def gpu() -> Iterator[Scripted]:
    sensor = Scripted()
    yield sensor
    sensor.may_read.set()


def gone(names: Callable[[], list[str]]) -> bool:
    """Whether the sampler's threads have ended, given the moment that ending takes."""
    for thread in threading.enumerate():
        if thread.name.startswith("benchrig-sampler"):
            thread.join(10)
    return names() == []


@pytest.mark.parametrize("interval", [0, -1, -0.0, math.nan, math.inf, True, "0.15", None])
def test_an_interval_that_makes_no_sense_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="sample interval"):
        Sampler(interval)


def test_a_memory_warning_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="memory warning"):
        Sampler(memory_warning_pct=0)


def test_even_the_shortest_window_has_figures(patient: Patient, this_process: Serving) -> None:
    report = patient().window(this_process).open().close()
    assert report.sample_count == 2
    assert report.client_rss_mb is not None
    assert report.client_rss_mb > 0
    assert report.peak_memory_used_mb is not None
    assert report.duration_sec > 0


def test_a_window_is_a_with_block(patient: Patient, this_process: Serving) -> None:
    with patient().window(this_process) as window:
        pass
    assert window.report.sample_count == 2


def test_a_window_is_closed_by_an_exception_too(
    patient: Patient, this_process: Serving, threads: Callable[[], list[str]]
) -> None:
    window = patient(sensors=[]).window(this_process)
    with pytest.raises(ZeroDivisionError), window:
        raise ZeroDivisionError
    assert window.report.sample_count == 2
    assert gone(threads)


def test_closing_twice_gives_one_report(patient: Patient, this_process: Serving) -> None:
    window = patient().window(this_process).open()
    assert window.close() is window.close()


def test_misuse_is_said(patient: Patient, this_process: Serving) -> None:
    window = patient().window(this_process)
    with pytest.raises(RuntimeError, match="not open"):
        window.close()
    window.open()
    with pytest.raises(RuntimeError, match="not closed yet"):
        _ = window.report
    with pytest.raises(RuntimeError, match="opened once"):
        window.open()


def test_samples_are_taken_while_the_window_is_open(this_process: Serving) -> None:
    seen = threading.Semaphore(0)

    class Told(Scripted):
        def read(self) -> SlowReading:
            seen.release()
            return super().read()

    with Sampler(0.001, sensors=[Told(cadence_sec=0.001)]) as sampler:
        window = sampler.window(this_process).open()
        for _ in range(5):
            assert seen.acquire(timeout=60)
        assert window.close().sample_count >= 2


def test_the_thread_has_its_name_and_only_lives_in_a_window(
    this_process: Serving, threads: Callable[[], list[str]]
) -> None:
    with Sampler(60, sensors=[]) as sampler:
        assert threads() == []
        window = sampler.window(this_process).open()
        assert threads() == ["benchrig-sampler"]
        assert all(t.daemon for t in threading.enumerate() if t.name == "benchrig-sampler")
        window.close()
        assert gone(threads)


def test_windows_may_overlap(patient: Patient, this_process: Serving, gpu: Scripted) -> None:
    sampler = patient(sensors=[gpu])
    first = sampler.window(this_process).open()
    gpu.memory_mb = 300
    second = sampler.window(this_process).open()
    early = first.close()
    gpu.memory_mb = 500
    late = second.close()
    assert (early.peak_vram_mb, early.growth_vram_mb) == (300, 200)
    assert (late.peak_vram_mb, late.growth_vram_mb) == (500, 200)


def test_closing_the_sampler_ends_its_threads(
    this_process: Serving, gpu: Scripted, threads: Callable[[], list[str]]
) -> None:
    sampler = Sampler(60, sensors=[gpu])
    window = sampler.window(this_process).open()
    sampler.close()
    report = window.close()
    assert report.client_rss_mb is not None
    assert gone(threads)


def test_samples_are_kept_only_when_asked_for(
    patient: Patient, this_process: Serving, gpu: Scripted
) -> None:
    assert patient(sensors=[gpu]).window(this_process).open().close().samples == ()
    kept = patient(sensors=[gpu], keep_samples=True).window(this_process).open().close()
    times = [sample["t"] for sample in kept.samples]
    assert times == sorted(times)
    told = {name for sample in kept.samples for name in sample}
    assert told == {"t", "client_rss_mb", "server_rss_mb", "memory_used_mb", "vram_mb"}
    assert json.loads(json.dumps(kept.to_json()))["samples"]


def test_a_sensor_that_hangs_holds_up_neither_opening_nor_close(
    this_process: Serving, gpu: Scripted
) -> None:
    """If either waited for the sensor, this test would never end."""
    gpu.may_read.clear()
    with Sampler(60, sensors=[gpu]) as sampler:
        for _ in range(2):
            report = sampler.window(this_process).open().close()
            assert report.peak_vram_mb is None
            assert "has not answered" in report.unmeasured["peak_vram_mb"]
            assert report.client_rss_mb is not None


def test_a_sensor_that_comes_back_is_read_again(
    patient: Patient, this_process: Serving, gpu: Scripted
) -> None:
    gpu.may_read.clear()
    sampler = patient(sensors=[gpu], sensor_wait_sec=0.001)
    assert sampler.window(this_process).open().close().peak_vram_mb is None
    gpu.may_read.set()
    sampler.sensor_wait_sec = 20
    while sampler.sensors[0].why_not():
        sampler.read_gpus(20)
    assert sampler.window(this_process).open().close().peak_vram_mb == 100


def test_a_sensor_that_hangs_while_it_is_looked_for_is_given_up(this_process: Serving) -> None:
    never = threading.Event()

    class Stuck(Scripted):
        def probe(self) -> None:
            never.wait()

    try:
        with Sampler(60, sensors=[Stuck()], probe_sec=0.01) as sampler:
            report = sampler.window(this_process).open().close()
        assert "has not answered" in report.unmeasured["peak_vram_mb"]
    finally:
        never.set()


@pytest.mark.parametrize("problem", [OSError("broken"), ValueError("garbage"), KeyError("x")])
def test_whatever_a_sensor_raises_becomes_a_reason(
    patient: Patient, this_process: Serving, gpu: Scripted, problem: Exception
) -> None:
    sampler = patient(sensors=[gpu])
    gpu.problem = problem
    report = sampler.window(this_process).open().close()
    assert report.peak_vram_mb is None
    assert type(problem).__name__ in report.unmeasured["peak_vram_mb"]


def test_a_sensor_that_is_not_there_is_not_read(
    patient: Patient, this_process: Serving, gpu: Scripted
) -> None:
    gpu.problem = SensorError("no such device", "buy one")
    report = patient(sensors=[gpu]).window(this_process).open().close()
    assert gpu.reads == 0
    assert "no such device" in report.unmeasured["peak_vram_mb"]


def test_every_figure_is_there_or_has_a_reason(patient: Patient, this_process: Serving) -> None:
    for serving in (
        this_process,
        Serving("unseen", (), "h:1", "in a container"),
        Serving("remote", (), "h:1", "h is another machine"),
    ):
        report = patient().window(serving).open().close()
        for name in FIGURES:
            value = getattr(report, name)
            assert (value is None) == (name in report.unmeasured), name
            assert value is not None or report.unmeasured[name].strip(), name


def test_absent_figures_are_absent_from_json(patient: Patient, this_process: Serving) -> None:
    data = patient().window(this_process).open().close().to_json()
    assert json.loads(json.dumps(data)) == data
    assert None not in data.values()
    assert not data.keys() & data["unmeasured"].keys()


def test_a_number_that_json_cannot_hold_is_left_out() -> None:
    report = WindowReport(
        duration_sec=math.nan, interval_sec=1.0, sample_count=0, rss_coverage="client_only"
    )
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["duration_sec"] is None


def test_memory_growth_is_that_of_server_and_gpu(
    patient: Patient, this_process: Serving, gpu: Scripted
) -> None:
    window = patient(sensors=[gpu]).window(this_process).open()
    gpu.memory_mb = 350
    report = window.close()
    assert report.memory_growth_source == "server_rss+vram"
    assert report.memory_growth_mb is not None
    assert report.memory_growth_mb >= 250


def test_energy_that_was_seen_over_part_of_the_window_is_not_the_windows(
    this_process: Serving, patient: Patient
) -> None:
    """One reading is no energy, however much the counter says."""

    class Once(Scripted):
        name = "rapl"

        def read(self) -> SlowReading:
            if self.reads:
                raise SensorError("gone")
            self.reads += 1
            return SlowReading(counters=(EnergyCounter("package-0", 5.0, 100.0),))

    report = patient(sensors=[Once()]).window(this_process).open().close()
    assert report.energy_j is None
    assert "only" in report.unmeasured["cpu_energy_j"]


@pytest.mark.parametrize(
    ("cadence", "age", "pause"),
    [
        (0.2, 0.0, 0.2),
        (0.2, 2.0, 0.2),
        (0.2, 5.0, 0.5),
        (0.2, 600.0, 1.0),
        (5.0, 600.0, 5.0),
        (float("inf"), 0.0, threading.TIMEOUT_MAX),
    ],
)
def test_a_long_window_reads_its_slow_sensors_less_often(
    cadence: float, age: float, pause: float
) -> None:
    assert pause_sec(cadence, age) == pause


def test_a_call_that_hangs_is_bounded() -> None:
    never = threading.Event()
    try:
        with pytest.raises(SensorError, match="did not answer within"):
            bounded("stuck", never.wait, 0.01)
    finally:
        never.set()


def test_the_reason_of_a_bounded_call_is_kept() -> None:
    def fail() -> None:
        raise SensorError("no", "do that")

    with pytest.raises(SensorError) as caught:
        bounded("x", fail, 10)
    assert (caught.value.reason, caught.value.remedy) == ("no", "do that")


def test_reading_a_gpu_outside_a_window(patient: Patient, gpu: Scripted) -> None:
    sampler = patient(sensors=[gpu])
    assert sampler.read_gpus(20)[0].memory_used_mb == 100
    gpu.problem = OSError("broken")
    with pytest.raises(SensorError, match="broken"):
        sampler.read_gpus(20)


def test_a_thread_that_lists_no_processes_says_so() -> None:
    class Plain:
        name = "plain"
        cadence_sec = 1.0

        def probe(self) -> None:
            return None

        def read(self) -> SlowReading:
            return SlowReading()

    thread = SensorThread(Plain(), lambda *_: None)
    with pytest.raises(SensorError, match="knows no processes"):
        thread.processes_now(20)


def test_without_psutil_and_proc_all_is_absent_and_nothing_fails(tmp_path: object) -> None:
    """A machine that tells nothing at all."""
    script = """
import json, os, sys
sys.modules["psutil"] = None
sys.modules["pynvml"] = None
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
report = Sampler(root=sys.argv[1]).window(Serving("own", (os.getpid(),))).open().close()
print(json.dumps(report.to_json()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stdout)
    assert set(seen["unmeasured"]) == set(FIGURES)
    assert "psutil is not installed" in seen["unmeasured"]["client_rss_mb"]
    assert seen["disturbed"] == ""


def test_a_worker_counts_its_controller_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert Sampler(sensors=[]).own_pids == (os.getpid(),)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert Sampler(sensors=[]).own_pids == (os.getppid(), os.getpid())
