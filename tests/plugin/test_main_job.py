"""The main job on the real engine: llama.cpp with SmolLM2-135M, started by the plugin."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.plugin.support import Project

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="the extra 'embedded' is not installed"
)
MODEL = "embedded:smollm2-135m"
SCENARIOS: list[dict[str, Any]] = [
    {
        "id": "count",
        "kind": "speed",
        "prompt": "Count from one to twenty in words.",
        "options": {"num_predict": 48, "temperature": 0.0},
    },
    {
        "id": "needle",
        "context_size": 512,
        "needle": "The code of the locker is 7316.",
        "instruction": "What is the code of the locker? Answer with the number only.",
        "expected": "7316",
    },
]


@pytest.fixture
def real(project: Project, request: pytest.FixtureRequest) -> Project:
    """A project whose scenarios are answered by the real engine; the fetched model is shared."""
    project.url = ""
    project.write("scenarios/reasoning.json", "[]")
    project.write("scenarios/mixed.json", {"suite": "mixed", "scenarios": SCENARIOS})
    return project


def engines() -> set[int]:
    return {
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if any("engine_child" in word for word in p.info["cmdline"] or [])
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [0, 2], ids=["alone", "xdist"])
def test_the_engine_starts_answers_and_ends(real: Project, workers: int) -> None:
    before = engines()

    result = real.run(workers=workers, model=MODEL)

    result.assert_outcomes(passed=2)
    run = real.results()
    records = {r["task_id"]: r for r in run["records"]}
    speed = records["count"]
    assert speed["completion_tokens"] == 48
    assert speed["ttft_sec"] > 0
    assert speed["prompt_tok_per_sec"] > 0
    assert speed["prefill_provenance"] == "engine"
    assert speed["cached_prompt_tokens"] == 0
    assert speed["eval_tok_per_sec"] == pytest.approx(speed["engine_eval_tok_per_sec"], rel=0.1)
    assert speed["hardware"]["rss_coverage"] == "client_and_server"
    assert speed["hardware"]["server_rss_mb"] > 100
    assert records["needle"]["retrieved"] is True
    assert 300 <= records["needle"]["prompt_tokens_actual"] <= 512
    assert not speed["concurrent"]
    facts = run["run"]["models"][MODEL]
    assert facts["quantisation"] == "Q4_1"
    assert engines() <= before, "the engine ends with the session"


@pytest.mark.timeout(300)
def test_a_window_that_the_engine_refuses_is_a_finding(real: Project) -> None:
    step = {**SCENARIOS[1], "id": "too_long", "context_size": 4096}
    real.write("scenarios/mixed.json", {"suite": "mixed", "scenarios": [step]})

    result = real.run("-o", "benchrig_embedded_context=1024", model=MODEL)

    result.assert_outcomes(failed=1)
    record = real.results()["records"][-1]
    assert record["outcome"] == "failed"
    assert record["error_kind"] == "context_window"
    assert "1024" in record["detail"]


def test_a_model_that_cannot_be_fetched_is_one_clear_error(real: Project) -> None:
    result = real.run(model="embedded:no-such-model")

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*no-such-model*smollm2-135m*"])


def test_a_gguf_file_that_is_none_is_one_clear_error(real: Project) -> None:
    real.write("broken.gguf", "this is not a model")

    result = real.run(model=f"embedded:{Path(os.curdir) / 'broken.gguf'}")

    result.assert_outcomes(errors=2)
    assert "Traceback" not in result.stdout.str()
