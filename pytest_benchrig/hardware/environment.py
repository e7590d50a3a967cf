"""The machine and the software of a run, and what of it makes two runs comparable."""

from __future__ import annotations

import functools
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_benchrig.core.generation import JsonValue, ModelInfo
from pytest_benchrig.hardware.amd import AmdSensor
from pytest_benchrig.hardware.apple import AppleSensor
from pytest_benchrig.hardware.cpu import BatterySensor
from pytest_benchrig.hardware.files import listing, read_text, under
from pytest_benchrig.hardware.host import open_host
from pytest_benchrig.hardware.nvidia import NvidiaSensor
from pytest_benchrig.hardware.readings import SensorError
from pytest_benchrig.hardware.sensor import bounded

PACKAGES = (
    "pytest-benchrig",
    "pytest",
    "pytest-xdist",
    "pytest-timeout",
    "requests",
    "psutil",
    "nvidia-ml-py",
    "xllamacpp",
    "onnxruntime",
    "onnxruntime-genai",
)

UNKNOWN = "unknown"


def environment(root: str = "/", *, within_sec: float = 3.0) -> dict[str, JsonValue]:
    """The environment block of a run file; what could not be read stands under ``unmeasured``.

    Nothing that names a person or a machine is in it: no host name, no user, no serial number.

    Args:
        root: Where /proc and /sys lie.
        within_sec: The longest wait for GPUs and battery, each.
    """
    missing: dict[str, str] = {}
    block: dict[str, JsonValue] = {
        "cpu_model": _cpu_model(root),
        "cpu_cores_logical": os.cpu_count(),
        "cpu_cores_physical": _physical_cores(root),
        "cpu_quota_cores": _cpu_quota(root),
        "cpu_governor": _governor(root),
        "ram_mb": _ram_mb(root, missing),
        "os": _os_name(root),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "virtual_machine": _virtual(root),
        "container": _container(root),
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "packages": package_versions(PACKAGES),
    }
    block["gpus"], block["gpu_driver"] = _gpus(root, within_sec, missing)
    block["on_battery"] = _on_battery(root, within_sec, missing)
    result = {key: value for key, value in block.items() if value not in (None, "")}
    if missing:
        result["unmeasured"] = missing
    return result


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the installed ones of these distributions."""
    found = ((name, _version(name)) for name in names)
    return {name: version for name, version in found if version is not None}


@functools.cache
def _version(name: str) -> str | None:
    """A distribution's version, read once: a run asks three times, and each parses the metadata."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None  # not installed


def model_block(info: ModelInfo | None, runtime_version: str = "") -> dict[str, JsonValue]:
    """What the runtime tells of itself and of the model; what it does not tell is left out."""
    block: dict[str, JsonValue] = {"runtime_version": runtime_version}
    if info is not None:
        block |= {
            "model": info.name,
            "model_digest": info.digest,
            "quantisation": info.quantisation,
            "parameters": info.parameters,
            "size_bytes": info.size_bytes,
            "context_length": info.context_length,
        }
    return {key: value for key, value in block.items() if value not in (None, "")}


def fingerprint(
    environment: Mapping[str, Any],
    runtime_version: str = "",
    model_info: ModelInfo | None = None,
    *,
    observed_device: str = "",
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The named parts of what makes two runs comparable, each as text; ``unknown`` if not told.

    Two runs can be compared where all parts are equal. A Python patch level, the harness's own
    version or the name of the operating system's build change no timing and are no part of it.

    Args:
        environment: The block of :func:`environment`.
        runtime_version: As the server says it.
        model_info: As the server describes the model.
        observed_device: Where the model was seen to run.
        extra: Further parts (options that every request had).
    """
    ram = environment.get("ram_mb")
    power = environment.get("on_battery")
    info = model_info
    parts = {
        "cpu": environment.get("cpu_model"),
        "cores": environment.get("cpu_cores_logical"),
        "cpu_quota": environment.get("cpu_quota_cores", "none"),
        # Firmware and kernel keep some of it for themselves, and not always the same.
        "ram": f"{math.ceil(ram / 1024)} GiB" if isinstance(ram, int | float) else None,
        "gpus": _gpu_names(environment.get("gpus")),
        "gpu_driver": environment.get("gpu_driver", "none"),
        "os": environment.get("os"),
        "kernel": ".".join(str(environment.get("kernel", "")).split(".")[:2]),
        "architecture": environment.get("architecture"),
        "power": None if power is None else ("battery" if power else "mains"),
        "runtime_version": runtime_version,
        "model": info.name if info else None,
        "model_digest": info.digest if info else None,
        "quantisation": info.quantisation if info else None,
        "parameters": info.parameters if info else None,
        "device": observed_device,
    }
    # A machine without a battery runs on mains.
    if power is None and "no battery" in str(environment.get("unmeasured", {}).get("on_battery")):
        parts["power"] = "mains"
    parts |= dict(extra or {})
    return {name: UNKNOWN if value in (None, "") else str(value) for name, value in parts.items()}


def _gpu_names(gpus: object) -> str | None:
    if not isinstance(gpus, list):
        return "none"
    names = [
        f"{gpu.get('name')} {gpu.get('memory_total_mb', '?')} MiB {gpu.get('power_limit_w', '?')} W"
        for gpu in gpus
    ]
    return ", ".join(names) or "none"


def _gpus(
    root: str, within_sec: float, missing: dict[str, str]
) -> tuple[list[dict[str, object]] | None, str | None]:
    sensors: list[NvidiaSensor | AmdSensor | AppleSensor] = [NvidiaSensor()]
    if sys.platform == "darwin":
        sensors.append(AppleSensor())
    elif sys.platform != "win32":
        sensors.append(AmdSensor(root))
    found: list[dict[str, object]] = []
    driver = None
    reasons = []
    for sensor in sensors:

        def details(
            sensor: NvidiaSensor | AmdSensor | AppleSensor = sensor,
        ) -> list[dict[str, object]]:
            sensor.probe()
            return sensor.details()

        try:
            found += bounded(sensor.name, details, within_sec)
        except SensorError as problem:
            reasons.append(problem.reason)
            continue
        if isinstance(sensor, NvidiaSensor):
            driver = sensor.driver
    if not found:
        missing["gpus"] = "; ".join(reasons)
        return None, None
    return found, driver


def _on_battery(root: str, within_sec: float, missing: dict[str, str]) -> bool | None:
    if sys.platform in ("darwin", "win32"):
        import psutil

        state = psutil.sensors_battery()
        if state is None:
            missing["on_battery"] = "no battery"
        return None if state is None else state.power_plugged is False
    sensor = BatterySensor(root)

    def read() -> bool | None:
        sensor.probe()
        battery = sensor.read().battery
        return None if battery is None else battery.discharging

    try:
        return bounded(sensor.name, read, within_sec)
    except SensorError as problem:
        missing["on_battery"] = problem.reason
        return None


def _ram_mb(root: str, missing: dict[str, str]) -> float | None:
    try:
        host = open_host(root)
        try:
            return round(host.memory().total_mb, 1)
        finally:
            host.close()
    except OSError as problem:
        missing["ram_mb"] = str(problem)
        return None


def _cpu_model(root: str) -> str:
    """The processor's name: /proc/cpuinfo, on Macs sysctl, else what Python knows."""
    text = _text(under(root, "proc/cpuinfo"))
    for key in ("model name", "Model", "cpu model", "Hardware", "Processor"):
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return value.strip()
    if sys.platform == "darwin":
        from pytest_benchrig.hardware.apple import SYSCTL, parse_sysctl, run_command

        try:
            return parse_sysctl(run_command(SYSCTL)).get("machdep.cpu.brand_string", "")
        except SensorError:
            return platform.processor()
    return platform.processor() or platform.machine()


def _physical_cores(root: str) -> int | None:
    if Path(under(root, "proc/cpuinfo")).exists():
        cores = set()
        package = ""
        for line in _text(under(root, "proc/cpuinfo")).splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "physical id":
                package = value.strip()
            elif name.strip() == "core id":
                cores.add((package, value.strip()))
        return len(cores) or None
    try:
        import psutil
    except ImportError:
        return None
    return psutil.cpu_count(logical=False)


def _cpu_quota(root: str) -> float | None:
    """Cores that the control group allows, where it limits them (cgroup v2, then v1)."""
    quota, _, period = _text(under(root, "sys/fs/cgroup/cpu.max")).partition(" ")
    if not quota:
        quota = _text(under(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = _text(under(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us"))
    try:
        cores = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):
        return None  # "max": no limit
    return round(cores, 3) if cores > 0 else None


def _governor(root: str) -> str:
    cores = Path(under(root, "sys/devices/system/cpu"))
    found = {
        text
        for core in listing(cores)
        if core.name.startswith("cpu")
        and (text := _text(core / "cpufreq" / "scaling_governor")) != ""
    }
    return ", ".join(sorted(found))


def _os_name(root: str) -> str:
    for line in _text(under(root, "etc/os-release")).splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return f"{platform.system()} {platform.version()}".strip()


def _virtual(root: str) -> str:
    """``wsl`` or ``yes`` on a virtual machine, else nothing."""
    if "microsoft" in _text(under(root, "proc/version")).lower():
        return "wsl"
    flags = _text(under(root, "proc/cpuinfo"))
    return "yes" if " hypervisor" in flags else ""


def _container(root: str) -> str:
    for path, name in (
        (".dockerenv", "docker"),
        ("run/.containerenv", "podman"),
        ("var/run/secrets/kubernetes.io", "kubernetes"),
    ):
        if Path(under(root, path)).exists():
            return name
    return ""


def _text(path: str | Path) -> str:
    try:
        return read_text(path)
    except SensorError:
        return ""


__all__ = ["PACKAGES", "environment", "fingerprint", "model_block", "package_versions"]
