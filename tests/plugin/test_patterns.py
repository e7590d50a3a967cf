"""A pattern of a scenario that backtracks without end is an error that names it, never a hang."""

from __future__ import annotations

from typing import Any

from tests.plugin.support import REASONING, Project, Server

ENDLESS = r"(a|aa)+b"
REPLY = "a" * 80 + "c"
TOOL: dict[str, Any] = {
    "id": "quiet",
    "prompt": "Say a, no tools needed.",
    "tools": [{"type": "function", "function": {"name": "stop", "parameters": {}}}],
    "turns": [
        {
            "expect": {
                "tool": None,
                "answer": {
                    "check_type": "regex",
                    "expected_answer": "ab",
                    "accepted_patterns": [ENDLESS],
                },
            }
        }
    ],
}


def endless(project: Project) -> None:
    entry = {**REASONING[0], "expected_answer": "ab", "accepted_patterns": [ENDLESS]}
    project.write("scenarios/reasoning.json", [entry])


def test_it_is_an_error_of_the_scenario(project: Project, server: Server) -> None:
    endless(project)
    server.answers.by_text = {"two plus three": f"Final answer: {REPLY}"}

    result = project.run()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*the pattern '(a|aa)+b' of scenario sum ran out of time*repetition (*reasoning.json:2)*"]
    )
    (record,) = project.results()["records"]
    assert (record["outcome"], record["error_kind"]) == ("error", "judging")
    assert record["response"] == f"Final answer: {REPLY}"


def test_it_is_one_in_a_turn_without_a_call_too(project: Project, server: Server) -> None:
    project.write("scenarios/tool_use.json", [TOOL])
    server.answers.default = REPLY

    result = project.run("--benchrig-suite", "tool_use")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the pattern '(a|aa)+b' of scenario quiet ran out of time*"])
    record = project.results()["records"][-1]
    assert (record["outcome"], record["error_kind"]) == ("error", "judging")
    assert [turn["passed"] for turn in record["turns"]] == [False]


def test_it_is_one_when_a_stored_reply_is_judged_again(project: Project, server: Server) -> None:
    project.write("scenarios/reasoning.json", [REASONING[0]])
    server.answers.by_text = {"two plus three": f"Final answer: {REPLY}"}
    project.run().assert_outcomes(failed=1)
    (journal,) = (project.pytester.path / "results/runs").glob("*.jsonl")
    endless(project)

    result = project.run("--benchrig-replay", str(journal), model="")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the pattern '(a|aa)+b' of scenario sum ran out of time*"])
