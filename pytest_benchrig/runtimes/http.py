"""The untimed half of HTTP: lists, properties, loading.

``requests`` is imported at the first call. The timed half is in :mod:`.stream`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_benchrig.core.generation import JsonValue, RuntimeFault
from pytest_benchrig.runtimes.address import Endpoint, ca_file, proxy_of
from pytest_benchrig.runtimes.faults import (
    decode_json,
    excerpt,
    fault_of_connect,
    fault_of_status,
)

if TYPE_CHECKING:
    import requests

__all__ = ["CONNECT_TIMEOUT_SEC", "MAX_BODY_BYTES", "Answer", "Endpoint", "HttpClient"]

CONNECT_TIMEOUT_SEC = 10.0
MAX_BODY_BYTES = 64 * 1024 * 1024
_PATIENCE = 3


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
        finally:
            # A kept connection may be closed by the server just as the next request is written.
            session.close()

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
