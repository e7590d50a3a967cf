"""The rules of the layout: imports point inwards, and heavy libraries stay in their place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_benchrig

PACKAGE = Path(__file__).parents[1] / "pytest_benchrig"
EDGES = ("runtimes", "sandbox", "hardware", "reports")
ONLY_IN = {
    "pytest": {"top"},
    "requests": {"runtimes"},
    "psutil": {"hardware"},
    "pynvml": {"hardware"},
    "tabulate": {"reports"},
    "jsonschema": {"core"},
    "regex": {"core"},
    "filelock": {"top", "runtimes"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else "top"


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Each imported module, and whether the import runs when the module is loaded."""
    tree = ast.parse(path.read_text("utf-8"))
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if lazy or guarded:
            inside.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node not in inside
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, node not in inside
            if node.module.startswith("pytest_benchrig"):
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node not in inside


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_point_inwards(path: Path) -> None:
    mine = part_of(path)
    for name, _ in imports_of(path):
        root = name.split(".")[0]
        if root in ONLY_IN:
            assert mine in ONLY_IN[root], f"{path.name} imports {root}"
        if root != "pytest_benchrig" or mine == "top":
            continue
        theirs = name.split(".")[1] if "." in name else "top"
        allowed = {mine, "core"} if mine in EDGES else {"core"}
        assert theirs in {*allowed, "_version"}, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_heavy_libraries_are_imported_at_first_use(path: Path) -> None:
    eager = {name.split(".")[0] for name, at_load in imports_of(path) if at_load}
    assert not eager & (set(ONLY_IN) - {"pytest"}), path.name


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_modules_fit_in_a_head(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 450, "look for the seam"


def test_an_unused_plugin_imports_nothing_of_weight() -> None:
    heavy = sorted({*ONLY_IN} - {"pytest"})
    script = (
        "import sys, pytest_benchrig.plugin\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_core_is_pure() -> None:
    forbidden = {"socket", "subprocess", "time", "threading", "multiprocessing", "urllib", "http"}
    for path in (PACKAGE / "core").glob("*.py"):
        used = {name.split(".")[0] for name, _ in imports_of(path)}
        assert not used & forbidden, path.name


def test_the_public_names_are_there_and_cost_nothing_until_used() -> None:
    script = (
        "import sys, pytest_benchrig\n"
        "early = [m for m in sys.modules if m.startswith('pytest_benchrig.')]\n"
        "found = [getattr(pytest_benchrig, name) for name in pytest_benchrig.__all__]\n"
        "print(early, all(found), sorted(set(pytest_benchrig.__all__) - set(dir(pytest_benchrig))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['pytest_benchrig._version'] True []"


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sandbox'"):
        pytest_benchrig.Sandbox  # noqa: B018 - the look-up is the test
