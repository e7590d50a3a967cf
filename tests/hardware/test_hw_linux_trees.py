"""AMD GPUs, RAPL, clocks and batteries, from file trees below a root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchrig.hardware.amd import AmdSensor
from pytest_benchrig.hardware.check import sensors
from pytest_benchrig.hardware.cpu import BatterySensor, ClockSensor, RaplSensor
from pytest_benchrig.hardware.files import read_number, read_text
from pytest_benchrig.hardware.readings import Battery, SensorError
from pytest_benchrig.hardware.report import WindowReport
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.sensor import SlowSensor
from pytest_benchrig.hardware.serving import Serving

Plant = Callable[..., Path]
Patient = Callable[..., Sampler]

CARD = "sys/class/drm/card0/device"
AMD_CARD = {
    f"{CARD}/vendor": "0x1002\n",
    f"{CARD}/product_name": "AMD Radeon Test\n",
    f"{CARD}/mem_info_vram_used": f"{3 * 1024**3}\n",
    f"{CARD}/mem_info_vram_total": f"{16 * 1024**3}\n",
    f"{CARD}/gpu_busy_percent": "37\n",
    f"{CARD}/hwmon/hwmon7/power1_average": "95000000\n",
    f"{CARD}/hwmon/hwmon7/temp1_input": "58000\n",
    f"{CARD}/hwmon/hwmon7/freq1_input": "2100000000\n",
    # A connector, and a card of another vendor: neither is a GPU of this driver.
    "sys/class/drm/card0-DP-1/status": "connected\n",
    "sys/class/drm/card1/device/vendor": "0x8086\n",
}


def around(
    patient: Patient, sensor: SlowSensor, between: Callable[[], object] = lambda: None
) -> WindowReport:
    """A window with one sensor; something happens between its opening and its close."""
    window = patient(sensors=[sensor]).window(Serving("own", (os.getpid(),))).open()
    between()
    return window.close()


def test_an_amd_card_tells_memory_load_power_and_heat(plant: Plant, patient: Patient) -> None:
    report = around(patient, AmdSensor(str(plant(AMD_CARD))))
    assert report.peak_vram_mb == 3 * 1024
    assert report.vram_total_mb == 16 * 1024
    assert report.gpu_util_pct == 37
    assert report.peak_power_w == 95
    assert report.temperature_c == 58
    assert report.gpu_clock_mhz == 2100
    assert [gpu["name"] for gpu in report.gpus] == ["AMD Radeon Test"]


def test_an_amd_cards_energy_is_its_power_over_the_window(plant: Plant, patient: Patient) -> None:
    report = around(patient, AmdSensor(str(plant(AMD_CARD))))
    assert report.energy_j == pytest.approx(95 * report.duration_sec)
    assert report.avg_power_w == pytest.approx(95)
    assert report.energy_source == "amdgpu power"
    assert report.energy_coverage == "gpu"
    assert report.energy_coarse is True


def test_newer_amd_cards_name_their_power_input(plant: Plant) -> None:
    files = {name: text for name, text in AMD_CARD.items() if "power1" not in name}
    root = plant(files | {f"{CARD}/hwmon/hwmon7/power1_input": "42000000"})
    sensor = AmdSensor(str(root))
    sensor.probe()
    assert sensor.read().gpus[0].power_w == 42


@pytest.mark.parametrize("text", ["", "busy\n", "nan\n", "inf\n"])
def test_a_file_that_makes_no_sense_is_an_absent_figure(
    plant: Plant, patient: Patient, text: str
) -> None:
    report = around(patient, AmdSensor(str(plant(AMD_CARD | {f"{CARD}/gpu_busy_percent": text}))))
    assert report.gpu_util_pct is None
    assert "gpu_busy_percent" in report.unmeasured["gpu_util_pct"]
    assert report.peak_vram_mb == 3 * 1024


def test_a_pipe_in_the_place_of_a_sensor_stops_nothing(plant: Plant, patient: Patient) -> None:
    root = plant({n: t for n, t in AMD_CARD.items() if not n.endswith("busy_percent")})
    os.mkfifo(root / CARD / "gpu_busy_percent")
    report = around(patient, AmdSensor(str(root)))
    assert report.gpu_util_pct is None
    assert "gpu_busy_percent" in report.unmeasured["gpu_util_pct"]
    assert report.peak_power_w == 95


def test_a_pipe_that_stays_silent_stops_nothing(plant: Plant) -> None:
    root = plant({})
    os.mkfifo(root / "pipe")
    both = os.open(root / "pipe", os.O_RDWR)
    try:
        with pytest.raises(SensorError, match="gave nothing at once"):
            read_text(root / "pipe")
    finally:
        os.close(both)


def test_foreign_use_of_an_amd_card_disturbs(plant: Plant, patient: Patient) -> None:
    root = plant(
        AMD_CARD
        | {
            "sys/class/kfd/kfd/proc/1/vram_4242": f"{512 * 1024**2}\n",
            f"sys/class/kfd/kfd/proc/{os.getpid()}/vram_4242": f"{2 * 1024**3}\n",
        }
    )
    report = around(patient, AmdSensor(str(root)))
    assert "(pid 1) uses the GPU with 512 MiB" in report.disturbed
    assert str(os.getpid()) not in report.disturbed
    assert report.foreign_vram_mb == 512


def test_a_process_that_ends_while_it_is_listed_uses_no_amd_card(plant: Plant) -> None:
    root = plant(
        AMD_CARD
        | {
            "sys/class/kfd/kfd/proc/1/vram_4242": f"{512 * 1024**2}\n",
            "sys/class/kfd/kfd/proc/2/vram_4242": "",
        }
    )
    assert [process.pid for process in AmdSensor(str(root)).processes()] == [1]


def test_the_environment_names_an_amd_card_with_its_memory_and_power_limit(plant: Plant) -> None:
    sensor = AmdSensor(str(plant(AMD_CARD | {f"{CARD}/hwmon/hwmon7/power1_cap": "300000000\n"})))
    sensor.probe()
    assert sensor.details() == [
        {
            "name": "AMD Radeon Test",
            "index": "card0",
            "memory_total_mb": 16384.0,
            "power_limit_w": 300.0,
        }
    ]


def test_an_amd_card_without_names_is_known_by_its_numbers(plant: Plant) -> None:
    named = {f"{CARD}/device": "0x744c\n"}
    bare = {k: v for k, v in AMD_CARD.items() if not k.endswith(("/vendor", "/product_name"))}
    for files, name in ((bare, "AMD GPU"), (bare | named, "AMD GPU 0x744c")):
        sensor = AmdSensor(str(plant(files)))
        sensor.probe()
        assert [gpu.name for gpu in sensor.read().gpus] == [name]


def test_without_the_compute_driver_foreign_use_is_unknown(plant: Plant, patient: Patient) -> None:
    report = around(patient, AmdSensor(str(plant(AMD_CARD))))
    assert report.foreign_vram_mb is None
    assert "amdkfd" in report.unmeasured["foreign_vram_mb"]


def test_cards_are_read_in_their_natural_order(plant: Plant) -> None:
    files = {}
    for number in (10, 2):
        for name, text in AMD_CARD.items():
            if name.startswith(CARD):
                files[name.replace("card0", f"card{number}")] = text
    sensor = AmdSensor(str(plant(files)))
    sensor.probe()
    assert [gpu.key for gpu in sensor.read().gpus] == ["card2", "card10"]


RAPL = "sys/class/powercap/intel-rapl"
PACKAGES = {
    f"{RAPL}:0/name": "package-0\n",
    f"{RAPL}:0/energy_uj": "1000000\n",
    f"{RAPL}:0/max_energy_range_uj": "262143328850\n",
    f"{RAPL}:0:0/name": "core\n",
    f"{RAPL}:0:0/energy_uj": "7\n",
    f"{RAPL}:0:0/max_energy_range_uj": "262143328850\n",
    f"{RAPL}:1/name": "psys\n",
    f"{RAPL}:1/energy_uj": "9\n",
    f"{RAPL}:1/max_energy_range_uj": "262143328850\n",
    "sys/class/powercap/intel-rapl-mmio:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl-mmio:0/energy_uj": "11\n",
    "sys/class/powercap/intel-rapl-mmio:0/max_energy_range_uj": "262143328850\n",
}


def exact(report: WindowReport) -> float:
    """Energy as counted: the figure is scaled from the counter's span to the window."""
    assert report.cpu_energy_j is not None
    return report.cpu_energy_j


def test_a_package_is_counted_once_whatever_else_counts_it(plant: Plant, patient: Patient) -> None:
    root = plant(PACKAGES)
    sensor = RaplSensor(str(root))
    sensor.probe()
    assert [(c.name, c.energy_j) for c in sensor.read().counters] == [("package-0", 1.0)]
    report = around(patient, sensor, lambda: plant({f"{RAPL}:0/energy_uj": "3500000"}, root))
    assert 0 < exact(report) <= 2.6
    assert report.energy_source == "RAPL"
    assert report.energy_coverage == "cpu_package"
    assert report.avg_power_w == pytest.approx(exact(report) / report.duration_sec)


def test_two_packages_are_summed(plant: Plant) -> None:
    second = {name.replace("rapl:0", "rapl:2"): text for name, text in PACKAGES.items()}
    second[f"{RAPL}:2/name"] = "package-1"
    sensor = RaplSensor(str(plant(PACKAGES | second)))
    sensor.probe()
    assert [c.name for c in sensor.read().counters] == ["package-0", "package-1"]


def test_a_counter_that_wraps_goes_on(plant: Plant, patient: Patient) -> None:
    root = plant(PACKAGES | {f"{RAPL}:0/energy_uj": "262142328850"})
    report = around(
        patient, RaplSensor(str(root)), lambda: plant({f"{RAPL}:0/energy_uj": "1000000"}, root)
    )
    # One joule to the end of the range and one after it.
    assert 0 < exact(report) <= 2.1


def test_a_counter_that_is_set_back_is_no_energy(plant: Plant, patient: Patient) -> None:
    root = plant(PACKAGES | {f"{RAPL}:0/energy_uj": "200000000000"})
    report = around(
        patient, RaplSensor(str(root)), lambda: plant({f"{RAPL}:0/energy_uj": "5"}, root)
    )
    assert report.energy_j is None
    assert "set back" in report.unmeasured["cpu_energy_j"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file"
)
def test_counters_for_root_only_are_said_with_the_way_out(plant: Plant) -> None:
    root = plant(PACKAGES)
    (root / f"{RAPL}:0/energy_uj").chmod(0)
    with pytest.raises(SensorError, match="permission denied") as refused:
        RaplSensor(str(root)).probe()
    assert "chmod" in refused.value.remedy


CPU = "sys/devices/system/cpu"
CLOCKS = {
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "3000000\n",
    f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "2000000\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "4\n",
    f"{CPU}/cpu1/thermal_throttle/package_throttle_count": "1\n",
    f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1\n",
}


def test_clocks_are_a_mean_over_the_processors(plant: Plant, patient: Patient) -> None:
    report = around(patient, ClockSensor(str(plant(CLOCKS))))
    assert report.cpu_mhz == 2500
    assert report.throttle_events == 0
    assert "throttled" not in report.disturbed


def test_throttling_of_the_processors_disturbs(plant: Plant, patient: Patient) -> None:
    root = plant(CLOCKS)
    report = around(
        patient,
        ClockSensor(str(root)),
        lambda: plant({f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "7"}, root),
    )
    assert report.throttle_events == 3
    assert "throttled" in report.disturbed


SUPPLY = "sys/class/power_supply"
LAPTOP = {
    f"{SUPPLY}/BAT0/type": "Battery\n",
    f"{SUPPLY}/BAT0/status": "Discharging\n",
    f"{SUPPLY}/BAT0/capacity": "40\n",
    f"{SUPPLY}/hidpp_battery_0/type": "Battery\n",
    f"{SUPPLY}/hidpp_battery_0/scope": "Device\n",
    f"{SUPPLY}/hidpp_battery_0/status": "Discharging\n",
    f"{SUPPLY}/hidpp_battery_0/capacity": "5\n",
}


def test_running_on_battery_is_a_note_and_no_disturbance(plant: Plant, patient: Patient) -> None:
    report = around(patient, BatterySensor(str(plant(LAPTOP))))
    assert report.on_battery is True
    assert report.battery_pct == 40
    assert any("battery (40 % left)" in note for note in report.notes)
    assert "battery" not in report.disturbed


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging"])
def test_a_plugged_in_laptop_runs_on_mains(plant: Plant, status: str) -> None:
    sensor = BatterySensor(str(plant(LAPTOP | {f"{SUPPLY}/BAT0/status": status})))
    sensor.probe()
    assert sensor.read().battery == Battery(discharging=False, charge_pct=40)


def test_the_battery_of_a_mouse_is_not_the_machines(plant: Plant) -> None:
    root = plant({name: text for name, text in LAPTOP.items() if "hidpp" in name})
    with pytest.raises(SensorError, match="no battery"):
        BatterySensor(str(root)).probe()


def test_two_batteries_are_averaged(plant: Plant) -> None:
    second = {
        f"{SUPPLY}/BAT1/type": "Battery",
        f"{SUPPLY}/BAT1/status": "Full",
        f"{SUPPLY}/BAT1/capacity": "100",
    }
    sensor = BatterySensor(str(plant(LAPTOP | second)))
    sensor.probe()
    assert sensor.read().battery == Battery(discharging=True, charge_pct=70)


def test_a_machine_without_any_sensor_gives_reasons(tmp_path: Path, patient: Patient) -> None:
    report = patient(root=str(tmp_path)).window(Serving("own", (os.getpid(),))).open().close()
    for figure in ("peak_vram_mb", "energy_j", "cpu_mhz", "on_battery"):
        assert getattr(report, figure) is None
        assert report.unmeasured[figure], figure
    assert report.client_rss_mb is not None


def test_the_check_reads_a_whole_machine(plant: Plant) -> None:
    root = plant(AMD_CARD | PACKAGES | CLOCKS | LAPTOP)
    found = {s.name: s for s in sensors(str(root))}
    assert "card0 AMD Radeon Test: 3072 of 16384 MiB" in found["AMD GPUs (sysfs)"].reading
    assert found["CPU package energy (RAPL)"].reading == "package-0: 1.0 J counted"
    assert found["CPU clock and throttling (sysfs)"].reading.startswith("2500 MHz")
    assert found["battery (sysfs)"].reading == "discharging, 40 %"


def test_the_check_says_what_is_missing_and_the_way_out(tmp_path: Path) -> None:
    found = {s.name: s for s in sensors(str(tmp_path))}
    rapl = found["CPU package energy (RAPL)"]
    assert not rapl.found
    assert "powercap" in rapl.missing
    assert "intel_rapl_msr" in rapl.remedy


def test_a_number_is_read_from_a_file(plant: Plant) -> None:
    root = plant({"good": "42\n", "bad": "4 2\n"})
    assert read_number(root / "good") == 42
    with pytest.raises(SensorError, match="not a number"):
        read_number(root / "bad")
    with pytest.raises(SensorError, match="No such file"):
        read_number(root / "none")
