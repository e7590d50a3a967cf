"""Where each runtime listens by default, and which environment variable moves it."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"

PORTS: Mapping[str, int] = {
    "ollama": 11434,
    "llamacpp": 8080,
    "vllm": 8000,
    "lmstudio": 1234,
    "foundry": 5273,
    "prism": 5272,
    "openai": 8000,
}
"""The port each server takes unless it is told otherwise."""

URL_VARIABLES: Mapping[str, str] = {
    "ollama": "OLLAMA_HOST",
    "openai": "OPENAI_BASE_URL",
    "foundry": "FOUNDRY_BASE_URL",
}
"""The variable that names a runtime's address; it applies to that runtime and to no other."""

_UNSPECIFIED = {"0.0.0.0": LOOPBACK, "::": "::1"}


def default_urls(runtime: str) -> tuple[str, ...]:
    """Where a runtime is looked for when the user names no endpoint: variable, file, port.

    Contacts nothing. Empty for runtimes without a server of the user's own.
    """
    variable = URL_VARIABLES.get(runtime, "")
    value = os.environ.get(variable, "").strip() if variable else ""
    if runtime == "ollama":
        return (ollama_url(value),)
    if value:
        return (value,)
    if runtime == "foundry" and (found := foundry_daemon_url()):
        return (found,)
    port = PORTS.get(runtime)
    return (f"http://{LOOPBACK}:{port}",) if port else ()


def ollama_url(value: str) -> str:
    """The URL that ``OLLAMA_HOST`` means, by the rules of Ollama's own client.

    Blanks and quotes around it do not count. Without a scheme the port defaults to 11434, with
    ``http://`` to 80 and with ``https://`` to 443; a port that is no number is the default one.
    An address to listen on everywhere (``0.0.0.0``, ``[::]``, or none as in ``:11500``) is this
    machine's loopback for a client.

    >>> ollama_url("0.0.0.0"), ollama_url(":11500"), ollama_url("https://gpu.lan/ollama/")
    ('http://127.0.0.1:11434', 'http://127.0.0.1:11500', 'https://gpu.lan:443/ollama')
    """
    text = value.strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
        port = str(PORTS["ollama"])
        if text == "ollama.com":
            scheme, port = "https", "443"
    else:
        scheme = scheme.lower()
        port = {"http": "80", "https": "443"}.get(scheme, str(PORTS["ollama"]))
    authority, slash, path = rest.partition("/")
    credentials, at, authority = authority.rpartition("@")
    host, named_port = _host_and_port(authority)
    if named_port.isascii() and named_port.isdigit() and int(named_port) <= 65535:
        port = named_port
    host = _UNSPECIFIED.get(host, host) or LOOPBACK
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{credentials}{at}{shown}:{port}{slash}{path}".rstrip("/")


def _host_and_port(authority: str) -> tuple[str, str]:
    """Host without brackets, and the port as written, "" where there is none."""
    bare = authority.strip("[]")
    try:
        return str(ipaddress.ip_address(bare)), ""
    except ValueError:
        pass
    host, colon, port = authority.rpartition(":")
    if not colon:
        return bare, ""
    return host.strip("[]"), port


def is_loopback_url(url: str) -> bool:
    """Whether the URL's host is this machine by its loopback address or name."""
    try:
        host = (urlsplit(url if "://" in url else f"http://{url}").hostname or "").lower()
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def foundry_daemon_url() -> str | None:
    """The address in Foundry Local's daemon file; ``None`` where there is no readable one.

    The daemon takes a new port at each start and writes it to ``~/.foundry/daemon.json``
    (``web_urls``). Only an address of this machine is taken from it.
    """
    try:
        value = json.loads((Path.home() / ".foundry" / "daemon.json").read_text("utf-8"))
    except (OSError, ValueError, RuntimeError):
        return None
    urls = value.get("web_urls") if isinstance(value, dict) else None
    for url in urls if isinstance(urls, list) else ():
        if isinstance(url, str) and is_loopback_url(url):
            return url.rstrip("/")
    return None
