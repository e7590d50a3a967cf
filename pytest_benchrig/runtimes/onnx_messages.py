"""What goes to the worker of ONNX Runtime GenAI, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_benchrig.core.generation import EngineTimings, JsonValue, Request, Usage
from pytest_benchrig.runtimes.reply import Reply


class OnnxReply(Reply):
    """What the worker has reported so far."""

    def __init__(self, options_sent: Mapping[str, JsonValue]) -> None:
        super().__init__(options_sent=options_sent)
        self.end_ns = 0
        self._prefill_sec: float | None = None

    def take(self, event: Mapping[str, JsonValue], offset_ns: int) -> None:
        """One event; ``offset_ns`` brings the worker's clock to ours."""
        kind = event["event"]
        self.end_ns = int(event["ns"]) + offset_ns
        if kind == "prefill":
            self.usage = Usage(int(event["prompt_tokens"]), None, 0)
            self._prefill_sec = float(event["prefill_sec"])
        elif kind == "token":
            self.answer(self.end_ns, str(event["text"]), int(event["tokens"]))
        elif kind == "end":
            tokens = int(event["tokens"])
            self.usage = Usage(self.usage.prompt_tokens, tokens, 0)
            self.finish_reason = str(event["reason"])
            self.engine_timings = EngineTimings(
                prompt_tokens=self.usage.prompt_tokens,
                prompt_sec=self._prefill_sec,
                decode_tokens=tokens,
                decode_intervals=max(0, tokens - 1),
                decode_sec=float(event["decode_sec"]),
            )
            self.complete = self.ended = True


def body_of(request: Request) -> dict[str, JsonValue]:
    """The request as the worker wants it; the options in the engine's own names.

    Temperature 0 (or none) is greedy search, to which no other sampling option applies.
    """
    sampling = request.sampling
    options: dict[str, JsonValue] = {
        "do_sample": bool(sampling.temperature),
        "repetition_penalty": sampling.repeat_penalty,
    }
    if sampling.temperature:
        options.update(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            random_seed=sampling.seed,
        )
    return {
        "op": "generate",
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "num_predict": sampling.num_predict,
        "num_ctx": sampling.num_ctx,
        "stop": list(sampling.stop),
        "ignore_eos": request.ignore_eos,
        "options": {
            **{name: value for name, value in options.items() if value is not None},
            **sampling.extra,
        },
    }
