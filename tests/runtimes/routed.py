"""A server that answers by path, as recorded or as told, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.runtimes.support import Canned, TestServer, as_json, capture

Answer = Canned | Callable[[dict[str, Any]], Canned]
NOT_FOUND = Canned([b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])


class RoutedServer(TestServer):
    """Answers ``"GET /path"`` with what stands there; 404 for the rest.

    Attributes:
        asked: Each request as ``METHOD /path`` with its decoded body, in order.
        heads: The head of each request.
    """

    def __init__(self, routes: Mapping[str, Answer]) -> None:
        self.routes = dict(routes)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.heads: list[str] = []
        super().__init__()

    def bodies(self, route: str) -> list[dict[str, Any]]:
        """The bodies sent to one route."""
        return [body for asked, body in self.asked if asked == route]

    def answer(self, request: bytes) -> Canned:
        head, _, content = request.partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        route = f"{method} {path}"
        body = json.loads(content) if content else {}
        self.heads.append(head.decode())
        self.asked.append((route, body))
        answer = self.routes.get(route, NOT_FOUND)
        return answer if isinstance(answer, Canned) else answer(body)


Routed = Callable[[Mapping[str, Answer]], RoutedServer]
"""The fixture ``routed``: ``routed(routes)`` starts a server that answers by path."""


def text(body: str, server: str = "") -> Canned:
    """A plain text response."""
    data = body.encode()
    extra = f"Server: {server}\r\n" if server else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{extra}Content-Length: {len(data)}\r\n"
    return Canned([head.encode() + b"Connection: close\r\n\r\n" + data])


HANG = Canned([], end="hang")

TAGS = {
    "models": [
        {
            "name": name,
            "model": name,
            "size": size,
            "digest": digest * 64,
            "details": {"parameter_size": "0.5B", "quantization_level": "Q4_K_M"},
        }
        for name, size, digest in (
            ("smollm2:135m", 98_363_000, "a"),
            ("qwen2.5-coder:0.5b", 397_000_000, "b"),
            ("qwen3:latest", 5_200_000_000, "c"),
        )
    ]
}


def ollama_routes(**more: Answer) -> dict[str, Answer]:
    """A real Ollama's answers to what a probe asks, with its recorded bytes."""
    return {
        "GET /": capture("ollama/01-root"),
        "GET /api/version": capture("ollama/02-version"),
        "GET /api/ps": capture("ollama/04-ps-empty"),
        "GET /api/tags": as_json(TAGS),
        "POST /api/show": capture("ollama/05-show"),
        "GET /v1/models": capture("ollama/52-openai-models"),
        **more,
    }


def lookalike_routes() -> dict[str, Answer]:
    """A proxy that says that it is Ollama, with its recorded bytes."""
    return {
        "GET /": capture("ollama-lookalike/03-root"),
        "GET /api/version": capture("ollama-lookalike/01-version"),
        "GET /api/ps": capture("ollama-lookalike/02-ps"),
        "GET /api/tags": as_json(TAGS),
        "POST /api/chat": capture("ollama-lookalike/10-chat-stream-length-reported-as-stop"),
        "GET /v1/models": as_json({"data": [{"id": "smollm2:135m", "owned_by": "proxy"}]}),
    }


def llamacpp_routes() -> dict[str, Answer]:
    """A llama.cpp server's answers, with its recorded bytes."""
    return {
        "GET /props": capture("llama.cpp/03-props"),
        "GET /v1/models": capture("llama.cpp/02-models"),
    }


def foundry_routes(**more: Answer) -> dict[str, Answer]:
    """Foundry Local's answers, with its recorded bytes."""
    models = {"data": [{"id": "smollm2-int4:1", "object": "model", "alias": "smollm2"}]}
    return {
        "GET /status": capture("foundry-local/01a-get_status"),
        "GET /v1/models": as_json(models),
        **more,
    }


def prism_routes(**more: Answer) -> dict[str, Answer]:
    """Prism's answers, with its recorded bytes."""
    return {
        "GET /health": capture("prism/04-health-after-load"),
        "GET /v1/models": capture("prism/02-models"),
        **more,
    }
