"""Settings: option over environment over ini over default, resolved once into one frozen value."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import pytest

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.request import SamplingDefaults, parse_option
from pytest_benchrig.options import OPTIONS, Option, ini_name

T = TypeVar("T")

SELFCHECK = "selfcheck"
BUNDLED_SUITES = ("speed", "coding", "reasoning", "context", "polish")
OPT_IN_SUITES = ("tool_use",)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the user can decide. Paths are absolute; times are seconds."""

    models: tuple[str, ...]
    model_on_command_line: bool
    runtime: str
    base_urls: tuple[str, ...]
    api_key_env: str
    scenarios: tuple[Path, ...]
    scenarios_on_command_line: bool
    suites: tuple[str, ...]
    runs_min: int
    runs_max: int
    precision: float
    warmup_runs: int
    options: tuple[str, ...]
    think: Literal["auto", "on", "off"]
    think_per_suite: Mapping[str, bool]
    request_timeout: float
    stall_timeout: float
    sandbox: str
    sandbox_memory_mb: int
    sandbox_allow_fork: bool
    sandbox_site_packages: bool
    output_dir: Path
    csv: Path | None
    json: Path | None
    markdown: Path | None
    html: Path | None
    thresholds: tuple[str, ...]
    threshold_policy: Literal["point", "confident"]
    allow_disturbed: bool
    compare: tuple[Path, ...]
    compare_targets: tuple[str, ...]
    fail_on_regression: bool
    regressions: tuple[str, ...]
    allow_difference: tuple[str, ...]
    interleave: bool
    resume: Path | None
    replay: Path | None
    selfcheck: bool
    check: bool
    pull: tuple[str, ...]
    calibrate: bool
    log_level: str
    missed: Literal["missed", "fail"]
    composite_weights: Mapping[str, float]
    reference_tok_per_sec: float
    thinking_models: tuple[str, ...]
    thinking_token_multiplier: int
    think_tags: tuple[str, ...]
    sampling: SamplingDefaults
    sample_interval: float
    keep_samples: bool
    memory_warning_pct: float
    breaker_failures: int
    embedded_threads: int
    embedded_slots: int
    embedded_context: int
    junit_properties: bool

    @property
    def active(self) -> bool:
        """Whether anything was asked of the plugin."""
        return bool(
            self.models
            or self.selfcheck
            or self.check
            or self.calibrate
            or self.pull
            or self.resume
            or self.replay
        )

    @property
    def asked_on_command_line(self) -> bool:
        """Whether the scenario directories replace ``testpaths``."""
        return (
            self.model_on_command_line
            or self.scenarios_on_command_line
            or self.selfcheck
            or self.resume is not None
            or self.replay is not None
        )


class _Reader:
    """Looks a name up in option, environment and ini, and names the place in every error."""

    def __init__(self, config: pytest.Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ

    def raw(self, name: str) -> tuple[object, str]:
        """The value and the words for where it came from; ``(None, "default")`` if nowhere."""
        option = OPTIONS[name]
        if option.on_command_line:
            value = self._config.getoption(option.dest, default=None)
            if any(text == "" or str(text).isspace() for text in _listed(value)):
                raise pytest.UsageError(
                    f"{option.flag}: the value is empty, expected {option.metavar}; leave the "
                    "option out where there is none (an environment variable that is not set?)"
                )
            if value not in (None, [], False):
                return value, option.flag
        if option.env and self._environ.get(option.env_name):
            text = self._environ[option.env_name]
            return (text.splitlines() if option.many else text), option.env_name
        value = self._config.getini(ini_name(name))
        if value not in (None, "", []):
            return value, f"ini {ini_name(name)}"
        return None, "default"

    def on_command_line(self, name: str) -> bool:
        return bool(self._config.getoption(OPTIONS[name].dest, default=None))

    def one(self, name: str, convert: Callable[[str], T], default: T) -> T:
        value, where = self.raw(name)
        if value is None:
            return default
        try:
            return convert(str(value).strip())
        except ValueError as problem:
            # What stands there instead of a variable's name may be the key.
            shown = "" if name == "api-key-env" else f"{value!s}: "
            raise pytest.UsageError(f"{where}: {shown}{problem}") from None

    def many(self, name: str, split: str = r",") -> tuple[str, ...]:
        value, _ = self.raw(name)
        items = [str(v) for v in value] if isinstance(value, list | tuple) else [str(value or "")]
        parts = (p.strip() for item in items for p in (re.split(split, item) if split else [item]))
        return tuple(p for p in parts if p)

    def flag(self, name: str) -> bool:
        value, where = self.raw(name)
        if isinstance(value, bool) or value is None:
            return bool(value)
        text = str(value).strip().lower()
        if text in ("1", "true", "yes", "on"):
            return True
        if text in ("0", "false", "no", "off"):
            return False
        raise pytest.UsageError(f"{where}: {value!s}: expected true or false")

    def path(self, name: str) -> Path | None:
        value, where = self.raw(name)
        return self.absolute(str(value), where) if value else None

    def paths(self, name: str) -> tuple[Path, ...]:
        _, where = self.raw(name)
        return tuple(self.absolute(item, where) for item in self.many(name, split=""))

    def absolute(self, text: str, where: str) -> Path:
        """An ini path is relative to the root directory, any other to where pytest was started."""
        base = (
            self._config.rootpath if where.startswith("ini") else self._config.invocation_params.dir
        )
        return Path(os.path.normpath(base / Path(text).expanduser()))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _number(
    kind: type[int] | type[float], *, least: float, above: bool = False
) -> Callable[[str], float]:
    words = f"a number {'above' if above else 'of at least'} {least:g}"
    if kind is int:
        words = words.replace("a number", "a whole number")

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(f"expected {words}") from None
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"expected {words}")
        if value < least or (above and value == least):
            raise ValueError(f"expected {words}")
        return value

    return convert


def _whole(least: int) -> Callable[[str], int]:
    convert = _number(int, least=least)
    return lambda text: int(convert(text))


def _choice(*allowed: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return text.lower()

    return convert


def parse_runs(text: str) -> tuple[int, int]:
    """``N`` or ``MIN..MAX``.

    Raises:
        ValueError: Anything else, or MIN above MAX.
    """
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    if match is None:
        raise ValueError("expected N or MIN..MAX, such as 3 or 3..10")
    low = int(match[1])
    high = int(match[2]) if match[2] else low
    if low < 1 or high < low:
        raise ValueError("expected at least 1, and MIN not above MAX")
    return low, high


def _percent(text: str) -> float:
    return _number(float, least=0.0, above=True)(text.removesuffix("%").strip())


def _assignments(words: tuple[str, ...], where: str, convert: Callable[[str], T]) -> dict[str, T]:
    result: dict[str, T] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise pytest.UsageError(f"{where}: {word!r}: expected NAME=VALUE")
        try:
            result[key.strip()] = convert(value.strip())
        except ValueError as problem:
            raise pytest.UsageError(f"{where}: {word!r}: {problem}") from None
    return result


def _on_off(text: str) -> bool:
    if text.lower() in ("on", "true", "1", "yes"):
        return True
    if text.lower() in ("off", "false", "0", "no"):
        return False
    raise ValueError("expected on or off")


def _weights(words: tuple[str, ...]) -> dict[str, float]:
    weights = _assignments(words, "ini benchrig_composite_weights", _number(float, least=0.0))
    expected = {"coding", "reasoning", "performance"}
    if set(weights) != expected:
        raise pytest.UsageError(
            "ini benchrig_composite_weights: expected coding=, reasoning= and performance=, "
            f"found {', '.join(sorted(weights)) or 'nothing'}"
        )
    if abs(sum(weights.values()) - 1.0) > 1e-9:
        raise pytest.UsageError(
            "ini benchrig_composite_weights: the three weights must add up to 1, "
            f"these add up to {sum(weights.values()):g}"
        )
    return weights


def _sampling(words: tuple[str, ...]) -> SamplingDefaults:
    values: dict[str, JsonValue] = {}
    for word in words:
        try:
            key, value = parse_option(word)
        except ValueError as problem:
            raise pytest.UsageError(f"ini benchrig_sampling: {problem}") from None
        values[key] = value
    return SamplingDefaults.of(values)


def read_settings(config: pytest.Config, environ: Mapping[str, str] | None = None) -> Settings:
    """Resolve every setting once.

    Raises:
        pytest.UsageError: A value is not what its option takes; the message names the option,
            variable or ini key, the value, and what was expected.
    """
    read = _Reader(config, os.environ if environ is None else environ)
    runs_min, runs_max = read.one("runs", parse_runs, (1, 1))
    options = read.many("option", split="")
    for word in options:
        try:
            parse_option(word)
        except ValueError as problem:
            raise pytest.UsageError(f"--benchrig-option: {problem}") from None
    models = read.many("model")
    if read.on_command_line("model") and not models:
        raise pytest.UsageError("--benchrig-model names no model: give [runtime:]model")
    return Settings(
        models=models,
        model_on_command_line=read.on_command_line("model"),
        runtime=read.one("runtime", str.lower, "auto"),
        base_urls=tuple(_url(url) for url in read.many("base-url")),
        api_key_env=read.one("api-key-env", _variable_name, ""),
        scenarios=read.paths("scenarios"),
        scenarios_on_command_line=read.on_command_line("scenarios"),
        suites=read.many("suite"),
        runs_min=runs_min,
        runs_max=runs_max,
        precision=read.one("precision", _percent, 5.0) / 100.0,
        warmup_runs=read.one("warmup-runs", _whole(0), 1),
        options=options,
        think=read.one("think-mode", _choice("auto", "on", "off"), "auto"),  # type: ignore[arg-type]
        think_per_suite=_assignments(
            read.many("think", split=r"[\s,]+") or ("speed=off", "context=off"),
            "ini benchrig_think",
            _on_off,
        ),
        request_timeout=read.one("request-timeout", _number(float, least=0, above=True), 600.0),
        stall_timeout=read.one("stall-timeout", _number(float, least=0, above=True), 60.0),
        sandbox=read.one("sandbox", str.lower, "auto"),
        sandbox_memory_mb=read.one("sandbox-memory-mb", _whole(32), 512),
        sandbox_allow_fork=read.flag("sandbox-allow-fork"),
        sandbox_site_packages=read.flag("sandbox-site-packages"),
        output_dir=read.path("output-dir") or config.rootpath / "results",
        csv=read.path("csv"),
        json=read.path("json"),
        markdown=read.path("markdown"),
        html=read.path("html"),
        thresholds=read.many("threshold", split=""),
        threshold_policy=read.one("threshold-policy", _choice("point", "confident"), "point"),  # type: ignore[arg-type]
        allow_disturbed=read.flag("allow-disturbed"),
        compare=read.paths("compare"),
        compare_targets=read.many("compare-targets", split=r"\s+"),
        fail_on_regression=read.flag("fail-on-regression"),
        regressions=read.many("regression"),
        allow_difference=read.many("allow-difference"),
        interleave=read.flag("interleave"),
        resume=read.path("resume"),
        replay=read.path("replay"),
        selfcheck=read.flag("selfcheck"),
        check=read.flag("check"),
        pull=read.many("pull"),
        calibrate=read.flag("calibrate"),
        log_level=read.one("log-level", _log_level, "WARNING"),
        missed=read.one("missed", _choice("missed", "fail"), "missed"),  # type: ignore[arg-type]
        composite_weights=_weights(
            read.many("composite-weights", split=r"[\s,]+")
            or ("coding=0.40", "reasoning=0.30", "performance=0.30")
        ),
        reference_tok_per_sec=read.one(
            "reference-tok-per-sec", _number(float, least=0, above=True), 60.0
        ),
        thinking_models=read.many("thinking-models", split=r"[\s,]+")
        or ("deepseek-r1", "qwq", "magistral", "qwen3"),
        thinking_token_multiplier=read.one("thinking-token-multiplier", _whole(1), 12),
        think_tags=read.many("think-tags", split=r"[\s,]+"),
        sampling=_sampling(
            read.many("sampling", split=r"[\s,]+")
            or ("temperature=0.1", "top_p=0.9", "seed=42", "num_ctx=4096")
        ),
        sample_interval=read.one("sample-interval", _number(float, least=0, above=True), 0.15),
        keep_samples=read.flag("keep-samples"),
        memory_warning_pct=read.one("memory-warning", _percent, 88.0),
        breaker_failures=read.one("breaker-failures", _whole(1), 3),
        embedded_threads=read.one("embedded-threads", _whole(0), 0),
        embedded_slots=read.one("embedded-slots", _whole(0), 0),
        embedded_context=read.one("embedded-context", _whole(512), 8192),
        junit_properties=read.one("junit-properties", _on_off, True),
    )


def _url(text: str) -> str:
    parts = urlsplit(text if "//" in text else f"http://{text}")
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(c.isspace() for c in text):
        shown = "***@" + text.rpartition("@")[2] if "@" in text else text
        raise pytest.UsageError(
            f"--benchrig-base-url: {shown!r}: expected an http or https URL, such as "
            "http://127.0.0.1:8080/v1"
        )
    if parts.query or parts.fragment:
        raise pytest.UsageError(
            f"--benchrig-base-url: {parts.hostname}: a query or fragment would not be sent; "
            "give the address up to the path, such as http://127.0.0.1:8080/v1"
        )
    return parts.geturl().rstrip("/")


def _variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("expected the name of an environment variable, never the key itself")
    return text


def _log_level(text: str) -> str:
    return _choice("debug", "info", "warning", "error", "critical")(text).upper()


__all__ = ["BUNDLED_SUITES", "OPT_IN_SUITES", "Option", "Settings", "parse_runs", "read_settings"]
