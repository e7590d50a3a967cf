"""What judging costs: stored replies read from a journal, with and without judging them.

Usage: ``python benchmarks/grading.py [--replies 10000] [--characters 2000] [--repeat 5]``

Each check type in turn judges the same number of replies of about the same length. Reading is
what a replay does, the journal into records; the decoding of its JSON alone stands beside it. The
ratio says how much longer reading and judging take together. Figures are medians of processor time
over repeated passes in one process.
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


def seconds(work: Callable[[], object], repeat: int) -> float:
    """The median processor time of one call, which other work on the machine does not enter."""
    taken = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    journal = header_line({}) + "".join(
        record_line(
            Record(
                task_id=f"t{i}",
                suite="reasoning",
                kind="answer",
                target="openai:none",
                runtime="openai",
                model="none",
                response=reply(options.characters, i),
            )
        )
        for i in range(options.replies)
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

    reading = seconds(read, options.repeat)
    count = options.replies

    def row(name: str, taken: float) -> None:
        print(f"{name:<28}{taken / count * 1e6:>12.1f}{taken / reading:>12.2f}")

    print(f"{count} replies of {options.characters} characters, median of {options.repeat}")
    print(f"{'what':<28}{'us a reply':>12}{'x reading':>12}")
    for name, work in (("JSON alone", decode), ("reading", read), ("and splitting", split_only)):
        row(name, seconds(work, options.repeat))
    for name, spec in SPECS.items():
        row(f"and {name}", seconds(judge(spec), options.repeat))


if __name__ == "__main__":
    main()
