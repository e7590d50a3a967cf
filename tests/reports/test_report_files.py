"""Files are written whole or not at all, and what cannot be is said."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_benchrig.reports.files import check_writable, write_text
from tests.reports import golden


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "report.md"
    write_text(path, "zażółć\n")
    assert path.read_bytes() == "zażółć\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["report.md"]


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "a\nb\r\n")
    assert (tmp_path / "x").read_bytes() == b"a\nb\r\n"


def test_lone_surrogates_cannot_stop_a_report(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "a\ud800b")
    assert (tmp_path / "x").read_text("utf-8") == "a\\ud800b"


def test_an_existing_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("x")
    old.chmod(0o640)
    write_text(old, "y")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    mask = os.umask(0o022)
    try:
        write_text(tmp_path / "new", "y")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "y")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "y"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_a_directory_in_the_way_is_said(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a directory, expected a file"):
        write_text(tmp_path, "x")
    with pytest.raises(IsADirectoryError, match="is a directory, expected a file"):
        check_writable(tmp_path, is_dir=False)


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("x")
    for path, is_dir in ((tmp_path / "results", True), (tmp_path / "results" / "x.md", False)):
        with pytest.raises(OSError, match=r"exists|directory"):
            check_writable(path, is_dir=is_dir)


def test_checking_makes_the_folder_and_leaves_no_file(tmp_path: Path) -> None:
    check_writable(tmp_path / "results" / "runs", is_dir=True)
    assert list((tmp_path / "results" / "runs").iterdir()) == []
    (tmp_path / "report.md").write_text("old")
    check_writable(tmp_path / "report.md", is_dir=False)
    assert (tmp_path / "report.md").read_text() == "old"


def test_where_nothing_can_be_written() -> None:
    with pytest.raises(OSError, match=r"/proc"):
        check_writable(Path("/proc/benchrig-results"), is_dir=True)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGPIPE")
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "pytest_benchrig", "report", str(golden.DATA / "run.json")]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_or_device_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_writable(pipe, is_dir=False)
        write_text(pipe, "a report")
        assert os.read(reader, 100) == b"a report"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_device_is_said() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_text(Path("/dev/full"), "a report")
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("mode", ["ab", "r+b"])
@pytest.mark.parametrize("name", ["/dev/stdout", "//dev/fd/1", "/proc/self/fd/1"])
def test_a_report_to_standard_output_leaves_what_the_file_behind_it_holds(
    tmp_path: Path, name: str, mode: str
) -> None:
    """Redirected with ``>>`` or with ``>``: a line before, the report, a line after."""
    if not Path(name).exists():
        pytest.skip(f"this system has no {name}")
    log = tmp_path / "log.txt"
    log.write_text("earlier\n" if mode == "ab" else "", "utf-8")
    script = (
        "from pathlib import Path\n"
        "from pytest_benchrig.reports.files import check_writable, write_text\n"
        "print('before')\n"
        f"check_writable(Path({name!r}), is_dir=False)\n"
        f"write_text(Path({name!r}), 'report\\n')\n"
        "print('after')\n"
    )
    with log.open(mode) as stream:
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
    lines = log.read_text("utf-8").splitlines()
    assert lines == [*(["earlier"] if mode == "ab" else []), "before", "report", "after"]
