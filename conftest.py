"""Settings shared by every test of the project."""

from __future__ import annotations

pytest_plugins = ["pytester"]
