"""What an Ollama server streams: lines as the tests put them together."""

from __future__ import annotations

import json

from tests.runtimes.support import Canned, http

CHAT = "POST /api/chat"
NDJSON = "application/x-ndjson"
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}


def lines(*values: object) -> Canned:
    """A stream of JSON lines."""
    body = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    return Canned([http(body, media=NDJSON)])


def piece(text: str, **more: object) -> dict[str, object]:
    return {"model": "m", "message": {"role": "assistant", "content": text}, "done": False, **more}


def last(**figures: object) -> dict[str, object]:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        **figures,
    }


FIGURES = {
    "total_duration": 900_000_000,
    "load_duration": 1_000_000,
    "prompt_eval_count": 20,
    "prompt_eval_duration": 100_000_000,
    "eval_count": 11,
    "eval_duration": 790_000_000,
}
