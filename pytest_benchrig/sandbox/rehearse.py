"""A small program of our own, run through both sides where programs are forked from.

Code that has run is specialised by the interpreter, and what it looked up is in the caches of the
types. Done once here, no fork has to do it again, each on copies of the same pages. Nothing of a
scenario is in it, and no word of a model.
"""

from __future__ import annotations

import json
import linecache
import socket
import sys
from typing import Any

from pytest_benchrig.sandbox.candidate import MODULE, SOURCE, CandidatePeer
from pytest_benchrig.sandbox.judge import Judge, job_of
from pytest_benchrig.sandbox.judging import JudgePeer
from pytest_benchrig.sandbox.wire import from_json, read_message

_TIMES = 2
_PROGRAM = """\
class Box:
    def __init__(self, items):
        self.items = items

def double(items):
    return [2 * item for item in items]

def box(items):
    return Box(items)

def fail():
    raise ValueError("no")
"""
_ASSERTIONS = [
    "assert double([1, 2]) == [2, 4]",
    "assert double(['a']) == ['aa'] and double([]) == []",
    "assert double((1.5,)) == [3.0]",
    "assert box({'k': (1, None)}).items == {'k': (1, None)}",
    "try:\n    fail()\n    assert False\nexcept ValueError:\n    pass",
]


class _Prompted(JudgePeer):
    """A judge's end that has the candidate's end answer in the same thread."""

    def __init__(self, other: CandidatePeer) -> None:
        super().__init__()
        self._other = other

    def _send(self, head: list[Any], roots: list[Any]) -> None:
        super()._send(head, roots)
        with self._other._turn:
            self._other._serve(read_message(self._other.fd))


def rehearse() -> None:
    """Run the program a few times and leave nothing of it behind."""
    depth = sys.getrecursionlimit()
    job = from_json(
        job_of("", _PROGRAM, _ASSERTIONS, [], site_packages=False).decode("ascii"),
    )
    for _ in range(_TIMES):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            other = CandidatePeer(theirs.fileno())
            Judge(_Prompted(other)).run(ours.fileno(), job, _say)
    sys.setrecursionlimit(depth)
    sys.modules.pop(MODULE, None)
    linecache.cache.pop(SOURCE, None)


def _say(event: str, **facts: Any) -> None:
    json.dumps({"token": "", "event": event, **facts}).encode("ascii")
