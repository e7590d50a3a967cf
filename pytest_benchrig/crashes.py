"""Records that the controller writes for a worker that died."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_benchrig.core.record import Record
from pytest_benchrig.execution import now

if TYPE_CHECKING:
    from pytest_benchrig.active import Active


def crash_record(active: Active, nodeid: str, reason: str) -> Record | None:
    """The error record of the item a worker was running, ``None`` for an item without a target."""
    target = next((t for t in active.targets if nodeid.endswith(f"[{t}]")), None)
    if target is None:
        return None
    task_id = nodeid.split("::")[-1].removesuffix(f"[{target}]")
    scenario = next(
        (
            s
            for loaded in active.loaded_files()
            for s in loaded.scenarios
            if s.id == task_id and nodeid.split("::")[0].endswith(s.path.rsplit("/", 1)[-1])
        ),
        None,
    )
    return Record(
        task_id=task_id,
        suite=scenario.suite if scenario else nodeid.split("::")[0],
        kind=scenario.kind if scenario else "answer",
        target=str(target),
        runtime=target.runtime,
        model=target.model,
        started_at=now(),
        nodeid=nodeid,
        outcome="error",
        error=f"the worker process died while this item ran: {reason}",
        error_kind="worker_crash",
    )
