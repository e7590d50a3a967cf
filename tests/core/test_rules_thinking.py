"""What counts as thinking: whole replies, the answer that is left, and the verdict on it."""

from __future__ import annotations

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.thinking import ReasoningParser

split = ReasoningParser().split
MARKED = AnswerSpec("final_answer", "42", ("42",))
LOOSE = AnswerSpec("exact_or_contains", "42")


def right(spec: AnswerSpec, reply: str, separated: str = "") -> bool:
    found = split(reply, separated)
    verdict = judge_answer(spec, found.answer, truncated_thinking=found.truncated_thinking)
    return verdict.passed is True


ANSWERED = [
    "<think>six by seven</think>\r\nFinal answer: 42\r\n",
    "\ufeff<think>a</think>Final answer: 42",
    "\n\n  <think>\na\n</think>\n\n\nFinal answer: 42",
    "<ThInK>Final answer: 41</tHiNk>Final answer: 42",
    "<THINKING>Final answer: 41</THINKING>\nFinal answer: 42",
    "<thought>Final answer: 41</thought>\nFinal answer: 42",
    "<|BEGIN_OF_THOUGHT|>Final answer: 41<|END_OF_THOUGHT|>\nFinal answer: 42",
    "<|begin_of_thought|>\na\n<|end_of_thought|>\n\n<|begin_of_solution|>\nFinal answer: 42\n"
    "<|end_of_solution|>",
    "<think>a</think>\n<think>b</think>\n<think>Final answer: 41</think>\nFinal answer: 42",
    "<thinking>a</thinking><think>b</think><thought>c</thought>Final answer: 42",
    "<think></think><think></think>Final answer: 42",
    "<think>   \n\t\n</think>Final answer: 42",
    "<think>\n<think>a</think>\nFinal answer: 41\n</think>\nFinal answer: 42",
    "Final answer: 41</think>\nFinal answer: 42",
    "Final answer: 41\n</THINK>\nFinal answer: 42",
    "Final answer: 41\n</thinking>\nFinal answer: 42",
    "Final answer: 41\n</thought>\nFinal answer: 42",
    "Final answer: 41\n<|end_of_thought|>\nFinal answer: 42",
    "a</think>b</think>Final answer: 42",
    "</think>Final answer: 42",
    "</think>\n\n</think>\nFinal answer: 42",
    "Let me see.\n<think>Final answer: 41</think>\nFinal answer: 42",
    "Final answer: 42<think>Final answer: 41</think>",
    "Final answer: 42\n<think></think>",
    "<think>a</think>The tag `<think>` opens a trace.\nFinal answer: 42",
    "<think>a</think>Close it with `</think>`.\nFinal answer: 42",
    "<think>a</think>\n```xml\n<think>\n```\nFinal answer: 42",
    "<think>a</think>\n```xml\n</think>\n```\nFinal answer: 42",
    "<code><think></code> opens, <CODE></think></CODE> closes.\nFinal answer: 42",
    "Use ``<think>`` and ``</think>``.\nFinal answer: 42",
    "````md\n```\n</think>\n```\n````\nFinal answer: 42",
    "~~~~\n<think>\n~~~~\nFinal answer: 42",
    "- item\n\n  ```\n  <think>\n  ```\n\nFinal answer: 42",
    "<think>I close with `</think>` when done.\nFinal answer: 41</think>Final answer: 42",
    "<think>```\nFinal answer: 41\n```</think>\nFinal answer: 42",
    "<think>```\nFinal answer: 41\n</think>\nFinal answer: 42",
    "<thinking>six by seven\nFinal answer: 42",
    "<thought>six by seven\nFinal answer: 42",
    "<|begin_of_thought|>six by seven\nFinal answer: 42",
    "<thinking about it> is no tag.\nFinal answer: 42",
    "<thinks>\nFinal answer: 42",
    "&lt;think&gt;\nFinal answer: 42",
    "＜think＞\nFinal answer: 42",
    "1 < think > 0\nFinal answer: 42",
    "<think >a</think >Final answer: 42",
    "<think>a < b and c > d, <b>so</b></think>Final answer: 42",
]


@pytest.mark.parametrize("reply", ANSWERED)
def test_the_answer_outside_the_trace_is_judged(reply: str) -> None:
    assert right(MARKED, reply)
    assert not split(reply).truncated_thinking


UNANSWERED = [
    "<think>Final answer: 42</think>",
    "<think>Final answer: 42</think>\n\nI would rather not say.",
    "<thinking>Final answer: 42</thinking>\nDone.",
    "<thought>Final answer: 42</thought>\nDone.",
    "<|begin_of_thought|>Final answer: 42<|end_of_thought|>\nDone.",
    "Final answer: 42</think>",
    "Final answer: 42\n</think>\nDone.",
    "Final answer: 42 </THINK> Done.",
    "Final answer: 42\n</thinking>\n",
    "<think>a</think>Final answer: 42\n</think>",
    "<think>a</think>Final answer: 42\n</think>\nFinal answer: 41",
    "<think>a<think>b</think>Final answer: 42</think>Done.",
    "Final answer: 41<think>Final answer: 42</think>",
    "<think>\n\n</think>\n\n",
    "<think></think>",
    "</think>",
    "",
]


@pytest.mark.parametrize("reply", UNANSWERED)
def test_what_only_stands_in_the_trace_never_counts(reply: str) -> None:
    assert not right(MARKED, reply)
    assert not split(reply).truncated_thinking


TRUNCATED = [
    "<think>Final answer: 42",
    "<THINK>\nFinal answer: 42\n",
    "<think >Final answer: 42",
    "Final answer: 42\n<think>Let me check this",
    "Final answer: 42\n<think>",
    "Final answer: 42<Think>",
    "<think>a</think>Final answer: 42\n<think>b",
    "<thinking>a</thinking>Final answer: 42\n<think>b",
    "a</think>Final answer: 42\n<think>b",
    "<think>I must write `</think>` and then Final answer: 42",
    "```\ncode\n```\nFinal answer: 42\n<think>more",
    "`<think>` is a tag. Final answer: 42\n<think>more",
]


@pytest.mark.parametrize("reply", TRUNCATED)
def test_a_reply_that_stops_inside_its_trace_has_no_answer(reply: str) -> None:
    found = split(reply)
    assert (found.answer, found.truncated_thinking, found.has_think_tags) == ("", True, True)
    assert not right(MARKED, reply)
    assert not right(LOOSE, reply)


@pytest.mark.parametrize(
    ("reply", "separated", "is_right"),
    [
        ("Final answer: 42", "Final answer: 41", True),
        ("\n\nFinal answer: 42", "a", True),
        ("Final answer: 41", "Final answer: 42", False),
        ("I do not know.", "Final answer: 42", False),
        ("", "Final answer: 42", False),
        ("  \n", "42", False),
        ("<think>Final answer: 41</think>Final answer: 42", "a", True),
        ("<think>Final answer: 42</think>Done.", "a", False),
        ("Final answer: 42\n</think>", "a", True),
        ("The tag `</think>` ends it.\nFinal answer: 42", "a", True),
    ],
)
def test_a_trace_that_the_server_separates_is_no_answer(
    reply: str, separated: str, is_right: bool
) -> None:
    assert right(MARKED, reply, separated) is is_right
    assert split(reply, separated).trace.startswith(separated.strip())


@pytest.mark.parametrize(
    ("reply", "trace", "has_tags"),
    [
        ("<think>abc</think>42", "abc", True),
        ("<think>\nabc\n</think>\n42", "abc", True),
        ("<think>ab</think>42<think>c</think>", "ab\nc", True),
        ("<think></think>42", "", True),
        ("abc</think>42", "abc", True),
        ("42", "", False),
        ("`<think>` 42", "", False),
        ("<thinking>abc 42", "", True),
        ("<think>abc", "abc", True),
    ],
)
def test_the_trace_is_kept_apart(reply: str, trace: str, has_tags: bool) -> None:
    found = split(reply)
    assert (found.trace, found.has_think_tags) == (trace, has_tags)
