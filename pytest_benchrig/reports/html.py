"""One self-contained HTML file."""

from __future__ import annotations

from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports.escape import html


def render(run: RunFile) -> str:
    """The page."""
    return f"<!doctype html><title>{html(str(run.run.get('id', '')))}</title>"
