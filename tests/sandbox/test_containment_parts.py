"""The parts of containment that are decided before anything runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_benchrig.sandbox import namespaces, outer_bwrap, reaper, remedies, syscalls, visible
from pytest_benchrig.sandbox.flood import Flood
from pytest_benchrig.sandbox.launch import Limits
from pytest_benchrig.sandbox.limits import address_space, base_tasks, resource_limits
from pytest_benchrig.sandbox.sights import Visible, without_hidden
from pytest_benchrig.sandbox.stem import StemSettings
from pytest_benchrig.sandbox.visible import outermost

PLAIN = remedies.Facts(
    system="linux", release="6.8.0", root=False, bwrap="/usr/bin/bwrap", landlock=4
)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(PLAIN, bwrap=""), "install bubblewrap (apt install bubblewrap"),
        (replace(PLAIN, apparmor_restricts=True), "/etc/apparmor.d/bwrap"),
        (
            replace(PLAIN, apparmor_restricts=True, bwrap=""),
            "sudo apt install bubblewrap, then allow bwrap user namespaces",
        ),
        (replace(PLAIN, container=True), "--security-opt seccomp=unconfined"),
        (
            replace(PLAIN, namespaces_off="user.max_user_namespaces=15000"),
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (replace(PLAIN, wsl=1), "convert the distribution to WSL2"),
        (replace(PLAIN, system="darwin"), "use Linux, or WSL2 on Windows"),
        (PLAIN, "run bwrap --unshare-all"),
    ],
)
def test_each_cause_has_its_remedy(facts: remedies.Facts, words: str) -> None:
    assert words in remedies.for_namespaces(facts)


def test_the_remedy_for_landlock_names_the_kernel() -> None:
    assert "Linux 5.13" in remedies.for_landlock(replace(PLAIN, landlock=0))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "apparmor_restricts"),
        ({"proc/sys/kernel/unprivileged_userns_clone": "0"}, "namespaces_off"),
        ({"proc/sys/user/max_user_namespaces": "0"}, "namespaces_off"),
        ({".dockerenv": ""}, "container"),
        ({"proc/1/cgroup": "0::/kubepods/besteffort/pod1"}, "container"),
        ({"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}, "wsl"),
    ],
)
def test_facts_are_read_from_the_machine(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = remedies.facts_of(tmp_path)
    told = {"apparmor_restricts", "namespaces_off", "container", "wsl"}
    assert {name for name in told if getattr(found, name)} == {expected}


def test_wsl_versions_are_told_apart(tmp_path: Path) -> None:
    release = tmp_path / "proc/sys/kernel/osrelease"
    release.parent.mkdir(parents=True)
    release.write_text("4.4.0-19041-Microsoft\n")
    assert remedies.facts_of(tmp_path).wsl == 1
    release.write_text("5.15.90.1-microsoft-standard-WSL2\n")
    assert remedies.facts_of(tmp_path).wsl == 2


def test_only_the_outermost_paths_are_shown() -> None:
    assert outermost(["/usr/lib", "/usr/lib/x", "/usr/lib64", "/usr/lib"]) == [
        "/usr/lib",
        "/usr/lib64",
    ]


def test_the_home_is_never_shown_with_the_interpreter() -> None:
    shown = visible.visible(packages=False)
    for home in visible.homes():
        for path in shown.shown:
            assert not home.is_relative_to(path), f"{path} shows {home}"
    assert any(Path(os.__file__).is_relative_to(Path(path).resolve()) for path in shown.shown)


def test_an_interpreter_installed_into_a_home_shows_its_library_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib/python3.11").mkdir(parents=True)
    (tmp_path / "secret").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    inside = [path for path in visible.visible(packages=False).shown if str(tmp_path) in path]
    assert str(tmp_path) not in inside
    assert str(tmp_path / "lib") not in inside


def test_installed_packages_are_hidden_unless_asked_for() -> None:
    assert visible.visible(packages=False).packages == ()
    asked = visible.visible(packages=True)
    assert asked.packages
    for folder in asked.packages:
        assert folder not in asked.hidden
        # The package itself may be installed there, with the expected answers of its scenarios.
        own = str(Path(folder, "pytest_benchrig"))
        assert (own in asked.hidden) == Path(own).is_dir()


def test_rules_that_only_allow_leave_out_what_is_hidden(tmp_path: Path) -> None:
    for name in ("lib/python/site-packages", "lib/python/json", "lib/other"):
        (tmp_path / name).mkdir(parents=True)
    top = str(tmp_path / "lib")
    shown = Visible(shown=(top,), links=(), hidden=(f"{top}/python/site-packages",))
    readable, listed = without_hidden(shown)
    assert sorted(readable) == [f"{top}/other", f"{top}/python/json"]
    assert listed == [top, f"{top}/python"]


def _settings(*, real_root: bool) -> StemSettings:
    shown = {
        "shown": ("/home/me/py/lib",),
        "links": (("/lib", "usr/lib"),),
        "hidden": ("/home/me/py/lib/site-packages",),
        "packages": (),
    }
    return StemSettings("bwrap", {}, 0, "/src", shown, {}, real_root)


def test_the_command_line_of_bwrap_shows_the_library_and_no_home() -> None:
    words = outer_bwrap.outer_command("bwrap", _settings(real_root=False), "/src", ["python"])
    text = " ".join(words)
    assert "--ro-bind /home/me/py/lib /home/me/py/lib" in text
    assert "--perms 0755 --dir /home/me" in text
    assert "--ro-bind / " not in text
    assert "--proc" not in words
    assert "--cap-drop ALL" in text
    assert "--unshare-user" in words
    assert "CAP_SETUID" not in words
    assert words[-2:] == ["--", "python"]


def test_root_keeps_what_it_needs_to_stop_being_root() -> None:
    words = outer_bwrap.outer_command("bwrap", _settings(real_root=True), "/src", ["python"])
    kept = [words[i + 1] for i, word in enumerate(words) if word == "--cap-add"]
    assert kept == ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    assert "--unshare-user" not in words


def test_the_judge_gets_more_time_and_a_larger_stack() -> None:
    limits = Limits(wall_sec=10, memory_mb=100, processes=5, file_size_mb=2)
    candidate = resource_limits(limits, judge=False, base_tasks=4)
    judge = resource_limits(limits, judge=True, base_tasks=4)
    assert candidate == {
        "RLIMIT_CORE": 0,
        "RLIMIT_AS": 100 << 20,
        "RLIMIT_CPU": 11,
        "RLIMIT_FSIZE": 2 << 20,
        "RLIMIT_NOFILE": 128,
        "RLIMIT_NPROC": 9,
    }
    assert judge["RLIMIT_CPU"] == 12
    assert judge["RLIMIT_STACK"] < 128 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_processes_are_counted_where_the_kernel_counts_all_of_the_user() -> None:
    assert base_tasks(own_user_namespace=True, release="5.14.0-427.el9", uid=os.getuid()) == 10
    assert base_tasks(own_user_namespace=True, release="4.18.0", uid=os.getuid()) > 256
    assert base_tasks(own_user_namespace=False, release="6.8.0", uid=os.getuid()) > 256


def test_the_size_of_a_process_is_its_first_figure() -> None:
    assert address_space(b"100 50 20 1 0 30 0\n") == 100 * os.sysconf("SC_PAGE_SIZE")


def test_descendants_are_found_through_the_table() -> None:
    table = {2: 1, 3: 2, 4: 3, 5: 1, 6: 99}
    assert reaper.descendants(2, table) == {3, 4}
    assert reaper.descendants(1, table) == {2, 3, 4, 5}


def test_a_name_with_parentheses_does_not_hide_the_parent(tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42/stat").write_text("42 (a) R 1 (b) S 7 42 42 0")
    assert reaper.parents(tmp_path) == {42: 7}


@pytest.mark.parametrize("pid", [1, 0, -1, -500])
def test_groups_and_everything_are_never_killed(pid: int) -> None:
    with pytest.raises(ValueError, match="no single process"):
        reaper.kill(pid)


def test_a_private_folder_has_a_size(tmp_path: Path) -> None:
    flood = Flood(str(tmp_path), os.getpid(), Limits(file_size_mb=1))
    assert not flood.exceeded()
    (tmp_path / "deep").mkdir()
    for number in range(3):
        (tmp_path / "deep" / str(number)).write_bytes(b"x" * (512 << 10))
    assert flood.exceeded()


def test_a_file_system_of_its_own_needs_no_watch() -> None:
    flood = Flood(None, os.getpid(), Limits())
    assert not flood.watching
    assert not flood.exceeded()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_the_root_of_this_machine_is_told_from_that_of_a_namespace() -> None:
    if os.geteuid() != 0:
        assert not namespaces.is_real_root()
    else:
        text = Path("/proc/self/uid_map").read_text().split()
        assert namespaces.is_real_root() == (int(text[2]) > syscalls.NOBODY)
