"""The options, their ini twins and environment variables, declared once in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

IniType = Literal["string", "linelist"]


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: The words after ``--benchrig-``.
        help: What ``pytest --help`` shows for option and ini key.
        metavar: The value's name, "" for a flag.
        many: Repeatable on the command line, one per line in the ini.
        env: Whether ``BENCHRIG_NAME`` is read.
        on_command_line: ``False`` for settings that live in the ini only.
    """

    name: str
    help: str
    metavar: str = ""
    many: bool = False
    env: bool = False
    on_command_line: bool = True

    @property
    def flag(self) -> str:
        """The option as typed."""
        return f"--benchrig-{'think' if self.name == 'think-mode' else self.name}"

    @property
    def dest(self) -> str:
        """The attribute on ``config.option``."""
        return "benchrig_" + self.name.replace("-", "_")

    @property
    def env_name(self) -> str:
        """The environment variable."""
        return "BENCHRIG_" + self.name.upper().replace("-", "_")


def ini_name(name: str) -> str:
    """The ini key of a setting."""
    return "benchrig_" + name.replace("-", "_")


def _ini(name: str, help: str, *, many: bool = False) -> Option:  # noqa: A002
    return Option(name, help, metavar="VALUE", many=many, on_command_line=False)


_TABLE = (
    Option(
        "model",
        "Benchmark this target, [runtime:]model; repeatable and comma lists allowed; "
        "'runtime:installed' takes all that the runtime lists. Without a model the plugin "
        "does nothing.",
        "TARGET",
        many=True,
        env=True,
    ),
    Option(
        "runtime",
        "Runtime of models without a prefix: ollama, llamacpp, vllm, lmstudio, foundry, prism, "
        "openai, onnx, embedded; default auto: probe the usual local endpoints and take the "
        "first that lists the model.",
        "NAME",
        env=True,
    ),
    Option(
        "base-url",
        "Endpoint of the runtime; repeatable, items are then spread over the endpoints. Default: "
        "OLLAMA_HOST, OPENAI_BASE_URL or FOUNDRY_BASE_URL for their own runtime, else the "
        "runtime's usual local port.",
        "URL",
        many=True,
        env=True,
    ),
    Option(
        "api-key-env",
        "Name of the environment variable that holds the API key. The key itself is never an "
        "option, never printed and never stored.",
        "NAME",
        env=True,
    ),
    Option(
        "scenarios",
        "Scenario file or directory; repeatable. Default: scenarios/ under the root directory, "
        "else the packs that ship with the plugin.",
        "PATH",
        many=True,
        env=True,
    ),
    Option(
        "suite",
        "Run only this suite; repeatable. Default: every collected suite except tool_use, which "
        "must be named; 'all' is speed, coding, reasoning, context and polish.",
        "NAME",
        many=True,
        env=True,
    ),
    Option(
        "runs",
        "Repetitions of every item, N or MIN..MAX; with a range an item stops as soon as its "
        "outcome is decided. Default 1.",
        "N",
        env=True,
    ),
    Option(
        "warmup-runs",
        "Warm-up requests per target, kept apart from every figure. Default 1.",
        "N",
        env=True,
    ),
    Option(
        "option",
        "Sampling or engine option of every request, KEY=VALUE (temperature=0, num_ctx=8192); "
        "repeatable; a scenario's own options win.",
        "KEY=VALUE",
        many=True,
    ),
    Option(
        "think-mode",
        "auto, on or off: overrides the thinking setting of every suite (only Ollama is told).",
        "MODE",
        env=True,
    ),
    Option(
        "request-timeout",
        "Longest time for one whole request, in seconds. Default 600.",
        "SEC",
        env=True,
    ),
    Option(
        "stall-timeout",
        "Longest silence after the first token, in seconds. Default 60.",
        "SEC",
        env=True,
    ),
    Option(
        "sandbox",
        "Containment of generated code: auto takes the strongest that works here, strict accepts "
        "only namespaces, process runs it uncontained on your own word. Default auto.",
        "LEVEL",
        env=True,
    ),
    Option("output-dir", "Where results are written. Default results/.", "DIR", env=True),
    Option("csv", "Also write the scorecards as CSV to this file.", "PATH"),
    Option("json", "Also write the run file (JSON) to this file.", "PATH"),
    Option("markdown", "Also write the Markdown summary to this file.", "PATH"),
    Option("html", "Also write one self-contained HTML report to this file.", "PATH"),
    Option(
        "threshold",
        "Bound that decides the exit status, such as 'coding_pass_rate >= 80', 'speed.ttft_sec.p95 "
        "<= 1.5' or 'ollama:qwen3 avg_eval_tok_sec >= 30'; repeatable. Wrong answers are then "
        "MISSED, not failures.",
        "EXPR",
        many=True,
    ),
    Option(
        "threshold-policy",
        "point judges the measured value; confident wants the whole 95 % interval on the good "
        "side. Default point.",
        "POLICY",
    ),
    Option("allow-disturbed", "Let timing thresholds count disturbed records."),
    Option(
        "compare",
        "Compare with this earlier run file; repeatable.",
        "PATH",
        many=True,
    ),
    Option(
        "compare-targets",
        "Compare two targets of this run one to one: 'A B'.",
        "TARGETS",
    ),
    Option("fail-on-regression", "Fail the run when the comparison shows it worse."),
    Option(
        "regression",
        "Which effect counts as a regression, METRIC:PCT, such as avg_eval_tok_sec:5; repeatable.",
        "METRIC:PCT",
        many=True,
    ),
    Option(
        "allow-difference",
        "Compare or resume although this part of the fingerprint differs; repeatable.",
        "NAME",
        many=True,
    ),
    Option("interleave", "Alternate the targets run by run instead of one after the other."),
    Option(
        "precision", "Relative half-width at which MIN..MAX timing runs stop. Default 5%.", "PCT"
    ),
    Option(
        "resume",
        "Continue this journal: items with a valid record are reported from it, the rest are run.",
        "PATH",
    ),
    Option(
        "replay",
        "Judge the stored replies of this journal or run file again, without inference.",
        "PATH",
    ),
    Option(
        "selfcheck",
        "Check the scenarios without a model: expected answers must pass; near misses, empty "
        "replies and the prompt itself must fail.",
    ),
    Option("check", "Show runtimes, models and sensors found on this machine, then exit."),
    Option("pull", "Fetch this model, [runtime:]model, then go on.", "MODEL", many=True),
    Option(
        "calibrate",
        "Measure the harness's own error on this machine, then exit; 1 when unfit for timing.",
    ),
    Option(
        "log-level",
        "Structured JSON log lines on stderr from this level. Default WARNING.",
        "LEVEL",
        env=True,
    ),
    _ini("files", "Globs of scenario files under the root directory.", many=True),
    _ini("missed", "missed or fail: how a wrong answer is reported while thresholds are given."),
    _ini("composite-weights", "Weights of the composite score."),
    _ini("reference-tok-per-sec", "Decode rate that counts as 100 % performance."),
    _ini("thinking-models", "Words that mark a model as a thinking model."),
    _ini("thinking-token-multiplier", "Factor on num_predict for thinking models."),
    _ini("think", "Thinking per suite, such as 'speed=off context=off'."),
    _ini("think-tags", "Names of the tags that enclose a thinking trace."),
    _ini("sampling", "Sampling defaults, such as 'temperature=0.1 top_p=0.9 seed=42'."),
    _ini("sample-interval", "Seconds between two hardware samples."),
    _ini("keep-samples", "Keep every hardware sample in the run file."),
    _ini("memory-warning", "Share of device memory that is warned about."),
    _ini(
        "breaker-failures",
        "Consecutive failures of a target (unreachable, not started, no such model, key refused, "
        "out of memory) after which it is given up and its other items are skipped. Default 3.",
    ),
    _ini("sandbox-memory-mb", "Address space of generated code, MB on top of the inherited size."),
    _ini("sandbox-allow-fork", "Let generated code start processes."),
    _ini("sandbox-site-packages", "Let generated code import installed packages."),
    _ini("embedded-threads", "Threads of the embedded engine; 0 lets the engine choose."),
    _ini("embedded-slots", "Parallel slots of the embedded engine; 0 means one per worker."),
    _ini("embedded-context", "Context window of each slot of the embedded engine, in tokens."),
    _ini("junit-properties", "on or off: properties in the JUnit file."),
)

OPTIONS = {option.name: option for option in _TABLE}


def add_options(parser: pytest.Parser) -> None:
    """Declare every option with its ini twin."""
    group = parser.getgroup("benchrig", "benchmarks of local language models")
    for option in _TABLE:
        # argparse formats its help texts; the ini's are shown as they are.
        help_text = option.help.replace("%", "%%")
        if option.on_command_line:
            if not option.metavar:
                group.addoption(
                    option.flag,
                    action="store_true",
                    default=None,
                    dest=option.dest,
                    help=help_text,
                )
            else:
                group.addoption(
                    option.flag,
                    action="append" if option.many else "store",
                    default=None,
                    dest=option.dest,
                    metavar=option.metavar,
                    help=help_text,
                )
        kind: IniType = "linelist" if option.many else "string"
        parser.addini(
            ini_name(option.name), option.help, type=kind, default=[] if option.many else ""
        )
