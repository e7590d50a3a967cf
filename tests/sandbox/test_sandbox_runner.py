"""The runner: what a result says, which verdict a run gets, and what a user is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_benchrig.core.scenario import CodingSpec
from pytest_benchrig.sandbox.decoys import hidden_among, hidden_order
from pytest_benchrig.sandbox.launch import Limits, Outcome, Program, Unavailable
from pytest_benchrig.sandbox.process import ProcessLauncher, environment, remove_tree
from pytest_benchrig.sandbox.runner import (
    SandboxRunner,
    SandboxUnavailableError,
    read_outcome,
)
from pytest_benchrig.sandbox.verdicts import judge_code, wanted_names

ADD = "def add(a, b):\n    return a + b\n"


class Told:
    """A launcher that returns what it was told to."""

    level = "told"

    def __init__(self, *outcomes: Callable[[str], Outcome]) -> None:
        self.outcomes = list(outcomes)
        self.programs: list[Program] = []

    def run(self, program: Program) -> Outcome:
        self.programs.append(program)
        return self.outcomes.pop(0)(json.loads(program.job)["token"])

    def close(self) -> None:
        self.outcomes.clear()


def _reports(token: str, *events: dict[str, object]) -> bytes:
    return b"".join(json.dumps({"token": token, **event}).encode() + b"\n" for event in events)


def _held(index: int, *, passed: bool = True) -> dict[str, object]:
    return {"event": "assertion", "index": index, "passed": passed, "assurance": "judged"}


END: dict[str, object] = {"event": "end"}


def test_a_result_names_level_time_and_every_assertion(runner: SandboxRunner) -> None:
    result = runner.run(ADD, ["assert add(1, 2) == 3", "assert add(1, 2) == 4"])
    assert (result.verdict, result.passed_tests, result.total_tests) == ("fail", 1, 2)
    assert [a.passed for a in result.assertions] == [True, False]
    assert result.isolation == "process"
    assert result.assurance == "judged"
    assert result.execution_time_sec > 0
    assert result.pass_ratio == 0.5


def test_the_error_is_the_assertion_with_its_operands(runner: SandboxRunner) -> None:
    result = runner.run(ADD, ["assert add(1, 2) == 4"])
    assert result.error == (
        "Traceback (most recent call last):\n"
        '  File "<assertion 1>", line 1, in <module>\n'
        "    assert add(1, 2) == 4\n"
        "AssertionError\n"
        "  left:  3\n"
        "  right: 4"
    )


def test_the_error_shows_the_candidates_own_lines(runner: SandboxRunner) -> None:
    result = runner.run("def f(x):\n    return g(x)\ndef g(x):\n    return 1 / x\n", ["f(0)"])
    assert result.error == (
        "Traceback (most recent call last):\n"
        '  File "<assertion 1>", line 1, in <module>\n'
        "    f(0)\n"
        '  File "solution.py", line 2, in f\n'
        "    return g(x)\n"
        '  File "solution.py", line 4, in g\n'
        "    return 1 / x\n"
        "ZeroDivisionError: division by zero"
    )


def test_what_the_program_wrote_is_shown_and_decides_nothing(runner: SandboxRunner) -> None:
    code = "import sys\nprint('PASSED')\nsys.stderr.write('oops')\ndef f(): return 0\n"
    result = runner.run(code, ["assert f() == 1"])
    assert (result.verdict, result.stdout_tail, result.stderr_tail) == ("fail", "PASSED\n", "oops")
    assert "PASSED" in result.error


def test_of_much_output_the_end_is_kept(runner: SandboxRunner) -> None:
    code = "print('x' * 5_000_000, 'end')\ndef f(): return 1\n"
    result = runner.run(code, ["assert f() == 1"])
    assert result.passed
    assert len(result.stdout_tail) == 64 << 10
    assert result.stdout_tail.endswith("x end\n")


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("def f(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(0)\n", "SystemExit: 0"),
        ("import os; os._exit(7)\n", "the program ended while it was loaded (exit status 7)"),
        ("import os; os.kill(os.getpid(), 9)\n", "(signal 9)"),
        ("x = '\ud800'\n", "UnicodeEncodeError"),
    ],
)
def test_a_program_that_cannot_be_loaded_is_a_crash(
    runner: SandboxRunner, code: str, detail: str
) -> None:
    result = runner.run(code, ["assert True", "assert True"])
    assert (result.verdict, result.passed_tests, result.total_tests) == ("crash", 0, 2)
    assert detail in result.detail


def test_ending_in_the_middle_fails_the_rest(runner: SandboxRunner) -> None:
    code = "import os\ndef f(): return 1\ndef g(): os._exit(0)\n"
    result = runner.run(code, ["assert f() == 1", "g()", "assert True"])
    assert result.verdict == "crash"
    assert [a.passed for a in result.assertions] == [True, False, False]


def test_the_time_limit_holds_for_loading_and_for_the_judge(runner: SandboxRunner) -> None:
    for code, assertion in (("while True: pass", "assert True"), (ADD, "while True: pass")):
        result = runner.run(code, [assertion], timeout=0.6)
        assert result.verdict == "timeout"
        assert "the time limit of 0.6 s was reached" in result.detail


def test_a_failing_assertion_does_not_stop_the_next(runner: SandboxRunner) -> None:
    result = runner.run(
        ADD, ["x = add(1, 1)", "assert x == 3", "assert x == 2", "not python", "assert x"]
    )
    assert [a.passed for a in result.assertions] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("code", "assertion", "assurance"),
    [
        (ADD, "assert add(1, 2) == 3", "judged"),
        (
            "class P:\n    def __init__(s, x): s.x = x\n    def __eq__(s, o): return s.x == o.x\n",
            "assert P(1) == P(1)",
            "candidate_decided",
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n",
            "assert P(1) == P(1) and P(1) != P(2)",
            "judged",
        ),
        (
            "import time\ndef f(): time.sleep(9); return 1\n",
            "from unittest.mock import patch\nwith patch('time.sleep'):\n    assert f() == 1",
            "delegated",
        ),
        (
            "class B:\n    def f(self): return self.g() + 1\n",
            "class S(B):\n    def g(self): return 2\nassert S().f() == 3",
            "delegated",
        ),
    ],
)
def test_the_assurance_says_on_whose_word_it_rests(
    runner: SandboxRunner, code: str, assertion: str, assurance: str
) -> None:
    result = runner.run(code, [assertion])
    assert (result.verdict, result.assurance) == ("pass", assurance)


def test_no_assertion_at_all_is_no_pass(runner: SandboxRunner) -> None:
    assert runner.run(ADD, []).verdict == "fail"


def test_a_timeout_with_an_idle_processor_is_tried_once_more() -> None:
    def idle(token: str) -> Outcome:
        return Outcome(_reports(token), ended_by="wall", cpu_sec=0.1)

    def fine(token: str) -> Outcome:
        return Outcome(_reports(token, _held(0), END), judge_exit=0, cpu_sec=0.1)

    result = SandboxRunner(launcher=Told(idle, fine)).run(ADD, ["assert True"], timeout=10)
    assert (result.verdict, result.retried) == ("pass", True)
    assert "repeated" in result.detail
    launcher = Told(idle, idle)
    again = SandboxRunner(launcher=launcher).run(ADD, ["assert True"], timeout=10)
    assert (again.verdict, again.retried, launcher.outcomes) == ("timeout", True, [])


def test_a_timeout_of_a_busy_program_is_final() -> None:
    def busy(token: str) -> Outcome:
        return Outcome(_reports(token), ended_by="wall", cpu_sec=9.0)

    result = SandboxRunner(launcher=Told(busy)).run(ADD, ["assert True"], timeout=10)
    assert (result.verdict, result.retried) == ("timeout", False)


@pytest.mark.parametrize(
    "reports",
    [
        b"",
        _reports("other", _held(0), END),
        b'{"event": "end"}\n',
        b"garbage\n",
        _reports("T", _held(0)),
        _reports("T", END),
        _reports("T", _held(5), END),
        _reports("T", _held(0, passed=False), END),
        _reports("T", {**_held(0), "passed": "yes"}, END),
    ],
)
def test_only_complete_reports_with_the_token_make_a_pass(reports: bytes) -> None:
    outcome = Outcome(reports, judge_exit=0)
    assert read_outcome(outcome, "T", 1, Limits(), "told").verdict in ("crash", "fail")


def test_a_judge_that_failed_makes_no_pass() -> None:
    reports = _reports("T", _held(0), END)
    assert read_outcome(Outcome(reports, judge_exit=0), "T", 1, Limits(), "told").passed
    assert not read_outcome(Outcome(reports, judge_exit=-11), "T", 1, Limits(), "told").passed
    assert not read_outcome(Outcome(reports, judge_exit=None), "T", 1, Limits(), "told").passed


def test_a_program_that_is_caught_gets_no_credit_for_what_held_before() -> None:
    caught = {**_held(1, passed=False), "tampered": True, "detail": "two answers"}
    outcome = Outcome(_reports("T", _held(0), caught, {"event": "end"}), judge_exit=0)
    result = read_outcome(outcome, "T", 2, Limits(), "told")
    assert (result.verdict, result.passed_tests, result.error) == ("tampered", 0, "two answers")
    assert "not counted" in result.assertions[0].detail


def test_only_the_first_of_two_processes_of_a_program_answers(runner: SandboxRunner) -> None:
    code = "import os\nforked = os.fork()\ndef who():\n    return 'parent' if forked else 'child'\n"
    result = runner.run(code, ["assert who() == 'parent'"] * 50)
    assert (result.verdict, result.passed_tests) == ("pass", 50)


def test_nothing_of_the_users_environment_reaches_a_program(
    runner: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    code = "import os\ndef names(): return set(os.environ)\n"
    allowed = sorted({*environment("x"), "BENCHRIG_PROGRAM"})
    fresh = SandboxRunner(launcher=ProcessLauncher())
    with fresh:
        assert fresh.run(code, [f"assert names() <= set({allowed!r})"]).passed


def test_no_file_and_no_process_is_left(runner: SandboxRunner, tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(60)\n"
        "    os._exit(0)\n"
        "p = '.'\n"
        "for _ in range(300): p += '/d'\n"
        "os.makedirs(p)\n"
        "def where(): return os.getcwd(), os.getpid()\n"
    )
    seen = tmp_path / "seen"
    seen.touch()
    result = runner.run(code, ["assert where() == 1"])
    left = result.error.partition("left:  ('")[2].partition("'")[0]
    assert left
    assert not Path(left).exists()
    pid = int(result.error.partition("', ")[2].partition(")")[0])
    assert not Path(f"/proc/{pid}").exists()


def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    start = os.open(top, os.O_RDONLY)
    here = start
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    remove_tree(str(top))
    assert not top.exists()


@pytest.mark.parametrize("field", ["memory_mb", "wall_sec", "cpu_sec", "open_files", "processes"])
def test_a_limit_must_be_positive(field: str) -> None:
    for value in (0, -1, float("nan"), float("inf")):
        settings: Any = {field: value}
        with pytest.raises(ValueError, match=field):
            replace(Limits(), **settings)


def test_one_text_is_no_list_of_assertions(runner: SandboxRunner) -> None:
    with pytest.raises(TypeError, match="list of texts"):
        runner.run(ADD, "assert add(1, 2) == 3")


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown sandbox level 'vm'"):
        SandboxRunner(level="vm")


def test_where_no_level_works_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Unavailable("user namespaces are off", "install bubblewrap")
    monkeypatch.setattr("pytest_benchrig.sandbox.isolation.choose", lambda level: found)
    runner = SandboxRunner()
    assert (runner.available, runner.level) == (False, "")
    assert (runner.reason, runner.remedy) == (found.reason, found.remedy)
    with pytest.raises(SandboxUnavailableError, match="install bubblewrap"):
        runner.run(ADD, ["assert True"])


def _spec(*assertions: str) -> CodingSpec:
    return CodingSpec(assertions, execution_timeout=10.0)


def test_a_reply_gets_its_verdict_and_the_fields_of_a_record(runner: SandboxRunner) -> None:
    reply = f"Here:\n```python\n{ADD}```\n"
    verdict = judge_code(
        _spec("assert add(1, 1) == 2"), reply, cut_off=False, budget="", runner=runner
    )
    assert (verdict.kind, verdict.detail) == ("pass", "")
    assert verdict.fields["passed_tests"] == verdict.fields["total_tests"] == 1
    assert verdict.fields["pass_ratio"] == 1.0
    assert verdict.fields["sandbox_isolation"] == "process"
    assert verdict.fields["assurance"] == "judged"
    assert verdict.fields["extracted_code"] == ADD.rstrip()
    failed = judge_code(
        _spec("assert add(1, 1) == 3"), reply, cut_off=False, budget="", runner=runner
    )
    assert (failed.kind, failed.detail) == ("fail", "0 of 1 assertions hold")
    assert "left:  2" in str(failed.fields["sandbox_error"])
    assert failed.fields["response_excerpt"] == reply


def test_a_reply_without_code_and_a_cut_off_one_are_never_run() -> None:
    runner = SandboxRunner(launcher=Told())
    verdict = judge_code(_spec("assert f()"), "I cannot.", cut_off=False, budget="", runner=runner)
    assert verdict.kind == "no_code"
    assert verdict.fields["total_tests"] == 1
    cut = judge_code(
        _spec("assert f()"), "```python\ndef f(", cut_off=True, budget="256", runner=runner
    )
    assert cut.kind == "truncated"
    assert cut.detail == (
        "TRUNCATED: Response truncated at num_predict=256 before the code was complete"
    )


def test_the_wanted_names_are_those_an_assertion_needs() -> None:
    texts = ["import math; x = f(1); assert g(x) == len('a')", "[h(i) for i in x]", "not python("]
    assert wanted_names(texts, ["reversed"]) == ("reversed", "f", "g", "h")


def test_the_expected_value_is_asked_neither_first_nor_last_and_anywhere_else() -> None:
    places = {hidden_among([*range(9)], "real").index("real") for _ in range(2_000)}
    assert places == set(range(1, 9))
    assert sorted(hidden_order(6, 2)) == [0, 1, 2, 3, 4, 5]
    assert {tuple(hidden_order(2, 0)) for _ in range(200)} == {(0, 1), (1, 0)}


def test_a_program_that_equals_what_it_is_asked_first_passes_nothing(runner: SandboxRunner) -> None:
    code = """
class Fib:
    def __init__(self, n):
        self.seen = []
    def __eq__(self, other):
        self.seen.append(other)
        return other == self.seen[0]
"""
    result = runner.run(code, ["assert Fib(10) == 55"] * 40)
    assert result.passed_tests == 0
