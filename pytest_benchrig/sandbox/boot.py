"""How a fresh interpreter becomes one side of a program with nothing but the sandbox in reach.

The interpreter gets two arguments: the folder of these sources and the settings as JSON. It knows
this folder as ``pytest_benchrig.sandbox`` and no other part of the package or of site-packages.
"""

from __future__ import annotations

import functools
import marshal
import os
import sys
import sysconfig
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from pytest_benchrig.sandbox.inventory import SANDBOX_MODULES, STEM_MODULES

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

UNPACK = """\
import marshal, os, sys
class Bundle:
    codes = marshal.loads(os.pread({bundle}, os.fstat({bundle}).st_size, 0))
    folder = sys.argv[1]
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in cls.codes:
            place = cls.folder + "/" + name.rpartition(".")[2] + ".py"
            spec = type(sys.__spec__)(name, cls, origin=place)
            spec.has_location = True
            return spec
    @staticmethod
    def create_module(spec):
        return None
    @classmethod
    def exec_module(cls, module):
        exec(cls.codes.pop(module.__name__), vars(module))
os.close({bundle})
sys.meta_path.insert(0, Bundle)
del Bundle, marshal, os
"""
"""Finds the modules of a bundle, each once; everything else is found as usual."""


def command(folder: str, settings: str) -> list[str]:
    """The command line of one side.

    The options are those of ``-I`` except that ``PYTHONHASHSEED`` counts: the environment is ours.
    """
    return [interpreter(), "-s", "-S", "-B", "-X", "utf8", "-c", BOOT, folder, settings]


def stem_command(folder: str, settings: str, bundle: int) -> list[str]:
    """The command line of the process from which zygotes are forked.

    Args:
        folder: Where the sources are, inside.
        settings: What it is told.
        bundle: The descriptor of a file with :func:`bundle`.
    """
    start = BOOT.replace("pytest_benchrig.sandbox.inside", "pytest_benchrig.sandbox.stem")
    start = f"{UNPACK.format(bundle=bundle)}{start}"
    return [interpreter(), "-s", "-S", "-B", "-X", "utf8", "-c", start, folder, settings]


@functools.cache
def bundle(folder: str) -> bytes:
    """The compiled modules of both sides, as if they had been read from a folder.

    Nothing inside may write compiled files, and those outside may be missing or out of date.
    """
    found = {}
    for name in (*SANDBOX_MODULES, *STEM_MODULES):
        file = f"{name.rpartition('.')[2]}.py"
        # Not the loader that this process has used: the one of pytest rewrites asserts.
        code = SourceFileLoader(name, str(SOURCES / file)).get_code(name)
        if code is not None:
            found[name] = _moved(code, f"{folder}/{file}")
    return marshal.dumps(found)


def _moved(code: CodeType, file: str) -> CodeType:
    constants = tuple(
        _moved(part, file) if isinstance(part, CodeType) else part for part in code.co_consts
    )
    return code.replace(co_filename=file, co_consts=constants)


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
