"""What a server's error means: from status and body to the kind of fault and its remedy."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_benchrig.core.generation import FaultKind, Generation, JsonValue, RuntimeFault
from pytest_benchrig.runtimes.redact import redact_text

_EXCERPT = 400


@dataclass(frozen=True, slots=True)
class Site:
    """Where a fault happened and what must not be shown in it.

    Attributes:
        target: ``runtime:model``.
        url: The endpoint, credentials redacted.
        key_env: The environment variable that holds the key, "" if none is set.
        secrets: Values that are cut out of every message.
    """

    target: str = ""
    url: str = ""
    key_env: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def fault(
        self,
        kind: FaultKind,
        message: str,
        *,
        phase: str,
        remedy: str,
        status: int | None = None,
        partial: Generation | None = None,
    ) -> RuntimeFault:
        """A fault at this place, secrets cut out."""
        return RuntimeFault(
            kind,
            redact_text(message, self.secrets),
            target=self.target,
            url=self.url,
            phase=phase,
            remedy=remedy,
            status=status,
            partial=partial,
        )


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error as a server words it. ``kind_word`` is its ``type`` or ``code`` where it is text."""

    message: str
    kind_word: str = ""
    code: int | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


def error_in(value: JsonValue) -> ServerError | None:
    """The error that a decoded body or event carries; ``None`` where it carries none.

    Understood are OpenAI's object, Ollama's plain string (also with JSON inside), FastAPI's
    ``detail`` and vLLM's older ``{"object": "error", ...}``.
    """
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if error in (None, "", {}) and value.get("object") == "error":
        error = value
    if error in (None, "", {}) and "choices" not in value and value.get("detail"):
        detail = value["detail"]
        return ServerError(detail if isinstance(detail, str) else json.dumps(detail))
    if error in (None, "", {}, False):
        return None
    if isinstance(error, Mapping):
        words = [error.get("type"), error.get("code")]
        code = error.get("code")
        message = error.get("message") or error.get("msg") or json.dumps(error)
        if not isinstance(message, str):
            message = json.dumps(message)
        param = error.get("param")
        if isinstance(param, str) and param and param not in message:
            message += f" (parameter {param})"
        return ServerError(
            message,
            " ".join(w for w in words if isinstance(w, str)),
            code if isinstance(code, int) and not isinstance(code, bool) else None,
            error,
        )
    text = error if isinstance(error, str) else json.dumps(error)
    with contextlib.suppress(ValueError, RecursionError):
        inner = error_in(json.loads(text[text.index("{") :]))
        if inner is not None:
            return ServerError(text, inner.kind_word, inner.code, inner.extra)
    return ServerError(text)


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


_KINDS: tuple[tuple[FaultKind, re.Pattern[str]], ...] = (
    (
        "out_of_memory",
        _words(
            r"out of (?:device |gpu |host )?memory",
            r"outofmemory",
            r"\boom\b",
            r"cudamalloc",
            r"bad_alloc",
            r"(?:cannot|failed to|unable to|could not) allocate",
            r"requires more (?:system |gpu |video )?memory",
            r"(?:insufficient|not enough) (?:free |available |system |gpu |video )*memory",
        ),
    ),
    (
        "context_window",
        _words(
            r"exceed_context_size",
            r"context_length_exceeded",
            r"context (?:size|length|window) (?:has been |was |is )?exceeded",
            r"exceed(?:s|ed|ing)? (?:(?:the|available|maximum|model'?s?) )*(?:context|max length)",
            r"maximum context length",
            r"max_model_len",
            r"context_length\b",
            r"prompt (?:is )?too long",
            r"(?:longer|larger) than the (?:maximum |model'?s? )*(?:context|input)",
            r"input length .{0,80}exceeds",
        ),
    ),
    (
        "model_not_found",
        _words(
            r"model_not_found",
            r"(?:no such|unknown) model",
            r"model .{0,200}?(?:not found|does not exist|not available|not installed)",
            r"model .{0,200}?(?:is not loaded|is unknown|not_found)",
        ),
    ),
    (
        "unsupported",
        _words(
            r"does not support",
            r"tools_not_supported",
            r"not support(?:ed)? (?:by|for) (?:this|the) model",
            r"tool (?:calling|use|choice).{0,40}not (?:supported|enabled)",
            r"unsupported.{0,20}tool",
            r"requires .{0,40}--jinja",
        ),
    ),
)


def kind_of_error(error: ServerError, status: int | None) -> FaultKind | None:
    """The kind that the server's own words name, ``None`` where they name none."""
    text = f"{error.kind_word} {error.message}"
    for kind, pattern in _KINDS:
        if pattern.search(text):
            if kind == "model_not_found" and status not in (None, 400, 404):
                continue
            return kind
    return None


_REMEDIES: dict[FaultKind, str] = {
    "out_of_memory": "Free memory, choose a smaller model or quantisation, or lower num_ctx",
    "context_window": "Lower the scenario's context or start the server with a larger window",
    "model_not_found": "Name a model that the server lists",
    "unsupported": "Choose a model or runtime that can do it",
    "busy": "Wait until the server is free, or give it more slots",
    "auth": "Set the environment variable named with --benchrig-api-key-env to a valid key",
    "stream_error": "See the server's log; the reply was not judged",
    "http": "See the server's log",
}


def remedy_for(kind: FaultKind, site: Site) -> str:
    """What the user can do about it."""
    if kind == "auth":
        if site.key_env:
            return f"Set the environment variable {site.key_env} to a key that this server accepts"
        return (
            "Put the key into an environment variable, such as OPENAI_API_KEY, "
            "and name it with --benchrig-api-key-env"
        )
    return _REMEDIES.get(kind, "See the server's log")


def fault_of_status(
    site: Site, status: int, headers: Mapping[str, str], body: bytes, *, phase: str
) -> RuntimeFault:
    """The fault that a response with an error status (or a redirect) is."""
    value = decode_json(body)
    error = error_in(value)
    said = error.message if error else excerpt(body)
    if 300 <= status < 400:
        where = headers.get("location", "")
        return site.fault(
            "http",
            f"the server redirects to {where or 'nowhere'}",
            phase=phase,
            remedy="Give the final URL with --benchrig-base-url; redirects are not followed, "
            "so that a key never goes to another server",
            status=status,
        )
    named = kind_of_error(error, status) if error else None
    kind: FaultKind
    if status in (401, 403, 407):
        kind = "auth"
    elif named is not None:
        kind = named
    elif status in (429, 503):
        kind = "busy"
    else:
        kind = "http"
    remedy = remedy_for(kind, site)
    if kind == "http" and status in (404, 405):
        remedy = (
            "This server does not offer the path; check the runtime's name and --benchrig-base-url"
        )
    message = f"the server answered {status}" + (f": {said}" if said else " without a reason")
    return site.fault(kind, message, phase=phase, remedy=remedy, status=status)


def fault_of_stream_error(
    site: Site, error: ServerError, *, phase: str, partial: Generation | None
) -> RuntimeFault:
    """The fault that an error object inside a stream is."""
    kind = kind_of_error(error, error.code) or "stream_error"
    return site.fault(
        kind,
        f"the server reported an error inside the stream: {error.message}",
        phase=phase,
        remedy=remedy_for(kind, site),
        partial=partial,
    )


def fault_of_connect(site: Site, problem: Exception, timeout_sec: float) -> RuntimeFault:
    """The fault that a failed connection is: refused, unknown name, TLS, silence."""
    import ssl

    if isinstance(problem, socket.gaierror | UnicodeError):
        message, remedy = (
            f"the host name is not known ({problem})",
            "Check the spelling of --benchrig-base-url and the name service",
        )
    elif isinstance(problem, ssl.SSLCertVerificationError):
        message, remedy = (
            f"the TLS certificate was not accepted ({problem.verify_message})",
            "Name the server's CA file in SSL_CERT_FILE or REQUESTS_CA_BUNDLE",
        )
    elif isinstance(problem, ssl.SSLError):
        message, remedy = (
            f"TLS could not be agreed ({problem.reason or problem})",
            "Check whether the server speaks https at this port",
        )
    elif isinstance(problem, TimeoutError):
        message, remedy = (
            f"no connection within {timeout_sec:g} s",
            "Check that the server runs and that no firewall drops the connection",
        )
    elif isinstance(problem, FileNotFoundError) or "TLS CA certificate" in str(problem):
        message, remedy = (
            "the CA file that the environment names is not there",
            "Correct REQUESTS_CA_BUNDLE, SSL_CERT_FILE or CURL_CA_BUNDLE",
        )
    elif isinstance(problem, ConnectionRefusedError):
        message, remedy = (
            "the connection was refused: nothing listens there",
            "Start the server, or give its address with --benchrig-base-url",
        )
    else:
        message, remedy = (
            f"no connection ({problem.__class__.__name__}: {problem})",
            "Check that the server runs and its address with --benchrig-base-url",
        )
    return site.fault("unreachable", message, phase="connect", remedy=remedy)


def near_names(name: str, known: Iterable[str]) -> str:
    """The nearest known names as the end of a sentence."""
    import difflib

    names = list(dict.fromkeys(known))
    folded = {n.lower(): n for n in names}
    near = [folded[n] for n in difflib.get_close_matches(name.lower(), folded, n=5, cutoff=0.4)]
    if near:
        return "did you mean " + ", ".join(near) + "?"
    if not names:
        return "the server lists no model"
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"the server lists {shown}"


def model_not_found(site: Site, model: str, known: Iterable[str], *, phase: str) -> RuntimeFault:
    """The fault of a model that the server does not have, near names included."""
    return site.fault(
        "model_not_found",
        f"the server has no model {model!r}; {near_names(model, known)}",
        phase=phase,
        remedy="Name a model that the server lists",
        status=None,
    )


def decode_json(body: bytes) -> JsonValue:
    """The JSON value of a body, ``None`` where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def excerpt(body: bytes) -> str:
    """The beginning of a body as one line of text."""
    text = " ".join(body[: _EXCERPT * 4].decode("utf-8", "replace").split())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."
