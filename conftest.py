"""Rules for the project's own tests; benchmark runs from a checkout are not bound by them."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, and no test may hang."""
    for item in items:
        if TESTS in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("error"), append=False)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))
