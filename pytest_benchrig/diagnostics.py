"""``--benchrig-check``, ``--benchrig-calibrate``, ``--benchrig-pull``: no test runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.core.generation import RuntimeFault
from pytest_benchrig.reports.escape import plain
from pytest_benchrig.settings import Settings

if TYPE_CHECKING:
    from pytest_benchrig.runtimes.calibrate import Calibration

Say = Callable[[str], None]


def run_diagnostics(config: pytest.Config, settings: Settings) -> int | None:
    """Answer the diagnostics asked for; ``None`` lets the session go on (after a pull)."""

    def say(line: str) -> None:
        print(plain(line))  # noqa: T201

    status = 0
    if settings.check:
        status = max(status, check(settings, say))
    if settings.pull:
        status = max(status, pull(config, settings, say))
        if status == 0 and not (settings.check or settings.calibrate) and settings.models:
            return None
    if settings.calibrate:
        status = max(status, calibrate(config, settings, say))
    return status


def check(settings: Settings, say: Say) -> int:
    """Runtimes, models, sensors and sandbox levels of this machine."""
    from pytest_benchrig.hardware.check import sensors
    from pytest_benchrig.runtimes.discovery import probe_all
    from pytest_benchrig.sandbox.isolation import survey

    say("Runtimes")
    for result in probe_all(settings.base_urls):
        for line in result.lines():
            say(f"  {line}")
    say("Sensors")
    for reading in sensors():
        text = reading.reading if reading.found else f"none: {reading.missing}"
        say(f"  {reading.name}: {text}" + (f"; {reading.remedy}" if reading.remedy else ""))
    say("Sandbox")
    for line in survey():
        say(f"  {line}")
    return 0


def pull(config: pytest.Config, settings: Settings, say: Say) -> int:
    """Fetch models where the runtime can."""
    from pytest_benchrig.core.targets import parse_target
    from pytest_benchrig.runtimes.registry import RUNTIMES, default_urls
    from pytest_benchrig.runtimes.registry import pull as pull_model

    for text in settings.pull:
        runtime, model = parse_target(text, tuple(RUNTIMES))
        runtime = runtime or (settings.runtime if settings.runtime != "auto" else None)
        if runtime is None:
            raise pytest.UsageError(
                f"--benchrig-pull {text}: name the runtime, as in ollama:{text}, or give "
                "--benchrig-runtime"
            )
        url = (settings.base_urls or default_urls(runtime) or ("",))[0]
        try:
            say(f"{runtime}:{model}: {pull_model(runtime, model, url, progress=say)}")
        except RuntimeFault as fault:
            say(f"{runtime}:{model} could not be fetched: {fault}")
            return 1
    return 0


def summary_of(found: Calibration) -> str:
    """The instrument's own error in one line, as reports show it beside timings."""
    fit = "" if found.fit else f"; not fit for timing: {found.reason}"
    return (
        f"TTFT \u00b1{found.ttft_p95_ms:.2f} ms, inter-token \u00b1{found.itl_p99_ms:.2f} ms, "
        f"decode \u00b1{found.decode_pct:.2f} %{fit}"
    )


def calibration_lines(found: Calibration) -> list[str]:
    """What a person reads after a calibration."""
    return [
        f"Calibration of the instrument ({found.requests} streams, {found.duration_sec:.1f} s)",
        f"  TTFT error            median {found.ttft_p50_ms:.3f} ms, p95 "
        f"{found.ttft_p95_ms:.3f} ms, first request {found.ttft_first_ms:.3f} ms",
        f"  inter-token error     p99 {found.itl_p99_ms:.3f} ms",
        f"  decode rate error     {found.decode_pct:.3f} %",
        f"  arrival seen after    median {found.arrival_p50_ms:.3f} ms, p99 "
        f"{found.arrival_p99_ms:.3f} ms ({'kernel' if found.kernel_stamps else 'user'} stamps)",
        f"  tokens merged in one read  {found.coalesced_share:.0%} of the streams",
        f"  clock resolution      {found.clock_resolution_ns} ns",
        f"  wake-up lateness      p95 {found.sleep_lateness_p95_ms:.2f} ms",
        f"  fixed work            CV {found.work_cv_pct:.1f} %, p95 over best "
        f"{found.work_p95_over_best:.2f}",
        "  fit for timing" if found.fit else f"  NOT fit for timing: {found.reason}",
    ]


def calibrate(config: pytest.Config, settings: Settings, say: Say) -> int:
    """Measure the harness's own error; with a target also an A/A of the real server."""
    from pytest_benchrig.reports.files import write_text
    from pytest_benchrig.runtimes.calibrate import calibrate as measure

    calibration = measure()
    for line in calibration_lines(calibration):
        say(line)
    fit = calibration.fit
    stored = {"calibration": {**calibration.to_json(), "summary": summary_of(calibration)}}
    if settings.models:
        from pytest_benchrig.target_noise import measure_targets

        stored["targets"], complete = measure_targets(config, settings, say)
        fit = fit and complete
    import json

    path = settings.output_dir / "calibration.json"
    try:
        write_text(path, json.dumps(stored, indent=2) + "\n")
        say(f"stored in {path}")
    except OSError as problem:
        say(f"could not be stored: {problem}")
        return 1
    return 0 if fit else 1
