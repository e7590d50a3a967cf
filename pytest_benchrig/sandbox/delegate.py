"""What the judge leaves to the candidate's interpreter, and what it keeps back.

A class that derives from one of the candidate's must be made there. Its source is sent, its bases
and the names it reads are sent as values, and each ``assert`` in it becomes a call that brings the
local variables here, where the test is evaluated: the literals of a test never leave the judge.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from pytest_benchrig.sandbox.judging import JudgePeer
from pytest_benchrig.sandbox.layouts import mro_of
from pytest_benchrig.sandbox.names import Names, free_names
from pytest_benchrig.sandbox.proxy import RemoteMeta, local_class

_CHECK = "__benchrig_check__"
_build_class = builtins.__build_class__
_isinstance = isinstance
_issubclass = issubclass


class Delegate:
    """The builtins of the assertions that differ from the interpreter's."""

    def __init__(self, peer: JudgePeer) -> None:
        self.used = False
        self.names: Names
        self.importer: Callable[..., Any]
        self._peer = peer
        self._classes: dict[tuple[str, int, str], ast.ClassDef] = {}
        self._tests: list[Any] = []
        self.builtins = self._builtins()
        """The ``__builtins__`` of the assertions."""

    def mark(self) -> None:
        """Note that the outcome rests on the candidate's interpreter."""
        self.used = True

    def learn(self, nodes: Iterable[ast.AST], file: str) -> None:
        """Remember the classes of an assertion, in case one must be made over there."""
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                # As it was written: what is added for the judge means nothing over there.
                self._classes[file, first, node.name] = deepcopy(node)

    def leave_printing(self) -> None:
        """The assertions look at what is printed, which is the candidate's business."""
        self.builtins["print"] = self._over_there("print")

    def _builtins(self) -> dict[str, Any]:
        made = dict(vars(builtins))
        made.pop("breakpoint", None)
        made["__import__"] = lambda *args, **kwargs: self.importer(*args, **kwargs)
        made["__build_class__"] = self._make_class
        made["id"] = self._identity
        made["isinstance"] = self._is_instance
        made["issubclass"] = self._is_subclass
        made["eval"] = lambda source, *spaces: self._evaluate("eval", source, *spaces)
        made["exec"] = lambda source, *spaces: self._evaluate("exec", source, *spaces)
        for name in ("open", "input", "compile"):
            made[name] = self._over_there(name)
        return made

    def _over_there(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.mark()
            return self._peer.request("builtin", [], name)(*args, **kwargs)

        return call

    def _evaluate(self, verb: str, source: Any, *spaces: Any) -> Any:
        # Text that may come from the candidate is never evaluated here.
        self.mark()
        if spaces:
            return self._peer.request("builtin", [], verb)(source, *spaces)
        values: dict[str, Any] = {}
        if type(source) is str:
            try:
                wanted = free_names(ast.parse(source.strip()))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                wanted = set()
            frame = sys._getframe(2)
            values = self._values(wanted, frame.f_locals)
        return self._peer.request("evaluate", [source, *values.values()], [verb, list(values)])

    def _values(self, wanted: set[str], local: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in sorted(wanted):
            if name in local:
                values[name] = local[name]
            elif dict.__contains__(self.names, name):
                values[name] = self.names[name]
            elif name not in self.names.candidates and name in sys.stdlib_module_names:
                values[name] = self.importer(name)
        return values

    def class_of(self, thing: Any, *rest: Any) -> Any:
        """``type(thing)`` as the candidate sees it: metaclasses, functions, generators."""
        kind = type(thing, *rest)
        if kind is RemoteMeta:
            kind = self._peer.request("type", [thing])
        return local_class(kind) or kind if type(kind) is RemoteMeta else kind

    def _identity(self, thing: Any) -> Any:
        # A stand-in may be let go and made again while its original lives on.
        return self._peer.request("id", [thing]) if self._peer.is_theirs(thing) else id(thing)

    def _is_instance(self, thing: Any, classes: Any) -> bool:
        if _isinstance(thing, classes):
            return True
        if type(thing) is RemoteMeta:
            wanted = classes if type(classes) is tuple else (classes,)
            metaclass = self.class_of(thing)
            return any(_isinstance(c, type) and c in mro_of(metaclass) for c in wanted)
        return type(type(thing)) is RemoteMeta and _descends(type(thing), classes)

    def _is_subclass(self, thing: Any, classes: Any) -> bool:
        if _issubclass(thing, classes):
            return True
        return type(thing) is RemoteMeta and _descends(thing, classes)

    def _make_class(self, body: Any, name: str, *bases: Any, **keywords: Any) -> Any:
        metaclass = keywords.get("metaclass")
        if not any(type(base) is RemoteMeta for base in (*bases, metaclass)) and not any(
            self._peer.is_theirs(base) for base in bases
        ):
            return _build_class(body, name, *bases, **keywords)
        self.mark()
        code = body.__code__
        node = self._classes[code.co_filename, code.co_firstlineno, name]
        frame = sys._getframe(1)
        values: dict[str, Any] = {}
        slots: list[ast.expr] = []
        for index, base in enumerate(bases):
            values[f"__base{index}__"] = base
            slots.append(ast.Name(f"__base{index}__", ast.Load()))
        arguments = []
        for key, value in keywords.items():
            values[f"__{key}__keyword__"] = value
            arguments.append(ast.keyword(key, ast.Name(f"__{key}__keyword__", ast.Load())))
        inside = frame.f_locals is not self.names
        inner = _Checks(self, code.co_filename, frame.f_locals if inside else {})
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._peer.pledges.require(statement)
        copy = ast.ClassDef(
            name=name,
            bases=slots,
            keywords=arguments,
            body=[inner.visit(deepcopy(statement)) for statement in node.body],
            decorator_list=[],
        )
        if sys.version_info >= (3, 12):
            copy.type_params = []
        wanted = free_names(ast.Module([*node.body], []))
        values.update(self._values(wanted, frame.f_locals))
        values[_CHECK] = self.check
        source = ast.unparse(ast.fix_missing_locations(ast.Module([copy], [])))
        return self._peer.request("run", list(values.values()), [source, list(values), name])

    def keep(self, test: Any, names: list[str], around: dict[str, Any], line: int) -> int:
        """Keep the test of an ``assert`` back, as a function of the names it reads; its number."""
        self._tests.append((eval(test, self.names), names, around, line))
        return len(self._tests) - 1

    def check(self, number: int, local: dict[str, Any]) -> None:
        """Evaluate a kept test with the local variables of the code that came to it."""
        test, names, around, line = self._tests[number]
        values = []
        for name in names:
            found = next((scope for scope in (local, around) if name in scope), self.names)
            try:
                values.append(found[name])
            except KeyError:
                raise NameError(f"name {name!r} is not defined") from None
        if not test(*values):
            raise AssertionError("an assertion inside a class of the assertions")
        self._peer.pledges.held_at(line)


def _descends(thing: type, classes: Any) -> bool:
    """Whether a class over there derives from a standard class, as the candidate tells it."""
    known = {
        tuple(pair)
        for cls in mro_of(thing)
        if type(cls) is RemoteMeta
        for pair in type.__getattribute__(cls, "_info").facts["ancestors"]
    }
    return any(
        _isinstance(cls, type)
        and type(cls) is not RemoteMeta
        and (cls.__module__, cls.__qualname__) in known
        for cls in (classes if type(classes) is tuple else (classes,))
    )


class _Checks(ast.NodeTransformer):
    """Replaces each ``assert`` by a call that brings its variables to the judge."""

    def __init__(self, delegate: Delegate, file: str, around: dict[str, Any]) -> None:
        self._delegate = delegate
        self._file = file
        self._around = around

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        names = sorted(free_names(node.test) - _bound_in(node.test))
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(name) for name in names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        function = ast.Lambda(arguments, node.test)
        test = ast.fix_missing_locations(ast.copy_location(ast.Expression(function), node))
        compiled = compile(test, self._file, "eval", dont_inherit=True)
        number = self._delegate.keep(compiled, names, self._around, node.lineno)
        call = f"{_CHECK}({number}, {{k: v for k, v in locals().items() if k in {names!r}}})"
        return ast.copy_location(ast.parse(call).body[0], node)


def _bound_in(test: ast.expr) -> set[str]:
    """Names of comprehensions and lambdas inside a test."""
    nodes = list(ast.walk(test))
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}
