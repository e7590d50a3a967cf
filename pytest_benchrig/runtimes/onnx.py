"""ONNX Runtime GenAI (extra ``onnx``): a folder with ``genai_config.json``, run in a worker.

The worker's stamps are on the same monotonic clock as every other mark of the client; a token's
arrival is the moment it exists in the worker.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pytest_benchrig.core.generation import (
    FaultKind,
    Generation,
    JsonValue,
    ModelInfo,
    Placement,
    Request,
    RuntimeFault,
    TimingMarks,
)
from pytest_benchrig.runtimes.children import ChildProcess, log_tail, open_log, package_folder
from pytest_benchrig.runtimes.clock import now_ns
from pytest_benchrig.runtimes.faults import ServerError, kind_of_error
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.onnx_messages import OnnxReply, body_of

CONFIG = "genai_config.json"
_PACKAGE = "onnxruntime_genai"
_LOAD_TIMEOUT_SEC = 600.0
_ASK_SEC = 60.0
_PINGS = 5


class OnnxRuntime:
    """One model folder; its worker is started at the first need and ends with this object.

    Args:
        base_url: Not used: there is no server.
        target_model: The folder.
        api_key_env: Not used.
        pid: Not used.
    """

    name: ClassVar[str] = "onnx"

    def __init__(
        self,
        base_url: str = "",
        *,
        target_model: str = "",
        api_key_env: str = "",
        pid: int | None = None,
    ) -> None:
        self.base_url = ""
        self.target = f"{self.name}:{target_model}"
        self._target_model = target_model
        self._child: ChildProcess | None = None
        self._log_path: Path | None = None
        self._folder: Path | None = None
        self._ready: Mapping[str, JsonValue] = {}
        self._offset_ns = 0

    def version(self) -> str:
        """``ONNX Runtime GenAI 0.18.0``, "" where it is not installed."""
        return genai_version()

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The one folder."""
        return (self.describe(self._target_model),) if self._target_model else ()

    def describe(self, model: str) -> ModelInfo:
        """What the folder's configuration tells."""
        folder = self._checked_folder(model)
        config = self._config(folder, model)
        return ModelInfo(
            model,
            context_length=whole_number(config.get("context_length")) or None,
            capabilities=frozenset({"completion"}),
            size_bytes=sum(f.stat().st_size for f in folder.iterdir() if f.is_file()),
            aliases=(folder.name,),
        )

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Start the worker with the model.

        Returns:
            Seconds to load the model, ``None`` where it was loaded already.
        """
        if self._serves(model):
            return None
        self._start(model)
        return float(self._ready["load_sec"])

    def unload(self, model: str) -> bool:
        """End the worker."""
        self.close()
        return True

    def generate(self, request: Request) -> Generation:
        """One reply, loaded before the clock starts.

        A worker that is late, or whose caller is interrupted, is ended: it cannot be told to stop.
        """
        if request.tools:
            raise self._fault(
                "unsupported",
                "tools are not offered by this runtime",
                "request",
                "Serve the model with a runtime that has tools",
            )
        self.load(request.model)
        body = body_of(request)
        reply = OnnxReply({**body["options"], "num_predict": body["num_predict"]})
        reply.engine = genai_version()
        reply.device = str(self._ready["device"]).lower()
        reply.served_model = request.model
        start_ns = now_ns()
        try:
            self._write(body)
            self._read_reply(request, reply, start_ns)
        except BaseException:
            if not reply.complete:
                self.close()
            raise
        return _generation(reply, start_ns)

    def count_tokens(self, model: str, text: str) -> int | None:
        """What the model's own tokenizer counts, special tokens in front included."""
        self.load(model)
        self._write({"op": "count", "text": text})
        event = self._read(time.monotonic() + _ASK_SEC, "tokenize")
        return int(event["tokens"]) if event["event"] == "count" else None

    def placement(self, model: str) -> Placement:
        """The device of the loaded model."""
        if not self._serves(model):
            return Placement()
        return Placement(str(self._ready["device"]).lower(), self.describe(model).size_bytes)

    def loaded(self) -> Mapping[str, float | None]:
        """Nothing but the worker's own model is ever in memory."""
        return {}

    def server_pid(self) -> int | None:
        """The worker, where it runs."""
        return self._child.pid if self._child is not None else None

    def close(self) -> None:
        """End the worker."""
        child, self._child = self._child, None
        if child is not None:
            atexit.unregister(self.close)
            child.stop()

    def _serves(self, model: str) -> bool:
        return (
            self._child is not None
            and self._child.alive
            and self._folder == Path(model).expanduser().absolute()
        )

    def _start(self, model: str) -> None:
        self.close()
        folder = self._checked_folder(model)
        if package_folder(_PACKAGE) is None:
            raise self._fault(
                "start",
                f"the package onnxruntime-genai is not installed for {sys.executable}",
                "start",
                "Run: pip install 'pytest-benchrig[onnx]' (or pip install onnxruntime-genai)",
            )
        try:
            self._log_path, log = open_log("onnx")
            with log:
                self._child = ChildProcess(
                    "onnx_worker",
                    {"model": str(folder)},
                    packages=[_PACKAGE, "onnxruntime", "numpy"],
                    log=log,
                )
        except OSError as problem:
            raise self._fault(
                "start",
                f"the worker cannot be started ({problem})",
                "start",
                "See the system's log",
            ) from None
        atexit.register(self.close)
        self._folder = folder
        try:
            ready = self._read(time.monotonic() + _LOAD_TIMEOUT_SEC, "load")
            if ready["event"] != "ready":
                raise self._failed(ready, "load", None)
            self._ready = ready
            self._offset_ns = self._clock_offset()
        except BaseException:
            self.close()
            raise

    def _clock_offset(self) -> int:
        """What brings the worker's stamps to our clock: 0 where both read the same clock."""
        best: tuple[int, int] | None = None
        for _ in range(_PINGS):
            before = now_ns()
            self._write({"op": "ping"})
            there = int(self._read(time.monotonic() + _ASK_SEC, "load")["ns"])
            after = now_ns()
            if before <= there <= after:
                return 0
            if best is None or after - before < best[0]:
                best = (after - before, (before + after) // 2 - there)
        return best[1] if best else 0

    def _read_reply(self, request: Request, reply: OnnxReply, start_ns: int) -> None:
        total = start_ns / 1e9 + request.timeout_sec
        shift = time.monotonic() - now_ns() / 1e9
        partial = functools.partial(_generation, reply, start_ns)
        while not reply.complete:
            late = total + shift
            if reply.arrivals:
                late = min(late, time.monotonic() + request.stall_timeout_sec)
            phase = "stream" if reply.arrivals else "prefill"
            event = self._read(late, phase, partial, request, stall=late < total + shift)
            if event["event"] == "failed":
                raise self._failed(event, phase, partial())
            reply.take(event, self._offset_ns)

    def _write(self, value: Mapping[str, JsonValue]) -> None:
        try:
            if self._child is not None:
                self._child.write(value)
        except OSError:
            raise self._died("request", None) from None

    def _read(
        self,
        deadline: float,
        phase: str,
        partial: Callable[[], Generation | None] = lambda: None,
        request: Request | None = None,
        *,
        stall: bool = False,
    ) -> Mapping[str, JsonValue]:
        child = self._child
        if child is None:
            raise self._died(phase, partial())
        try:
            event = child.read(deadline - time.monotonic())
        except TimeoutError:
            if request is not None and stall:
                raise self._fault(
                    "stall",
                    f"no token for {request.stall_timeout_sec:g} s after the one before",
                    phase,
                    "See its log, or raise --benchrig-stall-timeout",
                    partial(),
                ) from None
            raise self._fault(
                "timeout",
                "the request was not finished in time" if request else "the worker does not answer",
                phase,
                "Raise --benchrig-request-timeout, or lower the scenario's num_predict",
                partial(),
            ) from None
        if event is None:
            raise self._died(phase, partial())
        return event

    def _died(self, phase: str, partial: Generation | None) -> RuntimeFault:
        how = self._child.how_it_ended() if self._child is not None else "it was not running"
        tail = log_tail(self._log_path) if self._log_path else ""
        shown = f"\n--- the end of {self._log_path}\n{tail}\n---\n" if tail else ""
        kind: FaultKind = "start" if phase == "load" else "broken_stream"
        return self._fault(kind, f"the worker died ({how}){shown}", phase, "See its log", partial)

    def _failed(
        self, event: Mapping[str, JsonValue], phase: str, partial: Generation | None
    ) -> RuntimeFault:
        step, message = str(event["step"]), str(event["message"])
        if step == "window":
            return self._fault(
                "context_window", message, phase, "Choose a model with a larger window", partial
            )
        if step == "template":
            return self._fault(
                "unsupported",
                f"the folder has no chat template that works: {message}",
                phase,
                "Add the model's chat_template.jinja to the folder",
                partial,
            )
        if step == "import":
            return self._fault(
                "start",
                f"the package onnxruntime-genai cannot be imported: {message}",
                phase,
                "Its version must fit onnxruntime's: pip install -U onnxruntime-genai",
            )
        named = kind_of_error(ServerError(message), None)
        kind: FaultKind = named or ("start" if phase == "load" else "stream_error")
        return self._fault(kind, message, phase, "Check the model folder", partial)

    def _checked_folder(self, model: str) -> Path:
        folder = Path(model).expanduser().absolute()
        if not (folder / CONFIG).is_file():
            what = "has no genai_config.json" if folder.is_dir() else "is not there"
            raise self._fault(
                "model_not_found",
                f"the model folder {folder} {what}",
                "load",
                "Name a folder made for ONNX Runtime GenAI, as in onnx:/models/phi-4-mini",
            )
        return folder

    def _config(self, folder: Path, model: str) -> Mapping[str, JsonValue]:
        try:
            value = json.loads((folder / CONFIG).read_text("utf-8"))
        except (OSError, ValueError) as problem:
            raise self._fault(
                "start",
                f"{folder / CONFIG} cannot be read: {problem}",
                "load",
                "Copy the folder again",
            ) from None
        found = value.get("model") if isinstance(value, dict) else None
        return found if isinstance(found, dict) else {}

    def _fault(
        self,
        kind: FaultKind,
        message: str,
        phase: str,
        remedy: str,
        partial: Generation | None = None,
    ) -> RuntimeFault:
        return RuntimeFault(
            kind, message, target=self.target, phase=phase, remedy=remedy, partial=partial
        )


@functools.cache
def genai_version() -> str:
    """Name and version of the package, "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    for name in ("onnxruntime-genai", "onnxruntime-genai-cuda", "onnxruntime-genai-directml"):
        try:
            return f"ONNX Runtime GenAI {version(name)}"
        except PackageNotFoundError:
            continue
    return ""


def _generation(reply: OnnxReply, start_ns: int) -> Generation:
    return reply.generation(
        TimingMarks(start_ns, max(reply.end_ns, start_ns), arrivals=tuple(reply.arrivals))
    )
