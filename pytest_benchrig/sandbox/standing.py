"""What the judge knows of the class of a stand-in, and what follows for its word."""

from __future__ import annotations

from typing import Any

from pytest_benchrig.sandbox.layouts import LAYOUTS, mro_of
from pytest_benchrig.sandbox.proxy import RemoteMeta


def infos_of(thing: Any) -> list[Any]:
    """What is known of the classes of a stand-in, most derived first."""
    return [
        type.__getattribute__(cls, "_info")
        for cls in mro_of(type(thing))
        if type(cls) is RemoteMeta
    ]


def is_trusted(thing: Any) -> bool:
    """Whether the assertion made it, or its class is the standard library's own."""
    infos = infos_of(thing)
    return bool(infos) and (
        infos[0].trusted or any(info.trusted and not info.facts["standard"] for info in infos)
    )


def is_standard(thing: Any) -> bool:
    """Whether the class of a stand-in is the standard library's own."""
    infos = infos_of(thing)
    return bool(infos) and bool(infos[0].facts["standard"])


def defines(thing: Any, operation: str) -> bool:
    """Whether a class of the candidate, and not the builtin below it, has a special method."""
    name = f"__{operation}__"
    for cls in mro_of(type(thing)):
        if cls in LAYOUTS:
            return False
        if type(cls) is RemoteMeta and name in type.__getattribute__(cls, "_info").names:
            return True
    return False


def defines_equality(thing: Any) -> bool:
    """Whether the candidate has a say when objects of the class are compared."""
    return type(thing) is not RemoteMeta and (defines(thing, "eq") or defines(thing, "ne"))


def compared_fields(thing: Any) -> list[str] | None:
    """The fields by which a dataclass compares itself, ``None`` for any other class."""
    infos = infos_of(thing)
    if not infos or "__eq__" not in infos[0].names:
        return None
    fields = infos[0].facts["fields"]
    return [name for name in fields if type(name) is str] if type(fields) is list else None


def words_for(thing: Any) -> str:
    """What an object is called in a message."""
    return f"class {type(thing).__name__}"
