"""Targets: what the user typed becomes ``runtime:model``, once, on the controller."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import RuntimeFault, Target
from pytest_benchrig.core.targets import parse_target
from pytest_benchrig.settings import SELFCHECK

if TYPE_CHECKING:
    from pytest_benchrig.active import Active

INSTALLED = "installed"


class DuplicateTargetWarning(pytest.PytestWarning):
    """The same target was asked for twice."""


class UnsetKeyWarning(pytest.PytestWarning):
    """The variable that shall hold the API key is not set."""


def warn(config: pytest.Config, warning: pytest.PytestWarning) -> None:
    """Issue a warning of the settings; where warnings are errors it is a usage error."""
    try:
        config.issue_config_time_warning(warning, stacklevel=2)
    except type(warning):
        raise pytest.UsageError(str(warning)) from None


def resolve_targets(active: Active) -> tuple[Target, ...]:
    """Every target of the session, in the order asked for.

    Explicit targets contact nothing; unprefixed models and ``installed`` ask the runtimes.

    Raises:
        pytest.UsageError: A runtime that does not exist, or a model that no runtime has; the
            message says what was probed and what each answered.
    """
    settings = active.settings
    if settings.selfcheck:
        return (Target(SELFCHECK, ""),)
    if settings.api_key_env and not os.environ.get(settings.api_key_env):
        text = f"the environment variable {settings.api_key_env} is not set: requests carry no key"
        warn(active.config, UnsetKeyWarning(text))
    if (settings.replay or settings.resume) is not None and not settings.models:
        from pytest_benchrig.replaying import recorded_targets

        return recorded_targets(active.earlier)
    return unique(active.config, (_expand(active, text) for text in settings.models))


def unique(config: pytest.Config, groups: Iterable[Sequence[Target]]) -> tuple[Target, ...]:
    """The targets once each; a duplicate is merged with a warning."""
    found: dict[str, Target] = {}
    for group in groups:
        for target in group:
            if str(target) in found:
                text = f"target {target} was asked for twice; it runs once"
                warn(config, DuplicateTargetWarning(text))
            found.setdefault(str(target), target)
    return tuple(found.values())


def _expand(active: Active, text: str) -> list[Target]:
    from pytest_benchrig.runtimes.registry import RUNTIMES, default_urls, near_runtime

    settings = active.settings
    if settings.runtime != "auto" and settings.runtime not in RUNTIMES:
        raise pytest.UsageError(
            f"--benchrig-runtime: unknown runtime {settings.runtime!r}; "
            + near_runtime(settings.runtime)
        )
    runtime, model = parse_target(text, tuple(RUNTIMES))
    if not model:
        raise pytest.UsageError(f"--benchrig-model: {text!r} names no model")
    if runtime is None and settings.runtime != "auto":
        runtime = settings.runtime
    if runtime is None:
        return [_probe(active, model)]
    if runtime == "replay":
        target = Target(runtime, model)
        active.replayed(target)
        return [target]
    urls = tuple(settings.base_urls) or default_urls(runtime)
    if model == INSTALLED:
        return _installed(active, runtime, urls)
    return [Target(runtime, model, urls)]


def _installed(active: Active, runtime: str, urls: tuple[str, ...]) -> list[Target]:
    from pytest_benchrig.runtimes.registry import connect

    try:
        with_models = connect(
            runtime, "", urls[0] if urls else "", api_key_env=active.settings.api_key_env
        )
        models = with_models.list_models()
        with_models.close()
    except RuntimeFault as fault:
        raise pytest.UsageError(
            f"--benchrig-model {runtime}:{INSTALLED}: the models could not be listed: {fault}"
        ) from None
    if not models:
        raise pytest.UsageError(f"--benchrig-model {runtime}:{INSTALLED}: {runtime} lists no model")
    return [Target(runtime, m.name, urls) for m in models]


def _probe(active: Active, model: str) -> Target:
    from pytest_benchrig.runtimes.discovery import find_model

    found = find_model(model, active.settings.base_urls)
    if found.runtime:
        return Target(found.runtime, found.model, (found.url,))
    raise pytest.UsageError(
        f"--benchrig-model {model}: no local runtime lists this model. Probed:\n"
        + "\n".join(f"  {line}" for line in found.answers)
        + "\nStart the runtime that has it, name it as runtime:model, or give --benchrig-base-url"
        + _prefix_hint(model)
    )


def _prefix_hint(model: str) -> str:
    """What stands before a colon may be a misspelt runtime; models have colons too."""
    from pytest_benchrig.runtimes.registry import near_runtime

    prefix, colon, _ = model.partition(":")
    if not colon:
        return ""
    return f"\nIf {prefix!r} shall be a runtime: there is none of that name; {near_runtime(prefix)}"
