"""The run file itself."""

from __future__ import annotations

from pytest_benchrig.core.runfile import RunFile


def render(run: RunFile) -> str:
    """The run file's text."""
    return run.dumps()
