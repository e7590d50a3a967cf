"""The embedded runtime: llama.cpp's dialect spoken to an engine that the plugin started."""

from __future__ import annotations

import functools
from dataclasses import replace

from pytest_benchrig.core.generation import (
    Generation,
    ModelInfo,
    Placement,
    Request,
    Runtime,
    RuntimeFault,
)
from pytest_benchrig.runtimes.bases import ServerlessRuntime
from pytest_benchrig.runtimes.engine_process import EngineHandle, start
from pytest_benchrig.runtimes.llamacpp import LlamaCppRuntime
from pytest_benchrig.runtimes.models import KNOWN_MODELS, model_alias, present_models


def embedded_runtime(
    base_url: str, *, target_model: str = "", api_key_env: str = "", pid: int | None = None
) -> Runtime:
    """The runtime for a started engine, for one that it starts itself, or for the list of models.

    Args:
        base_url: Of a started engine; "" starts one for this object alone.
        target_model: The model; "" without a URL gives a runtime that can only list models.
        api_key_env: Not used: the engine has no key.
        pid: Of the started engine.

    Raises:
        RuntimeFault: The engine could not be started.
    """
    if base_url:
        return EmbeddedRuntime(base_url, target_model=target_model, pid=pid)
    if not target_model:
        return EmbeddedModels()
    handle = start(target_model)
    return EmbeddedRuntime(handle.url, target_model=target_model, pid=handle.pid, handle=handle)


@functools.cache
def engine_version() -> str:
    """``llama.cpp (xllamacpp 2026.10.11549)``, "" where the package is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"llama.cpp (xllamacpp {version('xllamacpp')})"
    except PackageNotFoundError:
        return ""


class EmbeddedRuntime(LlamaCppRuntime):
    """A started engine.

    Args:
        base_url: Where it answers.
        target_model: The model as the user named it: a known name or a path.
        pid: The serving process.
        handle: The engine, where this object is to stop it.
    """

    name = "embedded"

    def __init__(
        self,
        base_url: str,
        *,
        target_model: str = "",
        pid: int | None = None,
        handle: EngineHandle | None = None,
    ) -> None:
        super().__init__(base_url, target_model=target_model, pid=pid)
        self._handle = handle
        self._context: int | None = None

    def version(self) -> str:
        """The package's version, which says more than the build in it (``b0-unknown``)."""
        return engine_version() or super().version()

    def describe(self, model: str) -> ModelInfo:
        """The model as the engine tells it, under the name that the user gave it."""
        info = super().describe(model_alias(model))
        self._context = info.context_length
        known = KNOWN_MODELS.get(model)
        digest = f"sha256:{known.sha256}" if known else info.digest
        return replace(info, name=model, digest=digest)

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Nothing to load; a window larger than the engine was started with is refused here.

        Raises:
            RuntimeFault: ``context_window``.
        """
        if num_ctx is None:
            return None
        if self._context is None:
            self.describe(model)
        if self._context is not None and num_ctx > self._context:
            raise self.site.fault(
                "context_window",
                f"a window of {num_ctx} tokens is asked for, the engine's slots have "
                f"{self._context}",
                phase="load",
                remedy="Raise the ini setting benchrig_embedded_context, up to the window that "
                "the model was trained with",
            )
        return None

    def generate(self, request: Request) -> Generation:
        """One chat completion; no path of this machine is sent or kept as the model's name."""
        generation = super().generate(replace(request, model=model_alias(request.model)))
        return replace(generation, engine=engine_version() or generation.engine)

    def placement(self, model: str) -> Placement:
        """Size and window; where the layers live, llama.cpp tells only its log."""
        return super().placement(model_alias(model))

    def close(self) -> None:
        """Close connections; end the engine where this object started it."""
        super().close()
        if self._handle is not None:
            self._handle.stop()
            self._handle = None


class EmbeddedModels(ServerlessRuntime):
    """The models that are here, without an engine: what ``embedded:installed`` lists."""

    name = "embedded"

    def version(self) -> str:
        """Name and version of the engine's package, "" where it is not installed."""
        return engine_version()

    def list_models(self) -> tuple[ModelInfo, ...]:
        """Known models whose file is installed or cached."""
        return tuple(self._info(name) for name in present_models())

    def describe(self, model: str) -> ModelInfo:
        """A known model, fetched or not."""
        if model in KNOWN_MODELS:
            return self._info(model)
        raise self._not_started(model)

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Not without an engine."""
        raise self._not_started(model)

    def unload(self, model: str) -> bool:
        """Nothing is loaded."""
        return False

    def generate(self, request: Request) -> Generation:
        """Not without an engine."""
        raise self._not_started(request.model)

    def _info(self, name: str) -> ModelInfo:
        known = KNOWN_MODELS[name]
        return ModelInfo(name, digest=f"sha256:{known.sha256}", size_bytes=known.size)

    def _not_started(self, model: str) -> RuntimeFault:
        return RuntimeFault(
            "start",
            "no engine was started for this model",
            target=f"embedded:{model}",
            phase="start",
            remedy="Name the model as the target, embedded:MODEL",
        )
