"""Which GPUs count: CUDA_VISIBLE_DEVICES of the server and of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.hardware.nvidia import Device, visible_devices
from tests.hardware.hw_programs import window

Nvidia = Callable[..., Any]

GPUS = tuple(Device(i, "NVIDIA Test", f"GPU-{i}{i}{i}{i}-0000", None) for i in range(4))


@pytest.mark.parametrize(
    ("visible", "keys"),
    [
        ("1", ["gpu1"]),
        ("1,0", ["gpu1", "gpu0"]),
        ("GPU-bbbb2222-0000", ["gpu1"]),
        ("GPU-aaaa", ["gpu0"]),
        ("0,7,1", ["gpu0"]),
        ("0,0", ["gpu0"]),
    ],
)
def test_only_visible_gpus_count(nvidia: Nvidia, visible: str, keys: list[str]) -> None:
    seen = nvidia(window(), CUDA_VISIBLE_DEVICES=visible)
    assert [gpu["gpu"] for gpu in seen["gpus"]] == keys
    assert seen["peak_vram_mb"] == sum({"gpu0": 4096, "gpu1": 1024}[key] for key in keys)


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_no_visible_gpu_is_said(nvidia: Nvidia, visible: str) -> None:
    seen = nvidia(window(), CUDA_VISIBLE_DEVICES=visible)
    assert "peak_vram_mb" not in seen
    assert "CUDA_VISIBLE_DEVICES" in seen["unmeasured"]["peak_vram_mb"]


def test_the_servers_own_choice_of_gpus_wins(nvidia: Nvidia) -> None:
    seen = nvidia(
        """
s = sampler()
show(s.window(Serving("own", (os.getpid(),), visible_devices="1")).open().close())
"""
    )
    assert [gpu["gpu"] for gpu in seen["gpus"]] == ["gpu1"]


def test_a_server_that_chooses_nothing_is_not_held_to_the_choice_of_the_one_before(
    nvidia: Nvidia,
) -> None:
    seen = nvidia(
        """
s = sampler()
s.window(Serving("own", (os.getpid(),), visible_devices="1")).open().close()
show(s.window(own()).open().close())
"""
    )
    assert [gpu["gpu"] for gpu in seen["gpus"]] == ["gpu0", "gpu1"]


def test_a_server_without_the_variable_has_all_gpus_whatever_this_process_hides(
    nvidia: Nvidia,
) -> None:
    seen = nvidia(
        """
import subprocess
from pytest_benchrig.hardware.serving import find_serving
server = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"PATH": os.environ["PATH"]})
show(sampler().window(find_serving("", server.pid)).open().close())
server.kill()
""",
        CUDA_VISIBLE_DEVICES="0",
    )
    assert [gpu["gpu"] for gpu in seen["gpus"]] == ["gpu0", "gpu1"]


def test_unlike_gpus_chosen_by_number_get_a_warning(nvidia: Nvidia) -> None:
    seen = nvidia(window(), {"gpu1.name": "NVIDIA Other"}, CUDA_VISIBLE_DEVICES="0")
    assert any("CUDA_DEVICE_ORDER" in note for note in seen["notes"])
    sure = nvidia(
        window(),
        {"gpu1.name": "NVIDIA Other"},
        CUDA_VISIBLE_DEVICES="0",
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
    )
    assert not any("CUDA_DEVICE_ORDER" in note for note in sure.get("notes", []))


@given(st.lists(st.integers(0, 3), unique=True))
def test_every_choice_of_gpus_is_shown_in_its_order(chosen: list[int]) -> None:
    by_number, _ = visible_devices(GPUS, ",".join(map(str, chosen)))
    by_uuid, _ = visible_devices(GPUS, ",".join(GPUS[i].uuid for i in chosen))
    assert [d.index for d in by_number] == [d.index for d in by_uuid] == chosen


@given(st.text())
def test_no_value_of_the_variable_breaks_the_choice(value: str) -> None:
    shown, _ = visible_devices(GPUS, value)
    assert set(shown) <= set(GPUS)


def test_an_ambiguous_uuid_shows_nothing() -> None:
    twins = (Device(0, "a", "GPU-1234-a", None), Device(1, "a", "GPU-1234-b", None))
    assert visible_devices(twins, "GPU-1234")[0] == ()
