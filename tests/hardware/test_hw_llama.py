"""A real llama.cpp server: found from its endpoint, its memory and load told."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchrig.hardware.sampler import Sampler
from pytest_benchrig.hardware.serving import find_serving
from pytest_benchrig.runtimes.engine_process import ENGINE_ENVIRONMENT
from pytest_benchrig.runtimes.models import locate_model
from tests.hardware.hw_programs import Child

LLAMA = """
import sys
import xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.model_alias = "smollm2"
p.n_ctx = 1024
p.cpuparams.n_threads = 2
p.port = 0
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def llama(start: Callable[..., Child]) -> Child:
    """The engine with the model that the plugin has installed, cached, or fetches now."""
    if not importlib.util.find_spec("xllamacpp"):
        pytest.skip("the extra 'embedded' is not installed")
    model = locate_model("smollm2-135m")
    return start(LLAMA, str(model), env={**os.environ, **ENGINE_ENVIRONMENT}, stderr=-3)


def memory_kb(pid: int, line: str) -> int:
    for row in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if row.startswith(line):
            return int(row.split()[1])
    raise AssertionError(f"{line} is not in smaps_rollup")


def test_memory_and_load_of_a_real_engine(llama: Child, patient: Callable[..., Sampler]) -> None:
    address = llama.first_line.removeprefix("http://")
    serving = find_serving(f"http://{address}/v1")
    assert (serving.kind, serving.pids) == ("found", (llama.pid,))
    host, _, port = address.rpartition(":")
    with patient(interval_sec=0.05, sensors=[]) as sampler:
        window = sampler.window(serving).open()
        connection = http.client.HTTPConnection(host, int(port), timeout=120)
        body = {"messages": [{"role": "user", "content": "Count to ten."}], "max_tokens": 24}
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        reply = json.loads(connection.getresponse().read())
        report = window.close()
        connection.close()
    assert reply["usage"]["completion_tokens"] > 0
    assert report.rss_coverage == "client_and_server"
    assert report.server_rss_mb is not None
    told = memory_kb(llama.pid, "Rss:") / 1024
    assert report.server_rss_mb == pytest.approx(told, rel=0.02)
    assert report.serving_cpu_share is not None
    assert report.serving_cpu_share > 0.05
    assert report.memory_growth_source == "server_rss"
    assert report.memory_growth_mb is not None
    assert report.memory_growth_mb >= 0
