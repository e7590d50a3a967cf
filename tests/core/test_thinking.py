"""The trace splitter: which text of a reply is the answer, and which was only thought."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.thinking import (
    DEFAULT_THINK_TAGS,
    ReasoningParser,
    Split,
    StreamSplitter,
    tag_pair,
)

split = ReasoningParser().split


@pytest.mark.parametrize(
    ("text", "answer", "trace"),
    [
        ("<think>6 x 7</think>Final answer: 42", "Final answer: 42", "6 x 7"),
        ("<think>\na\n</think>\n\nFinal answer: 42", "Final answer: 42", "a"),
        ("a, right.\n</think>\n\nFinal answer: 42", "Final answer: 42", "a, right."),
        ("<think>\n\n</think>\n\n42", "42", ""),
        ("<think></think>42", "42", ""),
        ("<think>a</think>One. <think>b</think>Two.", "One. Two.", "a\nb"),
        ("<THINK>a</Think>42", "42", "a"),
        ("<think >a</think\n>42", "42", "a"),
        ("<thinking>a</thinking>42", "42", "a"),
        ("<Thought>a</thought>42", "42", "a"),
        ("<|begin_of_thought|>a<|end_of_thought|>42", "42", "a"),
        ("a\n</thinking>42", "42", "a"),
        ("a<|end_of_thought|>42", "42", "a"),
        ("<think>a<think>b</think>c</think>42", "42", "a<think>b\nc"),
        ("<think>a <thought>b</thought> c</think>42", "42", "a <thought>b</thought> c"),
        ("<think>a</think>41</think>42", "42", "a\n41"),
        ("Hello.\n<think>a</think>\n42", "Hello.\n\n42", "a"),
        ("4<think>a</think>2", "4 2", "a"),
        ("So Final answer: 42\n</think>\n", "", "So Final answer: 42"),
        ("<think>```python\nx = 1\n</think>\n42", "42", "```python\nx = 1"),
        ("<think>it is ` odd</think>`42`", "`42`", "it is ` odd"),
        ("<think>the tag `</think>` ends it</think>42", "42", "the tag `</think>` ends it"),
        (
            "```python\nx = 1\n</think>\n```python\ny = 2\n```",
            "```python\ny = 2\n```",
            "```python\nx = 1",
        ),
        ("```python\nx = 1\n</think>\n42", "42", "```python\nx = 1"),
        ("    </think>\n    indented", "    indented", ""),
    ],
)
def test_the_trace_is_cut_out(text: str, answer: str, trace: str) -> None:
    assert split(text) == Split(answer, trace, True, False, in_band=True)


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        ("<think>6 times 7 is 42. Final answer: 42", "6 times 7 is 42. Final answer: 42"),
        ("Final answer: 42\n<think>but wait", "but wait"),
        ("<think>a</think>Final answer: 42\n<think>b", "a\nb"),
        ("a</think>Final answer: 42<Think>b", "a\nb"),
        ("<think>", ""),
        ("I used <think> here. Final answer: 42", "here. Final answer: 42"),
        ("<think>the tag `</think>` ends", "the tag `</think>` ends"),
        ("<think>a</thinking>42", "a</thinking>42"),
    ],
)
def test_an_unclosed_think_leaves_no_answer(text: str, trace: str) -> None:
    assert split(text) == Split("", trace, True, True, in_band=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "1 < 2 and <b>bold</b>",
        "<thinker>42</thinker>",
        "<think about it> 42",
        "</thinks> 42",
    ],
)
def test_text_without_tags_is_the_answer(text: str) -> None:
    assert split(text) == Split(text, "", False, False)


@pytest.mark.parametrize(
    "text",
    [
        "The tag `<think>` opens it. Final answer: 42",
        "The tag `</think>` closes it. Final answer: 42",
        "``a ` <think>`` 42",
        "```html\n<think>\n```\n42",
        "```html\n</think>\n```\n42",
        "~~~\n<think>a</think>\n~~~\n42",
        "> ```\n> </think>\n> ```\n42",
        "1. Code:\n   ```\n   <think>\n   ```\n42",
        "```python\nTAG = '<think>'",
    ],
)
def test_tags_in_code_of_the_answer_are_text(text: str) -> None:
    assert split(text) == Split(text, "", False, False)


def test_code_after_a_trace_is_judged_afresh() -> None:
    text = "<think>``` ` ``` odd</think>`<think>` opens it"
    assert split(text) == Split("`<think>` opens it", "``` ` ``` odd", True, False, in_band=True)


@pytest.mark.parametrize("tag", ["<thinking>", "<thought>", "<|begin_of_thought|>"])
def test_only_an_unclosed_think_proper_is_truncated(tag: str) -> None:
    text = f"{tag}Final answer: 42"
    assert split(text) == Split(text, "", True, False)


def test_the_server_may_separate_the_trace() -> None:
    assert split("Final answer: 42", "6 x 7") == Split("Final answer: 42", "6 x 7", False, False)


def test_a_second_block_in_the_content_is_still_trace() -> None:
    found = split("<think>41</think>Final answer: 42", "6 x 7")
    assert found == Split("Final answer: 42", "6 x 7\n41", True, False, in_band=True)


def test_a_left_over_closing_tag_of_separated_content_does_not_take_the_answer() -> None:
    assert split("Final answer: 42\n</think>", "a") == Split(
        "Final answer: 42\n", "a", True, False, in_band=True
    )
    assert split("b</think>42", "a") == Split("42", "a\nb", True, False, in_band=True)


def test_an_open_tag_in_separated_content_is_text_unless_it_begins_it() -> None:
    assert not split("I mean <think> here. Final answer: 42", "a").truncated_thinking
    assert split("\n<think>Final answer: 42", "a") == Split(
        "", "a\nFinal answer: 42", True, True, in_band=True
    )


def test_the_tags_are_a_setting() -> None:
    parser = ReasoningParser(["reason", "<|start|>"])
    assert parser.split("<reason>a</reason>42").answer == "42"
    assert parser.split("<|start|>a<|/start|>42").answer == "42"
    assert parser.split("<think>a</think>42") == Split("<think>a</think>42", "", False, False)


def test_tag_names() -> None:
    assert tag_pair("think") == ("<think>", "</think>")
    assert tag_pair(" <Think> ") == ("<think>", "</think>")
    assert tag_pair("<|begin_of_thought|>") == ("<|begin_of_thought|>", "<|end_of_thought|>")
    with pytest.raises(ValueError, match="is not a tag: write its name"):
        tag_pair("<>")


def test_many_tags_are_split_in_reasonable_steps() -> None:
    for text in ("<thought>" * 20_000, "`<think>" * 20_000, "</think>\n```\n" * 1_000):
        assert split(text).has_think_tags
    assert split("`<think>`" * 20_000).answer


PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<thinking>", "</thinking>", "a ", "42", "\n", " ", "<", "`", "```"]
    ),
    max_size=14,
)


@given(PIECES)
def test_nothing_is_invented_and_nothing_of_the_trace_is_revived(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = split(text)
    for char in "a42`":
        assert (found.answer + found.trace).count(char) <= text.count(char)
    if found.truncated_thinking:
        assert found.answer == ""
    if not found.has_think_tags:
        assert (found.answer, found.trace) == (text, "")


@given(st.text("ab <>/\n", max_size=40), st.text("ab c.\n", max_size=40))
def test_what_follows_the_last_close_is_the_answer(trace: str, answer: str) -> None:
    found = split(f"<think>{trace}</think>{answer}")
    assert found.trace == trace.strip()
    assert found.answer.strip() == answer.strip()


def kinds(pieces: list[str]) -> list[str | None]:
    splitter = StreamSplitter()
    return [splitter.feed(piece) for piece in pieces]


def test_a_stream_is_told_apart_piece_by_piece() -> None:
    assert kinds(["<think>", "\n", "six", "</think>", "\n\n", "42"]) == [
        None,
        None,
        "thinking",
        None,
        None,
        "answer",
    ]


def test_tags_may_be_split_over_pieces() -> None:
    assert kinds(["<th", "ink", ">", "six", "</", "think", ">4", "2"]) == [
        None,
        None,
        None,
        "thinking",
        None,
        None,
        "answer",
        "answer",
    ]


def test_what_looked_like_a_tag_is_decided_later() -> None:
    assert kinds(["<th", "at>"]) == [None, "answer"]
    assert kinds(["1 ", "<", " 2"]) == ["answer", None, "answer"]


def test_a_piece_with_the_end_of_the_trace_and_the_answer_is_answer() -> None:
    assert kinds(["<think>six</think>42"]) == ["answer"]


def test_a_bare_close_says_that_all_before_was_thinking() -> None:
    splitter = StreamSplitter()
    assert splitter.feed("six") == "answer"
    assert not splitter.bare_close
    assert splitter.feed("</think>") is None
    assert splitter.bare_close
    assert splitter.feed("42") == "answer"


def test_tags_in_code_are_text_in_a_stream_too() -> None:
    assert kinds(["`", "<think>", "`", " opens"]) == ["answer"] * 4
    assert kinds(["```\n", "<think>\n", "```\n", "<think>", "six"])[-2:] == [None, "thinking"]


@given(PIECES, st.integers(1, 5))
def test_the_cut_of_a_stream_does_not_change_the_end_state(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    whole, cut = StreamSplitter(), StreamSplitter()
    whole.feed(text)
    for start in range(0, len(text), size):
        cut.feed(text[start : start + size])
    assert whole.feed(" end") == cut.feed(" end")


@given(st.text("a b\n.", max_size=30), st.text("a b\n.", max_size=30), st.integers(1, 4))
def test_stream_and_whole_agree(trace: str, answer: str, size: int) -> None:
    text = f"<think>{trace}</think>{answer}"
    found = split(text)
    said = kinds([text[i : i + size] for i in range(0, len(text), size)])
    assert ("thinking" in said or size > 1) or not found.trace
    assert ("answer" in said) == bool(found.answer.strip())


def test_a_stream_is_held_in_bounded_memory() -> None:
    splitter = StreamSplitter()
    for _ in range(10_000):
        splitter.feed("<thin")
    assert len(splitter._held) <= 32


def test_the_default_tags() -> None:
    assert DEFAULT_THINK_TAGS == ("think", "thinking", "thought", "|begin_of_thought|")
