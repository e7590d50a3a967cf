"""Finding the marked answer of a reply: the value after its last Final answer marker."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_benchrig.core.html_tags import broken_into_lines, without_tags
from pytest_benchrig.core.latex import simplify_latex
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.text import normalise

_WORD = "final"
_DRESS = r"[*_`~]{0,8}"
_GAP = r"[ \t]{0,40}"
_MARKER = re.compile(
    rf"(?P<words>{_DRESS}final{_DRESS}[ \t]{_GAP}{_DRESS}answer(?![^\W_]))"
    rf"(?P<dress1>{_GAP}{_DRESS})"
    rf"(?P<is>{_GAP}{_DRESS}is(?![\w']){_DRESS})?(?P<dress2>{_GAP}{_DRESS}{_GAP})"
    rf"(?P<sign>[:=|]|-{{1,3}}(?![0-9.])|[‒–—―](?![0-9])|—)?(?P<dress3>{_DRESS})(?P<more>{_GAP}:?)",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"(?:[\W_]|(?<![^\s(*_])[0-9]{1,3}[.)](?=[ \t*_]))*")
_LIST_MARK = re.compile(r"(?:[-*+•‣◦▪●–]|[0-9]{1,3}[.)]|\([0-9]{1,3}\))(?=[ \t])[ \t]+")
_CODE_SPAN = re.compile(r"[*_]{0,3}(`+)([^`]+)\1[*_]{0,3}[.]?")
_PLACEHOLDER = re.compile(
    rf"{_GAP}{_DRESS}<(?:your )?(?:final )?(?:answer|value|number|result|odpowied[zź])>",
    re.IGNORECASE,
)
"""The words of an instruction, quoted; they mark no answer."""
_ONLY_DRESS = re.compile(r"[\s*_`~#>|:=\-‒–—―.]*")
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*")
_QUOTES = {
    '"': '"',
    "“": "”“",
    "”": "”",
    "„": "”“",
    "«": "»",
    "»": "«",
    "‹": "›",
    "›": "‹",
    "‘": "’",
    "’": "’",
    "‚": "‘’",
    "「": "」",
    "『": "』",
    "'": "'",
    "`": "`",
}
"""Quotation marks, each with those that may close it."""
_CLOSING_QUOTES = frozenset("".join(_QUOTES.values()))
_TEX_QUOTES = re.compile(r"``([^`'\n]+)''")
_THOUSANDS = re.compile(
    r"(?<![0-9.,])(?<![0-9] )[1-9][0-9]{0,2}"
    r"(?:(?:,[0-9]{3})+(?!,?[0-9]| [0-9])|(?: [0-9]{3})+(?![ ,]?[0-9]{3}|[0-9]))"
)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
_STARS = re.compile(r"(?<![0-9])\*\*|\*\*(?![0-9])")
_PAIRS = (
    re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]*?[^\s*]|[^\s*])\*(?![\w*])"),
    re.compile(r"(?<!\w)__(?=\S)(.+?)(?<=\S)__(?!\w)"),
    re.compile(r"(?<!\w)_(?=[^\s_])(.+?)(?<=[^\s_])_(?!\w)"),
    re.compile(r"~~(?=\S)(.+?)(?<=\S)~~"),
    re.compile(r"(`+)(?!`)\s?(.+?)\s?(?<!`)\1(?!`)"),
)
_OTHER_EMOJI = frozenset(map(ord, "⌚⌛⭐⭕▶◀⤴⤵⬅⬆⬇⬛⬜‼⁉㊗㊙"))
_PREDICATES = frozenset(
    [
        "above",
        "below",
        "correct",
        "right",
        "wrong",
        "useful",
        "helpful",
        "clear",
        "given",
        "shown",
        "stated",
        "ready",
        "complete",
        "here",
        "there",
        "as",
        "in",
        "not",
        "what",
        "that",
        "this",
        "the",
        "therefore",
        "thus",
        "so",
        "provided",
        "displayed",
        "presented",
        "written",
        "marked",
        "boxed",
        "expected",
        "required",
        "needed",
        "important",
        "always",
        "never",
        "only",
        "also",
        "just",
    ]
)


@dataclass(frozen=True, slots=True)
class _Marked:
    """A marker: the line it stands on, the rest of the line, and how sure it is one.

    ``strong``: a colon, dash, bar or equals sign follows the words, or nothing does. ``says``: at
    least ``is`` or emphasis sets the value apart. Only these replace an earlier marked answer by
    words; a sentence that begins with the words does not.
    """

    line: int
    rest: str
    strong: bool
    quoted: bool
    says: bool = True


def wanted_values(spec: AnswerSpec) -> tuple[str, ...]:
    """The patterns of which one must match; without any, the expected answer itself."""
    return spec.accepted_patterns or (re.escape(spec.expected_answer.strip()),)


def marked_values(answer: str) -> tuple[str, ...]:
    """The value after the last marker that has one, in the forms in which it may match.

    The forms are the same value, as written first and with everything removed last: Markdown,
    LaTeX, dollar signs, surrounding quotation marks, trailing emoji, thousands separators and
    one full stop. Empty where the reply has no marked answer.

    Args:
        answer: A reply without its trace, in normal form.
    """
    if _WORD not in (lowered := answer.lower()):
        return ()
    plain = answer
    if "<" in plain:
        plain = broken_into_lines(plain)
    if "\\" in plain or "{,}" in plain:
        plain = simplify_latex(plain)
    if plain is not answer:
        lowered = plain.lower()
    lines = plain.split("\n")
    found: tuple[str, ...] = ()
    strong_found = False
    for marked in _markers(lines, lowered):
        forms = _forms(marked, lines)
        if not forms or (
            strong_found and not marked.strong and not _is_value(forms[-1], marked.says)
        ):
            continue
        found, strong_found = forms, strong_found or marked.strong
    return found


def _unescaped(text: str) -> str:
    return normalise(html.unescape(text)) if "&" in text else text


def _markers(lines: list[str], lowered: str) -> Iterator[_Marked]:
    index = position = 0
    while (found := lowered.find(_WORD, position)) >= 0:
        index += lowered.count("\n", position, found)
        raw = lines[index]
        position = lowered.find("\n", found)
        if position < 0:
            position = len(lowered)
        line = simplify_latex(without_tags(_unescaped(raw)))
        prefix = _PREFIX.match(line)
        first_word = prefix.end() if prefix else 0
        for match in reversed(list(_MARKER.finditer(line))):
            marked = _marked(index, line, match, leads=match.start() <= first_word)
            if marked is not None:
                yield marked
                break


def _marked(index: int, line: str, match: re.Match[str], *, leads: bool) -> _Marked | None:
    """The marker at a match; ``leads`` says that nothing but dress stands before it."""
    before = line[max(0, match.start() - 60) : match.start()]
    sign = match["sign"]
    colon = sign == ":" or match["more"].strip() == ":"
    if not leads:
        if before[-1] not in "*_`~\"“„':(|>" and not before[-1].isspace():
            return None
        if not colon and not before.rstrip(" \t*_`~\"“„'").endswith(":"):
            return None
    rest = line[match.end() :]
    if _PLACEHOLDER.match(rest):
        return None
    behind = line[match.end("words") :][:2]
    if behind[:1] in ("'", "’") and behind[1:].isalpha():
        return None
    if match["words"].startswith("_") and rest.rstrip(" .").endswith("_"):
        rest = rest.rstrip(" .").rstrip("_")
    around = before.rstrip(" *_`~")[-1:]
    if around == "(" and rest.count(")") > rest.count("("):
        rest = rest[: rest.rfind(")")]
    strong = not leads or sign is not None or not rest.strip(" \t*_`~#|")
    dressed = (match["dress1"] + match["dress2"] + match["dress3"]).strip(" \t")
    says = bool(match["is"] or dressed)
    return _Marked(index, rest, strong, quoted=around in _QUOTES and around != "", says=says)


def _forms(marked: _Marked, lines: list[str]) -> tuple[str, ...]:
    forms = value_forms(marked.rest, quoted=marked.quoted)
    if forms:
        return forms
    if not marked.strong:
        return ()
    for line in lines[marked.line + 1 :]:
        if _FENCE.fullmatch(line) or _ONLY_DRESS.fullmatch(line.replace("$", "")):
            continue
        bare = re.sub(r"^[ \t]*(?:>[ \t]*|#{1,6}[ \t]+)*", "", simplify_latex(line))
        bare = _LIST_MARK.sub("", bare, count=1) if _LIST_MARK.match(bare) else bare
        forms = value_forms(bare, quoted=False)
        if forms:
            return forms
    return ()


def _is_value(value: str, says: bool) -> bool:
    """Whether the rest of a line that only begins with the words is an answer of its own."""
    words = value.lower().split()
    if not says:
        return any(c.isdigit() for c in words[0])
    if any(c.isdigit() for c in value):
        return True
    return len(words) <= 4 and words[0].strip(".,;!") not in _PREDICATES


def value_forms(text: str, *, quoted: bool) -> tuple[str, ...]:
    """A value in the forms in which it may match, the one with all removed last."""
    raw = text.strip()
    if raw.isalnum():
        return (raw,)
    if not raw.strip(" \t*_`~#|"):
        return ()
    raw = _TEX_QUOTES.sub(r'"\1"', without_tags(_unescaped(raw)))
    raw = raw.strip().strip("|").strip()
    bare = _without_markdown(raw)
    if not bare.strip():
        return ()
    forms = [raw]
    span = _CODE_SPAN.fullmatch(raw)
    if span:
        forms.append(span[2].strip())
    stop_taken = False
    while True:
        before = bare
        bare = _without_markdown(_without_emoji(bare))
        bare = _without_quotes(bare, alone=quoted)
        if not stop_taken and bare[-1:] in ".。" and len(bare) > 1:
            forms.append(bare)
            bare, stop_taken = bare[:-1].rstrip(), True
        if bare == before:
            break
    forms.append(bare)
    joined = without_thousands(bare)
    if joined != bare:
        forms.append(joined)
    return tuple(dict.fromkeys(forms))


def without_thousands(text: str) -> str:
    """Separators between groups of exactly three digits go; a dot is never one."""
    return _THOUSANDS.sub(lambda m: m[0].replace(",", "").replace(" ", ""), text)


def _without_markdown(text: str) -> str:
    text = text.strip()
    if not any(c in text for c in "*_`~[#|"):
        return text
    text = _LINK.sub(r"\1", text)
    text = _STARS.sub("", text)
    for pair in _PAIRS:
        text = pair.sub(lambda m: m[m.re.groups], text)
    text = re.sub(r"[ \t]+#+$", "", text)
    text = re.sub(r"^[*`]+|[*`]+$|^~~|~~$", "", text)
    return text.strip().strip("|").strip()


def _without_quotes(text: str, *, alone: bool) -> str:
    if len(text) >= 2 and text[-1] in _QUOTES.get(text[0], ""):
        return text[1:-1].strip()
    if alone and text[-1:] in _CLOSING_QUOTES and text[:-1].count(text[-1]) == 0:
        return text[:-1].rstrip()
    return text


def _without_emoji(text: str) -> str:
    end = len(text)
    while end > 0 and (_is_emoji(text[end - 1]) or text[end - 1] == " "):
        end -= 1
    return text[:end] if end else text


def _is_emoji(char: str) -> bool:
    """Pictures at the end of a line; chess pieces, cards and signs such as ° are answers."""
    code = ord(char)
    return (
        0x1F300 <= code <= 0x1FAFF
        or 0x1F170 <= code <= 0x1F251
        or 0x2700 <= code <= 0x27BF
        or (0x2600 <= code <= 0x26FF and not 0x2654 <= code <= 0x2667)
        or 0x23E9 <= code <= 0x23FA
        or code in _OTHER_EMOJI
    )
