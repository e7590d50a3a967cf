"""What a contained process may see of this machine's files: its interpreter and the libraries.

Nothing here shows a user's home: where the interpreter lives in one, only its own library folder
is shown, at the path where it is, below empty folders.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from pytest_benchrig.sandbox.boot import interpreter, site_packages
from pytest_benchrig.sandbox.sights import Visible

PACKAGE = Path(__file__).resolve().parents[1]

_SYSTEM = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld-musl-aarch64.path",
    "/usr/share/zoneinfo",
)
_STORES = ("/nix/store", "/gnu/store")
_PACKAGES = ("site-packages", "dist-packages")


def visible(*, packages: bool) -> Visible:
    """What is shown to programs, with or without the installed packages."""
    found = site_packages() if packages else []
    wanted = [*_SYSTEM, *_interpreter_paths(), *found]
    links = []
    real = []
    for path in wanted:
        place = Path(path)
        if place.is_symlink() and place.parent == Path("/"):
            links.append((path, str(place.readlink())))
        elif place.exists():
            real.append(str(place))
    shown = outermost(real)
    hidden = [path for path in _package_folders(shown) if path not in found]
    hidden += [str(Path(path, PACKAGE.name)) for path in found]
    return Visible(
        shown=tuple(shown),
        links=tuple(dict.fromkeys(links)),
        hidden=tuple(path for path in dict.fromkeys(hidden) if Path(path).is_dir()),
        packages=tuple(found),
    )


def outermost(paths: list[str]) -> list[str]:
    """The paths that lie inside no other, in order, each once."""
    unique = list(dict.fromkeys(paths))
    return [
        path
        for path in unique
        if not any(path != other and path.startswith(f"{other.rstrip('/')}/") for other in unique)
    ]


def homes() -> list[Path]:
    """Folders that must never be shown as a whole: the user's home and what holds homes."""
    found = [Path("/home"), Path("/root"), Path("/Users")]
    for place in (Path(os.environ.get("HOME", "")), Path("~").expanduser()):
        if place.is_absolute():
            found += [place, place.resolve()]
    return [path for path in dict.fromkeys(found) if path != Path("/")]


def _interpreter_paths() -> list[str]:
    """The interpreter, its standard library, and the libraries beside it."""
    base = Path(sys.base_prefix).resolve()
    names = ("stdlib", "platstdlib")
    fixed = {
        "base": sys.base_prefix,
        "installed_base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }
    paths = [interpreter(), *(sysconfig.get_path(name, vars=fixed) for name in names)]
    library = base / "lib"
    if not any(home == base or home.is_relative_to(base) for home in homes()):
        paths.append(str(library))
    else:
        # An interpreter installed straight into a home: its own libraries, file by file.
        paths += [str(path) for path in library.glob("libpython*")]
    paths += [store for store in _STORES if str(base).startswith(f"{store}/")]
    return [path for path in paths if path]


def _package_folders(shown: list[str]) -> list[str]:
    """Folders of installed packages inside the shown ones, at the places where they are put."""
    found = []
    for path in shown:
        top = Path(path)
        if not top.is_dir() or path in _STORES:
            continue
        candidates = [top, *top.glob("python3*"), *top.glob("python/python3*")]
        found += [str(folder / name) for folder in candidates for name in _PACKAGES]
    return [path for path in found if Path(path).is_dir()]
