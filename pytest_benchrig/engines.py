"""Engines that the plugin starts itself: once per session, on the controller, shared by workers."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_benchrig import log
from pytest_benchrig.coordination import Coordination
from pytest_benchrig.core.generation import Generation, JsonValue, RuntimeFault, Target
from pytest_benchrig.settings import Settings

if TYPE_CHECKING:
    from pytest_benchrig.runtimes.engine_process import EngineHandle

MAX_RESTARTS = 2
"""So often an engine that died is started again in one session: one that dies of its work would
die of it for ever."""
RESTARTED_FLAG = "engine_restarted"
_DEATH_SEC = 1.0
_DYING_SEC = 0.02
_REPLACED_SEC = 330.0
_POLL_SEC = 0.1


@dataclass
class EngineInfo:
    """Where a started engine answers, or why it did not start.

    The handle stays in the process that started it; the rest crosses to the workers.

    Attributes:
        restarts: How often an engine of this target had died before this one was started.
    """

    url: str = ""
    pid: int | None = None
    context: int | None = None
    load_sec: float | None = None
    log_path: str = ""
    restarts: int = 0
    fault: RuntimeFault | None = None
    handle: EngineHandle | None = field(default=None, repr=False)

    def stop(self) -> None:
        """End the engine, where this process started it."""
        if self.handle is not None:
            self.handle.stop()
            self.handle = None

    def ended(self, wait_sec: float = 0.0) -> str:
        """How the engine ended; "" while it runs, and for one that never did.

        Args:
            wait_sec: How long to wait for the end: a connection breaks just before its process is
                gone.
        """
        if self.handle is not None:
            return self.handle.ended(wait_sec)
        if self.fault is not None:
            return ""
        from pytest_benchrig.runtimes.engine_process import listens

        deadline = time.monotonic() + wait_sec
        while listens(self.url):
            if time.monotonic() >= deadline:
                return ""
            time.sleep(_DYING_SEC)
        return "its process is gone"

    def explain(self, fault: RuntimeFault) -> None:
        """Say in the fault of a request that the engine died over it, where it did."""
        if fault.kind not in ("unreachable", "broken_stream"):
            return
        how = self.ended(_DEATH_SEC)
        if how:
            fault.message = f"the embedded engine died ({how}): {fault.message}"
            left = MAX_RESTARTS - self.restarts
            after = f"the next item gets a new one ({left} left)" if left > 0 else "it was the last"
            fault.remedy = f"See its log, {self.log_path}; {after}"

    def marked(self, generation: Generation) -> Generation:
        """The reply, flagged where it is of an engine that was started again."""
        if not self.restarts:
            return generation
        note = (
            f"the embedded engine had died {self.restarts} of at most {MAX_RESTARTS} times in this "
            "session and was started again"
        )
        return replace(
            generation,
            flags=(*generation.flags, RESTARTED_FLAG),
            notes=(*generation.notes, note),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON for a worker."""
        fault = self.fault
        return {
            "url": self.url,
            "pid": self.pid,
            "context": self.context,
            "load_sec": self.load_sec,
            "log_path": self.log_path,
            "restarts": self.restarts,
            "fault": None
            if fault is None
            else {
                "kind": fault.kind,
                "message": fault.message,
                "target": fault.target,
                "url": fault.url,
                "phase": fault.phase,
                "remedy": fault.remedy,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineInfo:
        """What a worker was told."""
        fault = data["fault"]
        return cls(
            url=data["url"],
            pid=data["pid"],
            context=data["context"],
            load_sec=data["load_sec"],
            log_path=data["log_path"],
            restarts=data["restarts"],
            fault=None
            if fault is None
            else RuntimeFault(
                fault["kind"],
                fault["message"],
                target=fault["target"],
                url=fault["url"],
                phase=fault["phase"],
                remedy=fault["remedy"],
            ),
        )


def start_engine(target: Target, settings: Settings, *, slots: int) -> EngineInfo:
    """Fetch the model if needed and start the embedded engine; a fault is kept, not raised."""
    from pytest_benchrig.runtimes.engine_process import EngineSettings, start

    wanted = EngineSettings(
        threads=settings.embedded_threads or None,
        slots=slots,
        context=settings.embedded_context,
    )
    try:
        handle = start(target.model, wanted)
    except RuntimeFault as fault:
        return EngineInfo(fault=fault)
    return EngineInfo(
        url=handle.url,
        pid=handle.pid,
        context=handle.context,
        load_sec=handle.load_sec,
        log_path=handle.log_path,
        handle=handle,
    )


def living(
    engine: EngineInfo | None,
    target: Target,
    settings: Settings,
    coordination: Coordination,
    *,
    slots: int,
    in_worker: bool,
) -> EngineInfo:
    """The engine as it is, or a new one where there is none yet or where it has died.

    In a worker the controller starts the new one; it is waited for.
    """
    if engine is None:
        return start_engine(target, settings, slots=slots)
    if not engine.ended():
        return engine
    if in_worker:
        return replacement(engine, target, coordination)
    return start_again(engine, target, settings, slots=slots)


def start_again(
    engine: EngineInfo, target: Target, settings: Settings, *, slots: int
) -> EngineInfo:
    """A new engine in place of one that died; its fault where that was once too often."""
    how, log_path = engine.ended(), engine.log_path
    engine.stop()
    restarts = engine.restarts + 1
    log.event(
        "engine.died", logging.WARNING, target=str(target), how=how, log=log_path, times=restarts
    )
    if restarts > MAX_RESTARTS:
        fault = RuntimeFault(
            "start",
            f"the embedded engine died {restarts} times in this session, the last time {how}, and "
            "is not started again",
            target=str(target),
            url=engine.url,
            phase="start",
            remedy=f"See its log, {log_path}; lower benchrig_embedded_context or choose a smaller "
            "model if the machine ran out of memory",
        )
        return EngineInfo(fault=fault, log_path=log_path, restarts=restarts)
    new = start_engine(target, settings, slots=slots)
    new.restarts = restarts
    return new


def replacement(engine: EngineInfo, target: Target, coordination: Coordination) -> EngineInfo:
    """In a worker: the engine that the controller started in place of one that died."""
    deadline = time.monotonic() + _REPLACED_SEC
    while time.monotonic() < deadline:
        said = coordination.published(_name(target))
        if said:
            new = EngineInfo.from_json(json.loads(said))
            if new.restarts > engine.restarts:
                return new
        time.sleep(_POLL_SEC)
    fault = RuntimeFault(
        "start",
        f"the embedded engine died and no other came up within {_REPLACED_SEC:g} s",
        target=str(target),
        url=engine.url,
        phase="start",
        remedy=f"See its log, {engine.log_path}",
    )
    return EngineInfo(fault=fault, restarts=engine.restarts + 1)


class EngineKeeper:
    """On the controller of workers: starts a shared engine again when it dies, and tells them.

    A thread waits for the engine's end; it does nothing else, and the controller measures nothing.
    """

    def __init__(
        self,
        engine: EngineInfo,
        target: Target,
        settings: Settings,
        coordination: Coordination,
        *,
        slots: int,
    ) -> None:
        self.engine = engine
        self._target = target
        self._settings = settings
        self._coordination = coordination
        self._slots = slots
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the engine and the watch over it."""
        self._stopping.set()
        self.engine.stop()
        self._thread.join(_DEATH_SEC)

    def _watch(self) -> None:
        while (handle := self.engine.handle) is not None:
            handle.wait()
            if self._stopping.is_set():
                return
            new = start_again(self.engine, self._target, self._settings, slots=self._slots)
            self.engine = new
            if self._stopping.is_set():
                new.stop()
                return
            self._coordination.publish(_name(self._target), json.dumps(new.to_json()))


def _name(target: Target) -> str:
    return f"engine:{target}"


__all__ = [
    "MAX_RESTARTS",
    "EngineInfo",
    "EngineKeeper",
    "living",
    "start_engine",
]
