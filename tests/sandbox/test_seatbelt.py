"""The rules of macOS's sandbox; they are put in force only there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_benchrig.sandbox.isolation import choose
from pytest_benchrig.sandbox.launch import Unavailable
from pytest_benchrig.sandbox.seatbelt import SeatbeltLauncher, profile


def test_everything_is_denied_but_what_is_named(tmp_path: Path) -> None:
    text = profile(["/opt/python"], str(tmp_path))
    lines = text.splitlines()
    assert lines[:3] == ["(version 1)", "(deny default)", "(deny network*)"]
    writable = [line for line in lines if "file-write*" in line]
    assert writable == [f'(allow file-read* file-write* (subpath "{tmp_path.resolve()}"))']
    assert '(subpath "/opt/python")' in text
    assert "(allow signal (target same-sandbox))" in lines
    assert str(Path("~").expanduser()) not in text.replace(str(tmp_path.resolve()), "")
    assert text.count("(") == text.count(")")


def test_names_of_folders_cannot_become_rules(tmp_path: Path) -> None:
    home = tmp_path / 'a") (allow default) ("'
    home.mkdir()
    text = profile([], str(home))
    assert '\\") (allow default) (\\"' in text
    assert "\n(allow default)" not in text


def test_the_server_is_started_under_the_profile() -> None:
    launcher = SeatbeltLauncher()
    try:
        words = launcher.command("boot")
        assert words[:2] == ["/usr/bin/sandbox-exec", "-p"]
        assert words[-1] == "boot"
        assert str(Path(launcher.folder).resolve()) in words[2]
    finally:
        launcher.close()
    assert not Path(launcher.folder).exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="there it may work")
def test_elsewhere_it_says_where_it_belongs() -> None:
    found = choose("seatbelt")
    assert isinstance(found, Unavailable)
    assert found.remedy == "seatbelt is part of macOS"
