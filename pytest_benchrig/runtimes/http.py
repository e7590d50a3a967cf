"""Endpoints, headers and proxies; and the untimed half of HTTP (lists, properties, loading).

``requests`` is imported at the first untimed call. The timed half is in :mod:`.stream`.
"""

from __future__ import annotations

import base64
import functools
import ipaddress
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit

from pytest_benchrig._version import __version__
from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.runtimes.faults import (
    Site,
    decode_json,
    excerpt,
    fault_of_connect,
    fault_of_status,
)
from pytest_benchrig.runtimes.redact import redact_url
from pytest_benchrig.runtimes.transport import Tunnel

if TYPE_CHECKING:
    import ssl

    import requests

USER_AGENT = f"pytest-benchrig/{__version__}"
CONNECT_TIMEOUT_SEC = 10.0
_PATIENCE = 3
MAX_BODY_BYTES = 64 * 1024 * 1024
_VERSION_END = re.compile(r"/v\d+\Z")


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
        if self.host.lower() == "localhost" or self.host.lower().endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

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


@dataclass(frozen=True, slots=True)
class Answer:
    """An untimed response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> JsonValue:
        """The body's JSON value, ``None`` where it is no JSON."""
        return decode_json(self.body)


class HttpClient:
    """Untimed requests to one endpoint: no redirects, no environment but proxy and CA file.

    Every method raises :class:`RuntimeFault` and nothing else for what goes wrong outside.
    """

    def __init__(self, endpoint: Endpoint, target: str = "") -> None:
        self.endpoint = endpoint
        self.site = endpoint.site(target)
        self._session: requests.Session | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: JsonValue = None,
        *,
        phase: str = "request",
        timeout_sec: float = 10.0,
    ) -> Answer:
        """One request; an error status is returned, not raised.

        Args:
            method: ``GET``, ``POST``, ``DELETE``.
            path: From the server's root, such as ``/api/tags``; the endpoint's prefix is not added.
            body: A JSON value to send.
            phase: What a fault names as its phase.
            timeout_sec: Longest silence; the whole may take three times as long.

        Raises:
            RuntimeFault: ``unreachable``, ``timeout``, or ``broken_stream`` for a body that is cut
                or larger than 64 MiB.
        """
        import requests

        session = self._open()
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        name = f"[{self.endpoint.host}]" if ":" in self.endpoint.host else self.endpoint.host
        url = f"{self.endpoint.scheme}://{name}:{self.endpoint.port}{path}"
        try:
            with session.request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=(min(CONNECT_TIMEOUT_SEC, timeout_sec), timeout_sec),
                allow_redirects=False,
                stream=True,
            ) as response:
                taken = bytearray()
                until = time.monotonic() + _PATIENCE * timeout_sec
                for piece in response.iter_content(65536):
                    taken += piece
                    if time.monotonic() > until:
                        raise requests.exceptions.ReadTimeout
                    if len(taken) > MAX_BODY_BYTES:
                        raise self.site.fault(
                            "broken_stream",
                            f"{method} {path}: the body is larger than {MAX_BODY_BYTES:,} bytes",
                            phase=phase,
                            remedy="Check that the address is the model server's",
                            status=response.status_code,
                        )
                return Answer(
                    response.status_code,
                    {k.lower(): v for k, v in response.headers.items()},
                    bytes(taken),
                )
        except (OSError, ValueError) as problem:  # requests lets some of its parts' own through
            raise self._fault(problem, f"{method} {path}", phase, timeout_sec) from None

    def json(
        self,
        method: str,
        path: str,
        body: JsonValue = None,
        *,
        phase: str = "request",
        timeout_sec: float = 10.0,
    ) -> JsonValue:
        """One request whose answer must be JSON with a 2xx status.

        Raises:
            RuntimeFault: As :meth:`ask`; and the kind that the status or the server's words name.
        """
        answer = self.ask(method, path, body, phase=phase, timeout_sec=timeout_sec)
        if not answer.ok:
            raise fault_of_status(
                self.site, answer.status, answer.headers, answer.body, phase=phase
            )
        value = answer.json()
        if value is None:
            raise self.site.fault(
                "broken_stream",
                f"{method} {path} did not answer with JSON but with {excerpt(answer.body)!r}",
                phase=phase,
                remedy="Check the runtime's name and --benchrig-base-url",
                status=answer.status,
            )
        return value

    def close(self) -> None:
        """Close the session's connections."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open(self) -> requests.Session:
        if self._session is None:
            import requests

            session = requests.Session()
            session.trust_env = False
            session.headers.clear()
            session.headers.update(self.endpoint.headers)
            session.headers["Accept-Encoding"] = "gzip, identity"
            session.headers["Accept"] = "*/*"
            # Servers close kept connections when they like; a fresh one costs nothing that counts.
            session.headers["Connection"] = "close"
            del session.headers["Host"]
            proxy = proxy_of(self.endpoint)
            if proxy:
                session.proxies = {self.endpoint.scheme: proxy}
            ca = ca_file()
            if ca:
                session.verify = ca
            self._session = session
        return self._session

    def _fault(self, problem: Exception, what: str, phase: str, timeout_sec: float) -> RuntimeFault:
        import requests

        cause = _root_cause(problem)
        late_body = "Read timed out" in str(problem)
        if isinstance(problem, requests.exceptions.ReadTimeout) or late_body:
            return self.site.fault(
                "timeout",
                f"{what}: no answer within {timeout_sec:g} s",
                phase=phase,
                remedy="Check that the server is not busy or stuck",
            )
        if isinstance(problem, requests.exceptions.ConnectTimeout):
            cause = TimeoutError()
        if isinstance(problem, requests.exceptions.ChunkedEncodingError):
            return self.site.fault(
                "broken_stream",
                f"{what}: the connection was cut before the body was complete",
                phase=phase,
                remedy="See the server's log",
            )
        return fault_of_connect(self.site, cause, min(CONNECT_TIMEOUT_SEC, timeout_sec))


def _root_cause(problem: Exception) -> Exception:
    seen: BaseException = problem
    best: Exception = problem
    for _ in range(10):
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((a for a in seen.args if isinstance(a, BaseException)), None)
        if inner is None:
            break
        seen = inner
        if isinstance(seen, OSError):
            best = seen
    return best


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
