"""Run a program against assertions and say what came out."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_benchrig.core.verdict import VerdictKind
from pytest_benchrig.sandbox.judge import job_of
from pytest_benchrig.sandbox.launch import Launcher, Limits, Outcome, Program, Unavailable
from pytest_benchrig.sandbox.result import ORDER, AssertionOutcome, Assurance, SandboxResult

_IDLE_SHARE = 0.5
"""A time-out with less CPU than this share of the limit is laid to the machine and tried again."""

_EXCERPT = 1_500


class SandboxUnavailableError(Exception):
    """No containment of the wanted level works here.

    Attributes:
        reason: What was tried and what came of it.
        remedy: What to install or set.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}. {remedy}")
        self.reason = reason
        self.remedy = remedy


class SandboxRunner:
    """Runs programs at one level of containment; use it from any thread, close it at the end.

    Args:
        level: ``auto``, ``strict`` or a level by name.
        limits: Bounds on each program; ``timeout`` of :meth:`run` replaces the wall time.
        launcher: A launcher to use instead of the one that ``level`` names.

    Raises:
        ValueError: An unknown level.
    """

    def __init__(
        self,
        level: str = "auto",
        limits: Limits | None = None,
        *,
        launcher: Launcher | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self._wanted = level
        self._launcher: Launcher | Unavailable | None = launcher
        self._probing = threading.Lock()
        if launcher is None:
            from pytest_benchrig.sandbox.isolation import CHOICES

            if level not in CHOICES:
                raise ValueError(
                    f"unknown sandbox level {level!r}; choose one of {', '.join(CHOICES)}"
                )

    def __enter__(self) -> SandboxRunner:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()

    def probe(self) -> Launcher | Unavailable:
        """The launcher in force, found by running trivial programs, once."""
        with self._probing:
            if self._launcher is None:
                from pytest_benchrig.sandbox.isolation import choose

                self._launcher = choose(self._wanted)
            return self._launcher

    @property
    def available(self) -> bool:
        """Whether programs can be run at the wanted level."""
        return not isinstance(self.probe(), Unavailable)

    @property
    def level(self) -> str:
        """The level in force, "" if none."""
        found = self.probe()
        return "" if isinstance(found, Unavailable) else found.level

    @property
    def reason(self) -> str:
        """Why no level is in force, "" if one is."""
        found = self.probe()
        return found.reason if isinstance(found, Unavailable) else ""

    @property
    def remedy(self) -> str:
        """What to install or set where no level is in force, else ""."""
        found = self.probe()
        return found.remedy if isinstance(found, Unavailable) else ""

    def close(self) -> None:
        """End whatever the launcher keeps warm."""
        with self._probing:
            if self._launcher is not None and not isinstance(self._launcher, Unavailable):
                self._launcher.close()

    def run(
        self,
        code: str,
        assertions: Sequence[str],
        *,
        entry_points: Sequence[str] = (),
        timeout: float | None = None,
    ) -> SandboxResult:
        """Run a program and evaluate the assertions on it.

        Args:
            code: The source, as the model wrote it.
            assertions: Each one or several statements; each counts once.
            entry_points: The candidate's names that may hide builtins of the same name.
            timeout: Wall time in seconds, loading included; default the limit's.

        Raises:
            SandboxUnavailableError: No containment of the wanted level works here.
            TypeError: One text instead of a list of assertions.
            ValueError: A time-out that is not positive.
            OSError: The processes could not be started.
        """
        if isinstance(assertions, str):
            raise TypeError("assertions must be a list of texts; put the one text into a list")
        launcher = self.probe()
        if isinstance(launcher, Unavailable):
            raise SandboxUnavailableError(launcher.reason, launcher.remedy)
        limits = self.limits if timeout is None else replace(self.limits, wall_sec=timeout)
        result, idle = self._once(launcher, code, assertions, entry_points, limits)
        if not idle:
            return result
        again, _ = self._once(launcher, code, assertions, entry_points, limits)
        note = "; a first run timed out with little CPU time used and was repeated"
        return replace(again, retried=True, detail=f"{again.detail}{note}".lstrip("; "))

    def _once(
        self,
        launcher: Launcher,
        code: str,
        assertions: Sequence[str],
        entry_points: Sequence[str],
        limits: Limits,
    ) -> tuple[SandboxResult, bool]:
        token = secrets.token_hex(16)
        job = job_of(token, code, assertions, entry_points, site_packages=limits.site_packages)
        outcome = launcher.run(Program(job, limits))
        if outcome.setup_error:
            raise OSError(f"sandbox ({launcher.level}): {outcome.setup_error}")
        result = read_outcome(outcome, token, len(assertions), limits, launcher.level)
        idle = (
            result.verdict == "timeout"
            and outcome.cpu_sec is not None
            and outcome.cpu_sec < _IDLE_SHARE * limits.wall_sec
        )
        return result, idle


def read_outcome(
    outcome: Outcome, token: str, total: int, limits: Limits, level: str
) -> SandboxResult:
    """The result that the judge's reports and the ends of both processes amount to."""
    events = _events(outcome.reports, token)
    reported = {
        event["index"]: event
        for event in events
        if event["event"] == "assertion" and 0 <= event["index"] < total
    }
    unloaded = next((event for event in events if event["event"] == "unloaded"), None)
    gone = unloaded or next((e for e in reported.values() if e["gone"]), None)
    complete = bool(events) and events[-1]["event"] == "end" and outcome.judge_exit == 0
    caught = next((e["detail"] for e in (*reported.values(), unloaded) if e and e["tampered"]), "")
    why = _why_not_run(outcome, gone, complete, limits)
    assertions = tuple(_one(reported.get(index), why) for index in range(total))
    first = next((entry.detail for entry in assertions if not entry.passed), "")
    if caught:
        assertions = tuple(map(_without_credit, assertions))
    passed = sum(entry.passed for entry in assertions)
    verdict: VerdictKind
    if caught:
        verdict, detail = "tampered", caught
    elif outcome.ended_by in ("wall", "cpu"):
        verdict, detail = "timeout", why
    elif gone or not complete:
        verdict, detail = "crash", why
    elif passed == total and total:
        verdict, detail = "pass", ""
    else:
        verdict, detail = "fail", f"{passed} of {total} assertions hold"
    error = "" if verdict == "pass" else _error(first or detail, outcome)
    return SandboxResult(
        verdict=verdict,
        passed_tests=passed,
        total_tests=total,
        detail=detail,
        error=error,
        stdout_tail=_text(outcome.stdout),
        stderr_tail=_text(outcome.stderr),
        isolation=level,
        assurance=max((a.assurance for a in assertions), key=ORDER.index, default="judged"),
        execution_time_sec=outcome.wall_sec,
        assertions=assertions,
    )


def _events(reports: bytes, token: str) -> list[dict[str, Any]]:
    events = []
    for line in reports.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("token") == token:
            events.append({"tampered": False, "gone": False, "detail": "", **event})
    return events


def _one(event: dict[str, Any] | None, why: str) -> AssertionOutcome:
    if event is None:
        return AssertionOutcome(False, f"not evaluated: {why}")
    assurance: Assurance = event["assurance"]
    return AssertionOutcome(
        event["passed"] is True, event["detail"], assurance, event["tampered"] is True
    )


def _without_credit(outcome: AssertionOutcome) -> AssertionOutcome:
    """What held before a program was caught held on the word of a program that lies."""
    if not outcome.passed:
        return outcome
    return replace(outcome, passed=False, detail="not counted: the program was caught tampering")


def _why_not_run(
    outcome: Outcome, gone: dict[str, Any] | None, complete: bool, limits: Limits
) -> str:
    if outcome.ended_by == "wall":
        return f"the time limit of {limits.wall_sec:g} s was reached"
    if outcome.ended_by == "cpu":
        return f"the CPU limit of {limits.cpu_limit_sec:g} s was reached"
    if outcome.ended_by:
        return f"the limit on {outcome.ended_by} was reached"
    if gone:
        how = _how_it_ended(outcome.candidate_exit)
        return f"{gone['detail']}{how}" if gone["gone"] else f"loading failed: {gone['detail']}"
    if not complete:
        return f"the judge did not finish (exit status {outcome.judge_exit})"
    return ""


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return ""
    return f" (signal {-status})" if status < 0 else f" (exit status {status})"


def _error(text: str, outcome: Outcome) -> str:
    parts = [text]
    for name, content in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if content.strip():
            parts.append(f"--- {name} (end) ---\n{_text(content)[-_EXCERPT:].strip()}")
    if outcome.judge_stderr.strip():
        parts.append(f"--- judge ---\n{_text(outcome.judge_stderr)[-_EXCERPT:].strip()}")
    return "\n".join(parts)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
