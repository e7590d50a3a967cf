"""Credentials never reach a message, a log line or a report."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
