"""A real HTTP server that answers like an OpenAI-compatible one, and a project to run in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

REASONING = [
    {
        "id": "sum",
        "prompt": "What is two plus three? End with one line: Final answer: <answer>",
        "check_type": "final_answer",
        "expected_answer": "5",
        "accepted_patterns": ["5"],
    },
    {
        "id": "capital",
        "prompt": "Name the capital of France. End with one line: Final answer: <answer>",
        "check_type": "final_answer",
        "expected_answer": "Paris",
        "accepted_patterns": ["Paris"],
    },
]


@dataclass
class Answers:
    """What the server says, by a text that occurs in the prompt; and what it was asked.

    Prompts with a ``refused`` text get status 401; after ``requests_left`` answers it dies.
    """

    by_text: dict[str, str] = field(default_factory=dict)
    default: str = "I do not know."
    status: int = 200
    failure: str = "scripted failure"
    finish_reason: str = "stop"
    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    requests_left: int | None = None
    die: Callable[[], None] = lambda: None

    def reply_to(self, prompt: str) -> str:
        return next((reply for text, reply in self.by_text.items() if text in prompt), self.default)


@dataclass
class Server:
    url: str
    answers: Answers
    close: Callable[[], None]


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Keep the test output clean."""

        def do_GET(self) -> None:
            if self.path.endswith("/models"):
                models = [{"id": name, "object": "model"} for name in ("demo", "other")]
                self._json({"object": "list", "data": models})
            else:
                self._json({"error": {"message": "not found"}}, 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if answers.requests_left is not None:
                answers.requests_left -= 1
                if answers.requests_left < 0:
                    answers.die()
                    self.close_connection = True
                    return
            answers.requests.append(body)
            asked = str(body["messages"][-1]["content"])
            refused = any(text in asked for text in answers.refused)
            if refused or answers.status != 200:
                status = 401 if refused else answers.status
                self._json({"error": {"message": answers.failure}}, status)
                return
            reply = answers.reply_to(str(body["messages"][-1]["content"]))
            if not body.get("stream"):
                message = {"role": "assistant", "content": reply}
                self._json({"choices": [{"message": message, "finish_reason": "stop"}]})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            pieces = reply.split(" ")
            words = [w + (" " if i < len(pieces) - 1 else "") for i, w in enumerate(pieces)]
            for word in words:
                self._event({"choices": [{"index": 0, "delta": {"content": word}}]}, body)
            done = {"index": 0, "delta": {}, "finish_reason": answers.finish_reason}
            self._event({"choices": [done]}, body)
            usage = {"prompt_tokens": 20, "completion_tokens": len(words)}
            self._event({"choices": [], "usage": usage}, body)
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _event(self, data: dict[str, Any], body: dict[str, Any]) -> None:
            event = {"id": "x", "object": "chat.completion.chunk", "model": body["model"], **data}
            self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def _json(self, data: object, status: int = 200) -> None:
            text = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


def serve() -> Server:
    answers = Answers()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answers))
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    closed = threading.Event()

    def close() -> None:
        if not closed.is_set():
            closed.set()
            httpd.shutdown()
            httpd.server_close()
            thread.join()

    answers.die = close
    return Server(f"http://127.0.0.1:{httpd.server_port}/v1", answers, close)


@dataclass
class Project:
    """A project folder with scenario files, and how to run pytest in it."""

    pytester: pytest.Pytester
    url: str = ""

    def write(self, name: str, content: object) -> None:
        path = self.pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        path.write_text(text, "utf-8")

    def run(self, *args: str, model: str = "openai:demo", workers: int = 0) -> pytest.RunResult:
        """Run pytest in a process of its own against the scripted server."""
        words = ["-p", "no:hypothesispytest", *([f"-n{workers}"] if workers else [])]
        if model:
            words += ["--benchrig-model", model, "--benchrig-warmup-runs", "0"]
        if self.url and "--benchrig-base-url" not in args:
            words += ["--benchrig-base-url", self.url]
        return self.pytester.runpytest_subprocess(*words, *args)

    def results(self, name: str = "results/latest.json") -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.pytester.path / name).read_text("utf-8"))
        return data
