"""vLLM's OpenAI server: what it adds is ``/version``, ``/tokenize`` and ``max_model_len``."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_benchrig.core.generation import JsonValue, ModelInfo
from pytest_benchrig.runtimes.figures import whole_number
from pytest_benchrig.runtimes.openai import OpenAIRuntime


class VllmRuntime(OpenAIRuntime):
    """A vLLM server; see :class:`OpenAIRuntime` for the arguments."""

    name = "vllm"
    default_port = 8000
    can_ignore_eos = True
    sampling_names = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}  # noqa: RUF012

    def version(self) -> str:
        """``vLLM 0.32.0``."""
        answer = self.http.ask("GET", f"{self.endpoint.root}/version", phase="list")
        value = answer.json() if answer.ok else None
        version = value.get("version") if isinstance(value, dict) else None
        return f"vLLM {version}" if isinstance(version, str) else "vLLM"

    def model_info(self, entry: Mapping[str, JsonValue]) -> ModelInfo:
        """One entry of the list, with its window."""
        return ModelInfo(
            str(entry["id"]), context_length=whole_number(entry.get("max_model_len")) or None
        )

    def count_tokens(self, model: str, text: str) -> int | None:
        """What ``/tokenize`` counts, special tokens in front included."""
        answer = self.http.ask(
            "POST",
            f"{self.endpoint.root}/tokenize",
            {"model": model, "prompt": text},
            phase="tokenize",
            timeout_sec=60.0,
        )
        value = answer.json() if answer.ok else None
        return whole_number(value.get("count")) if isinstance(value, dict) else None
