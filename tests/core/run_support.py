"""Records of every kind, as short to write as the tests need them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.core.scorecard import Scorecard, ScoreSettings, build_scorecard

TARGET = "ollama:qwen3:8b"


def reply(task_id: str, suite: str = "reasoning", kind: str = "answer", **fields: Any) -> Record:
    """A measured reply; ``passed`` also sets verdict and outcome."""
    passed = fields.get("passed")
    if passed is not None:
        fields.setdefault("verdict", "pass" if passed else "fail")
        fields.setdefault("outcome", "passed" if passed else "failed")
    target = fields.pop("target", TARGET)
    runtime, _, model = target.partition(":")
    known: dict[str, Any] = {
        "task_id": task_id,
        "suite": suite,
        "kind": kind,
        "target": target,
        "runtime": runtime,
        "model": model,
        "cache_mode": "cold",
    }
    return Record(**{**known, **fields})


def code(task_id: str, passed: int, of: int, **fields: Any) -> Record:
    """A coding reply with ``passed`` of ``of`` assertions."""
    return reply(
        task_id,
        "coding",
        "coding",
        passed=passed == of,
        passed_tests=passed,
        total_tests=of,
        sandbox_isolation="namespace",
        **fields,
    )


def speed(rate: float | None = 80.0, tokens: int | None = 256, **fields: Any) -> Record:
    """A speed reply at ``rate`` tokens a second."""
    known: dict[str, Any] = {
        "ttft_sec": 0.2,
        "eval_tok_per_sec": rate,
        "completion_tokens": tokens,
        "eval_tok_sec_floored": False,
    }
    return reply(fields.pop("task_id", "speed_raw"), "speed", "speed", **{**known, **fields})


def conversation(task_id: str, *turns: dict[str, Any], **fields: Any) -> Record:
    """A tool conversation with the given evidence per turn."""
    return reply(
        task_id,
        "tool_use",
        "tool_use",
        turns=[{"index": i, **t} for i, t in enumerate(turns)],
        **fields,
    )


def card(records: Sequence[Record], target: str = TARGET, **settings: Any) -> Scorecard:
    """The scorecard of the records."""
    settings.setdefault("runs", max((r.run_index for r in records), default=0) + 1)
    return build_scorecard(target, records, settings=ScoreSettings(**settings))


def run_of(records: Sequence[Record], **header: Any) -> RunFile:
    """A run file over the records."""
    targets = dict.fromkeys(r.target for r in records)
    cards = [card([r for r in records if r.target == t], t) for t in targets]
    block = {"id": "this-run", "fingerprint": {"machine": "m1", "sampling": "s1"}, **header}
    return RunFile(block, tuple(cards), tuple(records))


def timed_runs(random: Random, runs: int, mean: float, cv: float, **fields: Any) -> list[Record]:
    """Speed replies whose rate varies with the given coefficient of variation."""
    return [
        speed(random.gauss(mean, cv * mean), run_index=run, ttft_sec=None, **fields)
        for run in range(runs)
    ]
