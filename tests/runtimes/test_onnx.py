"""ONNX Runtime GenAI in its worker: the real package where it is installed, else what it recorded.

The stand-in plays recorded tokens through the same API, so the worker, its wire and the runtime are
the real ones in both cases.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import Message, Placement, Request, RuntimeFault, Sampling
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes import onnx
from pytest_benchrig.runtimes.onnx import OnnxRuntime
from pytest_benchrig.runtimes.onnx_messages import body_of
from tests.runtimes.support import DATA

TINY = str(DATA / "onnx-tiny")
REAL = importlib.util.find_spec("onnxruntime_genai") is not None
needs_real = pytest.mark.skipif(
    not REAL, reason="onnxruntime-genai is not installed: only its recorded tokens are played"
)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OnnxRuntime]]:
    """``make()``: a runtime with the real package, ``make(played=True)``: with the stand-in."""
    opened: list[OnnxRuntime] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def start(model: str = TINY, *, played: bool = False) -> OnnxRuntime:
        if played:
            monkeypatch.syspath_prepend(str(DATA / "onnx-standin"))
            importlib.invalidate_caches()
        opened.append(OnnxRuntime(target_model=model))
        return opened[-1]

    yield start
    for runtime in opened:
        runtime.close()


@pytest.fixture(
    params=["played", pytest.param("real", marks=needs_real)],
)
def runtime(request: pytest.FixtureRequest, make: Callable[..., OnnxRuntime]) -> OnnxRuntime:
    """Once with recorded tokens, once with the real package and the random-weight folder."""
    return make(played=request.param == "played")


def ask(prompt: str = "hello", **changes: Any) -> Request:
    values: dict[str, Any] = {
        "messages": (Message("user", prompt),),
        "sampling": Sampling(temperature=0.0, num_predict=48),
        "timeout_sec": 60.0,
    }
    return Request(TINY, **{**values, **changes})


def test_tokens_stream_with_marks_and_counts(runtime: OnnxRuntime) -> None:
    request = ask()
    reply = runtime.generate(request)
    assert reply.text
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens == 48
    assert reply.usage.cached_prompt_tokens == 0
    assert reply.device == "cpu"
    marks = reply.marks
    stamps = [a.ns for a in marks.arrivals]
    assert stamps == sorted(stamps)
    assert marks.start_ns < stamps[0] <= stamps[-1] <= marks.end_ns
    counted = sum(a.tokens or 0 for a in marks.arrivals)
    assert 32 < counted <= 48, "only the bytes of unfinished characters may be missing"
    assert reply.engine_timings is not None
    assert reply.engine_timings.prompt_tokens == reply.usage.prompt_tokens
    assert not timings_of(reply, request).usage_estimated


def test_the_worker_is_a_process_of_its_own_and_ends(runtime: OnnxRuntime) -> None:
    assert runtime.server_pid() is None
    load_sec = runtime.load(TINY)
    assert load_sec is not None
    assert load_sec > 0
    assert runtime.load(TINY) is None
    pid = runtime.server_pid()
    assert pid is not None
    assert pid != os.getpid()
    assert runtime.placement(TINY) == Placement("cpu", runtime.describe(TINY).size_bytes)
    assert runtime.unload(TINY) is True
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert runtime.placement(TINY) == Placement()


def test_what_the_folder_tells(make: Callable[..., OnnxRuntime]) -> None:
    info = make().describe(TINY)
    assert (info.context_length, info.aliases) == (2048, ("onnx-tiny",))
    assert info.capabilities == frozenset({"completion"})
    assert info.size_bytes is not None
    assert 600_000 < info.size_bytes < 700_000
    assert [m.name for m in make().list_models()] == [TINY]


def test_a_prompt_larger_than_the_window_is_refused_with_both_counts(runtime: OnnxRuntime) -> None:
    with pytest.raises(RuntimeFault, match=r"the prompt has \d+ tokens, the window 2048") as fault:
        runtime.generate(ask("word " * 3000))
    assert fault.value.kind == "context_window"
    assert runtime.server_pid() is None or runtime.generate(ask()).text


def test_a_smaller_window_than_the_models_is_kept(runtime: OnnxRuntime) -> None:
    with pytest.raises(RuntimeFault, match="the window 16"):
        runtime.generate(ask("word " * 30, sampling=Sampling(num_ctx=16)))


def test_the_tokenizer_counts(runtime: OnnxRuntime) -> None:
    assert runtime.count_tokens(TINY, "The quick brown fox") == 4


def test_tools_are_refused(make: Callable[..., OnnxRuntime]) -> None:
    with pytest.raises(RuntimeFault, match="tools are not offered") as fault:
        make().generate(ask(tools=({"type": "function"},)))
    assert fault.value.kind == "unsupported"


class TestRecorded:
    """What can be seen only where the tokens are known."""

    def test_a_character_in_two_tokens_arrives_with_the_second(
        self, make: Callable[..., OnnxRuntime]
    ) -> None:
        reply = make(played=True).generate(ask())
        assert reply.text.startswith("dexO")
        assert "�" not in reply.text
        assert max(a.tokens or 0 for a in reply.marks.arrivals) > 1
        assert len(reply.marks.arrivals) < 48

    def test_an_end_token_means_stop_and_is_counted(self, make: Callable[..., OnnxRuntime]) -> None:
        reply = make(played=True).generate(ask("What is the capital of France?"))
        assert reply.finish_reason == "stop"
        assert reply.usage.completion_tokens == 23
        assert reply.usage.prompt_tokens == 37
        assert len(reply.marks.arrivals) == 22
        assert reply.text.rstrip().endswith(".")

    def test_the_budget_is_the_reason_where_there_was_no_end_token(
        self, make: Callable[..., OnnxRuntime]
    ) -> None:
        request = ask(
            "Explain in detail how rain forms.", sampling=Sampling(temperature=0.0, num_predict=16)
        )
        reply = make(played=True).generate(request)
        assert (reply.finish_reason, reply.usage.completion_tokens) == ("length", 16)

    @pytest.mark.parametrize(
        ("stop", "text"),
        [
            (("Paris",), "The capital of France is "),
            ((" of Fr",), "The capital"),
            (("capital of X", "France"), "The capital of "),
            (("T",), ""),
        ],
    )
    def test_stop_sequences_also_across_tokens(
        self, make: Callable[..., OnnxRuntime], stop: tuple[str, ...], text: str
    ) -> None:
        request = ask(
            "What is the capital of France?", sampling=Sampling(temperature=0.0, stop=stop)
        )
        reply = make(played=True).generate(request)
        assert reply.finish_reason == "stop"
        assert reply.text == text

    def test_a_worker_that_dies_is_a_fault_and_the_next_request_starts_another(
        self, make: Callable[..., OnnxRuntime]
    ) -> None:
        runtime = make(played=True)
        with pytest.raises(RuntimeFault, match=r"the worker died \(exit status 7\)") as fault:
            runtime.generate(ask("die"))
        assert (fault.value.kind, fault.value.phase) == ("broken_stream", "prefill")
        assert runtime.generate(ask()).text

    def test_a_late_worker_is_ended(self, make: Callable[..., OnnxRuntime]) -> None:
        runtime = make(played=True)
        runtime.load(TINY)
        with pytest.raises(RuntimeFault) as fault:
            runtime.generate(ask("hang", timeout_sec=0.2))
        assert (fault.value.kind, fault.value.phase) == ("timeout", "prefill")
        assert runtime.server_pid() is None

    def test_a_folder_without_a_template(self, make: Callable[..., OnnxRuntime]) -> None:
        with pytest.raises(RuntimeFault, match="no chat template that works") as fault:
            make(played=True).generate(ask("no template"))
        assert fault.value.kind == "unsupported"

    def test_a_model_that_does_not_load(
        self, make: Callable[..., OnnxRuntime], tmp_path: Path
    ) -> None:
        shutil.copy(Path(TINY) / "genai_config.json", tmp_path)
        with pytest.raises(RuntimeFault, match="Error opening") as fault:
            make(str(tmp_path), played=True).load(str(tmp_path))
        assert (fault.value.kind, fault.value.phase) == ("start", "load")


class TestReal:
    """What only the real package shows."""

    pytestmark = needs_real

    def test_the_whole_budget_is_used_when_asked(self, make: Callable[..., OnnxRuntime]) -> None:
        reply = make().generate(
            ask(ignore_eos=True, sampling=Sampling(temperature=0.9, seed=1, num_predict=200))
        )
        assert reply.usage.completion_tokens == 200

    def test_the_prefill_is_timed_apart(self, make: Callable[..., OnnxRuntime]) -> None:
        request = ask()
        timings = timings_of(make().generate(request), request)
        assert timings.prefill_provenance == "engine"
        assert timings.engine_eval_tok_per_sec is not None

    def test_stop_sequences(self, make: Callable[..., OnnxRuntime]) -> None:
        runtime = make()
        whole = runtime.generate(ask()).text
        stop = whole[9:13]
        sampling = Sampling(temperature=0.0, num_predict=48, stop=(stop,))
        assert runtime.generate(ask(sampling=sampling)).text == whole[: whole.index(stop)]

    def test_a_seed_repeats_the_reply(self, make: Callable[..., OnnxRuntime]) -> None:
        runtime = make()
        sampling = Sampling(temperature=0.9, seed=5, num_predict=30, top_k=40, top_p=0.9)
        replies = {runtime.generate(ask(sampling=sampling)).text for _ in range(3)}
        assert len(replies) == 1


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "is not there"),
        ("", "has no genai_config.json"),
    ],
)
def test_a_folder_that_is_none(
    make: Callable[..., OnnxRuntime], tmp_path: Path, folder: str, message: str
) -> None:
    path = str(tmp_path / folder)
    with pytest.raises(RuntimeFault, match=message) as fault:
        make(path).describe(path)
    assert fault.value.kind == "model_not_found"


def test_a_configuration_that_cannot_be_read(
    make: Callable[..., OnnxRuntime], tmp_path: Path
) -> None:
    (tmp_path / "genai_config.json").write_text("{")
    with pytest.raises(RuntimeFault, match="cannot be read"):
        make(str(tmp_path)).describe(str(tmp_path))


def test_a_missing_package_says_what_to_install(
    make: Callable[..., OnnxRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "package_folder", lambda name: None)
    with pytest.raises(RuntimeFault) as fault:
        make().load(TINY)
    assert fault.value.kind == "start"
    assert "pip install 'pytest-benchrig[onnx]'" in fault.value.remedy


def test_options_have_the_engines_names() -> None:
    sampling = Sampling(
        temperature=0.5, top_p=0.9, top_k=40, seed=3, repeat_penalty=1.1, extra={"num_beams": 1}
    )
    assert body_of(ask(sampling=sampling))["options"] == {
        "do_sample": True,
        "repetition_penalty": 1.1,
        "temperature": 0.5,
        "top_k": 40,
        "top_p": 0.9,
        "random_seed": 3,
        "num_beams": 1,
    }
    assert body_of(ask(sampling=Sampling(temperature=0.0, seed=3, top_k=1)))["options"] == {
        "do_sample": False
    }
