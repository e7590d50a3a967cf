"""The item of a scenario: a test function whose set-up takes a short way where it may.

pytest keeps a request object, a cache and finalizers for each fixture of each item. For the three
that every scenario has, that is a third of what an item costs. Where nobody could notice, the item
does the work of these fixtures itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig import fixtures

_OURS = {"benchrig_target", "benchrig_record", "benchrig_generation"}
_FIXTURE_HOOKS = ("pytest_fixture_setup", "pytest_fixture_post_finalizer")


class ScenarioItem(pytest.Function):
    """One scenario, asked of one target.

    Attributes:
        short_way: Whether set-up may do without pytest's fixtures: :func:`only_our_fixtures`.
    """

    short_way = False

    def __repr__(self) -> str:
        # As pytest shows the items it makes itself, when other plugins take part.
        return f"<Function {self.name}>"

    def reportinfo(self) -> tuple[str, int, str]:
        """File and line (from 0) of the entry, and the item's name."""
        code = self.obj.__code__
        return code.co_filename, code.co_firstlineno - 1, self.name

    def setup(self) -> None:
        """Make the requests of the item, as the fixture ``benchrig_generation`` does."""
        # Others may have added fixtures to the item, which can stand in front of ours.
        if not self.short_way or {*self.fixturenames} - {"request"} != _OURS:
            super().setup()
            return
        from pytest_benchrig.active import ACTIVE
        from pytest_benchrig.recording import item_record

        target: Any = self.callspec.params["benchrig_target"]
        record = item_record(self, self.config.stash[ACTIVE], target)
        self.funcargs.update(request=self._request, benchrig_target=target, benchrig_record=record)
        self.funcargs["benchrig_generation"] = record.execute()


def only_our_fixtures(item: Any) -> bool:
    """Whether nobody overrides the fixtures of an item, or watches fixtures being set up."""
    definitions = item._fixtureinfo.name2fixturedefs
    return (
        definitions.keys() >= _OURS
        and all(
            [made.func.__module__ for made in definitions[name]] == [fixtures.__name__]
            for name in _OURS
        )
        and not item.config.option.setupshow
        and not foreign_hooks(item.config, _FIXTURE_HOOKS)
    )


def foreign_hooks(config: pytest.Config, names: tuple[str, ...]) -> bool:
    """Whether others than pytest and this plugin implement one of the hooks."""
    return any(
        str(getattr(implementation.function, "__module__", "")).partition(".")[0]
        not in ("_pytest", __package__)
        for name in names
        for implementation in getattr(config.hook, name).get_hookimpls()
    )
