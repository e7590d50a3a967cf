"""Model output is untrusted text; these make it harmless in each format.

Every function takes any string and never raises.
"""

from __future__ import annotations

import html as _html
import re
import unicodedata

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC with their payload
    r"|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d-\x9f].*?(?:\x07|\x1b\\|\x9c|$)",
    re.DOTALL,
)
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# GitHub's runner takes `::` only as a line's first word, the older kinds wherever they stand.
_COMMAND = re.compile(r"(?m)^[^\S\n]*(?=::)|##(?=(?:vso|teamcity)?\[)")
_MARKDOWN = re.compile(
    r"[\\`*|~$]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # inside a word it is no emphasis
    r"|\[(?![-+0-9., ]+\])|\](?=[(\[:])"  # a range of numbers is no link
    r"|(?<=:)/(?=/)|(?<=www)\."  # no automatic links
)
_MARKDOWN_START = re.compile(r"^(?:(?=[-+#=:])|(\d+)(?=[.)](?:\s|$)))")
# Most texts are words and numbers, in which there is nothing to look for.
_HARMLESS = re.compile(r"[A-Za-z0-9 ._/+-]*(?::[A-Za-z0-9 ._/+-]+)*")
_XML_BAD = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def visible(text: str, *, keep: str = "") -> str:
    """Without terminal sequences; control and direction characters become visible escapes.

    Args:
        text: Anything.
        keep: Control characters to leave in place, such as line ends.
    """
    if text.isascii() and text.isprintable():
        return text
    without = _ANSI.sub("", text)
    return "".join(
        c
        if c in keep or not (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _BIDI)
        else _code(c)
        for c in without
    )


def _code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def plain(text: str) -> str:
    """For a terminal or a log, lines kept: no escape sequence, no line a CI reads as a command."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return no_commands(visible(lines, keep="\n\t"))


def one_line(text: str, limit: int = 0) -> str:
    """One harmless line, cut with an ellipsis after ``limit`` characters (0: any length)."""
    joined = " ".join(visible(text, keep="\r\n\t\u2028\u2029").split())
    if limit and len(joined) > limit:
        joined = joined[: max(0, limit - 1)] + "…"
    return no_commands(joined)


def no_commands(text: str) -> str:
    """No line can become a CI command: ``::`` in front, ``##[`` (GitHub, Azure) or kin anywhere."""
    return _COMMAND.sub("\\g<0>\u200b", text)


def markdown(text: str) -> str:
    """For a Markdown table cell or list item: one line, no mark-up, HTML, link or mention."""
    flat = one_line(text)
    escaped = _MARKDOWN.sub(lambda m: "\\" + m[0], flat)
    escaped = _MARKDOWN_START.sub(r"\1\\", escaped)
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")


def html(text: str) -> str:
    """For HTML text and quoted attribute values; lines are kept."""
    return _html.escape(no_commands(visible(text, keep="\n\t")), quote=True)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe in front where it could."""
    harmless = visible(text, keep="\n\t").replace("\r", "")
    stripped = harmless.lstrip()
    if harmless.startswith(_FORMULA) or stripped.startswith(_FORMULA):
        return "'" + harmless
    return no_commands(harmless)


def xml_text(text: str) -> str:
    """Text that XML 1.0 can hold: forbidden characters become visible escapes.

    The markup characters are left to the XML writer.
    """
    if _HARMLESS.fullmatch(text):
        return text
    return no_commands(_XML_BAD.sub(lambda m: _code(m[0]), _ANSI.sub("", text)))
