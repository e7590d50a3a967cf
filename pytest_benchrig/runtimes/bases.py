"""What runtimes have in common: a server at an address, or no server at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from pytest_benchrig.core.generation import ModelInfo, Placement, RuntimeFault
from pytest_benchrig.runtimes.faults import model_not_found
from pytest_benchrig.runtimes.http import Endpoint, HttpClient
from pytest_benchrig.runtimes.stream import StreamClient


class ServedRuntime:
    """A server at an address: one client for what is timed, one for the rest.

    Args:
        base_url: The server's address.
        target_model: The model of the target, for faults.
        api_key_env: The variable that holds a key.
        pid: The serving process, where the plugin started it.
        wait: Called with the seconds to wait on a busy server.
    """

    name: str
    default_port: ClassVar[int | None] = None

    def __init__(
        self,
        base_url: str,
        *,
        target_model: str = "",
        api_key_env: str = "",
        pid: int | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        endpoint = Endpoint.parse(base_url, api_key_env=api_key_env, default_port=self.default_port)
        self.target = f"{self.name}:{target_model}"
        self.base_url = endpoint.url
        self.endpoint = endpoint
        self.http = HttpClient(endpoint, self.target)
        self.site = self.http.site
        self._stream = StreamClient(endpoint, self.target, wait=wait)
        self._pid = pid
        self._begin()

    def _begin(self) -> None:
        """What a dialect keeps beside the clients."""

    def count_tokens(self, model: str, text: str) -> int | None:
        """Not offered."""
        return None

    def loaded(self) -> Mapping[str, float | None]:
        """Not told."""
        return {}

    def server_pid(self) -> int | None:
        """The serving process where the plugin itself started it."""
        return self._pid

    def close(self) -> None:
        """Close connections."""
        self._stream.close()
        self.http.close()

    def not_found(
        self, model: str, known: Sequence[ModelInfo], fault: RuntimeFault
    ) -> RuntimeFault:
        """A fault of a model that is not there, with near names."""
        better = model_not_found(self.site, model, [m.name for m in known], phase=fault.phase)
        better.status, better.partial = fault.status, fault.partial
        return better


class ServerlessRuntime:
    """What a runtime without any server behind it has to say."""

    base_url = ""

    def count_tokens(self, model: str, text: str) -> int | None:
        """Not without a server."""
        return None

    def placement(self, model: str) -> Placement:
        """Nothing is loaded."""
        return Placement()

    def loaded(self) -> Mapping[str, float | None]:
        """Nothing is loaded."""
        return {}

    def server_pid(self) -> int | None:
        """There is no process."""
        return None

    def close(self) -> None:
        """Nothing is open."""
