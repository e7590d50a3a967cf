"""The stored run behind the golden reports, and how to make both again.

``python -m tests.reports.golden`` writes ``tests/data/reports``; read the difference before you
commit it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_benchrig.core.compare import compare, compare_targets
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile, load_run, with_decisions
from pytest_benchrig.core.thresholds import evaluate, parse_threshold
from pytest_benchrig.reports import csv, html, markdown
from pytest_benchrig.reports.terminal import render_summary
from tests.core.run_support import TARGET, code, conversation, reply, run_of, speed

DATA = Path(__file__).parents[1] / "data" / "reports"
OTHER = "vllm:Qwen/Qwen3-8B"
HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script> | `x` **b** [a](http://evil.example)\n"
    "::error::taken\n##[command]rm\n=HYPERLINK(1)\n@everyone \u202eabc"
)


def records(target: str, slow: float, lost: int) -> list[Record]:
    """Two runs of a few scenarios of every kind."""
    found = [
        speed(task_id="warmup", phase="warmup", target=target, cold_start_sec=0.71),
        reply(
            "code_locked",
            "coding",
            "coding",
            target=target,
            outcome="skipped",
            detail="no containment works here: user namespaces are switched off",
        ),
        reply(
            "reasoning_down",
            target=target,
            outcome="error",
            error="unreachable: refused (http://127.0.0.1:1/, phase connect)",
            error_kind="unreachable",
        ),
    ]
    for run in range(2):
        shared: dict[str, Any] = {"target": target, "run_index": run}
        hardware = {"peak_rss_mb": 712.4 + run, "rss_coverage": "client_and_server"}
        found += [
            speed(
                (82.0 + run) / slow,
                ttft_sec=(0.110 + run / 1000) * slow,
                answer_ttft_sec=0.2 * slow,
                prefill_eff_tok_per_sec=500.0 / slow,
                hardware=hardware,
                **shared,
            ),
            speed(
                50.0,
                task_id="speed_sustained",
                disturbed="other processes used 34 % of the machine",
                flags=["disturbed"],
                **shared,
            ),
            code("code_flatten", 4, 4, truncated=False, **shared),
            code(
                "code_lru",
                1 - run,
                2,
                truncated=run == 1,
                detail="assert cache.get(1) == -1\nKeyError: 1",
                response=HOSTILE,
                extracted_code="class LRU: ...",
                rule="assertions",
                **shared,
            ),
            reply("reasoning_trains", passed=True, expected_answer="11:20", **shared),
            reply("reasoning_boxes", passed=run >= lost, truncated=False, **shared),
            reply(
                "reasoning_ball",
                passed=False,
                expected_answer="5",
                extracted_answer="10",
                detail=f"expected 5, found 10; {HOSTILE}",
                answer_excerpt=HOSTILE,
                response=HOSTILE,
                prompt="A bat and a ball cost 110 cents ...",
                **shared,
            ),
            reply(
                "ctx_512",
                "context",
                "context",
                passed=True,
                context_size=512,
                ttft_sec=0.4 * slow,
                **shared,
            ),
            reply(
                "ctx_1024",
                "context",
                "context",
                passed=run == 0,
                context_size=1024,
                ttft_sec=0.9 * slow,
                gpu_fit_pct=80.0,
                **shared,
            ),
            reply("join", "sql", passed=True, **shared),
            conversation(
                "tool_weather",
                {
                    "expected_tool": "weather",
                    "reached": True,
                    "called": True,
                    "structured": True,
                    "tool_ok": True,
                    "args_ok": False,
                    "passed": False,
                },
                passed=False,
                detail='argument "days": expected 3, found "3"',
                **shared,
            ),
        ]
    return found


def build() -> RunFile:
    """The run with its thresholds and comparisons."""
    header: dict[str, Any] = {
        "id": "20261201T013327Z-0a1b2c",
        "started_at": "2026-12-01T01:33:27.000+00:00",
        "benchrig_version": "0.1.0",
        "sandbox": "namespace",
        "interleaved": True,
        "environment": {
            "cpu_model": "Example 9000",
            "cpu_cores_logical": 16,
            "ram_mb": 32768.0,
            "gpus": [{"name": "Example RTX"}],
            "os": "Linux 6",
            "python": "3.11.7",
        },
        "models": {TARGET: {"version": f"server {HOSTILE}", "quantisation": "Q4_K_M"}},
    }
    ours = [*records(TARGET, 1.0, 0), *records(OTHER, 1.2, 2)]
    run = run_of(ours, **header)
    results = evaluate(
        [
            parse_threshold(text)
            for text in (
                "coding_pass_rate >= 60",
                f"{OTHER} avg_eval_tok_sec >= 75",
                "truncated_runs == 0",
                "polish_accuracy >= 50",
                "speed.ttft_sec.p95 <= 1.5",
            )
        ],
        run.scorecards,
        run.records,
    )
    elsewhere = run_of(records(TARGET, 0.8, 0), fingerprint={"machine": "m2", "sampling": "s1"})
    comparisons = [
        compare(run_of(records(TARGET, 0.8, 0)), run, name="main.json"),
        compare(elsewhere, run, name="laptop.json"),
        compare_targets(run, TARGET, OTHER),
    ]
    return with_decisions(run, [r.to_json() for r in results], [c.to_json() for c in comparisons])


def rendered(run: RunFile) -> dict[str, str]:
    """Every report of the run, by the golden file's name."""
    return {
        "summary.md": markdown.render(run),
        "scorecards.csv": csv.render(run),
        "report.html": html.render(run),
        "terminal-120.txt": "\n".join(render_summary(run, width=120)) + "\n",
        "terminal-60.txt": "\n".join(render_summary(run, width=60)) + "\n",
        "terminal-quiet.txt": "\n".join(render_summary(run, quiet=True)) + "\n",
    }


def main() -> None:
    """Write the stored run and every golden report."""
    DATA.mkdir(parents=True, exist_ok=True)
    text = build().dumps()
    (DATA / "run.json").write_text(text, "utf-8", newline="\n")
    for name, report in rendered(load_run(text)).items():
        (DATA / name).write_text(report, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
