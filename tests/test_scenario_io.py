"""Scenario files on the disk: encodings, odd files, and where prompt files are looked for."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig import scenario_io
from pytest_benchrig.core import schema
from pytest_benchrig.core.scenario import ContextSpec
from pytest_benchrig.core.selfcheck import selfcheck_cases, verdict_of_case
from pytest_benchrig.scenario_io import load_file

ENTRY = {"id": "quick", "kind": "speed", "prompt": "Zażółć"}


def step(prompt_file: str) -> list[dict[str, Any]]:
    return [{"id": "doc", "context_tokens": 512, "prompt_file": prompt_file, "query": "Why?"}]


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, "utf-8")
    return path


def only_problem(path: Path, root: Path) -> str:
    loaded = load_file(path, root)
    assert loaded.scenarios == ()
    (problem,) = loaded.problems
    return str(problem)


def prompt_of(path: Path, root: Path) -> str:
    loaded = load_file(path, root)
    assert [str(p) for p in loaded.problems] == []
    spec = loaded.scenarios[0].spec
    assert isinstance(spec, ContextSpec)
    return spec.prompt_text


def test_paths_in_messages_are_relative_to_the_root(tmp_path: Path) -> None:
    inside = write(tmp_path / "root" / "scenarios" / "a.json", [ENTRY])
    outside = write(tmp_path / "a.json", [ENTRY])
    assert load_file(inside, tmp_path / "root").scenarios[0].path == "scenarios/a.json"
    assert load_file(outside, tmp_path / "root").scenarios[0].path == str(outside)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_byte_order_mark_of_utf_8_and_any_line_end_are_taken(
    tmp_path: Path, newline: str
) -> None:
    text = json.dumps([ENTRY], indent=1, ensure_ascii=False).replace("\n", newline)
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    (scenario,) = load_file(path, tmp_path).scenarios
    assert (scenario.prompt, scenario.line) == ("Zażółć", 2)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.json"
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    path.write_bytes((mark + json.dumps([ENTRY])).encode(encoding))
    assert only_problem(path, tmp_path) == (
        f"a.json:1: is {encoding.upper()[:6]}, expected UTF-8; save it as UTF-8"
    )


def test_bytes_that_are_no_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[\n{"id": "a", "prompt": "Za\xbf"}]')
    assert only_problem(path, tmp_path) == (
        "a.json:2: is not UTF-8: byte 0xbf in line 2; save it as UTF-8"
    )


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    assert only_problem(tmp_path / "folder.json", tmp_path).endswith("is a directory, not a file")
    assert only_problem(tmp_path / "gone.json", tmp_path) == "gone.json:1: does not exist"
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nowhere")
    assert "is not a regular file" in only_problem(tmp_path / "dangling.json", tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    assert "is not a regular file" in only_problem(tmp_path / "pipe.json", tmp_path)


def test_a_file_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_io, "LARGEST_FILE", 1024 * 1024)
    path = write(tmp_path / "a.json", " " * (1024 * 1024 + 1))
    assert only_problem(path, tmp_path) == "a.json:1: is larger than 1 MiB; split it"


class TestPromptFiles:
    def test_the_root_comes_first_then_the_folder_then_its_parent(self, tmp_path: Path) -> None:
        path = write(tmp_path / "packs" / "mine" / "context.json", step("doc.txt"))
        write(tmp_path / "packs" / "doc.txt", "parent")
        assert prompt_of(path, tmp_path) == "parent"
        write(tmp_path / "packs" / "mine" / "doc.txt", "folder")
        assert prompt_of(path, tmp_path) == "folder"
        write(tmp_path / "doc.txt", "root")
        assert prompt_of(path, tmp_path) == "root"

    def test_a_folder_may_be_named(self, tmp_path: Path) -> None:
        path = write(tmp_path / "scenarios" / "context.json", step("prompts/doc.txt"))
        write(tmp_path / "scenarios" / "prompts" / "doc.txt", "text\r\nmore")
        assert prompt_of(path, tmp_path) == "text\nmore"

    def test_a_missing_one_says_where_it_was_looked_for(self, tmp_path: Path) -> None:
        path = write(tmp_path / "scenarios" / "context.json", step("doc.txt"))
        text = only_problem(path, tmp_path)
        assert text.startswith('scenarios/context.json:1: entry "doc": field "prompt_file": doc')
        for folder in (tmp_path, tmp_path / "scenarios"):
            assert str(folder / "doc.txt") in text

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("/etc/hostname", "expected a relative path"),
            ("C:\\secret.txt", "expected a relative path"),
            ("C:secret.txt", "expected a relative path"),
            ("\\\\server\\share\\x.txt", "expected a relative path"),
            ("../doc.txt", '".." is not allowed'),
            ("prompts/../../doc.txt", '".." is not allowed'),
            ("prompts\\..\\doc.txt", '".." is not allowed'),
            ("a\0b", "a\\x00b"),
            ("x" * 5000, "x"),
            (".", "is a directory"),
            ("empty.txt", "is empty"),
            ("latin.txt", "is not UTF-8"),
        ],
    )
    def test_what_cannot_be_taken(self, tmp_path: Path, name: str, message: str) -> None:
        write(tmp_path / "doc.txt", "outside")
        write(tmp_path / "root" / "empty.txt", " \n")
        (tmp_path / "root" / "latin.txt").write_bytes(b"Za\xbf")
        path = write(tmp_path / "root" / "scenarios" / "context.json", step(name))
        assert message in only_problem(path, tmp_path / "root")

    def test_a_link_that_leaves_its_folder_is_refused(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        write(tmp_path / "secret.txt", "secret")
        write(tmp_path / "away" / "doc.txt", "secret")
        path = write(root / "scenarios" / "context.json", step("link.txt"))
        (root / "link.txt").symlink_to(tmp_path / "secret.txt")
        assert "is a link that leaves" in only_problem(path, root)
        (root / "folder").symlink_to(tmp_path / "away")
        write(path, step("folder/doc.txt"))
        assert "is a link that leaves" in only_problem(path, root)

    def test_a_link_inside_its_folder_is_followed(self, tmp_path: Path) -> None:
        write(tmp_path / "real.txt", "text")
        (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
        assert prompt_of(write(tmp_path / "a.json", step("link.txt")), tmp_path) == "text"


DOCUMENT = Path(__file__).parents[1] / "docs" / "scenarios.md"
EXAMPLES = re.findall(
    r"^```json\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_documented_examples_load_and_pass_their_self_check(tmp_path: Path, text: str) -> None:
    loaded = load_file(write(tmp_path / "example.json", text), tmp_path)
    assert [str(p) for p in loaded.problems] == []
    for scenario in loaded.scenarios:
        for case in selfcheck_cases(scenario) if scenario.kind != "coding" else ():
            assert (verdict_of_case(scenario, case).passed is True) == case.must_pass, case


def test_the_document_names_every_field() -> None:
    text = DOCUMENT.read_text("utf-8")
    fields = schema.fields_of("partial") | schema.fields_of("options") | schema.fields_of("turn")
    assert sorted(name for name in fields if f"`{name}`" not in text) == []
