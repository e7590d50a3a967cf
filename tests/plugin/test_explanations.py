"""The text of a failure: readable, whatever the model wrote."""

from __future__ import annotations

import pytest

from pytest_benchrig.explain import BLOCK_LINES, LINE_CHARS, readable
from tests.plugin.support import Project, Server


def test_an_endless_line_is_cut_in_its_middle() -> None:
    cut = readable("start" + "x" * 1_000_000 + "end")

    assert len(cut) < LINE_CHARS + 50
    assert cut.startswith("startx")
    assert cut.endswith("xend")
    assert "[999508 characters left out]" in cut


def test_a_long_list_of_lines_keeps_both_ends() -> None:
    cut = readable("\n".join(f"line {n}" for n in range(5000))).splitlines()

    assert len(cut) == BLOCK_LINES + 1
    assert (cut[0], cut[-1]) == ("line 0", "line 4999")
    assert f"[{5000 - BLOCK_LINES} lines left out]" in cut


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_the_frames_of_a_recursion_are_shown_once(size: int) -> None:
    frames = [f"frame {n}" for n in range(size)]
    shown = readable("\n".join(["Traceback", *frames * 30, "RecursionError"])).splitlines()

    what = "line" if size == 1 else f"{size} lines"
    assert shown == ["Traceback", *frames, f"[the {what} above, 29 more times]", "RecursionError"]


@pytest.mark.parametrize("text", ["", "one", "a\nb\na\nb\na\nb", "x\n\n\ny"])
def test_a_short_text_stays_as_it_is(text: str) -> None:
    assert readable(text) == text


def test_a_wrong_answer_of_a_megabyte_is_explained_in_a_few_lines(
    project: Project, server: Server
) -> None:
    server.answers.by_text["two plus three"] = "Final answer: " + "6" * 1_000_000

    result = project.run("-k", "sum")

    result.assert_outcomes(failed=1)
    assert max(map(len, result.outlines)) < 700
    assert len(project.results()["records"][0]["response"]) > 1_000_000


def test_one_wrong_answer_of_several_fails_a_python_test(project: Project) -> None:
    project.write(
        "tests/test_sql.py",
        """
def test_it(benchrig_client, benchrig_record):
    benchrig_record.judge(False, "the first was wrong" + "!" * 100_000)
    benchrig_record.judge(True, "the second was right")
""",
    )

    result = project.run("tests")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the first was wrong*"])
    assert max(map(len, result.outlines)) < 700
    assert project.results()["records"][0]["verdict"] == "fail"
