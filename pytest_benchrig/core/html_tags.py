"""HTML in replies: which tags a reader does not see, and which of them end a line."""

from __future__ import annotations

import re

_INLINE = "b|strong|i|em|u|s|span|code|kbd|tt|mark|small|big|sub|sup|font"
_CELLS = "td|th"
_BLOCKS = (
    "p|br|hr|div|pre|center|h[1-6]|ul|ol|li|table|thead|tbody|tr|blockquote|section|details|summary"
)
_REST = r"(?:\s[^<>\n]{0,200})?\s?/?>"
_SHOWN = r"(?!(?<=`)<[^<>\n]{0,200}>`)"
"""Not in a code span of its own: there the tag is what the text is about."""
_TAG = re.compile(rf"{_SHOWN}</?(?:{_INLINE}|{_CELLS}|{_BLOCKS}){_REST}", re.IGNORECASE)
_CELL = re.compile(rf"{_SHOWN}</?(?:{_CELLS}){_REST}", re.IGNORECASE)
_BLOCK = re.compile(rf"{_SHOWN}</?(?:{_BLOCKS}){_REST}", re.IGNORECASE)


def without_tags(text: str, gap: str = "") -> str:
    """The text without its tags, ``gap`` in the place of each."""
    return _TAG.sub(gap, text) if "<" in text else text


def broken_into_lines(text: str) -> str:
    """Tags that end a line become line breaks and those of cells spaces."""
    if "<" not in text:
        return text
    return _CELL.sub(" ", _BLOCK.sub("\n", text))
