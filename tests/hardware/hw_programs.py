"""The programs that the tests measure, and what the GPUs of the tests say."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "hardware"
REPOSITORY = Path(__file__).parent.parent.parent

SERVER = """
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family)
server.bind((sys.argv[1], 0))
server.listen()
if all(os.fork() for _ in range(int(sys.argv[2]))):
    print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""

HOG = """
import sys, time
while True:
    start = time.process_time()
    while time.process_time() - start < float(sys.argv[1]):
        pass
    print("burned", flush=True)
"""


@dataclass
class Child:
    """A running program: what it said first, and how to hear more of it."""

    process: subprocess.Popen[str]
    first_line: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def next_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


PRELUDE = """
import json, os, sys
from pathlib import Path
from pytest_benchrig.hardware.nvidia import NvidiaSensor
from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving

def say(**changes):
    path = Path(os.environ["FAKE_NVML"])
    answers = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    for name, value in changes.items():
        name = name.replace("gpu0_", "gpu0.").replace("gpu1_", "gpu1.")
        answers[name] = str(value)
    new = path.with_suffix(".new")
    new.write_text("".join(f"{key} {value}\\n" for key, value in answers.items()))
    new.replace(path)

def sampler(**options):
    return Sampler(**{"interval_sec": 60, "sensor_wait_sec": 20, "probe_sec": 20,
                      "sensors": [NvidiaSensor()]} | options)

def own():
    return Serving("own", (os.getpid(),))

def show(value):
    print(json.dumps(value.to_json() if hasattr(value, "to_json") else value))
"""


def window(between: str = "") -> str:
    """A script that opens a window, runs ``between`` and shows the window's report."""
    return f"""
s = sampler()
window = s.window(own()).open()
{between}
show(window.close())
"""


GIB = 1024**3

TWO_GPUS: dict[str, object] = {
    "driver": "575.64",
    "count": 2,
    "gpu0.name": "NVIDIA Test 24",
    "gpu0.uuid": "GPU-aaaa1111-0000",
    "gpu0.memory_used": 4 * GIB,
    "gpu0.memory_total": 24 * GIB,
    "gpu0.util": 60,
    "gpu0.temperature": 61,
    "gpu0.power": 150_000,
    "gpu0.power_limit": 300_000,
    "gpu0.energy": 1_000_000,
    "gpu0.clock": 1800,
    "gpu0.memory_clock": 9000,
    "gpu0.throttle": 0,
    "gpu1.name": "NVIDIA Test 24",
    "gpu1.uuid": "GPU-bbbb2222-0000",
    "gpu1.memory_used": 1 * GIB,
    "gpu1.memory_total": 24 * GIB,
    "gpu1.util": 20,
    "gpu1.temperature": 45,
    "gpu1.power": 50_000,
    "gpu1.power_limit": 300_000,
    "gpu1.energy": 2_000_000,
    "gpu1.clock": 600,
    "gpu1.memory_clock": 9000,
    "gpu1.throttle": 1,
}

PLAYGROUND = (
    PRELUDE
    + """
import pynvml, traceback
import pytest_benchrig.hardware.baseline, pytest_benchrig.hardware.check
import pytest_benchrig.hardware.environment
print("ready", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(task["environment"])
        said = open(task["output"], "w")
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        code = 1
        try:
            exec(task["script"])
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
)
"""Runs each script in a fresh process that has all modules, but not NVML's library, loaded."""
