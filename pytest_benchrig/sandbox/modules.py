"""Which interpreter an import in an assertion means.

Modules of pure functions are the judge's own: a candidate that patched them cannot reach an
assertion. Modules that act on the interpreter, its streams, files, threads or event loop only make
sense in the one that runs the code, so what an assertion does with them happens in the candidate.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from pytest_benchrig.sandbox.judging import JudgePeer

_REMOTE = frozenset(
    [
        "_thread",
        "asyncio",
        "atexit",
        "builtins",
        "codecs",
        "concurrent",
        "contextvars",
        "copyreg",
        "ctypes",
        "dis",
        "fileinput",
        "gc",
        "getpass",
        "glob",
        "importlib",
        "inspect",
        "io",
        "linecache",
        "locale",
        "logging",
        "marshal",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "pickletools",
        "queue",
        "readline",
        "resource",
        "sched",
        "select",
        "selectors",
        "shelve",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "trace",
        "traceback",
        "tracemalloc",
        "warnings",
        "weakref",
        "xml",
    ]
)
PATHS = ("late.PosixPath", "late.WindowsPath")
"""Tags of the paths that lead to files."""

_FILES = frozenset(["tempfile", "os", "shutil", "glob", "open"])
_QUIET = frozenset(("asyncio",))
"""Remote, but what comes back is judged by value: not counted as delegated."""

_SYS_LOCAL = frozenset(
    [
        "byteorder",
        "exc_info",
        "exception",
        "float_info",
        "hash_info",
        "hexversion",
        "implementation",
        "int_info",
        "maxsize",
        "maxunicode",
        "platform",
        "version",
        "version_info",
    ]
)
_OS_LOCAL = frozenset(
    [
        "altsep",
        "curdir",
        "devnull",
        "extsep",
        "fspath",
        "linesep",
        "name",
        "pardir",
        "pathsep",
        "sep",
    ]
)
_PATH_LOCAL = frozenset(
    [
        "basename",
        "commonpath",
        "commonprefix",
        "dirname",
        "isabs",
        "join",
        "normcase",
        "normpath",
        "sep",
        "split",
        "splitext",
        "relpath",
    ]
)
_BY_ARGUMENT = {
    "dataclasses": ("asdict", "astuple", "fields", "is_dataclass", "replace"),
    "typing": ("get_type_hints",),
    "types": ("new_class",),
}
_CURRENT = {"format_exc": "format_exception", "print_exc": "print_exception"}
"""What acts on the exception that is being handled, here, and the same for one that is given."""

_WATCHING = ("assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex")
_CONTEXTS = frozenset(("getcontext", "setcontext", "localcontext"))


class Blend(types.ModuleType):
    """A module some of whose names are the judge's own and some the candidate's."""

    def __init__(self, name: str, find: Callable[[str], Any], write: Callable[..., None]) -> None:
        super().__init__(name)
        object.__setattr__(self, "_find", find)
        object.__setattr__(self, "_write", write)

    def __getattr__(self, name: str) -> Any:
        return object.__getattribute__(self, "_find")(name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__getattribute__(self, "_write")(name, value)


class _BothContexts:
    """The decimal contexts of both interpreters, changed together."""

    def __init__(self, local: Any, remote: Any) -> None:
        object.__setattr__(self, "_both", (local, remote))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._both[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        for context in self._both:
            setattr(context, name, value)

    def __enter__(self) -> _BothContexts:
        return _BothContexts(*(context.__enter__() for context in self._both))

    def __exit__(self, *fault: Any) -> None:
        for context in self._both:
            context.__exit__(None, None, None)


class Modules:
    """Finds modules for the assertions.

    Args:
        peer: The way to the candidate.
        delegated: Called when something is left to the candidate's interpreter.
        candidate: Finds a name of the candidate's own module.
    """

    def __init__(
        self,
        peer: JudgePeer,
        *,
        delegated: Callable[[], None],
        candidate: Callable[[str], Any],
    ) -> None:
        self._peer = peer
        self._written: frozenset[str] = frozenset()
        self.files = False
        """Whether the assertions use files, which are the candidate's."""
        self._delegated = delegated
        self._candidate = candidate
        self._site_packages = False
        self._blends: dict[str, Any] = {
            "contextlib": self._contextlib,
            "decimal": self._decimal,
            "os": lambda name: self._some("os", name, _OS_LOCAL, {"path": "os.path"}),
            "os.path": lambda name: self._some("os.path", name, _PATH_LOCAL, {}),
            "random": self._random,
            "sys": lambda name: self._some("sys", name, _SYS_LOCAL, {}),
            "traceback": self._traceback,
            "unittest": self._unittest,
            **{name: self._by_argument(name) for name in _BY_ARGUMENT},
        }
        self._made: dict[str, Any] = {}

    def expect(
        self, words: frozenset[str], written: frozenset[str], *, site_packages: bool
    ) -> None:
        """Be told what the assertions do, before the first is evaluated.

        Args:
            words: All names in all assertions.
            written: Modules that an assertion assigns attributes of, so that both must see it.
            site_packages: Whether installed packages may be imported, in the candidate.
        """
        self._written = written
        self.files = bool(words & _FILES)
        self._site_packages = site_packages

    def __call__(
        self,
        name: str,
        globals_: Any = None,
        locals_: Any = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """``__import__`` of the assertions."""
        if level:
            raise ImportError("attempted relative import in an assertion")
        found = self.get(name)
        if fromlist or "." not in name:
            return found
        return self.get(name.partition(".")[0])

    def get(self, name: str) -> Any:
        """The module of a dotted name.

        Raises:
            ImportError: Neither side has it.
        """
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._find(name)
        if self._is_remote(name) and name.partition(".")[0] not in _QUIET:
            self._delegated()
        return found

    def _is_remote(self, name: str) -> bool:
        top = name.partition(".")[0]
        if name in self._blends:
            return False
        if top == "pathlib":
            return self.files
        return top in _REMOTE or name in self._written or name == "unittest.mock"

    def _find(self, name: str) -> Any:
        if name in self._blends:
            return Blend(name, self._blends[name], lambda key, value: self._write(name, key, value))
        if self._is_remote(name):
            return self._peer.request("import", [], name)
        try:
            return importlib.import_module(name)
        except ImportError:
            return self._elsewhere(name)

    def _elsewhere(self, name: str) -> Any:
        if self._site_packages:
            try:
                found = self._peer.request("import", [], name)
            except ImportError:
                pass
            else:
                self._delegated()
                return found

        def find(key: str) -> Any:
            try:
                return self._candidate(key)
            except NameError:
                raise AttributeError(f"module {name!r} has no attribute {key!r}") from None

        def write(key: str, value: Any) -> None:
            raise AttributeError(f"attribute {key!r} of {name!r} cannot be set")

        if "." in name:
            raise ImportError(f"No module named {name!r}", name=name)
        return Blend(name, find, write)

    def _remote(self, module: str, name: str) -> Any:
        self._delegated()
        return getattr(self._peer.request("import", [], module), name)

    def _write(self, module: str, name: str, value: Any) -> None:
        self._delegated()
        setattr(self._peer.request("import", [], module), name, value)

    def _some(self, module: str, name: str, local: frozenset[str], inner: dict[str, str]) -> Any:
        if name in inner:
            return self.get(inner[name])
        if name in local and module not in self._written:
            return getattr(importlib.import_module(module), name)
        return self._remote(module, name)

    def _contextlib(self, name: str) -> Any:
        if name in ("redirect_stdout", "redirect_stderr", "chdir"):
            return self._remote("contextlib", name)
        return getattr(importlib.import_module("contextlib"), name)

    def _unittest(self, name: str) -> Any:
        if name == "mock":
            return self.get("unittest.mock")
        found = getattr(importlib.import_module("unittest"), name)
        if name != "TestCase":
            return found

        def there(method: str) -> Callable[..., Any]:
            return lambda _, *args, **kwargs: getattr(self._remote("unittest", name)(), method)(
                *args, **kwargs
            )

        # Logs and warnings come up in the interpreter that runs the code.
        return type(name, (found,), {method: there(method) for method in _WATCHING})

    def _traceback(self, name: str) -> Any:
        remote = self._remote("traceback", name)
        if name not in _CURRENT:
            return remote

        def current(*args: Any, **kwargs: Any) -> Any:
            fault = sys.exc_info()[1]
            if fault is None:
                return remote(*args, **kwargs)
            whole = self._remote("traceback", _CURRENT[name])(fault, *args, **kwargs)
            return "".join(whole) if name == "format_exc" else whole

        return current

    def _random(self, name: str) -> Any:
        if "random" in self._written:
            return self._remote("random", name)
        found = getattr(importlib.import_module("random"), name)
        if name not in ("seed", "setstate"):
            return found

        def both(*args: Any, **kwargs: Any) -> Any:
            self._remote("random", name)(*args, **kwargs)
            return found(*args, **kwargs)

        return both

    def _decimal(self, name: str) -> Any:
        found = getattr(importlib.import_module("decimal"), name)
        if name not in _CONTEXTS:
            return found

        def both(*args: Any, **kwargs: Any) -> Any:
            return _BothContexts(
                found(*args, **kwargs), self._remote("decimal", name)(*args, **kwargs)
            )

        return both

    def _by_argument(self, module: str) -> Callable[[str], Any]:
        def find(name: str) -> Any:
            local = getattr(importlib.import_module(module), name)
            if name not in _BY_ARGUMENT[module]:
                return local

            def either(*args: Any, **kwargs: Any) -> Any:
                if any(map(self._peer.is_theirs, args)):
                    return self._remote(module, name)(*args, **kwargs)
                return local(*args, **kwargs)

            return either

        return find
