"""Memory, power and placement of a target, from the hardware windows of its records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from pytest_benchrig.core.blocking import blocked
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record

SPILL_LIMIT = 0.98
"""Share of the device memory in use from which it counts as full."""
COLLAPSE = 0.5
"""A decode rate below this share of the step before is a collapse."""
NOT_OBSERVED = "not observed"


def hardware_fields(records: Sequence[Record]) -> dict[str, JsonValue]:
    """Peaks over the windows; energy only of windows in which no other request ran."""
    alone = [r for r in records if not r.concurrent]
    return {
        "peak_vram_mb": max(_readings(records, "peak_vram_mb"), default=None),
        "vram_baseline_mb": min(_readings(records, "vram_baseline_mb"), default=None),
        "vram_model_mb": max(_readings(records, "vram_model_mb"), default=None),
        "peak_rss_mb": max(_readings(records, "peak_rss_mb"), default=None),
        "rss_coverage": _common(records, "rss_coverage"),
        "avg_power_w": _power(alone),
        "tokens_per_joule": _tokens_per_joule(alone),
        "joules_per_solved_task": _joules_per_task(alone),
        "energy_source": _common(alone, "energy_source"),
        "gpu_fit_pct": min(
            (r.gpu_fit_pct for r in records if r.gpu_fit_pct is not None), default=None
        ),
    }


def reading(record: Record, name: str) -> float | None:
    """A finite number of the record's hardware window."""
    value = record.hardware.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _readings(records: Iterable[Record], name: str) -> list[float]:
    return [v for r in records if name in r.hardware and (v := reading(r, name)) is not None]


def _common(records: Iterable[Record], name: str) -> str | None:
    words = dict.fromkeys(str(r.hardware[name]) for r in records if r.hardware.get(name))
    return ", ".join(words) or None


def _alike(records: Iterable[Record]) -> bool:
    """Whether the energy of all covers the same devices; else it cannot be added."""
    return len({r.hardware.get("energy_coverage") for r in records}) <= 1


def _power(records: Sequence[Record]) -> float | None:
    read = [r for r in records if reading(r, "avg_power_w") is not None]
    pairs = [
        (power, reading(r, "duration_sec") or r.total_time_sec or 0.0)
        for r in read
        if (power := reading(r, "avg_power_w")) is not None
    ]
    if not pairs or not _alike(read):
        return None
    seconds = math.fsum(sec for _, sec in pairs)
    if seconds <= 0.0:
        return fmean(power for power, _ in pairs)
    return math.fsum(power * sec for power, sec in pairs) / seconds


def _tokens_per_joule(records: Iterable[Record]) -> float | None:
    read = [r for r in records if reading(r, "energy_j") is not None and not r.usage_estimated]
    if not _alike(read):
        return None
    pairs = [
        (r.completion_tokens, energy)
        for r in read
        if r.completion_tokens is not None and (energy := reading(r, "energy_j")) is not None
    ]
    joules = math.fsum(energy for _, energy in pairs)
    return sum(tokens for tokens, _ in pairs) / joules if joules > 0.0 else None


def _joules_per_task(records: Iterable[Record]) -> float | None:
    """Energy of every judged run divided by the tasks solved.

    One run without a reading makes the sum too small, and readings of different coverage cannot
    be added: then there is no figure.
    """
    judged = [r for r in records if r.passed is not None]
    energies = [reading(r, "energy_j") for r in judged]
    if None in energies or not _alike(judged):
        return None
    solved = sum(bool(r.passed) for r in judged)
    return math.fsum(e for e in energies if e is not None) / solved if solved else None


def cold_start(records: Iterable[Record]) -> float | None:
    """The first load seen; the warm-up records carry it, so they are looked at too."""
    return next(
        (
            r.cold_start_sec
            for r in records
            if r.cold_start_sec is not None and not blocked(r, "cold_start_sec")
        ),
        None,
    )


def context_spill(records: Iterable[Record]) -> tuple[JsonValue, str | None]:
    """First context size that no longer fits the device, and the evidence.

    Returns:
        The size, ``"not observed"``, or ``None`` where no step was run; and what shows it: the
        engine's placement, device memory at its limit, or a decode rate that collapsed.
    """
    steps: dict[int, list[Record]] = {}
    for record in records:
        if record.kind == "context" and record.context_size:
            steps.setdefault(record.context_size, []).append(record)
    if not steps:
        return None, None
    rate_before: float | None = None
    for size in sorted(steps):
        evidence = _placement(steps[size])
        rates = [
            r.eval_tok_per_sec
            for r in steps[size]
            if r.eval_tok_per_sec is not None
            and not r.eval_tok_sec_floored
            and not blocked(r, "eval_tok_per_sec")
        ]
        rate = fmean(rates) if rates else None
        on_device = any(
            (r.gpu_fit_pct or 0.0) > 0.0 or reading(r, "peak_vram_mb") for r in steps[size]
        )
        if not evidence and on_device and rate and rate_before and rate < COLLAPSE * rate_before:
            evidence = f"decode fell from {rate_before:.1f} to {rate:.1f} tok/s"
        if evidence:
            return size, evidence
        rate_before = rate or rate_before
    return NOT_OBSERVED, None


def _placement(records: Iterable[Record]) -> str:
    for record in records:
        fit = record.gpu_fit_pct
        if fit is not None and 0.0 < fit < 100.0:
            return f"the engine holds {fit:.0f}% in device memory"
        used, total = reading(record, "peak_vram_mb"), reading(record, "vram_total_mb")
        if used is not None and total and used >= SPILL_LIMIT * total:
            return f"device memory at its limit, {used:.0f} of {total:.0f} MiB"
        if record.error_kind == "out_of_memory":
            return "the engine ran out of memory"
    return ""
