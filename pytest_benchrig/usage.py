"""What can be refused before anything starts, with exit status 4."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_benchrig.active import Active
from pytest_benchrig.items import unknown_suite
from pytest_benchrig.options import Option

if TYPE_CHECKING:
    from pytest_benchrig.core.runfile import RunFile


def check_usage(active: Active) -> None:
    """Fail early, with exit status 4, on what cannot work.

    Raises:
        pytest.UsageError: A threshold, directory, output or journal that cannot be.
    """
    from pytest_benchrig.core.thresholds import parse_threshold
    from pytest_benchrig.reports.files import check_writable
    from pytest_benchrig.sandbox.isolation import CHOICES

    settings = active.settings
    check_root(active)
    if settings.sandbox not in CHOICES:
        raise pytest.UsageError(
            f"--benchrig-sandbox: unknown level {settings.sandbox!r}; choose one of "
            + ", ".join(CHOICES)
        )
    for text in settings.thresholds:
        try:
            parse_threshold(text)
        except ValueError as problem:
            raise pytest.UsageError(f"--benchrig-threshold: {problem}") from None
    for option, path in (("resume", settings.resume), ("replay", settings.replay)):
        if path is not None and not path.is_file():
            raise pytest.UsageError(f"--benchrig-{option}: {path} is not a file")
    for path in settings.compare:
        if not path.is_file():
            raise pytest.UsageError(f"--benchrig-compare: {path} is not a file")
    check_contradictions(active)
    check_comparison(active)
    if active.config.option.collectonly:
        return
    outputs = [settings.csv, settings.json, settings.markdown, settings.html]
    try:
        check_writable(settings.output_dir / "runs", is_dir=True)
        for output in outputs:
            if output is not None:
                check_writable(output, is_dir=False)
    except OSError as problem:
        raise pytest.UsageError(
            f"cannot write results: {problem}; choose another place with --benchrig-output-dir"
        ) from None


def check_contradictions(active: Active) -> None:
    """Options of which one could only be ignored.

    Raises:
        pytest.UsageError: Two of them were given together.
    """
    settings = active.settings
    given = {
        "--benchrig-replay": settings.replay is not None,
        "--benchrig-resume": settings.resume is not None,
        "--benchrig-selfcheck": settings.selfcheck,
    }
    sources = [option for option, is_given in given.items() if is_given]
    if len(sources) > 1:
        raise pytest.UsageError(
            f"{' and '.join(sources)}: replies come from one of them; leave out the other"
        )
    runs = Option("runs", "").dest
    if settings.replay is not None and active.config.getoption(runs, default=None):
        raise pytest.UsageError(
            "--benchrig-replay judges the runs that were recorded; leave out --benchrig-runs"
        )
    written: dict[Path, str] = {}
    for name in ("csv", "json", "markdown", "html"):
        path: Path | None = getattr(settings, name)
        # Streams and other special files may take several reports.
        if path is None or (path.exists() and not path.is_file()):
            continue
        other = written.setdefault(path.resolve(), name)
        if other != name:
            raise pytest.UsageError(
                f"--benchrig-{other} and --benchrig-{name}: both would be written to {path}; "
                "give each report a file of its own"
            )


def check_root(active: Active) -> None:
    """A path behind an option must not have become pytest's root directory.

    pytest decides its root before plugins are known, so of ``--benchrig-output-dir /some/where`` it
    takes the path for one to collect, and the project's own ini file is lost without a word.

    Raises:
        pytest.UsageError: That has happened.
    """
    config = active.config
    words = [str(word) for word in config.invocation_params.args]
    behind = [
        (word, value)
        for word, value in pairwise(words)
        if word.startswith("--benchrig-") and "=" not in word and not value.startswith("-")
    ]
    here = config.invocation_params.dir
    outside = [
        (word, value)
        for word, value in behind
        if _exists(here / value) and here not in (here / value).resolve().parents
    ]
    if outside and config.rootpath != here and config.inipath is None:
        word, value = outside[0]
        raise pytest.UsageError(
            f"pytest took {config.rootpath} for the root directory because of the path behind "
            f"{word}; write {word}={value}, or give --rootdir"
        )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # longer than any name can be, or with a NUL: no path


def check_comparison(active: Active) -> None:
    """Read every baseline and limit before anything is measured.

    Raises:
        pytest.UsageError: One of them cannot be used.
    """
    from pytest_benchrig.core.regression import parse_regression

    settings = active.settings
    for text in settings.regressions:
        try:
            parse_regression(text)
        except ValueError as problem:
            raise pytest.UsageError(f"--benchrig-regression: {problem}") from None
    if len(settings.compare_targets) not in (0, 2):
        raise pytest.UsageError(
            "--benchrig-compare-targets: expected two targets in one value, as in "
            "--benchrig-compare-targets 'ollama:a ollama:b'"
        )
    if settings.fail_on_regression and not (
        settings.compare or settings.compare_targets or settings.interleave
    ):
        raise pytest.UsageError(
            "--benchrig-fail-on-regression: nothing to compare with; add --benchrig-compare FILE"
        )
    if settings.interleave and getattr(active.config.option, "numprocesses", None):
        raise pytest.UsageError(
            "--benchrig-interleave measures targets side by side and runs without workers: "
            "leave out -n"
        )
    if settings.resume is not None or settings.replay is not None:
        earlier = active.earlier  # read now, so that a broken one ends the run here
        if settings.replay is not None and not earlier.by_item:
            raise pytest.UsageError(
                f"--benchrig-replay: {settings.replay} holds no reply that could be judged again"
            )
    check_allowed_differences(settings.allow_difference, active.baselines.values())


def check_allowed_differences(names: Iterable[str], baselines: Iterable[RunFile]) -> None:
    """What may differ must be a part of a fingerprint, of this version's or of a baseline's.

    Raises:
        pytest.UsageError: It is none; the message lists those there are.
    """
    from difflib import get_close_matches

    from pytest_benchrig.core.fingerprint import PER_TARGET
    from pytest_benchrig.environment import FACTS_OF_TARGETS
    from pytest_benchrig.hardware.environment import fingerprint

    known = fingerprint({}).keys() - FACTS_OF_TARGETS
    known |= {*PER_TARGET, "sampling", "scenario", "fingerprint"}
    for run in baselines:
        known |= {name.split(" ", 1)[0] for name in run.run.get("fingerprint") or {}}
    for name in names:
        part = name.strip().split(" ", 1)[0]
        if part not in known:
            near = get_close_matches(part, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise pytest.UsageError(
                f"--benchrig-allow-difference: no part of a fingerprint is called {part!r}{hint}; "
                f"parts: {', '.join(sorted(known))}"
            )


def only_scenarios(active: Active) -> bool:
    """Whether no Python test can be collected, so that every suite is known before collection."""
    known = (*active.directories, *active.named_files)
    return all(Path(str(arg).split("::")[0]) in known for arg in active.config.args)


def check_early_suites(active: Active) -> None:
    """An unknown suite is a usage error before anything starts, where all suites are known."""
    if not only_scenarios(active):
        return
    known = active.known_suites() | {"all"}
    for name in active.settings.suites:
        if name not in known:
            raise unknown_suite(name, known)
