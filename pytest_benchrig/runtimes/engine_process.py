"""Starting and ending the embedded llama.cpp engine: a process of its own, never orphaned."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_benchrig.core.generation import FaultKind, JsonValue, RuntimeFault
from pytest_benchrig.runtimes.children import ChildProcess, log_tail, open_log, package_folder
from pytest_benchrig.runtimes.faults import ServerError, kind_of_error
from pytest_benchrig.runtimes.http import Endpoint, HttpClient
from pytest_benchrig.runtimes.models import Progress, locate_model, model_alias

ENGINE_ENVIRONMENT: Mapping[str, str] = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "2000"}
"""ggml's OpenMP barrier spins: without these, one busy process beside the engine cuts decoding to
a tenth (measured on two cores: 83 to 7 tokens a second; with them 27)."""

START_TIMEOUT_SEC = 300.0
_HEALTH_POLL_SEC = 0.05
_LISTENS_SEC = 1.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How to start the engine.

    Attributes:
        threads: Of computation; ``None`` lets the engine take the physical cores, or as many as
            this process may use where those are fewer.
        slots: Requests served at the same time.
        context: Window of each slot, in tokens.
    """

    threads: int | None = None
    slots: int = 1
    context: int = 8192


@dataclass(frozen=True, slots=True)
class EngineHandle:
    """A started engine. The fields cross to workers; only the process that started it can stop it.

    Attributes:
        url: Where it answers.
        pid: Of the serving process.
        log_path: Its log.
        model_alias: The name under which it serves the model.
        context: Window of each slot as the engine gives it: never above the model's own.
        load_sec: Seconds to load the model.
    """

    url: str
    pid: int
    log_path: str
    model_alias: str
    context: int
    load_sec: float
    process: EngineProcess | None = field(default=None, repr=False, compare=False)

    def stop(self) -> None:
        """End the engine, where this process started it."""
        if self.process is not None:
            self.process.stop()

    def ended(self, wait_sec: float = 0.0) -> str:
        """How the process ended, "" while it runs or where another process started it."""
        return self.process.ended(wait_sec) if self.process is not None else ""

    def wait(self) -> None:
        """Until the process ends, where this process started it."""
        if self.process is not None:
            self.process.wait()

    def restart(self, settings: EngineSettings) -> EngineHandle:
        """End it and start it again, with a larger window for instance; a new URL and pid.

        Raises:
            RuntimeFault: It did not come up again, or another process started it.
        """
        if self.process is None:
            raise RuntimeFault(
                "start",
                "only the process that started the engine can restart it",
                url=self.url,
                phase="start",
            )
        self.process.stop()
        return self.process.again(settings).start()

    def __reduce__(self) -> tuple[type[EngineHandle], tuple[object, ...]]:
        """Pickle the plain fields; the process stays where it is."""
        return EngineHandle, (
            self.url,
            self.pid,
            self.log_path,
            self.model_alias,
            self.context,
            self.load_sec,
        )


def start(
    model: str,
    settings: EngineSettings | None = None,
    *,
    log_dir: Path | None = None,
    progress: Progress = lambda line: None,
) -> EngineHandle:
    """Find or fetch the model and start the engine; returns once it is healthy.

    Args:
        model: A known model's name or the path of a GGUF file.
        settings: Threads, slots, context.
        log_dir: Where its log is kept; default ``logs`` in the user's cache directory.
        progress: Called with a line before anything slow.

    Raises:
        RuntimeFault: ``fetch``, ``model_not_found``, ``start`` (the package or a system library is
            missing, it died, it hung; with the end of its log) or ``out_of_memory``.
    """
    require_engine(model)
    path = locate_model(model, progress=progress)
    return EngineProcess(model, path, settings or EngineSettings(), log_dir).start()


def require_engine(model: str) -> None:
    """See that the engine's package is installed, without importing it.

    Raises:
        RuntimeFault: ``start``, with the command that installs it.
    """
    if package_folder("xllamacpp") is None:
        raise RuntimeFault(
            "start",
            "the embedded engine needs the package xllamacpp, which is not installed for "
            f"{sys.executable}",
            target=f"embedded:{model}",
            phase="start",
            remedy="Run: pip install 'pytest-benchrig[embedded]' (or pip install xllamacpp)",
        )


class EngineProcess:
    """One engine process; :func:`start` is the usual way to one."""

    def __init__(
        self, model: str, path: Path, settings: EngineSettings, log_dir: Path | None = None
    ) -> None:
        self._model = model
        self._path = path
        self._settings = settings
        self._log_dir = log_dir
        self._child: ChildProcess | None = None
        self._log_path: Path | None = None

    def again(self, settings: EngineSettings) -> EngineProcess:
        """The same model with other settings, not started."""
        return EngineProcess(self._model, self._path, settings, self._log_dir)

    def start(self, timeout_sec: float = START_TIMEOUT_SEC) -> EngineHandle:
        """Start it and wait until it is healthy.

        Raises:
            RuntimeFault: As :func:`start`.
        """
        deadline = time.monotonic() + timeout_sec
        child = self._child = self._launch()
        atexit.register(self.stop)
        try:
            said = self._first_word(child, deadline)
            url = str(said["url"])
            context = self._wait_healthy(child, url, deadline)
        except BaseException:
            self.stop()
            raise
        return EngineHandle(
            url,
            child.pid,
            str(self._log_path),
            model_alias(self._model),
            context,
            float(said["load_sec"]),
            process=self,
        )

    def stop(self) -> None:
        """End the process; harmless when it has ended, and in a forked child."""
        child, self._child = self._child, None
        if child is not None:
            atexit.unregister(self.stop)
            child.stop()

    def ended(self, wait_sec: float = 0.0) -> str:
        """How the process ended, "" while it runs; see :meth:`EngineHandle.ended`."""
        child = self._child
        if child is None:
            return "it was stopped"
        return child.how_it_ended() if child.wait(wait_sec) else ""

    def wait(self) -> None:
        """Until the process ends."""
        child = self._child
        if child is not None:
            child.wait(None)

    def _launch(self) -> ChildProcess:
        wanted: dict[str, JsonValue] = {
            "model": str(self._path),
            "alias": model_alias(self._model),
            "threads": self._settings.threads or usable_cpus(),
            "slots": max(1, self._settings.slots),
            "context": self._settings.context,
        }
        try:
            self._log_path, log = open_log("embedded", self._log_dir)
            with log:
                return ChildProcess(
                    "engine_child",
                    wanted,
                    packages=["xllamacpp"],
                    log=log,
                    environment=ENGINE_ENVIRONMENT,
                )
        except OSError as problem:
            raise self._fault("start", f"its process or log cannot be made ({problem})") from None

    def _first_word(self, child: ChildProcess, deadline: float) -> Mapping[str, JsonValue]:
        try:
            said = child.read(deadline - time.monotonic())
        except TimeoutError:
            raise self._fault(
                "start", "it did not load the model in time", "Try a smaller model"
            ) from None
        if said is None:
            raise self._died(child)
        if said["event"] == "failed":
            raise self._failed(str(said["step"]), str(said["message"]))
        return said

    def _wait_healthy(self, child: ChildProcess, url: str, deadline: float) -> int:
        """The window of a slot, once the engine says that it is ready."""
        client = HttpClient(Endpoint.parse(url), f"embedded:{self._model}")
        try:
            while True:
                if not child.alive:
                    raise self._died(child)
                with contextlib.suppress(RuntimeFault):
                    if client.ask("GET", "/health", phase="start", timeout_sec=5.0).ok:
                        props = client.json("GET", "/props", phase="start")
                        return int(props["default_generation_settings"]["n_ctx"])
                if time.monotonic() > deadline:
                    raise self._fault("start", "it never became healthy")
                time.sleep(_HEALTH_POLL_SEC)
        finally:
            client.close()

    def _failed(self, step: str, message: str) -> RuntimeFault:
        if step == "import":
            if "libgomp" in message:
                return self._fault(
                    "start",
                    f"a system library is missing: {message}",
                    "Install it: apt-get install libgomp1, dnf install libgomp, or apk add libgomp",
                )
            return self._fault(
                "start",
                f"the package xllamacpp cannot be imported: {message}",
                "Reinstall it: pip install --force-reinstall xllamacpp",
            )
        return self._load_fault(f"it could not load the model: {message}")

    def _died(self, child: ChildProcess) -> RuntimeFault:
        return self._load_fault(f"it died while starting ({child.how_it_ended()})")

    def _load_fault(self, message: str) -> RuntimeFault:
        words = kind_of_error(ServerError(f"{message} {self._log_tail()}"), None)
        if words == "out_of_memory":
            return self._fault(
                "out_of_memory",
                message,
                f"Lower the context ({self._settings.context} tokens in each of "
                f"{self._settings.slots} slots) or choose a smaller model",
            )
        return self._fault(
            "start", message, "Check that the file is a complete GGUF model that llama.cpp knows"
        )

    def _fault(self, kind: FaultKind, message: str, remedy: str = "See its log") -> RuntimeFault:
        tail = self._log_tail()
        shown = f"\n--- the end of {self._log_path}\n{tail}\n---\n" if tail else ""
        return RuntimeFault(
            kind,
            f"the embedded engine did not start: {message}{shown}",
            target=f"embedded:{self._model}",
            phase="start",
            remedy=remedy,
        )

    def _log_tail(self) -> str:
        return log_tail(self._log_path) if self._log_path else ""


def listens(url: str) -> bool:
    """Whether anything still listens at a started engine's address; only a refusal is a no."""
    where = Endpoint.parse(url)
    try:
        socket.create_connection((where.host, where.port), timeout=_LISTENS_SEC).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def usable_cpus() -> int | None:
    """CPUs that this process may use, ``None`` where that is all of the machine.

    The engine counts the machine's cores; in a container or under taskset that is too many, and
    threads that wait for a core at a barrier stop all the others. Linux: the affinity mask and
    cgroup v2's ``cpu.max``.
    """
    everything = os.cpu_count() or 1
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else everything
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        if quota != "max":
            usable = min(usable, max(1, int(quota) // int(period)))
    return usable if usable < everything else None
