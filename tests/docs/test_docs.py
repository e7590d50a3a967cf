"""README and docs tell the truth: every option, every example."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchrig.options import OPTIONS, ini_name
from pytest_benchrig.scenario_io import load_text

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for number, match in enumerate(re.finditer(rf"```{language}\n(.*?)```", text, re.DOTALL)):
            yield f"{page.name}-{number}", match[1]


def examples(language: str) -> pytest.MarkDecorator:
    found = list(blocks(language))
    return pytest.mark.parametrize("text", [t for _, t in found], ids=[i for i, _ in found])


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 200


def test_every_option_and_ini_key_is_documented() -> None:
    usage = (ROOT / "docs/usage.md").read_text("utf-8")

    for option in OPTIONS.values():
        assert f"`{ini_name(option.name)}`" in usage
        assert option.help.replace("|", "\\|") in usage
        if option.on_command_line:
            assert option.flag in usage


@examples("bash")
def test_the_options_in_the_examples_exist(text: str) -> None:
    flags = {option.flag for option in OPTIONS.values()}
    for line in text.replace("\\\n", " ").splitlines():
        for word in shlex.split(line, comments=True):
            if word.startswith("--benchrig"):
                assert word.split("=")[0] in flags, line


@examples("python")
def test_python_examples_compile(text: str) -> None:
    compile(text, "example", "exec")


@examples("json")
def test_json_examples_parse(text: str) -> None:
    json.loads(text)


def test_the_readmes_scenario_loads() -> None:
    text = next(text for name, text in blocks("json") if name.startswith("README"))

    loaded = load_text(text, "capitals.json")

    assert loaded.problems == ()
    assert loaded.scenarios[0].id == "capital_france"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:\s]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_ci_runs_the_readmes_own_command() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    command = re.search(r"<!-- test command -->\n```bash\n(.*?)\n```", readme)

    assert command is not None
    assert "pytest" in command[1]
    assert "<!-- test command -->" in (ROOT / ".ci/run").read_text("utf-8")


HOSTS = {"127.0.0.1", "localhost", "gpu", "gpu.lan", "host", "json-schema.org", "github.com"}
"""The hosts that package and documents may name: loopback, made-up ones, two references."""


def test_nothing_names_a_place_outside_the_project() -> None:
    places = re.compile("|".join(re.escape(f"{p}/") for p in (ROOT, Path.home()) if p.name))
    for folder in ("pytest_benchrig", "docs", "benchmarks", "scenarios", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if not path.is_file() or path.suffix not in {".py", ".md", ".json", ""}:
                continue
            text = path.read_text("utf-8", "replace")
            assert places.search(text) is None, path
            for host in re.findall(r"https?://(?:[^/@\s\"']*@)?([A-Za-z0-9.-]*[A-Za-z0-9])", text):
                assert host in HOSTS, f"{path}: {host}"
