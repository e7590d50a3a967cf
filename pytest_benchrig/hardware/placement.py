"""Where the model runs, from what the engine itself reports; nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_benchrig.core.generation import JsonValue, Placement

UNKNOWN = "unknown"
_CPU = frozenset({"cpu", "cpuexecutionprovider", "none"})


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a model was wanted and where it is.

    Attributes:
        requested_device: ``cpu``, ``gpu``, another name (``npu``), or ``auto``: the engine chose.
        observed_device: ``cpu``, ``gpu``, ``gpu+cpu`` (split between both), what else the engine
            says, or ``unknown``.
        gpu_fit_pct: Share of the model that the engine holds in GPU memory, 0 to 100.
        cpu_fallback: The model runs on the processors although a GPU was asked for, or although
            there is one that the engine could have chosen; ``None`` where that is not known.
        reason: Why something is not known.
    """

    requested_device: str
    observed_device: str
    gpu_fit_pct: float | None = None
    cpu_fallback: bool | None = None
    reason: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """The record's fields; what is not known is ``None``."""
        return {
            "requested_device": self.requested_device,
            "observed_device": self.observed_device,
            "gpu_fit_pct": self.gpu_fit_pct,
            "cpu_fallback": self.cpu_fallback,
        }


def placed(
    engine: Placement | None,
    *,
    requested: str = "",
    gpu_layers: int | None = None,
    gpu_present: bool | None = None,
) -> Placed:
    """Judge a placement.

    Ollama can say of a model that all of it is in GPU memory (``size_vram`` equals ``size``) on a
    machine that has no GPU; where none is to be seen, its sizes are not believed.

    Args:
        engine: What the engine reports; ``None`` where it reports nothing.
        requested: The device that was asked for, "" for the engine's own choice.
        gpu_layers: The option ``num_gpu``: 0 asks for the processors, more for a GPU.
        gpu_present: Whether the machine has a GPU that the engine could use; ``None`` where that
            cannot be seen (a remote server, no sensor).
    """
    wanted = _requested(requested, gpu_layers)
    if engine is None:
        return Placed(wanted, UNKNOWN, reason="the engine does not tell where the model lives")
    fit, reason = _fit(engine, gpu_present)
    observed = _observed(engine.device, fit)
    if observed == UNKNOWN and not reason:
        reason = "the engine does not tell where the model lives"
    fallback: bool | None = None
    if observed != UNKNOWN:
        if wanted == "cpu":
            fallback = False
        elif wanted == "auto":
            fallback = gpu_present if observed == "cpu" else False
        else:
            fallback = observed == "cpu"
    return Placed(wanted, observed, fit, fallback, reason)


def _requested(requested: str, gpu_layers: int | None) -> str:
    if requested:
        name = requested.strip().lower()
        return "cpu" if name in _CPU else _gpu_name(name)
    if gpu_layers is None or gpu_layers < 0:
        return "auto"
    return "cpu" if gpu_layers == 0 else "gpu"


def _fit(engine: Placement, gpu_present: bool | None) -> tuple[float | None, str]:
    size, vram = engine.size_bytes, engine.size_vram_bytes
    if size is None or vram is None:
        return None, ""
    if size <= 0 or not 0 <= vram <= size:
        return None, f"the engine says that {vram} of {size} bytes are in GPU memory"
    if vram > 0 and gpu_present is False:
        return None, "the engine says that the model is in GPU memory, but no GPU is to be seen"
    return 100 * vram / size, ""


def _observed(device: str, fit: float | None) -> str:
    name = device.strip().lower()
    if fit is not None:
        if fit == 0:
            return "cpu"
        return "gpu" if fit >= 100 else "gpu+cpu"
    if name in ("", UNKNOWN, "auto", "default"):
        return UNKNOWN
    return "cpu" if name in _CPU else _gpu_name(name)


def _gpu_name(name: str) -> str:
    """``gpu`` for all words that mean one; other devices (an NPU) keep their own."""
    words = (
        "gpu",
        "cuda",
        "nvidia",
        "rocm",
        "hip",
        "metal",
        "mps",
        "xpu",
        "vulkan",
        "dml",
        "directml",
    )
    return "gpu" if name.startswith(words) else name
