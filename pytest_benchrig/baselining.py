"""The device memory in use before the first model of a session is loaded, taken once for all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_benchrig.coordination import Coordination
from pytest_benchrig.core.generation import Runtime

if TYPE_CHECKING:
    from pytest_benchrig.hardware.sampler import Sampler

_NAME = "baseline"


def session_baseline(
    known: Mapping[str, Any] | None,
    sampler: Sampler,
    coordination: Coordination,
    server: Runtime | None = None,
) -> dict[str, Any]:
    """The session's baseline as plain JSON, set on the sampler.

    Args:
        known: What the controller sent along, if it did.
        sampler: Whose sensors are read, and whose later windows refer to it.
        coordination: The first process that comes takes it, before any has a model loaded.
        server: Who will load the model, where that runs already; asking loads nothing.

    Raises:
        RuntimeFault: The server does not say what it has in memory.
    """
    from pytest_benchrig.hardware.baseline import Baseline, take_baseline
    from pytest_benchrig.hardware.serving import find_serving

    if known is None:
        with coordination.endpoint(_NAME, exclusive=True):
            said = coordination.published(_NAME)
            if said:
                known = json.loads(said)
            else:
                url = server.base_url if server is not None else ""
                taken = take_baseline(
                    sampler,
                    find_serving(url, None) if url else None,
                    loaded=server.loaded() if server is not None else {},
                )
                known = dataclasses.asdict(taken)
                coordination.publish(_NAME, json.dumps(known))
    found = dict(known or {})
    sampler.baseline = Baseline(**found)
    return found
