"""Credentials never reach a message, a log line or a report."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from pytest_benchrig.core.generation import Generation

_USERINFO = re.compile(r"(?<=://)(?:[^/\s?#]*|[^/\s?#:@]*:(?!\d+[/?#])[^\s@]*)@")
_BARE_USERINFO = re.compile(r"^[^/\s?#@:]*:[^/\s?#]*@")
_SECRET_PARAMETER = re.compile(
    r"([?&;](?:[\w-]*(?:key|token|secret|password|passwd|signature|credential)|sig|auth)=)[^&#\s\"']+",
    re.IGNORECASE,
)
_AUTHORISATION = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)


def redact_url(url: str) -> str:
    """The URL without its user, password and secret query parameters.

    >>> redact_url("http://me:s3cret@gpu:8000/v1?api_key=abc")
    'http://***@gpu:8000/v1?api_key=***'
    """
    text = _USERINFO.sub("***@", url)
    if "://" not in text:
        text = _BARE_USERINFO.sub("***@", text)
    return _SECRET_PARAMETER.sub(r"\1***", text)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Free text, such as a server's error, without URLs' credentials, headers and known secrets."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return _AUTHORISATION.sub(
        r"\1 ***", _SECRET_PARAMETER.sub(r"\1***", _USERINFO.sub("***@", text))
    )


QUOTED_NOTE = "the reply quoted the credential of its request; it was cut out"
_SHORTEST_QUOTED = 8
"""A shorter credential may be an ordinary word, which a reply may well say."""


def without_secrets(generation: Generation, secrets: Iterable[str]) -> Generation:
    """The reply without the credentials that its request carried; with a note where it had any.

    A gateway that echoes headers would else have a key printed in every report.
    """
    known = [secret for secret in secrets if len(secret) >= _SHORTEST_QUOTED]

    def clean(text: str) -> str:
        for secret in known:
            text = text.replace(secret, "***")
        return text

    said = (generation.text, generation.thinking, *(c.arguments for c in generation.tool_calls))
    if not any(secret in text for secret in known for text in said):
        return generation
    return dataclasses.replace(
        generation,
        text=clean(generation.text),
        thinking=clean(generation.thinking),
        tool_calls=tuple(
            dataclasses.replace(call, arguments=clean(call.arguments))
            for call in generation.tool_calls
        ),
        raw_message={},
        notes=(*generation.notes, QUOTED_NOTE),
    )
