"""The environment block, the fingerprint, and where a model runs."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchrig.core.generation import ModelInfo, Placement
from pytest_benchrig.hardware.baseline import Baseline, take_baseline, vram_model_mb
from pytest_benchrig.hardware.check import sensors
from pytest_benchrig.hardware.environment import environment, fingerprint, model_block
from pytest_benchrig.hardware.placement import placed
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving, find_serving

Plant = Callable[..., Path]

CPUINFO = """processor	: 0
model name	: Test Processor 9000
physical id	: 0
core id		: 0
flags		: fpu hypervisor

processor	: 1
model name	: Test Processor 9000
physical id	: 0
core id		: 0
flags		: fpu hypervisor

processor	: 2
physical id	: 1
core id		: 0
"""
MACHINE = {
    "proc/cpuinfo": CPUINFO,
    "proc/stat": "cpu  1 0 0 1 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 16384000 kB\nMemAvailable: 8000000 kB\n",
    "proc/version": "Linux version 5.15.0-microsoft-standard-WSL2\n",
    "etc/os-release": 'NAME="Test"\nPRETTY_NAME="Test Linux 7"\n',
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    ".dockerenv": "",
}


def test_this_machine_is_described() -> None:
    block = environment()
    assert json.loads(json.dumps(block)) == block
    assert block["cpu_cores_logical"] == os.cpu_count()
    assert block["python"] == platform.python_version()
    assert block["packages"]["pytest"] == pytest.__version__
    assert block["cpu_model"]
    assert block["ram_mb"] > 0
    assert block["os"]
    assert block["kernel"] == platform.release()


def test_nobody_is_named() -> None:
    text = json.dumps(environment()).lower()
    assert str(Path.home()).lower() not in text
    name = socket.gethostname().lower()
    if len(name) > 3:
        assert name not in text


def test_a_machine_is_read_from_its_files(plant: Plant) -> None:
    block = environment(str(plant(MACHINE)))
    assert block["cpu_model"] == "Test Processor 9000"
    assert block["cpu_cores_physical"] == 2
    assert block["cpu_quota_cores"] == 1.5
    assert block["cpu_governor"] == "powersave"
    assert block["ram_mb"] == 16000
    assert block["os"] == "Test Linux 7"
    assert block["virtual_machine"] == "wsl"
    assert block["container"] == "docker"
    assert "no battery" in block["unmeasured"]["on_battery"]
    assert "gpus" not in block


def test_the_older_control_groups_are_read_too(plant: Plant) -> None:
    root = plant(
        {
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )
    assert environment(str(root))["cpu_quota_cores"] == 0.5


@pytest.mark.parametrize("text", ["max 100000", "-1", "100000 0", "nonsense"])
def test_no_quota_is_no_figure(plant: Plant, text: str) -> None:
    root = plant({"sys/fs/cgroup/cpu.max": text})
    assert "cpu_quota_cores" not in environment(str(root))


MODEL = ModelInfo(
    "qwen3:8b", digest="sha256:abc", quantisation="Q4_K_M", parameters="8B", size_bytes=5
)


def test_equal_runs_have_equal_fingerprints(plant: Plant) -> None:
    block = environment(str(plant(MACHINE)))
    first = fingerprint(block, "ollama 0.33", MODEL, observed_device="cpu")
    again = fingerprint(json.loads(json.dumps(block)), "ollama 0.33", MODEL, observed_device="cpu")
    assert first == again
    assert all(isinstance(value, str) and value for value in first.values())
    assert first["cpu"] == "Test Processor 9000"
    assert first["ram"] == "16 GiB"
    assert first["power"] == "mains"
    assert first["model_digest"] == "sha256:abc"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("cpu", {"cpu_model": "another"}),
        ("cores", {"cpu_cores_logical": 128}),
        ("gpu_driver", {"gpu_driver": "1.0"}),
        ("gpus", {"gpus": [{"name": "NVIDIA Test", "memory_total_mb": 1.0}]}),
        ("power", {"on_battery": True}),
        ("kernel", {"kernel": "99.1.7-x"}),
    ],
)
def test_what_makes_runs_differ_is_named(part: str, change: dict[str, object]) -> None:
    block = environment()
    before, after = fingerprint(block), fingerprint({**block, **change})
    assert [name for name in before if before[name] != after[name]] == [part]


def test_a_model_of_another_digest_is_another_model() -> None:
    block = environment()
    other = dataclasses.replace(MODEL, digest="sha256:def")
    assert fingerprint(block, "", MODEL) != fingerprint(block, "", other)


def test_what_is_not_told_is_unknown_and_not_equal_to_something() -> None:
    parts = fingerprint({})
    assert parts["cpu"] == "unknown"
    assert parts["runtime_version"] == "unknown"
    assert parts["power"] == "unknown"


def test_the_model_block_has_what_the_runtime_tells() -> None:
    assert model_block(MODEL, "ollama 0.33") == {
        "runtime_version": "ollama 0.33",
        "model": "qwen3:8b",
        "model_digest": "sha256:abc",
        "quantisation": "Q4_K_M",
        "parameters": "8B",
        "size_bytes": 5,
    }
    assert model_block(None) == {}


@pytest.mark.parametrize(
    ("size", "vram", "fit", "observed"),
    [(100, 100, 100, "gpu"), (100, 60, 60, "gpu+cpu"), (100, 0, 0, "cpu")],
)
def test_ollamas_sizes_tell_how_much_fits(size: int, vram: int, fit: float, observed: str) -> None:
    result = placed(Placement("unknown", size, vram), gpu_present=True)
    assert (result.gpu_fit_pct, result.observed_device) == (fit, observed)


def test_a_model_in_the_memory_of_no_gpu_is_not_believed() -> None:
    result = placed(Placement("unknown", 99971235, 99971235), gpu_present=False)
    assert (result.gpu_fit_pct, result.observed_device) == (None, "unknown")
    assert result.cpu_fallback is None
    assert "no GPU is to be seen" in result.reason


@pytest.mark.parametrize(("size", "vram"), [(0, 0), (100, 200), (100, -1)])
def test_sizes_that_make_no_sense_are_no_placement(size: int, vram: int) -> None:
    result = placed(Placement("unknown", size, vram), gpu_present=True)
    assert result.gpu_fit_pct is None
    assert result.reason


@pytest.mark.parametrize(
    ("requested", "layers", "device", "gpu_present", "fallback"),
    [
        ("gpu", None, "cpu", True, True),
        ("cuda", None, "CPU", None, True),
        ("gpu", None, "CUDA0", True, False),
        ("", 99, "cpu", True, True),
        ("", 0, "cpu", True, False),
        ("cpu", None, "cpu", True, False),
        ("", None, "cpu", True, True),
        ("", None, "cpu", False, False),
        ("", None, "cpu", None, None),
        ("", -1, "gpu", True, False),
        ("gpu", None, "unknown", True, None),
        ("gpu", None, "", True, None),
    ],
)
def test_a_fallback_to_the_processors_is_known_or_unknown(
    requested: str,
    layers: int | None,
    device: str,
    gpu_present: bool | None,
    fallback: bool | None,
) -> None:
    result = placed(
        Placement(device), requested=requested, gpu_layers=layers, gpu_present=gpu_present
    )
    assert result.cpu_fallback is fallback


def test_an_engine_that_tells_nothing_is_unknown() -> None:
    result = placed(None)
    assert result.to_json() == {
        "requested_device": "auto",
        "observed_device": "unknown",
        "gpu_fit_pct": None,
        "cpu_fallback": None,
    }


def test_other_devices_keep_their_name() -> None:
    assert placed(Placement("NPU"), requested="npu").observed_device == "npu"
    assert placed(Placement("npu"), requested="npu").cpu_fallback is False


def test_a_baseline_without_a_gpu_is_a_reason(patient: Callable[..., Sampler]) -> None:
    sampler = patient(sensors=[])
    baseline = take_baseline(sampler)
    assert baseline.vram_baseline_mb is None
    assert "no GPU" in baseline.reason
    assert "vram_baseline_mb" not in baseline.to_json()
    report = sampler.window(Serving("own", (os.getpid(),))).open().close()
    assert "no GPU" in report.unmeasured["vram_model_mb"]


def test_a_baseline_of_a_remote_server_is_none_of_ours(patient: Callable[..., Sampler]) -> None:
    baseline = take_baseline(patient(), Serving("remote"))
    assert "another machine" in baseline.reason


def test_the_models_share_is_peak_minus_baseline() -> None:
    assert vram_model_mb(5000.0, Baseline(1000.0)) == 4000
    assert vram_model_mb(900.0, Baseline(1000.0)) == 0
    assert vram_model_mb(None, Baseline(1000.0)) is None
    assert vram_model_mb(5000.0, Baseline(None)) is None
    assert vram_model_mb(5000.0, None) is None


def test_the_check_names_every_sensor_once() -> None:
    found = sensors(serving=find_serving("", os.getpid()))
    names = [sensor.name for sensor in found]
    assert len(set(names)) == len(names)
    for sensor in found:
        assert bool(sensor.reading) == sensor.found, sensor
        assert sensor.found or sensor.missing, sensor
    server = next(s for s in found if s.name.startswith("serving process"))
    assert str(os.getpid()) in server.reading


def test_the_check_says_how_to_see_a_hidden_server() -> None:
    found = sensors(serving=Serving("unseen", (), "127.0.0.1:1", "in a container"))
    server = next(s for s in found if s.name.startswith("serving process"))
    assert not server.found
    assert server.missing == "in a container"
    assert server.remedy
