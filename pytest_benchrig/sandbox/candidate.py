"""The process that holds the model's code, and nothing else.

It loads the source as a module and then does what the judge asks, one thing at a time. There is
nothing here that would help to forge a verdict: no assertion, no expected value, no result.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import linecache
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from pytest_benchrig.sandbox.operations import TABLE
from pytest_benchrig.sandbox.peer import Peer
from pytest_benchrig.sandbox.pristine import BUILTINS
from pytest_benchrig.sandbox.proxy import Reference, info_of
from pytest_benchrig.sandbox.wire import PeerGone, ProtocolError

__builtins__ = BUILTINS


MODULE = "solution"
SOURCE = f"{MODULE}.py"

_RECURSION_RESERVE = 60
_import = importlib.import_module
_getpid, _exit = os.getpid, os._exit


class _Names(dict[str, Any]):
    """The namespace of statements that run here: its own names, then the module's."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(__name__=module.__name__, __builtins__=BUILTINS)
        self._module = vars(module)

    def __missing__(self, name: str) -> Any:
        return self._module[name]


class _Steps:
    """Drives a coroutine of the judge from an event loop here."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __await__(self) -> _Steps:
        return self

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Run to the next suspension."""
        return info_of(self._original).peer.call(self._original, (value,), {}, "send")

    def throw(self, *fault: Any) -> Any:
        """Raise inside."""
        return info_of(self._original).peer.call(self._original, fault[-1:], {}, "throw")

    def close(self) -> None:
        """End it."""
        info_of(self._original).peer.call(self._original, (), {}, "close")


async def _drive(original: Any) -> Any:
    return await _Steps(original)


class CandidatePeer(Peer):
    """The candidate's end; it believes whatever the judge says."""

    trusting = True
    parity = 1
    source_name = SOURCE

    def __init__(self, fd: int = -1) -> None:
        super().__init__(fd)
        self._module = types.ModuleType(MODULE)
        self._names = _Names(self._module)
        self._count = 0
        self._pid = _getpid()
        self.tell_of_functions()
        self._streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
        self._verbs: dict[str, Callable[[Any, list[Any]], Any]] = {
            "load": self._load,
            "lookup": self._lookup,
            "builtin": self._builtin,
            "import": lambda extra, roots: _import(extra),
            "run": self._run,
            "evaluate": self._evaluate,
            "many": self._many,
            "fields": lambda extra, roots: tuple([getattr(roots[0], name) for name in extra]),
        }

    def new_id(self) -> int:
        """An id that differs from the others of this side."""
        self._count += 1
        return self._count

    def serve_forever(self) -> None:
        """Answer the judge; only the process that begins here ever does."""
        self._pid = _getpid()
        super().serve_forever()

    def _answer(self, ident: int, done: bool, answer: Any) -> None:
        if _getpid() != self._pid:
            # A process that the program forked and let return to here: two that answer on one
            # socket would leave to chance whose answer the judge reads.
            _exit(0)
        if type(answer) is types.FunctionType:
            self._tell_attributes(answer)
        # The process is killed at the end, so nothing may wait in a buffer.
        for stream in self._streams:
            with contextlib.suppress(Exception):
                stream.flush()
        super()._answer(ident, done, answer)

    def _tell_attributes(self, function: Any) -> None:
        """What a decorator wrote on a function of the judge belongs on the original."""
        if self.handle_of(function) is not None:
            for name, value in list(vars(function).items()):
                if not name.startswith("__"):
                    self.request("set", [function, value], name)

    def perform(self, verb: str, extra: Any, roots: list[Any]) -> Any:
        """Do what the judge asks for."""
        own = self._verbs.get(verb)
        return super().perform(verb, extra, roots) if own is None else own(extra, roots)

    def import_module(self, name: Any) -> Any:
        """The module of a name."""
        return _import(name)

    def standard(self, module: str, qualname: str) -> Any:
        """The standard library's thing of that name."""
        found: Any = _import(module)
        for part in qualname.split("."):
            found = getattr(found, part)
        return found

    def new_proxy(self, cls: Any, reference: Reference, extra: Any, parts: list[Any]) -> Any:
        """A real function for a function, a real coroutine for a coroutine."""
        plain = super().new_proxy(cls, reference, extra, parts)
        facts = cls._info.facts
        made: Any = plain
        if facts["standard"] and facts["qualname"] == "function" and extra is not None:
            made = _function(self, plain, extra, parts)
        elif facts["standard"] and facts["qualname"] == "coroutine":
            made = _drive(plain)
        if made is not plain:
            self.stubs[made] = reference
        return made

    def _load(self, extra: Any, _: list[Any]) -> dict[str, bool]:
        source, by_reference = extra
        self.by_reference = frozenset(by_reference)
        module = self._module
        module.__file__ = SOURCE
        vars(module)["__builtins__"] = builtins
        sys.modules[MODULE] = module
        lines = source.splitlines(keepends=True)
        linecache.cache[SOURCE] = (len(source), None, lines, SOURCE)
        code = compile(source, SOURCE, "exec", dont_inherit=True)
        sys.setrecursionlimit(1000 + _RECURSION_RESERVE)
        exec(code, vars(module))
        return {
            name: type(value) is types.ModuleType
            for name, value in vars(module).items()
            if type(name) is str
        }

    def _lookup(self, name: Any, _: list[Any]) -> Any:
        try:
            return self._names[name]
        except KeyError:
            raise NameError(f"name {name!r} is not defined") from None

    def _builtin(self, name: Any, _: list[Any]) -> Any:
        return BUILTINS[name]

    def _bind(self, names: list[str], values: list[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            dict.__setitem__(self._names, name, value)

    def _run(self, extra: Any, roots: list[Any]) -> Any:
        source, names, wanted = extra
        self._bind(names, roots)
        exec(compile(source, "<assertion>", "exec", dont_inherit=True), self._names)
        return self._names[wanted]

    def _evaluate(self, extra: Any, roots: list[Any]) -> Any:
        verb, names = extra
        self._bind(names, roots[1:])
        if verb == "exec":
            return exec(roots[0], self._names)
        return eval(roots[0], self._names)

    def _many(self, operation: Any, roots: list[Any]) -> list[Any]:
        function = TABLE[operation]
        answers: list[Any] = []
        for value in roots[1:]:
            try:
                answers += (True, function(roots[0], value))
            except (ProtocolError, PeerGone):
                raise
            except BaseException as problem:
                answers += (False, type(problem).__name__)
        return answers


def _function(peer: Peer, original: Any, extra: dict[str, Any], parts: list[Any]) -> Any:
    """A function with the original's signature that calls it."""
    before: list[str] = []
    positional: list[str] = []
    keywords: list[str] = []
    for index, (name, kind) in enumerate(extra["parameters"]):
        if kind == "args":
            before.append(f"*{name}")
            positional.append(f"*{name}")
        elif kind == "kwargs":
            before.append(f"**{name}")
            keywords.append(f"**{name}")
        elif kind == "keyword":
            if not any(entry.startswith("*") for entry in before):
                before.append("*")
            before.append(name)
            keywords.append(f"{name!r}: {name}")
        else:
            before.append(name)
            positional.append(name)
        if index + 1 == extra["positional_only"]:
            before.append("/")
    head = "async def" if extra["asynchronous"] else "def"
    wait = "await " if extra["asynchronous"] else ""
    body = f"return {wait}__call__(({''.join(p + ', ' for p in positional)}), "
    body += f"{{{', '.join(keywords)}}})"
    names: dict[str, Any] = {
        "__call__": lambda args, kwargs: peer.call(original, args, kwargs),
        "__name__": extra["module"],
    }
    exec(f"{head} function({', '.join(before)}):\n    {body}", names)
    made = names["function"]
    made.__defaults__, made.__kwdefaults__, made.__annotations__ = parts
    made.__name__ = extra["name"]
    made.__qualname__ = extra["qualname"]
    made.__doc__ = extra["doc"]
    return made


def main(rpc_fd: int, peer: CandidatePeer | None = None) -> None:
    """Serve the judge on a descriptor until it is gone, as a peer made ready before if given."""
    if peer is None:
        peer = CandidatePeer(rpc_fd)
    peer.fd = rpc_fd
    peer.serve_forever()
