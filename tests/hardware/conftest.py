"""Machines to measure: real child processes, file trees, and a library that plays NVIDIA's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import Serving
from tests.hardware.hw_programs import DATA, PLAYGROUND, REPOSITORY, TWO_GPUS, Child


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a Python program that says a line when it is ready; it ends with the test."""
    running: list[Child] = []

    def begin(code: str, *arguments: str, **options: Any) -> Child:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        child = Child(process, "")
        running.append(child)
        child.first_line = child.next_line()
        return child

    yield begin
    for child in running:
        child.end()


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., Path]:
    """Write files below a root: ``plant({"sys/class/...": "text"})``."""

    def write(files: dict[str, str], root: Path | None = None) -> Path:
        root = tmp_path if root is None else root
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return write


@pytest.fixture
def patient() -> Iterator[Callable[..., Sampler]]:
    """Samplers that wait for their sensors, however busy the machine; closed with the test."""
    made: list[Sampler] = []

    def build(**options: Any) -> Sampler:
        sampler = Sampler(**{"interval_sec": 60, "sensor_wait_sec": 20, "probe_sec": 20} | options)
        made.append(sampler)
        return sampler

    yield build
    for sampler in made:
        sampler.close()


@pytest.fixture
def this_process() -> Serving:
    """A model that runs inside the test itself."""
    return Serving("own", (os.getpid(),))


@pytest.fixture
def threads() -> Callable[[], list[str]]:
    """The names of the sampler's threads that are alive and were not before the test."""
    # A driver that earlier tests made to hang lets its thread go when it lets it go.
    earlier = set(threading.enumerate())

    def names() -> list[str]:
        new = [thread for thread in threading.enumerate() if thread not in earlier]
        return [thread.name for thread in new if thread.name.startswith("benchrig-sampler")]

    return names


@pytest.fixture(scope="session")
def compiler() -> str:
    """A C compiler, which the tests of NVIDIA GPUs need."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return name
    pytest.skip("needs a C compiler (cc, gcc or clang) to build the library that plays NVML")


@pytest.fixture(scope="session")
def libraries(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with ``libnvidia-ml.so.1``: of a current driver and of an old one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the library that plays NVML is built for Linux")
    folders = {}
    for kind, flags in (("current", []), ("old", ["-DOLD_DRIVER"])):
        folder = tmp_path_factory.mktemp(f"nvml-{kind}")
        target = folder / "libnvidia-ml.so.1"
        source = DATA / "fake_nvml.c"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", *flags, "-o", str(target), str(source)],
            check=True,
        )
        folders[kind] = folder
    return folders


@pytest.fixture(scope="session")
def playgrounds(libraries: dict[str, Path]) -> Iterator[dict[str, Child]]:
    """For each driver a process that runs scripts with its library."""
    running = {}
    for kind, folder in libraries.items():
        process = subprocess.Popen(
            [sys.executable, "-c", PLAYGROUND],
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(folder),
                "PYTHONPATH": str(REPOSITORY),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running[kind] = Child(process, "")
    for child in running.values():
        assert child.next_line() == "ready"
    yield running
    for child in running.values():
        child.end()


@pytest.fixture
def nvidia(playgrounds: dict[str, Child], tmp_path: Path) -> Callable[..., Any]:
    """Run a script on a machine with two NVIDIA GPUs, through the real pynvml; what it printed.

    ``answers`` change or (with ``None``) remove what the GPUs say; the script may change it again
    with ``say(gpu0_power=...)``.
    """

    def run(
        script: str,
        answers: dict[str, object] | None = None,
        *,
        driver: str = "current",
        **variables: str,
    ) -> Any:
        path, output = tmp_path / "answers", tmp_path / "output"
        told = {k: v for k, v in (TWO_GPUS | (answers or {})).items() if v is not None}
        path.write_text("".join(f"{key} {value}\n" for key, value in told.items()))
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("CUDA_")
        }
        task = {
            "script": script,
            "output": str(output),
            "environment": {**environment, "FAKE_NVML": str(path), **variables},
        }
        child = playgrounds[driver]
        assert child.process.stdin is not None
        child.process.stdin.write(json.dumps(task) + "\n")
        child.process.stdin.flush()
        code = child.next_line()
        assert code == "0", output.read_text()
        return json.loads(output.read_text().splitlines()[-1])

    return run
