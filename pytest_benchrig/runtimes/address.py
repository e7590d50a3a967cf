"""Where a server is: its address taken apart, credentials, proxies and trust."""

from __future__ import annotations

import base64
import functools
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit

from pytest_benchrig._version import __version__
from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.runtimes.faults import Site
from pytest_benchrig.runtimes.redact import redact_url
from pytest_benchrig.runtimes.transport import Tunnel

if TYPE_CHECKING:
    import ssl

USER_AGENT = f"pytest-benchrig/{__version__}"
_VERSION_END = re.compile(r"/v\d+\Z")


@functools.lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address, taken apart once; its text forms never show credentials.

    Attributes:
        scheme: ``http`` or ``https``.
        host: Name or address, without brackets.
        port: TCP port.
        prefix: Path in front of every request, without a slash at its end, such as ``/v1``.
        url: The whole, credentials redacted.
        key_env: The environment variable that the key was read from.
        headers: What every request carries; holds the credentials.
        secrets: Values that messages must not show.
    """

    scheme: str
    host: str
    port: int
    prefix: str
    url: str
    key_env: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def parse(
        cls, base_url: str, *, api_key_env: str = "", default_port: int | None = None
    ) -> Endpoint:
        """An endpoint from what a user types: ``host``, ``host:port``, a URL, with or without path.

        Args:
            base_url: The address; user and password in it become Basic authorisation.
            api_key_env: Name of the variable that holds a key, sent as a Bearer token.
            default_port: Port where the address names none; else the scheme's.

        Raises:
            RuntimeFault: ``unreachable`` for what is no address, ``auth`` for a key that cannot be
                sent.
        """
        shown = redact_url(base_url.strip())
        text = base_url.strip()
        parts = _split(text if "://" in text else f"http://{text}", shown)
        host = _host(parts, shown)
        if not host or parts.scheme not in ("http", "https"):
            raise _no_address(shown, "expected http://host:port")
        port = parts.port or default_port or (443 if parts.scheme == "https" else 80)
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        name = f"[{host}]" if ":" in host else host
        headers = {
            "Host": name if port == (443 if parts.scheme == "https" else 80) else f"{name}:{port}",
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
        }
        secrets: list[str] = []
        if parts.username is not None or parts.password is not None:
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
            secrets += [token, password]
        url = f"{parts.scheme}://{name}:{port}{prefix}"
        key = os.environ.get(api_key_env, "").strip() if api_key_env else ""
        if key:
            if not key.isascii() or not key.isprintable():
                raise RuntimeFault(
                    "auth",
                    f"the value of {api_key_env} is no key: it holds other than printable ASCII",
                    url=url,
                    phase="connect",
                    remedy=f"Set {api_key_env} to the key alone",
                )
            headers["Authorization"] = f"Bearer {key}"
            secrets.append(key)
        return cls(
            parts.scheme,
            host,
            port,
            prefix,
            url,
            api_key_env,
            headers,
            tuple(filter(None, secrets)),
        )

    @property
    def is_loopback(self) -> bool:
        """Whether the server is this machine by its loopback address."""
        return _is_loopback(self.host.lower())

    @property
    def root(self) -> str:
        """The prefix without a version at its end: where native routes live."""
        return _VERSION_END.sub("", self.prefix)

    def site(self, target: str) -> Site:
        """Where faults of this endpoint happen."""
        has_key = self.key_env if self.key_env else ""
        return Site(target, self.url, has_key, self.secrets)


def proxy_of(endpoint: Endpoint) -> str | None:
    """The proxy that the environment names for this endpoint; never one for loopback."""
    if endpoint.is_loopback:
        return None
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(endpoint.host):
        return None
    proxies = getproxies()
    found = proxies.get(endpoint.scheme) or proxies.get("all")
    return found or None


def tunnel_of(proxy: str) -> Tunnel:
    """A proxy's URL as the place to connect to.

    Raises:
        RuntimeFault: It is no http proxy.
    """
    shown = redact_url(proxy)
    parts = _split(proxy if "://" in proxy else f"http://{proxy}", shown)
    if parts.scheme != "http" or not parts.hostname:
        raise _no_address(shown, "only http:// proxies are supported; set NO_PROXY for this host")
    authorisation = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorisation = "Basic " + base64.b64encode(pair.encode()).decode()
    return Tunnel(parts.hostname, parts.port or 80, authorisation)


def ca_file() -> str | None:
    """The CA file or directory that the environment names."""
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        if value := os.environ.get(name):
            return value
    return None


@functools.lru_cache(maxsize=4)
def tls_context(ca: str | None) -> ssl.SSLContext:
    """The verifying TLS context; made once, since loading certificates costs 20 ms.

    Raises:
        OSError: The named CA file cannot be read.
    """
    import ssl

    context = ssl.create_default_context()
    if ca:
        is_folder = os.path.isdir(ca)  # noqa: PTH112 - a path as text, passed on as text
        context.load_verify_locations(
            capath=ca if is_folder else None, cafile=None if is_folder else ca
        )
    context.set_alpn_protocols(["http/1.1"])
    return context


def _host(parts: SplitResult, shown: str) -> str:
    host = parts.hostname or ""
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise _no_address(shown, "the host name cannot be encoded") from None


def _split(text: str, shown: str) -> SplitResult:
    if any(ch.isspace() or not ch.isprintable() for ch in text):
        raise _no_address(shown, "it holds blanks or control characters")
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - the property checks the number
    except ValueError:
        raise _no_address(shown, "host or port cannot be read") from None
    return parts


def _no_address(shown: str, why: str) -> RuntimeFault:
    return RuntimeFault(
        "unreachable",
        f"{shown!r} is no server address: {why}",
        url=shown,
        phase="connect",
        remedy="Give it as http://host:port with --benchrig-base-url",
    )
