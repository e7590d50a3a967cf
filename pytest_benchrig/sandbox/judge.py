"""The process that evaluates the assertions; it belongs to the harness and never runs the answer.

It reads one job, lets the candidate load the source, evaluates each assertion in one namespace, and
reports each outcome as a JSON line that carries the token of this run.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pytest_benchrig.sandbox.delegate import Delegate
from pytest_benchrig.sandbox.failures import (
    CLASS_OF,
    LEFT,
    RIGHT,
    candidate_lines,
    explain,
    keep_operands,
    message_of,
)
from pytest_benchrig.sandbox.judging import ASSERTION_MODULE, JudgePeer
from pytest_benchrig.sandbox.modules import PATHS, Modules
from pytest_benchrig.sandbox.names import Names, Shadows, names_in
from pytest_benchrig.sandbox.plainness import is_plain
from pytest_benchrig.sandbox.pledges import HELD
from pytest_benchrig.sandbox.trees import Assertion, walk
from pytest_benchrig.sandbox.wire import PeerGone, ProtocolError, from_json

SOLUTION = "solution.py"
_STACK_BYTES = 64 << 20
_RECURSION = 6_000 if sys.version_info >= (3, 11) else 2_500
_CAPTURING = frozenset(
    ["redirect_stdout", "redirect_stderr", "stdout", "stderr", "stdin", "StringIO", "print"]
)

Report = Callable[..., None]


class Judge:
    """One run: the candidate's end of the wire, and the namespace of the assertions.

    It can be made before there is a job.
    """

    def __init__(self, peer: JudgePeer) -> None:
        self._peer = peer
        self._delegate = Delegate(peer)
        self._modules = Modules(peer, delegated=self._delegate.mark, candidate=self._lookup)
        self._delegate.importer = self._modules
        self._names = self._delegate.names = Names(
            {"__name__": ASSERTION_MODULE, "__builtins__": self._delegate.builtins},
            self._lookup,
            self._modules.get,
            {HELD: peer.pledges.held, CLASS_OF: self._delegate.class_of},
        )

    def _prepare(self, job: dict[str, Any], report: Report) -> None:
        self._report = report
        self._source: str = job["source"]
        self._texts: list[str] = job["assertions"]
        self._parsed = [_parsed(text, _file(i)) for i, text in enumerate(self._texts)]
        self._entry_points: list[str] = job["entry_points"]
        nodes = [parsed.nodes for parsed in self._parsed if not isinstance(parsed, str)]
        self._plain = len(nodes) == len(self._parsed) and all(map(is_plain, nodes))
        words, written = _survey(nodes)
        if words & _CAPTURING - {"print"}:
            self._delegate.leave_printing()
        self._modules.expect(words, written, site_packages=job["site_packages"])
        self._by_reference = list(PATHS) if self._modules.files else []

    def _lookup(self, name: str) -> Any:
        return self._peer.request("lookup", [], name)

    def run(self, rpc_fd: int, job: dict[str, Any], report: Report) -> bool:
        """Load the source over the descriptor and evaluate every assertion.

        Returns:
            Whether this process may judge another program: the assertions were plain ones, all of
            them held, and nothing but data and functions crossed.
        """
        self._peer.fd = rpc_fd
        self._prepare(job, report)
        if not self._load():
            return False
        spotless = self._plain
        shadows = Shadows(self._names.candidates, self._entry_points)
        for index, parsed in enumerate(self._parsed):
            self._peer.decided = self._delegate.used = False
            tampered = self._peer.tampered
            self._peer.tampered = ""
            if isinstance(parsed, str):
                detail = parsed
            else:
                used, bound = names_in(parsed.nodes)
                self._names.shadowing = shadows.of(used, bound)
                detail = self._evaluate(index, parsed, bound)
            caught = self._peer.tampered
            self._peer.tampered = caught or tampered
            gone = self._peer.gone
            passed = not (detail or caught or gone)
            spotless = spotless and passed and not (self._delegate.used or self._peer.decided)
            self._report(
                "assertion",
                index=index,
                passed=passed,
                detail=caught or detail or gone,
                assurance="delegated"
                if self._delegate.used
                else "candidate_decided"
                if self._peer.decided
                else "judged",
                tampered=bool(caught),
                gone=bool(gone),
            )
            if gone:
                return False
        return spotless and self._peer.met_only_data

    def _load(self) -> bool:
        try:
            names = self._peer.request("load", [], [self._source, self._by_reference])
            if type(names) is not dict:
                raise self._peer.violation("a load without names")
        except ProtocolError:
            self._report("unloaded", detail=self._peer.tampered, tampered=True)
        except PeerGone:
            self._report("unloaded", detail="the program ended while it was loaded", gone=True)
        except BaseException as problem:
            lines = candidate_lines(problem, self._source.splitlines(), SOLUTION)
            self._report("unloaded", detail="\n".join([*lines, message_of(problem)]))
        else:
            self._names.candidates = self._peer.pledges.candidates = {
                name: flag is True for name, flag in names.items() if type(name) is str
            }
            self._report("loaded")
            return True
        return False

    def _evaluate(self, index: int, parsed: Assertion, bound: set[str]) -> str:
        """Why the assertion does not hold, "" if it does."""
        file = _file(index)
        try:
            self._delegate.learn(parsed.nodes, file)
            self._peer.pledges.begin(parsed, file)
            keep_operands(parsed, own_type=self._names.rebinds("type", bound))
            code = compile(parsed.tree, file, "exec", dont_inherit=True)
            exec(code, self._names)
        except (ProtocolError, PeerGone):
            return self._peer.gone or self._peer.tampered
        except BaseException as problem:
            lines = self._source.splitlines()
            return explain(problem, file, self._texts[index], lines, SOLUTION)
        finally:
            for name in (LEFT, RIGHT):
                dict.pop(self._names, name, None)
        return self._peer.pledges.broken()


def _file(index: int) -> str:
    return f"<assertion {index + 1}>"


def _parsed(text: str, file: str) -> Assertion | str:
    try:
        tree = ast.parse(text, file)
        return Assertion(tree, walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"the assertion does not parse: {problem}"


def _survey(trees: list[list[ast.AST]]) -> tuple[frozenset[str], frozenset[str]]:
    """All names in the assertions, and the names of which they assign attributes."""
    words: set[str] = set()
    written: set[str] = set()
    for nodes in trees:
        for node in nodes:
            if isinstance(node, ast.Name):
                words.add(node.id)
            elif isinstance(node, ast.Attribute):
                words.add(node.attr)
                if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
                    written.add(node.value.id)
            elif isinstance(node, ast.alias):
                words.update(node.name.split("."))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                if node.func.id in ("setattr", "delattr") and isinstance(first, ast.Name):
                    written.add(first.id)
    return frozenset(words), frozenset(written - {"sys", "os", "self"})


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _stack_is_large() -> bool:
    """Whether the stack of the main thread can grow to what deep assertions need."""
    try:
        import resource
    except ImportError:
        return False
    return sys.platform == "linux" and resource.getrlimit(resource.RLIMIT_STACK)[0] > _STACK_BYTES


def main(rpc_fd: int, report_fd: int, job_fd: int, ready: Judge | None = None) -> bool:
    """Read the job, run it with a judge made ready before if given, report, and return.

    Returns:
        As :meth:`Judge.run`; never true where the run needed a thread of its own.
    """
    job = from_json(_read_all(job_fd).decode("ascii"))
    os.close(job_fd)

    def report(event: str, **facts: Any) -> None:
        line = json.dumps({"token": job["token"], "event": event, **facts}) + "\n"
        data = line.encode("ascii")
        while data:
            data = data[os.write(report_fd, data) :]

    def work() -> bool:
        judge = Judge(JudgePeer()) if ready is None else ready
        spotless = judge.run(rpc_fd, job, report)
        report("end")
        return spotless

    sys.setrecursionlimit(_RECURSION)
    if _stack_is_large():
        return work()
    # Not at the top: what it registers for forks costs every fork of a zygote more than the fork.
    import threading

    try:
        threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=work)
        thread.start()
    except (RuntimeError, ValueError):
        work()
    else:
        thread.join()
    return False


def job_of(
    token: str,
    source: str,
    assertions: Sequence[str],
    entry_points: Sequence[str],
    *,
    site_packages: bool,
) -> bytes:
    """The bytes of a job descriptor."""
    return json.dumps(
        {
            "token": token,
            "source": source,
            "assertions": list(assertions),
            "entry_points": list(entry_points),
            "site_packages": site_packages,
        }
    ).encode("ascii")
