"""What came out of one program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytest_benchrig.core.verdict import VerdictKind

Assurance: TypeAlias = Literal["judged", "candidate_decided", "delegated"]
"""On whose word a verdict rests, strongest first.

``judged``: every comparison was made by the judge on values that crossed. ``candidate_decided``: an
operator of the candidate's own class had a say. ``delegated``: part of an assertion ran in the
candidate's interpreter.
"""

ORDER: tuple[Assurance, ...] = ("judged", "candidate_decided", "delegated")


@dataclass(frozen=True, slots=True)
class AssertionOutcome:
    """One assertion string.

    Attributes:
        passed: It was evaluated by the judge and held.
        detail: Why it did not: its traceback, cut to its own lines and the candidate's.
        assurance: On whose word it rests.
        tampered: The candidate was caught while it was evaluated.
    """

    passed: bool
    detail: str = ""
    assurance: Assurance = "judged"
    tampered: bool = False


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """One program against its assertions.

    Attributes:
        verdict: ``pass``, ``fail``, ``timeout``, ``crash`` or ``tampered``.
        passed_tests: Assertion strings that held.
        total_tests: Assertion strings given.
        detail: Why it is no pass, in one line.
        error: The first failure's own text, with the end of what the program wrote.
        stdout_tail: The end of what the program wrote; it decides nothing.
        stderr_tail: The same of its stderr.
        isolation: The level of containment that was in force.
        assurance: The weakest of the assertions'.
        execution_time_sec: Wall time of the run, starting the processes included.
        assertions: One outcome an assertion string, in order.
        retried: A first run timed out with little CPU used, on a busy machine, and was repeated.
    """

    verdict: VerdictKind
    passed_tests: int
    total_tests: int
    detail: str = ""
    error: str = ""
    stdout_tail: str = ""
    stderr_tail: str = ""
    isolation: str = ""
    assurance: Assurance = "judged"
    execution_time_sec: float = 0.0
    assertions: tuple[AssertionOutcome, ...] = ()
    retried: bool = False

    @property
    def passed(self) -> bool:
        """Whether every assertion held."""
        return self.verdict == "pass"

    @property
    def pass_ratio(self) -> float:
        """Share of the assertions that held, 0 to 1; 0 where there are none."""
        return self.passed_tests / self.total_tests if self.total_tests else 0.0
