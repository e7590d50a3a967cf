"""Stored replies instead of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import Message, Request, RuntimeFault, Sampling
from pytest_benchrig.core.journal import header_line, record_line
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes.registry import connect
from pytest_benchrig.runtimes.replay import ReplayRuntime

TARGET = "ollama:qwen3"


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "task_id": "sum",
        "suite": "reasoning",
        "kind": "answer",
        "target": TARGET,
        "runtime": "ollama",
        "model": "qwen3",
        "prompt": "What is 2+3?",
        "response": "Final answer: 5",
        "finish_reason": "stop",
        "options": {"seed": 42},
        "prompt_tokens_actual": 12,
        "completion_tokens": 9,
        "ttft_sec": 0.25,
        "answer_ttft_sec": 0.25,
        "eval_tok_per_sec": 40.0,
        "total_time_sec": 0.5,
    }
    return Record(**{**values, **changes})


def replay(*records: Record, **known: str) -> ReplayRuntime:
    return ReplayRuntime([r.to_json() for r in records], source="run.json", **known)


def ask(prompt: str = "What is 2+3?", system: str = "", **changes: Any) -> Request:
    messages = [Message("system", system)] if system else []
    return Request("run.json", (*messages, Message("user", prompt)), **changes)


def test_a_reply_comes_back_with_its_timings() -> None:
    request = ask()
    reply = replay(record()).generate(request)
    assert reply.text == "Final answer: 5"
    assert reply.finish_reason == "stop"
    timings = timings_of(reply, request)
    assert timings.ttft_sec == 0.25
    assert timings.eval_tok_per_sec == pytest.approx(40.0)
    assert timings.total_time_sec == 0.5
    assert timings.itl_p50_ms is None
    assert "replayed from run.json: timings as recorded there" in reply.notes


def test_a_traces_times_come_back_too() -> None:
    stored = record(thinking="2+3 is 5", answer_ttft_sec=0.4)
    reply = replay(stored).generate(ask())
    timings = timings_of(reply, ask())
    assert (timings.ttft_sec, timings.answer_ttft_sec) == (0.25, 0.4)
    assert timings.eval_tok_per_sec == pytest.approx(40.0)
    never = replay(record(thinking="hm", response="", answer_ttft_sec=None)).generate(ask())
    assert {a.kind for a in never.marks.arrivals} == {"thinking"}


def test_the_marker_does_not_count() -> None:
    runtime = replay(record(), record(task_id="b", system="Be brief.", prompt="Hi", response="Hey"))
    marked = ask("[abc-1]\nWhat is 2+3?", marker="[abc-1]\n")
    assert runtime.generate(marked).text == "Final answer: 5"
    assert runtime.generate(ask("Hi", "[m]\nBe brief.", marker="[m]\n")).text == "Hey"


def test_runs_are_told_apart_by_seed_or_by_order() -> None:
    runs = [record(run_index=i, response=f"run {i}", options={"seed": 42 + i}) for i in (1, 0, 2)]
    runtime = replay(*runs)
    assert runtime.generate(ask(sampling=Sampling(seed=44))).text == "run 2"
    assert runtime.generate(ask(sampling=Sampling(seed=42))).text == "run 0"
    in_order = [runtime.generate(ask()).text for _ in range(3)]
    assert in_order == ["run 0", "run 1", "run 2"]
    with pytest.raises(RuntimeFault, match="once more"):
        runtime.generate(ask())


def test_a_prompt_that_was_not_asked_is_a_fault() -> None:
    with pytest.raises(RuntimeFault, match="no reply is stored to the prompt 'What is 2") as fault:
        replay(record()).generate(ask("What is 2+4?"))
    assert (fault.value.kind, fault.value.phase) == ("http", "replay")


def test_looking_up_by_scenario() -> None:
    runtime = replay(record(), record(run_index=1, response="again", attempt=1))
    found = runtime.lookup("reasoning", "sum", TARGET, 1, prompt="What is 2+3?", system="")
    assert found.text == "again"
    with pytest.raises(RuntimeFault, match="no longer matches: stored 'What is 2"):
        runtime.lookup("reasoning", "sum", TARGET, 0, prompt="What is 2+4?")
    with pytest.raises(RuntimeFault, match="the system message of reasoning/sum"):
        runtime.lookup("reasoning", "sum", TARGET, 0, system="Be brief.")
    for missing in (
        ("coding", "sum", TARGET, 0),
        ("reasoning", "sum", TARGET, 2),
        ("reasoning", "sum", "ollama:other", 0),
    ):
        with pytest.raises(RuntimeFault, match="no reply is stored to"):
            runtime.lookup(*missing)


def test_the_last_attempt_counts() -> None:
    runtime = replay(record(attempt=2, response="second"), record(attempt=1, response="first"))
    assert runtime.lookup("reasoning", "sum", TARGET, 0).text == "second"


def test_what_had_failed_fails_again() -> None:
    stored = record(outcome="error", error="stall: no token for 60 s", error_kind="stall")
    with pytest.raises(RuntimeFault, match="had failed: stall") as fault:
        replay(stored).generate(ask())
    assert fault.value.kind == "stall"


def test_conversations_with_tools_are_left_to_the_option() -> None:
    with pytest.raises(RuntimeFault, match="--benchrig-replay") as fault:
        replay(record()).generate(ask(tools=({},)))
    assert fault.value.kind == "unsupported"


def test_several_targets_have_to_be_told_apart() -> None:
    both = (record(), record(target="vllm:qwen3", response="other"))
    with pytest.raises(RuntimeFault, match="it holds 2 targets: ollama:qwen3, vllm:qwen3"):
        replay(*both)
    assert replay(*both, target="vllm:qwen3").generate(ask()).text == "other"
    with pytest.raises(RuntimeFault, match="did you mean vllm:qwen3"):
        replay(*both, target="vllm:qwen")
    with pytest.raises(RuntimeFault, match="it holds no record"):
        replay()


def test_a_journal_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(header_line({}) + record_line(record()) + record_line(record(target="a:b")))
    runtime = connect("replay", f"{path}#{TARGET}")
    assert runtime.generate(ask()).text == "Final answer: 5"
    assert runtime.describe("x").name == "x"
    assert (runtime.base_url, runtime.server_pid(), runtime.load("x")) == ("", None, None)


@pytest.mark.parametrize(
    ("text", "message"), [(None, "No such file"), ("hello", "cannot be replayed")]
)
def test_what_is_no_run_file(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RuntimeFault, match=message) as fault:
        connect("replay", str(path))
    assert fault.value.kind == "model_not_found"
