"""``final_answer``: markers as models write them, and what the marked value is."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.scenario import AnswerSpec


def right(reply: str, *patterns: str, **more: Any) -> bool:
    spec = AnswerSpec("final_answer", more.pop("expected", patterns[0]), patterns, **more)
    return judge_answer(spec, reply).passed is True


MARKERS = [
    "| Final answer: | 42 |",
    "|Final answer|42|",
    "| **Final answer** | 42 |",
    "| *Final answer:* | `42` |",
    "| part | value |\n|---|---|\n| rows | 6 |\n| Final answer | **42** |",
    "| Final answer |\n|:---:|\n| **42** |",
    "<b>Final Answer</b>: 42",
    "<p><strong>Final answer:</strong> 42</p>",
    '<span style="color:red">Final answer: 42</span>',
    "<div>Final answer</div>\n<div>42</div>",
    "<div>Final answer:</div><div>42</div>",
    "<h2>Final answer</h2><p>42</p>",
    "<H3>FINAL ANSWER</H3><P>42</P>",
    "<tr><td>Final answer</td><td>42</td></tr>",
    "<table><tr><th>Final answer:</th><td><b>42</b></td></tr></table>",
    "<ul><li>rows: 6</li><li>Final answer: 42</li></ul>",
    "Final answer<br>42",
    "Final answer:<br/><br/>42",
    "Six rows.<br>Final answer: 42<br>Done.",
    "Final answer: <b>42</b>.",
    "Final answer: <span>42</span>",
    "<em>Final</em> <em>answer</em>: 42",
    "Final answer:&nbsp;42",
    "FINAL ANSWER — 42",
    "FINAL ANSWER – 42",
    "Final answer --- 42",
    "Final answer ― 42",
    "Final answer = **42**",
    "Final answer ＝ 42",
    "**Final answer** = 42",
    "Final answer:  42",
    "Final  answer: 42",
    "Final\tanswer: 42",
    "__**Final answer:**__ 42",
    "***Final Answer***\n\n***42***",
    "**Final answer is**: 42",
    "**Final answer** is **42**",
    "**The final answer is:** 42",
    "*So, my final answer:* 42",
    "Hence: final answer 42",
    "Checked twice: **Final answer** 42",
    "Thus the final answer is: **42**.",
    "**Step 5:** Final answer: 42",
    "a) Final answer: 42",
    "IV. Final answer: 42",
    "(3) Final answer: 42",
    "- [x] Final answer: 42",
    "+ Final answer: 42",
    "> > Final answer: 42",
    ">Final answer:\n>\n>42",
    "### Final answer:\n### 42",
    "# FINAL ANSWER: 42 #",
    "Final answer\n===\n42",
    "Final answer is\n42",
    "Final answer is:\n\n42",
    "Final answer:\n* 42",
    "Final answer:\n1) 42",
    "Final answer:\n\n   \n\t**42**",
    "Final answer:\n---\n42",
    "Final answer:\n```\n\n42\n```",
    "Final answer:\n``` plaintext\n42\n```\nDone.",
    "Final answer:\n$$\n\\boxed{42}\n$$",
    "Final answer:\n\\[ 42 \\]",
    "Final answer:\n\\begin{equation}\n42\n\\end{equation}",
    "\\textbf{Final Answer:} \\quad 42",
    "\\underline{Final answer:} 42",
    "\\section*{Final answer}\n42",
    "\\begin{center}Final answer: 42\\end{center}",
    "\\[\\text{Final answer} = 42\\]",
    "\\boxed{\\textbf{Final answer:}\\ 42}",
    "\\boxed{\\text{Final answer}: 42}",
    "\\boxed{\\text{Final answer is } 42}",
    "$$\\boxed{\\text{Final answer: }\\mathbf{42}}$$",
    "\\text{Final answer: } \\boxed{42}",
    "🎯 **Final answer:** 42 🎯",
    "👉 Final answer: 42",
    "«Final answer: 42»",
    "“Final answer: 42.”",
    "My answer: (final answer: 42)",
    "Final answer: 41\n\nWait. Final answer: 42",
    "Final answer: 41 Final answer: 42",
    "Final answer: 41\n## Final answer\n42",
    "Final answer: 41\n**Final answer** 42",
    "~~Final answer: 41~~\nFinal answer: 42",
    "Final answer: 42\n\nThe final answer is 41.",
    "Final answer: 42\nI hope this final answer is useful: good luck!",
    "Final answer: 42\nThat is my final answer.",
    "Final answer: 42\nFinal answer confirmed.",
    "Final answer: 42\nFinal answer follows from the rule of products.",
    "Final answer: 42\nNote: the final answer is useful",
    "Final answer: 42\n\n**Final answer**",
    "Final answer: 42\nIs this final answer right? I think so.",
]


@pytest.mark.parametrize("reply", MARKERS)
def test_a_marker_in_any_dress_marks_its_value(reply: str) -> None:
    assert right(reply, "42")


NO_ANSWER = [
    "The answer: 42",
    "Final: 42",
    "FinalAnswer: 42",
    "final-answer: 42",
    "final_answer = 42",
    "Final\nanswer: 42",
    "Final results: 42",
    "Final answering: 42",
    "The final answer 42",
    "I think the final answer is 42",
    "My final answer would be 42.",
    "This is my final answer, 42.",
    "Odpowiedź: 42",
    "Odpowiedź końcowa: 42",
    "\\boxed{42}\nThat was the final answer.",
    "$$\\boxed{\\text{Answer: } 42}$$",
    "42\n\nFinal answer:",
    "42\n\n**Final answer**\n\n---\n",
    "Final answer:\n```\n```",
    "quasi-final answer: 42",
    "nonfinal answer: 42",
    "| rows | Final answer |\n|---|---|\n| 6 | 42 |",
]


@pytest.mark.parametrize("reply", NO_ANSWER)
def test_without_a_marker_there_is_no_answer(reply: str) -> None:
    assert not right(reply, "42")


VALUES = [
    ("Final answer: $\\boxed{-\\tfrac{3}{4}}$", "-3/4"),
    ("Final answer: $\\boxed{\\frac{-3}{4}}$", "-3/4"),
    ("Final answer: \\frac{ 1 }{ 6 }", "1/6"),
    ("Final answer: \\frac{{1}}{{6}}", "1/6"),
    ("Final answer: \\boxed{{42}}", "42"),
    ("Final answer: {\\bf 42}", "42"),
    ("Final answer: $\\displaystyle \\frac{1}{6}$", "1/6"),
    ("Final answer: $\\boxed{\\mathbf{\\frac{1}{6}}}$", "1/6"),
    ("Final answer: $\\frac{1}{6}.$", "1/6"),
    ("Final answer: \\(\\frac{1}{6}.\\)", "1/6"),
    ("Final answer: \\(\\boxed{\\text{Ala jest kłamcą}}\\)", "ala jest kłamcą"),
    ("Final answer: \\boxed{ \\text{ 42 } }", "42"),
    ("Final answer: \\boxed{\\text{\\$42}}", "42"),
    ("Final answer: \\boxed{50\\%}", "50%"),
    ("Final answer: \\boxed{1\\,025}", "1025"),
    ("Final answer: $1\\,234\\,567$", "1234567"),
    ("Final answer: $3{,}14$", "3,14"),
    ("Final answer: 42\\\\", "42"),
    ("Final answer: 42\\;\\mathrm{km/h}", "42 km/h"),
    ("Final answer: $42~\\text{km}$", "42 km"),
    ("Final answer: $\\left( 3, 4 \\right)$", r"\(3, 4\)"),
    ("Final answer: \\boxed{\\left(3,\\,-4\\right)}", r"\(3, -4\)"),
    ("Final answer: **(3, 4)**.", r"\(3, 4\)"),
    ("Final answer: $\\boxed{\\text{(C)}}$", r"\(C\)"),
    ("Final answer: $\\{1, 2\\}$", r"\{1, 2\}"),
    ("Final answer: \\text{kn}\\text{ave}", "knave"),
    ("Final answer: $x^{2}$", r"x\^2"),
    ("Final answer: −42", "-42"),
    ("Final answer: ﹣42", "-42"),
    ("Final answer: －４２", "-42"),
    ("Final answer: &minus;42", "-42"),
    ("Final answer — −42", "-42"),
    ("Final answer: **-42**", "-42"),
    ("Final answer: `-42`", "-42"),
    ('Final answer: "-42"', "-42"),
    ("Final answer: $-1{,}234$", "-1234"),
    ("| Final answer | -42 |", "-42"),
    ("Final answer:\n\\boxed{-42}", "-42"),
    ("Final answer: ‘42’", "42"),
    ("Final answer: ‚42‘", "42"),
    ("Final answer: „42“", "42"),
    ("Final answer: ”42”", "42"),
    ("Final answer: ‹42›", "42"),
    ("Final answer: 「42」", "42"),
    ("Final answer: ``42''", "42"),
    ("Final answer: \"'42'\"", "42"),
    ('Final answer: **"42"**.', "42"),
    ('Final answer: "42" ✅', "42"),
    ("Final answer: 42 👍🏽", "42"),
    ("Final answer: 42 ❤️", "42"),
    ("Final answer: 42 👨‍👩‍👧", "42"),
    ("Final answer: 42 🇵🇱.", "42"),
    ("Final answer: 42. 🎉", "42"),
    ("Final answer: 42 🆗", "42"),
    ("Final answer: 42 ⏰ ‼️", "42"),
    ("Final answer: 4️⃣2️⃣", "42"),
    ("Final answer: 12 345 678", "12345678"),
    ("Final answer: 1 234.56", "1234.56"),
    ("Final answer: 1,234,567.89", "1234567.89"),
    ("Final answer: 1\u2007234", "1234"),
    ("Final answer: −1\u202f234", "-1234"),
    ("Final answer: １，２３４", "1234"),
    ("Final answer: 100,200,300", "100,200,300"),
    ("Final answer: __42__", "42"),
    ("Final answer: ``42``", "42"),
    ("Final answer: \\*\\*42\\*\\*", "42"),
    ("Final answer: **42", "42"),
    ("Final answer: [42](#result)", "42"),
    ("Final answer: 42。", "42"),
    ("Final answer：四十二。", "四十二"),
    ("Final answer: КИЕВ", "киев"),
    ("Final answer: Canberra\u200b", "canberra"),
    ("Final answer: New\u00a0York", "new york"),
    ("Final answer: A: knave, B: knight.", "A: knave, B: knight"),
    ("Final answer: 3.5.", r"3\.5"),
    ("Final answer: 𝟒𝟐", "42"),
    ("Final answer: 50％", "50%"),
    ("Final answer: ½", "1/2"),
    ("Final answer: `<p>`", "<p>"),
    ("Final answer: `<br>`.", "<br>"),
    ("Final answer: <i>ala</i> <b>ma</b>", "ala ma"),
    ("Final answer: U.S.A.", r"U\.S\.A\."),
    ("Final answer: -0.5", r"-0\.5"),
]


@pytest.mark.parametrize(("reply", "pattern"), VALUES)
def test_a_value_is_stripped_of_its_dress_and_nothing_else(reply: str, pattern: str) -> None:
    assert right(reply, pattern)


OTHER_VALUES = [
    ("Final answer: −42", "42"),
    ("Final answer: –42", "42"),
    ("Final answer — -42", "42"),
    ("Final answer: $-42$", "42"),
    ("Final answer: \\boxed{-\\frac{1}{6}}", "1/6"),
    ("| Final answer | -42 |", "42"),
    ("Final answer:\n- -42", "42"),
    ("Final answer: &minus;42", "42"),
    ("Final answer: -$42", "42"),
    ("Final answer: 1.234", "1234"),
    ("Final answer: 1'234", "1234"),
    ("Final answer: 1_234", "1234"),
    ("Final answer: 1,23,456", "123456"),
    ("Final answer: 1234,567", "1234567"),
    ("Final answer: 0,123", "0123"),
    ("Final answer: 12 34", "1234"),
    ("Final answer: 12 3456", "123456"),
    ("Final answer: 42 %", "42"),
    ("Final answer: 42…", "42"),
    ("Final answer: 42;", "42"),
    ("Final answer: (3, 4)", "3, 4"),
    ("Final answer: 42 (forty-two)", "42"),
    ("Final answer: about 42", "42"),
    ("Final answer: 42 = 6 * 7", "42"),
    ("Final answer: ٤٢", "42"),
    ("Final answer: 4²", "42"),
    ("Final answer: dobrzy  lekarze", "dobrzy lekarze"),
    ("Final answer: 42\nFinal answer: unknown", "42"),
    ("Final answer: 42\nFinal answer: 42.5", "42"),
    ("Final answer:\nSix rows of seven.\n42", "42"),
    ("Final answer: \\boxed{42} or \\boxed{43}", "42"),
    ("Final answer: ~~41~~ 42", "42"),
    ("Final answer: 42 chairs", "42"),
]


@pytest.mark.parametrize(("reply", "pattern"), OTHER_VALUES)
def test_a_value_that_says_something_else_fails(reply: str, pattern: str) -> None:
    assert not right(reply, pattern)


@pytest.mark.parametrize(
    ("reply", "extracted"),
    [
        ("Final answer: **$1,025.$**", "1025"),
        ("Final answer: -42", "-42"),
        ("Final answer: \\boxed{\\dfrac{1}{6}}", "1/6"),
        ("## Final answer\n\n> **„psa”.**", "psa"),
        ("Final answer: (3, -4).", "(3, -4)"),
        ("<h2>Final answer</h2><p>42</p>", "42"),
        ("Final answer: 41\nFinal answer: 43", "43"),
        ("no marker", ""),
    ],
)
def test_the_record_keeps_the_value_that_was_compared(reply: str, extracted: str) -> None:
    verdict = judge_answer(AnswerSpec("final_answer", "x", ("x",)), reply)
    assert verdict.fields["extracted_answer"] == extracted
