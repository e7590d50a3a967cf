"""What judging costs: stored replies read from a journal, with and without judging them.

Usage: ``python benchmarks/grading.py [--replies 10000] [--characters 2000] [--repeat 5]``

Each check type in turn judges the same number of replies of about the same length. Reading is
what a replay does, the journal into records; the decoding of its JSON alone stands beside it. Every
pass does all of it in turn. Figures are medians of processor time over the passes; the ratio, how
much longer reading and judging take together than reading alone, is the median of each pass's
own. Below 2 the reading dominates.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.journal import header_line, load_journal, record_line
from pytest_benchrig.core.record import Record
from pytest_benchrig.core.scenario import AnswerSpec
from pytest_benchrig.core.thinking import ReasoningParser

SENTENCES = (
    "The train leaves at 11:20 and covers 42 km in the first half hour.",
    "We multiply six rows by seven chairs and keep the result for later.",
    "Every label is wrong, so the box that claims to be mixed holds one kind only.",
    "Odpowiedź wynika wprost z tabeli, którą podano w treści zadania.",
    "That leaves a share of 1/6, which is about 16.7 % of the 1,025 tickets.",
)
SPECS = {
    "final_answer": AnswerSpec("final_answer", "1742", ("1742", r"1742(?: ?km)?")),
    "exact_or_contains": AnswerSpec("exact_or_contains", "1742", ("1742 km",)),
    "exact_or_contains, words": AnswerSpec("exact_or_contains", "Canberra", ("the capital",)),
    "regex": AnswerSpec("regex", "x", (r"(?i)box 1 (?:(?:holds|is) ){0,3}oranges box 2",)),
    "numeric": AnswerSpec("numeric", "1742", evaluator="numeric"),
}


PROMPT = " ".join(SENTENCES) + " End with exactly one line in the form `Final answer: <answer>`."
"""About as long as a bundled prompt."""


def stored(number: int, response: str) -> Record:
    """A record as a run leaves it: what was asked, figures, and reasons for missing ones."""
    return Record(
        task_id=f"t{number}",
        suite="reasoning",
        kind="answer",
        target="openai:none",
        runtime="openai",
        model="none",
        endpoint="http://127.0.0.1:8080/v1",
        started_at="2026-01-01T00:00:00.000+00:00",
        nodeid=f"scenarios/reasoning.json::t{number}[openai:none]",
        scenario_digest="0123456789abcdef" * 4,
        prompt=PROMPT,
        response=response,
        options={"temperature": 0.1, "top_p": 0.9, "seed": 42, "max_tokens": 1024},
        flags=["cache_unknown"],
        unmeasured={
            "cached_prompt_tokens": "the server does not say what it took from its prompt cache",
            "load_time_sec": "the engine gives no timings",
            "queue_sec": "the engine gives no timings",
            "prompt_tok_per_sec": "the engine gives no timings",
            "prefill_eff_tok_per_sec": "the state of the prompt cache is unknown",
        },
        ttft_sec=0.1267,
        answer_ttft_sec=0.1267,
        prompt_tokens_actual=184,
        completion_tokens=512,
        eval_tok_per_sec=61.8,
        itl_p50_ms=16.1,
        itl_p95_ms=17.9,
        total_time_sec=8.41,
        finish_reason="stop",
        expected_answer="1742",
        answer_excerpt=response[-400:],
        hardware={"cpu_pct_mean": 71.3, "cpu_pct_max": 98.2, "rss_peak_mb": 3120.5, "samples": 56},
    )


def reply(characters: int, seed: int) -> str:
    """Prose with a trace in front and a marked answer at the end; every third is wrong."""
    pick = random.Random(seed)
    value = 1742 if seed % 3 else 1743
    tail = f"\n\n**Final answer:** {value}"
    text = "<think>" if seed % 2 else ""
    while len(text) < characters - len(tail) - 20:
        text += pick.choice(SENTENCES) + ("\n" if pick.random() < 0.3 else " ")
        if seed % 2 and len(text) > characters / 2 and "</think>" not in text:
            text += "</think>\n"
    text = text + "</think>\n" if seed % 2 and "</think>" not in text else text
    return text + "so it goes on and on "[: characters - len(text) - len(tail)] + tail


def seconds(work: Callable[[], object]) -> float:
    """The processor time of one call, which other work on the machine does not enter."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    journal = header_line({}) + "".join(
        record_line(stored(i, reply(options.characters, i))) for i in range(options.replies)
    )
    split = ReasoningParser().split

    def decode() -> None:
        for line in journal.splitlines():
            json.loads(line)

    def read() -> tuple[Record, ...]:
        return load_journal(journal).records

    def split_only() -> None:
        for record in read():
            split(record.response)

    def judge(spec: AnswerSpec) -> Callable[[], None]:
        def run() -> None:
            for record in read():
                judge_answer(spec, split(record.response).answer)

        return run

    works: dict[str, Callable[[], object]] = {
        "JSON alone": decode,
        "reading": read,
        "and splitting": split_only,
        **{f"and {name}": judge(spec) for name, spec in SPECS.items()},
    }
    passes = [{n: seconds(w) for n, w in works.items()} for _ in range(options.repeat)]
    count = options.replies
    print(f"{count} replies of {options.characters} characters, median of {options.repeat}")
    print(f"{'what':<28}{'us a reply':>12}{'x reading':>12}")
    for name in works:
        taken = statistics.median(p[name] for p in passes)
        ratio = statistics.median(p[name] / p["reading"] for p in passes)
        print(f"{name:<28}{taken / count * 1e6:>12.1f}{ratio:>12.2f}")


if __name__ == "__main__":
    main()
