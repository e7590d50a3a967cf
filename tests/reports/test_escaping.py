"""Model output is harmless in every format."""

from __future__ import annotations

import csv as csv_reader
import io
import re
import unicodedata
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports import csv, escape, github, html, markdown
from pytest_benchrig.reports.terminal import render_summary
from tests.core.run_support import card, code, reply, run_of

ATTACKS = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07after",
    "\x1b]8;;http://x\x1b\\link",
    "\x9b31mred",
    "\x1bPq...\x1b\\",
    "a\x1b",
    "\x1b]0;never closed",
    "tab\there\rover\x08\x7f\x00",
    "\u202eright to left\u2069",
    "::error file=a::taken",
    "  ::add-mask::secret",
    "##[error]taken",
    "##vso[task.setvariable]x",
    "so ##[group]taken",
    "line\n::stop-commands::x",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    " =1",
    "\t=1",
    "\uff1d1",
    "a\ud800b",
    "</pre><script>alert(1)</script>",
    "' onmouseover='x",
    '" onmouseover="x',
    "|a|b|",
    "![x](http://evil.example/y.png)",
    "<img src=x onerror=alert(1)>",
    "http://evil.example",
    "www.evil.example",
    "[x]: http://evil.example",
    "# heading",
    "1. list",
    "- item",
    "```\ncode",
    "&lt;b&gt;",
    "\u2028\u2029\x85",
    "]]>",
    "\ufffe\uffff",
]
hostile = st.sampled_from(ATTACKS) | st.text(max_size=40)


def is_harmless(text: str, allowed: str = "") -> bool:
    """No control, surrogate or direction character but the allowed ones."""
    return not [
        c
        for c in text
        if c not in allowed
        and (
            unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
            or c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
        )
    ]


def is_command(line: str) -> bool:
    """Whether GitHub or Azure would take the line for a command; the older kind stands anywhere."""
    return line.strip().startswith("::") or bool(re.search(r"##(vso|teamcity)?\[", line))


@given(hostile)
@example("\x1b[" + "1;" * 5000)
def test_a_terminal_line_is_harmless(text: str) -> None:
    line = escape.one_line(text)
    assert is_harmless(line)
    assert not is_command(line)
    several = escape.plain(text)
    assert is_harmless(several, "\n\t")
    assert not any(is_command(part) for part in several.split("\n"))


def test_terminal_sequences_go_and_other_controls_are_shown() -> None:
    assert escape.plain("\x1b[31mred\x1b[0m") == "red"
    assert escape.plain("\x1b]0;title\x07after") == "after"
    assert escape.plain("bell\x07") == "bell\\x07"
    assert escape.plain("a\r\nb\rc") == "a\nb\nc"
    assert escape.plain("\u202eabc") == "\\u202eabc"
    assert escape.plain("zażółć 漢字 🙂") == "zażółć 漢字 🙂"


def test_a_long_line_is_cut_with_an_ellipsis() -> None:
    assert escape.one_line("abc  def\nghi", 8) == "abc def…"
    assert escape.one_line("abc", 3) == "abc"


def test_escaping_is_linear() -> None:
    for attack in (
        "\x1b]" * 50_000,
        "\x1b[" + "0" * 100_000,
        "::" * 50_000,
        "=" * 100_000,
        "\n" * 100_000,
    ):
        assert escape.one_line(attack) is not None
        assert escape.markdown(attack) is not None


@given(hostile)
def test_a_cell_is_never_a_formula(text: str) -> None:
    cell = escape.csv_cell(text)
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))
    assert is_harmless(cell, "\n\t")


@given(hostile)
def test_xml_stays_well_formed(text: str) -> None:
    element = ElementTree.Element("property", name="benchrig.x", value=escape.xml_text(text))
    element.text = escape.xml_text(text)
    again = ElementTree.fromstring(ElementTree.tostring(element, "utf-8"))
    assert not is_command(again.get("value") or "")


@given(st.text("aZ09 ._/+-:#\n\x1b[]vso", max_size=12))
def test_a_harmless_text_is_what_the_full_way_leaves_of_it(text: str) -> None:
    assert escape.xml_text(text) == escape.no_commands(escape.visible(text, keep="\n"))


@given(hostile)
def test_markdown_is_one_cell_of_plain_text(text: str) -> None:
    cell = escape.markdown(text)
    assert is_harmless(cell)
    assert "<" not in cell
    assert ">" not in cell
    assert not re.search(r"(?<!\\)\|", re.sub(r"\\\\", "", cell))
    assert not re.search(r"(?<!\\)`", re.sub(r"\\\\", "", cell))
    assert "://" not in cell
    assert not re.match(r"[-+#=]|\d+[.)] ", cell)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("coding_pass_rate", "coding_pass_rate"),
        ("62.7% [58.8-64.7]", "62.7% [58.8-64.7]"),
        ("_em_ *b* `c` ~d~ $x$", r"\_em\_ \*b\* \`c\` \~d\~ \$x\$"),
        ("[a](b)", r"\[a\](b)"),
        ("a|b", r"a\|b"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("- x", r"\- x"),
        ("1. x", r"1\. x"),
        ("1.5 x", "1.5 x"),
        ("2026-12-01", "2026-12-01"),
        ("@user", "@\u200buser"),
        ("https://x", r"https:\//x"),
    ],
)
def test_markdown_escapes_what_it_must_and_no_more(text: str, shown: str) -> None:
    assert escape.markdown(text) == shown


class Collector(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "br", "rect", "path", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile_run(text: str) -> RunFile:
    """A run with the text wherever a model or a server can put one."""
    fields: dict[str, Any] = {
        "response": text,
        "answer_excerpt": text,
        "detail": text,
        "thinking": text,
        "prompt": text,
        "notes": [text],
        "flags": [text],
        "engine": text,
        "name": text,
        "extracted_answer": text,
        "disturbed": text,
        "ttft_sec": 1.0,
        "hardware": {"rss_coverage": text, "energy_source": text},
    }
    records = [
        reply("r", passed=False, **fields),
        code("c", 0, 1, **fields),
        reply("e", outcome="error", error=text),
    ]
    run = run_of(records, id=text, started_at=text, sandbox=text)
    verdicts = [{"held": False, "target": text, "message": text}]
    refused = [{"baseline": text, "current": text, "refusal": text}]
    block = {**run.run, "thresholds": verdicts, "comparisons": refused}
    return RunFile(block, run.scorecards, run.records, (text,))


@pytest.mark.parametrize("text", ATTACKS)
def test_the_page_loads_and_runs_nothing_whatever_a_model_says(text: str) -> None:
    page = html.render(hostile_run(text))
    parser = Collector()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert not parser.tags & {"script", "img", "iframe", "link", "object", "embed", "a", "form"}
    assert not [a for a in parser.attributes if a[1].startswith("on") or a[1] in ("src", "href")]
    assert "url(" not in page.split("</style>")[0]
    assert is_harmless(page, "\n\t")
    assert not any(is_command(line) for line in page.split("\n"))


@pytest.mark.parametrize("text", ATTACKS)
def test_no_line_of_terminal_or_markdown_is_a_command(text: str) -> None:
    run = hostile_run(text)
    for report in ("\n".join(render_summary(run)), markdown.render(run), github.step_summary(run)):
        assert is_harmless(report, "\n")
        assert not any(is_command(line) for line in report.split("\n"))


@pytest.mark.parametrize("text", ATTACKS)
def test_the_csv_reads_back_and_holds_no_formula(text: str) -> None:
    run = run_of([reply("r", passed=True, engine=text)])
    (head, row) = csv_reader.reader(io.StringIO(csv.render(run)))
    assert len(head) == len(row)
    assert not [c for c in row if c.startswith(("=", "+", "@")) or re.match(r"-(?!\d)", c)]


@pytest.mark.parametrize("text", ATTACKS)
def test_an_annotation_is_one_command_and_no_other(text: str) -> None:
    lines = github.annotate(hostile_run(text), locations=[("reasoning", "r", text, 3)])
    assert lines
    for line in lines:
        assert "\n" not in line
        assert "\r" not in line
        match = re.fullmatch(r"::error(?: [^:]*)?::(.*)", line)
        assert match is not None
        assert is_harmless(line)


def test_a_scorecards_text_survives_the_csv() -> None:
    made = card([reply("r", passed=True, engine='say "hi", b6000')])
    text = csv.render(RunFile({}, (made,)))
    head, row = csv_reader.reader(io.StringIO(text))
    assert row[head.index("engine")] == 'say "hi", b6000'
