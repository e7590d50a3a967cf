"""Targets as users type them: ``[runtime:]model``, where model names may hold colons too."""

from __future__ import annotations

from collections.abc import Collection


def parse_target(text: str, runtimes: Collection[str]) -> tuple[str | None, str]:
    r"""Runtime and model of what was typed; the runtime is ``None`` where none is named.

    Only a known runtime in front of the first colon is one, in any case: ``ollama:qwen3:8b`` is
    the model ``qwen3:8b`` of Ollama, ``qwen2.5:7b`` is a model without a runtime, and so are
    ``C:\models\x.gguf`` and ``hf.co/someone/model:Q4``. ``//`` behind the colon means a URL,
    which is no target and comes back whole.

    Args:
        text: What was typed; blanks around it do not count.
        runtimes: The names of all runtimes.
    """
    text = text.strip()
    head, colon, model = text.partition(":")
    name = head.strip().lower()
    if not colon or name not in runtimes or model.startswith("//"):
        return None, text
    return name, model.strip()
