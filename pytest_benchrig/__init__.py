"""Benchmark scenarios for local language models as pytest items.

The names below are for authors of tests, hooks and runtimes. Each is imported when it is first
asked for, so that importing the package costs nothing.
"""

from __future__ import annotations

from pytest_benchrig._version import __version__ as __version__

# Type checkers take this name for true. Importing typing for it would cost what we promise not to.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytest_benchrig.client import TargetClient as TargetClient
    from pytest_benchrig.core.code_blocks import extract_code as extract_code
    from pytest_benchrig.core.generation import Generation as Generation
    from pytest_benchrig.core.generation import Message as Message
    from pytest_benchrig.core.generation import ModelInfo as ModelInfo
    from pytest_benchrig.core.generation import Placement as Placement
    from pytest_benchrig.core.generation import Request as Request
    from pytest_benchrig.core.generation import Runtime as Runtime
    from pytest_benchrig.core.generation import RuntimeFault as RuntimeFault
    from pytest_benchrig.core.generation import Sampling as Sampling
    from pytest_benchrig.core.generation import Target as Target
    from pytest_benchrig.core.generation import TimingMarks as TimingMarks
    from pytest_benchrig.core.generation import Usage as Usage
    from pytest_benchrig.core.record import Record as Record
    from pytest_benchrig.core.runfile import RunFile as RunFile
    from pytest_benchrig.core.scenario import Scenario as Scenario
    from pytest_benchrig.core.scorecard_types import Scorecard as Scorecard
    from pytest_benchrig.core.thinking import ReasoningParser as ReasoningParser
    from pytest_benchrig.core.verdict import Verdict as Verdict
    from pytest_benchrig.sandbox.result import SandboxResult as SandboxResult
    from pytest_benchrig.sandbox.runner import SandboxRunner as SandboxRunner

_HOMES = {
    "TargetClient": "client",
    "extract_code": "core.code_blocks",
    "Generation": "core.generation",
    "Message": "core.generation",
    "ModelInfo": "core.generation",
    "Placement": "core.generation",
    "Request": "core.generation",
    "Runtime": "core.generation",
    "RuntimeFault": "core.generation",
    "Sampling": "core.generation",
    "Target": "core.generation",
    "TimingMarks": "core.generation",
    "Usage": "core.generation",
    "Record": "core.record",
    "RunFile": "core.runfile",
    "Scenario": "core.scenario",
    "Scorecard": "core.scorecard_types",
    "ReasoningParser": "core.thinking",
    "Verdict": "core.verdict",
    "SandboxResult": "sandbox.result",
    "SandboxRunner": "sandbox.runner",
}
"""Public name to the module that defines it."""

__all__ = ("__version__", *_HOMES)


def __getattr__(name: str) -> object:
    """A public name, imported from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *_HOMES})
