"""How a fresh interpreter becomes one side of a program with nothing but the sandbox in reach.

The interpreter gets two arguments: the folder of these sources and the settings as JSON. It knows
this folder as ``pytest_benchrig.sandbox`` and no other part of the package or of site-packages.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
"""The folder that holds the modules of both sides."""

BOOT = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
from types import ModuleType
folder, settings = sys.argv[1:]
for name, path in (("pytest_benchrig", []), ("pytest_benchrig.sandbox", [folder])):
    module = ModuleType(name)
    module.__path__ = path
    sys.modules[name] = module
sys.argv[1:] = []
sys.orig_argv = sys.argv[:]
del ModuleType, module, name, path, folder
from pytest_benchrig.sandbox.inside import main
main(settings)
"""


def command(folder: str, settings: str) -> list[str]:
    """The command line of one side.

    The options are those of ``-I`` except that ``PYTHONHASHSEED`` counts: the environment is ours.
    """
    return [interpreter(), "-s", "-S", "-B", "-X", "utf8", "-c", BOOT, folder, settings]


def stem_command(folder: str, settings: str) -> list[str]:
    """The command line of the process from which zygotes are forked."""
    start = BOOT.replace("pytest_benchrig.sandbox.inside", "pytest_benchrig.sandbox.stem")
    return [interpreter(), "-s", "-S", "-B", "-X", "utf8", "-c", start, folder, settings]


def interpreter() -> str:
    """The interpreter that runs this process, behind the links of a virtual environment."""
    return os.path.realpath(sys.executable)


def site_packages() -> list[str]:
    """The folders of installed packages, the virtual environment's before the interpreter's."""
    found = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    if _sees_base():
        found += [sysconfig.get_path(name, vars=_base()) for name in ("purelib", "platlib")]
    return [path for path in dict.fromkeys(found) if Path(path).is_dir()]


def _base() -> dict[str, str]:
    return {
        "base": sys.base_prefix,
        "installed_base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }


def _sees_base() -> bool:
    try:
        text = Path(sys.prefix, "pyvenv.cfg").read_text("utf-8")
    except OSError:
        return True
    settings = (line.partition("=") for line in text.lower().splitlines())
    return any(
        key.strip() == "include-system-site-packages" and value.strip() == "true"
        for key, _, value in settings
    )


def read_only_paths() -> list[str]:
    """What an interpreter needs to read: itself, its standard library, the system's libraries."""
    base = Path(sys.base_prefix)
    wanted = [
        "/usr/lib",
        "/usr/lib32",
        "/usr/lib64",
        "/usr/libexec",
        "/usr/local/lib",
        "/usr/bin",
        "/usr/share/zoneinfo",
        "/lib",
        "/lib32",
        "/lib64",
        "/bin",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/nix/store",
        str(base / "lib"),
        str(base / "lib64"),
        *(sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")),
        interpreter(),
    ]
    return [path for path in dict.fromkeys(wanted) if Path(path).exists()]
