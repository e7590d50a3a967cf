"""The runtimes by name; a module is imported when its runtime is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, cast

from pytest_benchrig.core.generation import Runtime, RuntimeFault
from pytest_benchrig.runtimes.endpoints import default_urls

__all__ = ["RUNTIMES", "connect", "default_urls", "near_runtime", "pull", "register"]


class Factory(Protocol):
    """Makes a runtime. Those of other plugins are given the key's variable and nothing else."""

    def __call__(self, model: str, base_url: str, *, api_key_env: str = "") -> Runtime:
        """A runtime for one model at one endpoint; connects to nothing yet."""
        ...


Builtin = tuple[str, str]
"""Module under ``pytest_benchrig.runtimes`` and the name of the class or factory in it."""

_BUILTIN: dict[str, Builtin] = {
    "ollama": ("ollama", "OllamaRuntime"),
    "llamacpp": ("llamacpp", "LlamaCppRuntime"),
    "vllm": ("vllm", "VllmRuntime"),
    "lmstudio": ("lmstudio", "LmStudioRuntime"),
    "foundry": ("foundry", "FoundryRuntime"),
    "prism": ("prism", "PrismRuntime"),
    "openai": ("openai", "OpenAIRuntime"),
    "onnx": ("onnx", "OnnxRuntime"),
    "embedded": ("embedded", "embedded_runtime"),
    "replay": ("replay", "replay_runtime"),
}


class _Runtimes(Mapping[str, "Builtin | Factory"]):
    """Every runtime by name, those of other plugins included, built-in ones first."""

    def __init__(self) -> None:
        self._registered: dict[str, Factory] = {}

    def __getitem__(self, name: str) -> Builtin | Factory:
        return self._registered[name] if name in self._registered else _BUILTIN[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_BUILTIN, *self._registered))

    def __len__(self) -> int:
        return len(_BUILTIN) + len(self._registered)

    def add(self, name: str, factory: Factory) -> None:
        """Add one of another plugin."""
        self._registered[name] = factory


RUNTIMES = _Runtimes()


def register(name: str, factory: Factory) -> None:
    """Offer a further runtime under the name that stands before the colon of a target.

    Registering the same name again replaces the earlier factory.

    Args:
        name: Lower-case letters, digits, ``-`` and ``_``, beginning with a letter.
        factory: Called as ``factory(model, base_url, api_key_env=...)``.

    Raises:
        ValueError: The name cannot be one, or is a built-in runtime's.
    """
    bare = name.replace("-", "").replace("_", "")
    if not (bare.isascii() and bare.isalnum() and name == name.lower() and name[0].isalpha()):
        raise ValueError(
            f"runtime name {name!r}: use lower-case letters, digits, - and _, a letter first"
        )
    if name in _BUILTIN or name in ("auto", "selfcheck"):
        raise ValueError(f"runtime name {name!r} is the built-in one's; choose another")
    RUNTIMES.add(name, factory)


def near_runtime(name: str) -> str:
    """The nearest known runtime and all of them, as the end of a sentence."""
    import difflib

    near = difflib.get_close_matches(name.lower(), RUNTIMES, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{guess}The runtimes are {', '.join(RUNTIMES)}"


def connect(
    runtime: str,
    model: str,
    base_url: str = "",
    *,
    api_key_env: str = "",
    pid: int | None = None,
) -> Runtime:
    """A runtime for one model at one endpoint. Contacts nothing yet.

    Args:
        runtime: Its name.
        model: The model of the target, "" to list models only.
        base_url: The endpoint; "" means the runtime's usual one.
        api_key_env: The variable that holds a key.
        pid: The serving process, where the plugin started it.

    Raises:
        ValueError: There is no such runtime; the message lists all and names the nearest.
        RuntimeFault: The address is none, or an optional package is missing.
    """
    if runtime not in RUNTIMES:
        raise ValueError(f"unknown runtime {runtime!r}; {near_runtime(runtime)}")
    url = base_url or next(iter(default_urls(runtime)), "")
    known = RUNTIMES[runtime]
    if not isinstance(known, tuple):
        return known(model, url, api_key_env=api_key_env)
    module, attribute = known
    make = getattr(importlib.import_module(f"pytest_benchrig.runtimes.{module}"), attribute)
    return cast("Runtime", make(url, target_model=model, api_key_env=api_key_env, pid=pid))


class CanPull(Protocol):
    """What a runtime that can fetch models offers beside :class:`Runtime`."""

    def pull(self, model: str, progress: Callable[[str], None]) -> str:
        """Fetch the model; the sentence says what was done."""
        ...


def pull(
    runtime: str,
    model: str,
    base_url: str = "",
    *,
    progress: Callable[[str], None] = lambda line: None,
    api_key_env: str = "",
) -> str:
    """Fetch a model where the runtime can; returns a sentence about what was done.

    Args:
        runtime: Its name.
        model: What to fetch.
        base_url: The endpoint; "" means the runtime's usual one.
        progress: Called with a line now and then.
        api_key_env: The variable that holds a key.

    Raises:
        ValueError: There is no such runtime.
        RuntimeFault: ``unsupported`` where the runtime cannot fetch; ``fetch`` where it failed.
    """
    if runtime == "embedded":
        from pytest_benchrig.runtimes.models import fetch_model

        return f"ready at {fetch_model(model, progress=progress)}"
    opened = connect(runtime, model, base_url, api_key_env=api_key_env)
    try:
        fetch = getattr(opened, "pull", None)
        if fetch is None:
            raise RuntimeFault(
                "unsupported",
                f"the runtime {runtime} has no way to fetch a model",
                target=f"{runtime}:{model}",
                url=opened.base_url,
                phase="fetch",
                remedy="Fetch it with the runtime's own tools",
            )
        return cast("CanPull", opened).pull(model, progress)
    finally:
        opened.close()
