"""Benchmark scenarios for local language models as pytest items."""

from __future__ import annotations

from pytest_benchrig._version import __version__

__all__ = ["__version__"]
