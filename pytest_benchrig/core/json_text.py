"""JSON with positions: entries are decoded one by one and know where they stand.

The values come from the standard decoder; only the outermost array or object is walked here, so
that reading stays as fast as ``json.loads``. Where a single field stands is found out when an
entry has a fault (:func:`locate`).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pytest_benchrig.core.findings import JsonPath
from pytest_benchrig.core.generation import JsonValue

_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(r"\d{1000,}")
_DEEPEST = 100


class JsonFault(ValueError):  # noqa: N818 - a finding about a file
    """A text that is not JSON as we take it. ``line`` and ``column`` are 1-based."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)


@dataclass(frozen=True, slots=True)
class Element:
    """One value, where it starts (offset and 1-based line), and whether a key occurs twice."""

    value: JsonValue
    start: int
    line: int
    has_duplicates: bool = False
    has_bad_text: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The outermost value: its kind, and what stands in it.

    Attributes:
        kind: ``array``, ``object`` or ``value``.
        elements: The elements of an array, or of an object's ``scenarios``; one for a plain value.
        members: The other members of an object.
        has_list: Whether an object's ``scenarios`` is an array.
        repeated: A key that the object holds twice, with its offset.
    """

    kind: str
    elements: tuple[Element, ...] = ()
    members: dict[str, Element] = field(default_factory=dict)
    has_list: bool = False
    repeated: tuple[str, int] | None = None


def read_document(text: str) -> Document:
    """Read a scenario file's text.

    Raises:
        JsonFault: Not JSON; NaN, infinity and numbers outside the range of floats included.
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = 0
        self._line = 1
        self._duplicates = False
        self._strange = _SURROGATE.search(text) is not None
        self._decode = json.JSONDecoder(
            object_pairs_hook=self._pairs,
            parse_constant=self._constant,
            parse_float=self._float,
        ).raw_decode

    def read(self) -> Document:
        start = self._space(0)
        opening = self._text[start : start + 1]
        if opening == "[":
            elements, end = self._array(start)
            document = Document("array", elements)
        elif opening == "{":
            document, end = self._object(start)
        else:
            element, end = self._element(start)
            document = Document("value", (element,))
        end = self._space(end)
        if end != len(self._text):
            raise JsonFault("expected the end of the file", self._text, end)
        return document

    def _array(self, start: int) -> tuple[tuple[Element, ...], int]:
        text = self._text
        found: list[Element] = []
        at = self._space(start + 1)
        if text.startswith("]", at):
            return (), at + 1
        while True:
            element, at = self._element(at)
            found.append(element)
            at = self._space(at)
            if text.startswith("]", at):
                return tuple(found), at + 1
            at = self._comma(at, "]")

    def _object(self, start: int) -> tuple[Document, int]:
        text = self._text
        members: dict[str, Element] = {}
        elements: tuple[Element, ...] = ()
        has_list = False
        repeated: tuple[str, int] | None = None
        seen: set[str] = set()
        at = self._space(start + 1)
        if text.startswith("}", at):
            return Document("object"), at + 1
        while True:
            if not text.startswith('"', at):
                raise JsonFault("expected a member name in double quotes", text, at)
            key_at = at
            key, at = self._value(at)
            at = self._space(at)
            if not text.startswith(":", at):
                raise JsonFault('expected ":" after the member name', text, at)
            at = self._space(at + 1)
            if key in seen and repeated is None:
                repeated = (key, key_at)
            seen.add(key)
            if key == "scenarios" and text.startswith("[", at):
                elements, at = self._array(at)
                has_list = True
            else:
                members[key], at = self._element(at)
            at = self._space(at)
            if text.startswith("}", at):
                return Document("object", elements, members, has_list, repeated), at + 1
            at = self._comma(at, "}")

    def _comma(self, at: int, closing: str) -> int:
        if not self._text.startswith(",", at):
            raise JsonFault(f'expected "," or "{closing}"', self._text, at)
        after = self._space(at + 1)
        if self._text.startswith(closing, after):
            raise JsonFault(f'a comma before "{closing}" is not allowed', self._text, at)
        return after

    def _element(self, at: int) -> tuple[Element, int]:
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        self._duplicates = False
        value, end = self._value(at)
        bad_text = self._strange and _has_lone_surrogate(value)
        return Element(value, at, self._line, self._duplicates, bad_text), end

    def _value(self, at: int) -> tuple[Any, int]:
        try:
            return self._decode(self._text, at)
        except json.JSONDecodeError as problem:
            place = min(problem.pos, len(self._text))
            raise JsonFault(self._in_our_words(problem.msg, place), self._text, place) from None
        except RecursionError:
            raise JsonFault("nested too deeply", self._text, at) from None
        except JsonFault:
            raise
        except _Refused as problem:
            raise JsonFault(str(problem), self._text, self._find(problem.word, at)) from None
        except ValueError:  # Python converts no integer of more than 4300 digits
            match = _LONG_NUMBER.search(self._text, at)
            place = at if match is None else match.start()
            raise JsonFault("a number of too many digits", self._text, place) from None

    def _in_our_words(self, message: str, at: int) -> str:
        closing = self._text[at : at + 1]
        if closing in ("}", "]") and self._text[:at].rstrip().endswith(","):
            # Before Python 3.13 the decoder complains of what should have followed.
            return _COMMA % closing
        known = _WORDS.get(message.removesuffix(": "))
        return message[:1].lower() + message[1:] if known is None else known

    def _find(self, word: str, at: int) -> int:
        found = self._text.find(word, at)
        return at if found < 0 else found

    def _space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()

    def _pairs(self, pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        made = dict(pairs)
        if len(made) != len(pairs):
            self._duplicates = True
        return made

    @staticmethod
    def _constant(word: str) -> NoReturn:
        raise _Refused(f"{word} is not JSON; expected a finite number", word)

    @staticmethod
    def _float(word: str) -> float:
        number = float(word)
        if not math.isfinite(number):
            raise _Refused(f"{word} is too large for a number", word)
        return number


class _Refused(Exception):  # noqa: N818
    def __init__(self, message: str, word: str) -> None:
        super().__init__(message)
        self.word = word


_COMMA = 'a comma before "%s" is not allowed'
_WORDS = {
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a member name in double quotes",
    "Illegal trailing comma before end of object": _COMMA % "}",
    "Illegal trailing comma before end of array": _COMMA % "]",
    "Expecting ':' delimiter": 'expected ":" after the member name',
    "Expecting ',' delimiter": 'expected "," or the end of the object or list',
    "Unterminated string starting at": "a text that is not closed",
    "Invalid control character at": r"a control character in a text; write \n, \t or \u00xx",
    "Invalid \\escape": r'a backslash that starts no escape; write "\\" for a backslash',
    "Invalid \\uXXXX escape": r"\u without four hexadecimal digits",
}
"""What Python's decoder says, which differs from one version to the next."""


def _has_lone_surrogate(value: JsonValue) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


@dataclass(frozen=True, slots=True)
class Positions:
    """Offsets of every member and element inside one value, and the keys that occur twice."""

    offsets: dict[JsonPath, int]
    duplicates: tuple[tuple[JsonPath, int], ...]

    def nearest(self, path: JsonPath) -> int | None:
        """The offset of the value at ``path``, else of the nearest value around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.offsets:
                return self.offsets[path[:length]]
        return None


def locate(text: str, start: int) -> Positions:
    """Find where the parts of the value at ``start`` stand; the text is known to be JSON there."""
    walker = _Walker(text)
    walker.walk((), start)
    return Positions(walker.offsets, tuple(walker.duplicates))


class _Walker:
    """Walks one value; every method takes an offset and returns the offset after what it read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder().raw_decode
        self.offsets: dict[JsonPath, int] = {}
        self.duplicates: list[tuple[JsonPath, int]] = []

    def walk(self, path: JsonPath, at: int) -> int:
        opening = self._text[at]
        if opening == "{" and len(path) < _DEEPEST:
            return self._object(path, at)
        if opening == "[" and len(path) < _DEEPEST:
            return self._array(path, at)
        return self._decode(self._text, at)[1]

    def _object(self, path: JsonPath, at: int) -> int:
        at = self._space(at + 1)
        while not self._text.startswith("}", at):
            key, after = self._decode(self._text, at)
            inner = (*path, key)
            if inner in self.offsets:
                self.duplicates.append((inner, at))
            self.offsets[inner] = at
            at = self._next(self.walk(inner, self._space(self._space(after) + 1)))
        return at + 1

    def _array(self, path: JsonPath, at: int) -> int:
        at = self._space(at + 1)
        index = 0
        while not self._text.startswith("]", at):
            inner = (*path, index)
            self.offsets[inner] = at
            at = self._next(self.walk(inner, at))
            index += 1
        return at + 1

    def _next(self, at: int) -> int:
        at = self._space(at)
        return self._space(at + 1) if self._text.startswith(",", at) else at

    def _space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()
