"""ONNX Runtime GenAI in a process of its own, so that its memory and load are its own.

Requests come as JSON lines on standard input, one at a time; events go out as JSON lines, stamped
with the monotonic clock at the moment a token exists. See :func:`main`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from pytest_benchrig.runtimes.child import Report, take_stdout, tie_to_parent

_now_ns = time.perf_counter_ns
_BATCH_NS = 20_000_000
"""Events are sent at most this late: writing between two tokens would slow the next."""


def main(wanted: Mapping[str, Any]) -> None:
    """Load the model, say ``ready``, answer requests until standard input ends.

    Events: ``ready`` (``load_sec``, ``device``, ``eos``, ``ns``), ``pong`` (``ns``), ``count``
    (``tokens``), ``prefill`` (``ns``, ``prompt_tokens``, ``prefill_sec``), ``token`` (``ns``,
    ``text``, ``tokens``), ``end`` (``ns``, ``reason``, ``tokens``, ``decode_sec``) and
    ``failed`` (``step``, ``message``, and what is known of the sizes).

    Args:
        wanted: ``model`` (the folder), ``parent`` and ``bound`` as :func:`tie_to_parent` takes
            them.
    """
    report = take_stdout()
    tie_to_parent(wanted["parent"], bound=wanted["bound"])
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_stdin, args=(requests,), daemon=True).start()
    try:
        import onnxruntime_genai as genai
    except ImportError as problem:
        report({"event": "failed", "step": "import", "message": str(problem)})
        return
    began = time.perf_counter()
    try:
        engine = _Engine(genai, wanted["model"])
    except Exception as problem:
        report({"event": "failed", "step": "load", "message": str(problem)})
        return
    report({"event": "ready", "load_sec": time.perf_counter() - began, **engine.facts()})
    while True:
        request = json.loads(requests.get())
        if request["op"] == "ping":
            report({"event": "pong", "ns": _now_ns()})
            continue
        try:
            if request["op"] == "count":
                report({"event": "count", "tokens": len(engine.encode(request["text"]))})
            else:
                engine.generate(request, _Batch(report))
        except _Refusal as refusal:
            report({"event": "failed", **refusal.facts})
        except Exception as problem:
            report({"event": "failed", "step": "generate", "message": str(problem)})


def _read_stdin(requests: queue.Queue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


class _Refusal(Exception):  # noqa: N818 - a request that is not run
    """Why a request is not run, for the report."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(facts.get("message"))
        self.facts = facts


class _Batch:
    """Holds events back until there is time to send them."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._events: list[Mapping[str, Any]] = []
        self._sent_ns = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep an event, sending what has waited long enough."""
        self._events.append(event)
        if event["ns"] - self._sent_ns > _BATCH_NS:
            self.send(event["ns"])

    def send(self, ns: int) -> None:
        """Send everything."""
        for event in self._events:
            self._report(event)
        self._events.clear()
        self._sent_ns = ns


class _Text:
    """The reply up to the first stop sequence; what may begin one is held back."""

    def __init__(self, stops: list[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def add(self, piece: str) -> str:
        """What can be sent of everything so far."""
        self._held += piece
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            sent, self._held = self._held[: min(ends)], ""
            return sent
        keep = max((self._begun(stop) for stop in self._stops), default=0)
        at = len(self._held) - keep
        sent, self._held = self._held[:at], self._held[at:]
        return sent

    def rest(self) -> str:
        """What was held back, once nothing can follow."""
        sent, self._held = self._held, ""
        return sent

    def _begun(self, stop: str) -> int:
        """How many characters at the end may be the beginning of the sequence."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(stop[:n])), 0)


class _Engine:
    """One loaded model."""

    def __init__(self, genai: Any, folder: str) -> None:
        self._genai = genai
        self._model = genai.Model(folder)
        self._tokenizer = genai.Tokenizer(self._model)
        with open(os.path.join(folder, "genai_config.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            config = json.load(file)
        self._window = int(config.get("model", {}).get("context_length") or 0)
        self._eos = {int(i) for i in self._tokenizer.eos_token_ids}

    def facts(self) -> dict[str, Any]:
        """What the parent wants to know once."""
        return {"device": str(self._model.device_type), "window": self._window, "ns": _now_ns()}

    def encode(self, text: str) -> Any:
        """The token ids of a text."""
        return self._tokenizer.encode(text)

    def generate(self, request: Mapping[str, Any], out: _Batch) -> None:
        """Answer one request.

        Raises:
            _Refusal: The prompt does not fit, or the model has no chat template.
        """
        ids = self.encode(self._prompt(request["messages"]))
        prompt = len(ids)
        window = min(w for w in (self._window, request["num_ctx"], sys.maxsize) if w)
        if prompt >= window:
            raise _Refusal(
                step="window",
                message=f"the prompt has {prompt} tokens, the window {window}",
                prompt_tokens=prompt,
            )
        generator = self._generator(request, prompt, window)
        began = _now_ns()
        generator.append_tokens(ids)
        filled = _now_ns()
        out.add(
            {
                "event": "prefill",
                "ns": filled,
                "prompt_tokens": prompt,
                "prefill_sec": (filled - began) / 1e9,
            }
        )
        self._decode(generator, request["stop"], out)

    def _decode(self, generator: Any, stops: list[str], out: _Batch) -> None:
        stream = self._tokenizer.create_stream()
        text = _Text(stops)
        ended = False
        total = pending = first = last = 0
        while not (ended or text.stopped or generator.is_done()):
            generator.generate_next_token()
            last = _now_ns()
            first = first or last
            token = int(generator.get_next_tokens()[0])
            total += 1
            pending += 1
            ended = token in self._eos
            # A piece is empty while the bytes of a character are not all there.
            piece = text.rest() if ended else text.add(stream.decode(token))
            if piece:
                out.add({"event": "token", "ns": last, "text": piece, "tokens": pending})
                pending = 0
        if rest := text.rest():
            out.add({"event": "token", "ns": last, "text": rest, "tokens": pending})
        end = _now_ns()
        reason = "stop" if ended or text.stopped else "length"
        decode_sec = (last - first) / 1e9
        out.add(
            {"event": "end", "ns": end, "reason": reason, "tokens": total, "decode_sec": decode_sec}
        )
        out.send(end)

    def _prompt(self, messages: list[Mapping[str, str]]) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    json.dumps(messages), add_generation_prompt=True
                )
            )
        except Exception as problem:
            raise _Refusal(step="template", message=str(problem)) from None

    def _generator(self, request: Mapping[str, Any], prompt: int, window: int) -> Any:
        budget = request["num_predict"]
        limit = window if budget is None else min(window, prompt + budget)
        options: dict[str, Any] = {"max_length": limit, **request["options"]}
        if request["ignore_eos"]:
            options["min_length"] = limit
        params = self._genai.GeneratorParams(self._model)
        params.set_search_options(**options)
        return self._genai.Generator(self._model, params)
