"""Engines that the plugin starts itself: once per session, on the controller, shared by workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_benchrig.core.generation import JsonValue, RuntimeFault, Target
from pytest_benchrig.settings import Settings

if TYPE_CHECKING:
    from pytest_benchrig.runtimes.engine_process import EngineHandle


@dataclass
class EngineInfo:
    """Where a started engine answers, or why it did not start.

    The handle stays in the process that started it; the rest crosses to the workers.
    """

    url: str = ""
    pid: int | None = None
    context: int | None = None
    load_sec: float | None = None
    fault: RuntimeFault | None = None
    handle: EngineHandle | None = field(default=None, repr=False)

    def stop(self) -> None:
        """End the engine, where this process started it."""
        if self.handle is not None:
            self.handle.stop()
            self.handle = None

    def to_json(self) -> dict[str, JsonValue]:
        """Plain JSON for a worker."""
        fault = self.fault
        return {
            "url": self.url,
            "pid": self.pid,
            "context": self.context,
            "load_sec": self.load_sec,
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
        handle=handle,
    )


__all__ = ["EngineInfo", "start_engine"]
