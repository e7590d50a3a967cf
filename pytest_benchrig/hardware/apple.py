"""Apple Silicon: unified memory and GPU, by the commands that every user may run.

``ioreg -r -d 1 -w 0 -c IOAccelerator`` prints the GPU driver's PerformanceStatistics, ``sysctl``
the machine's sizes, ``vm_stat`` the paging counters, ``pmset -g therm`` the speed limit. Starting a
program costs a millisecond of the harness, so it is done when a window opens and every five seconds
of a long one, never per sample. Power cannot be read without root (powermetrics).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_benchrig.hardware.readings import MIB, GpuProcess, GpuReading, SensorError, SlowReading

Run = Callable[[Sequence[str]], str]

IOREG = ("ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
SYSCTL = (
    "sysctl",
    "hw.memsize",
    "machdep.cpu.brand_string",
    "iogpu.wired_limit_mb",
)
VM_STAT = ("vm_stat",)
THERM = ("pmset", "-g", "therm")

_NO_POWER = "macOS tells power to root only (powermetrics)"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU of ``ioreg``: what its driver says of itself."""

    name: str
    util_pct: float | None
    memory_used_mb: float | None


def run_command(command: Sequence[str]) -> str:
    """The output of a command.

    Raises:
        SensorError: It is not there, fails, or takes longer than five seconds.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=5, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise SensorError(f"{command[0]}: {problem}") from None
    # sysctl fails when one of several names is unknown, and prints the others all the same.
    if done.returncode != 0 and not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip()[:200]
        raise SensorError(f"{' '.join(command)}: exit status {done.returncode}: {said}")
    return done.stdout.decode("utf-8", "replace")


def parse_ioreg(text: str) -> tuple[Accelerator, ...]:
    """The GPUs in the output of ``ioreg -c IOAccelerator``."""
    found = []
    for block in re.split(r"(?m)^\+-o ", text)[1:]:
        statistics = re.search(r'"PerformanceStatistics" = \{(.*?)\}', block)
        if statistics is None:
            continue
        values = {
            key: float(number)
            for key, number in re.findall(r'"([^"]+)"\s*=\s*(\d+)', statistics.group(1))
        }
        model = re.search(r'"model" = (?:<)?"([^"]+)"', block)
        memory = values.get("In use system memory")
        found.append(
            Accelerator(
                model.group(1) if model else block.split(None, 1)[0],
                values.get("Device Utilization %"),
                None if memory is None else memory / MIB,
            )
        )
    return tuple(found)


def parse_sysctl(text: str) -> dict[str, str]:
    """``name: value`` lines by name."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def parse_vm_stat(text: str) -> dict[str, float]:
    """The counters of ``vm_stat`` in MiB by their name there.

    Raises:
        SensorError: The page size is missing.
    """
    size = re.search(r"page size of (\d+) bytes", text)
    if size is None:
        raise SensorError(f"vm_stat: {text[:60]!r} has no page size")
    page = int(size.group(1))
    return {
        name.strip().strip('"'): int(count) * page / MIB
        for name, count in re.findall(r"(?m)^([^:\n]+):\s+(\d+)\.?\s*$", text)
    }


def parse_therm(text: str) -> float | None:
    """The processors' speed limit in percent; ``None`` where none was ever recorded."""
    found = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", text)
    return float(found.group(1)) if found else None


class AppleSensor:
    """The GPU of an Apple Silicon Mac, whose memory is the machine's."""

    name = "apple"
    cadence_sec = 5.0

    def __init__(self, run: Run = run_command) -> None:
        self._run = run
        self._total_mb: float | None = None
        self._missing = {"power_w": _NO_POWER, "energy_j": _NO_POWER}

    def probe(self) -> None:
        """See whether ioreg knows a GPU, and how much memory it may use.

        Raises:
            SensorError: This is no Mac, or its GPU says nothing.
        """
        if not parse_ioreg(self._run(IOREG)):
            raise SensorError("ioreg: no GPU with PerformanceStatistics")
        sizes = parse_sysctl(self._run(SYSCTL))
        # Without a limit set, Metal recommends about two thirds to three quarters of the memory;
        # that is no documented figure, so the whole is the total.
        limit = float(sizes.get("iogpu.wired_limit_mb", "0") or 0)
        memory = float(sizes.get("hw.memsize", "0") or 0) / MIB
        self._total_mb = limit or memory or None

    def read(self) -> SlowReading:
        """Use of the GPU and the memory it holds."""
        missing = dict(self._missing)
        limit = parse_therm(self._run(THERM))
        paging = parse_vm_stat(self._run(VM_STAT))
        swapped = None
        if "Swapins" in paging and "Swapouts" in paging:
            swapped = paging["Swapins"] + paging["Swapouts"]
        throttles = None if limit is None else (("speed limit",) if limit < 100 else ())
        if limit is None:
            missing["throttles"] = "pmset has recorded no speed limit"
        return SlowReading(
            gpus=tuple(
                GpuReading(
                    key=f"gpu{number}",
                    name=gpu.name,
                    memory_used_mb=gpu.memory_used_mb,
                    memory_total_mb=self._total_mb,
                    util_pct=gpu.util_pct,
                    throttles=throttles,
                    missing=missing,
                )
                for number, gpu in enumerate(parse_ioreg(self._run(IOREG)))
            ),
            swapped_mb=swapped,
        )

    def processes(self) -> tuple[GpuProcess, ...]:
        """Nobody tells.

        Raises:
            SensorError: Always: macOS does not list them to users.
        """
        raise SensorError("macOS does not list the processes on the GPU")

    def details(self) -> list[dict[str, object]]:
        """Name and memory."""
        return [
            {"name": gpu.name, "index": number, "memory_total_mb": self._total_mb}
            for number, gpu in enumerate(parse_ioreg(self._run(IOREG)))
        ]
