"""Frames between judge and candidate: length, then JSON text of a flat table of nodes.

The other side is hostile: a length is checked before anything is allocated, the number of nodes is
counted before the text is parsed, and nesting in the JSON text itself is constant because nodes
refer to one another by index.
"""

from __future__ import annotations

import json
import json.encoder
import os
from collections.abc import Callable
from typing import Any

from pytest_benchrig.sandbox.pristine import BUILTINS

__builtins__ = BUILTINS


MAX_FRAME = 48 << 20
"""Longest frame in bytes: a list of a million numbers fits, 300 MB of text does not."""

MAX_NODES = 4_000_000
"""Most brackets and commas, each, in the text of a frame."""

MAX_DEPTH = 2_000
"""Deepest nesting of a value that crosses."""

_CHUNK = 1 << 18
_SETTINGS = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=True, separators=(",", ":")
)
from_json: Callable[[str], Any] = json.JSONDecoder().decode
"""A decoder made once."""


def _fast_encoder() -> Callable[[Any], str]:
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _SETTINGS.encode
    parts = make(
        None, _SETTINGS.default, json.encoder.encode_basestring, None, ":", ",", False, False, True
    )
    # Not encode(): that is Python code which looks up builtins a program may have replaced.
    return lambda message: "".join(parts(message, 0))


_encode = _fast_encoder()


class ProtocolError(BaseException):
    """The other side broke the protocol; not an ``Exception`` so that no handler swallows it."""


class PeerGone(BaseException):
    """The other side closed its end."""


class TooLargeError(Exception):
    """A value of this side is too large or too deep to be sent."""


def write_message(fd: int, message: list[Any]) -> None:
    """Send one message.

    Raises:
        TooLargeError: Nothing was sent, because the frame would be too long.
        PeerGone: The other side does not listen any more.
    """
    text = _encode(message).encode("utf-8", "surrogatepass")
    if len(text) > MAX_FRAME or text.count(b"[") > MAX_NODES or text.count(b",") > MAX_NODES:
        raise TooLargeError(f"a value of {len(text)} bytes is too large to be handed over")
    view = memoryview(len(text).to_bytes(4, "big") + text)
    try:
        while view:
            view = view[os.write(fd, view[:_CHUNK]) :]
    except OSError as problem:
        raise PeerGone(str(problem)) from None


def read_message(fd: int) -> list[Any]:
    """The next message.

    Raises:
        PeerGone: The stream ended.
        ProtocolError: What came is no frame of ours.
    """
    length = int.from_bytes(_read(fd, 4), "big")
    if not 2 <= length <= MAX_FRAME:
        raise ProtocolError(f"a frame that claims {length} bytes")
    text = _read(fd, length)
    if text.count(b"[") > MAX_NODES or text.count(b",") > MAX_NODES:
        raise ProtocolError("a frame with too many nodes")
    try:
        message = from_json(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError, MemoryError) as problem:
        raise ProtocolError(f"a frame that is not ours: {type(problem).__name__}") from None
    if type(message) is not list:
        raise ProtocolError("a frame that is no message")
    return message


def _read(fd: int, length: int) -> bytes:
    try:
        first = os.read(fd, min(length, _CHUNK))
        if len(first) == length:
            return first
        parts = [first]
        missing = length - len(first)
        while missing and parts[-1]:
            parts.append(os.read(fd, min(missing, _CHUNK)))
            missing -= len(parts[-1])
    except OSError as problem:
        raise PeerGone(str(problem)) from None
    if missing:
        raise PeerGone("the stream ended")
    return b"".join(parts)
