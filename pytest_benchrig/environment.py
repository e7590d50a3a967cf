"""The block that describes a run: environment, versions, options, targets, fingerprint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_benchrig._version import __version__
from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record

if TYPE_CHECKING:
    from pytest_benchrig.active import Active

_NEVER_STORED = frozenset({"api_key_env"})
_OF_THE_FIGURES = ("environment", "models", "fingerprint", "calibration", "interleaved")
"""Parts of the header that belong to the requests, whenever their replies are judged."""
FACTS_OF_TARGETS = frozenset(
    {"runtime_version", "model", "model_digest", "quantisation", "parameters", "device"}
)
"""Parts that stand in the fingerprint once per target."""


def run_header(
    active: Active, *, records: Sequence[Record] = (), interrupted: bool = False
) -> dict[str, JsonValue]:
    """The ``run`` object of journal and run file; no secret can be in it."""
    from pytest_benchrig.hardware.environment import environment

    settings = active.settings
    header: dict[str, JsonValue] = {
        "id": active.run_id,
        "started_at": active.started_at,
        "benchrig_version": __version__,
        "interrupted": interrupted,
        "interleaved": settings.interleave,
        "targets": [str(t) for t in active.targets],
        "suites": sorted({r.suite for r in records}),
        "options": plain_settings(active),
        "sandbox": active.sandbox_level(),
        "environment": environment(),
        "models": active.model_facts(),
    }
    given_up = active.coordination.given_up()
    if given_up:
        header["given_up"] = dict(given_up)
    calibration = stored_calibration(active)
    if calibration is not None:
        header["calibration"] = calibration
    header["fingerprint"] = fingerprint(active, header)
    if settings.replay is not None:
        # The figures are the recorded ones, so the machine and the models are those of then.
        recorded = active.earlier.run.run
        header["replay_of"] = recorded.get("id")
        header.update({name: recorded[name] for name in _OF_THE_FIGURES if name in recorded})
    return header


def stored_calibration(active: Active) -> JsonValue:
    """What ``--benchrig-calibrate`` stored last, ``None`` if nothing usable is there."""
    path = active.settings.output_dir / "calibration.json"
    try:
        stored = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return stored.get("calibration") if isinstance(stored, dict) else None


def plain_settings(active: Active) -> dict[str, JsonValue]:
    """The settings in force as JSON; URLs without credentials, keys by name only."""
    from pytest_benchrig.runtimes.redact import redact_url

    plain: dict[str, JsonValue] = {}
    for spec in dataclasses.fields(active.settings):
        value = getattr(active.settings, spec.name)
        if spec.name in _NEVER_STORED or value in (None, (), False, ""):
            continue
        if spec.name == "base_urls":
            value = [redact_url(url) for url in value]
        elif spec.name == "sampling":
            value = {
                k: v for k, v in dataclasses.asdict(value.sampling).items() if v not in (None, ())
            }
            value.pop("extra", None)
        plain[spec.name] = _plain(value)
    return plain


def _plain(value: object) -> JsonValue:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def fingerprint(active: Active, header: dict[str, JsonValue]) -> dict[str, str]:
    """Named parts of what makes two runs comparable."""
    from pytest_benchrig.hardware.environment import fingerprint as machine

    sampling = repr(
        (
            active.request_settings.defaults,
            active.request_settings.options,
            active.settings.think,
            sorted(active.settings.think_per_suite.items()),
            active.settings.thinking_token_multiplier,
        )
    )
    parts = {k: v for k, v in machine(header["environment"]).items() if k not in FACTS_OF_TARGETS}
    parts["sampling"] = hashlib.sha256(sampling.encode()).hexdigest()[:16]
    return {**parts, **model_parts(header["models"])}


def model_parts(models: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, str]:
    """The fingerprint's parts of each target: which model, and which runtime served it."""
    parts: dict[str, str] = {}
    for target, facts in models.items():
        parts[f"model {target}"] = " ".join(
            str(facts[k]) for k in ("digest", "quantisation") if facts.get(k)
        )
        parts[f"runtime {target}"] = str(facts.get("version", ""))
    return parts
