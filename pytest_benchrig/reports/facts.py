"""What every report says around its tables: containment, flags, remedies, the composite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pytest_benchrig.core.record import Record
from pytest_benchrig.core.runfile import RunFile
from pytest_benchrig.reports.provenance import provenance

SANDBOX_REMEDY = (
    "coding items were skipped for lack of containment ({reason}). Install bubblewrap, or enable "
    "user namespaces or Landlock; or run the model's code uncontained, on your own "
    "word, with --benchrig-sandbox process"
)
FLAG_MEANINGS: Mapping[str, str] = {
    "disturbed": "other load while measuring; timings not averaged",
    "concurrent": "other requests of the session in flight; timings not averaged",
    "unverified": "host load could not be seen; blocks nothing",
    "usage_estimated": "token counts are estimates; token rates not averaged",
    "usage_refused": "a token count of the server that cannot be true; see the records' notes",
    "cache_unknown": "the server does not say what it cached; TTFT and prefill not averaged",
    "coalesced": "several tokens were read at once; inter-token latencies are coarse",
    "engine_disagrees": "our decode rate and the engine's differ by more than 10 %",
    "engine_refused": "the engine's own figures cannot be true and were left out",
    "never_answered": "the reply never left thinking",
    "cpu_fallback": "ran on the CPU although a GPU was asked for; blocks nothing",
    "prompt_truncated": "the server cut the prompt to its window",
    "tools_dropped": "the chat template dropped the tools",
    "wrong_model": "another model answered than the one asked for",
    "engine_restarted": "answered by an engine that was started again after one had died",
    "reloaded": "the model was loaded inside the request",
    "queued": "the request waited in the server's queue",
    "short_budget": "fewer tokens came than the fixed budget asks for",
    "verdict_moved": "judged again, the verdict changed",
}


def isolation_levels(run: RunFile) -> str:
    """The containment that was in force, "" when no code ran and none is recorded."""
    seen = dict.fromkeys(r.sandbox_isolation for r in run.records if r.sandbox_isolation)
    if seen:
        return ", ".join(str(level) for level in seen)
    return str(run.run.get("sandbox") or "")


def flag_counts(run: RunFile) -> Counter[str]:
    """How many measured records carry each flag."""
    counts: Counter[str] = Counter()
    for record in run.records:
        if record.phase == "measured":
            counts.update(all_flags(record))
    return counts


def all_flags(record: Record) -> list[str]:
    """A record's flags, those kept in fields of their own included, each once."""
    flags = dict.fromkeys(record.flags)
    if record.disturbed:
        flags["disturbed"] = None
    if record.concurrent:
        flags["concurrent"] = None
    if record.usage_estimated:
        flags["usage_estimated"] = None
    if record.cpu_fallback:
        flags["cpu_fallback"] = None
    return list(flags)


def facts(run: RunFile) -> list[str]:
    """Sentences that stand above the tables."""
    found = provenance(run)
    levels = isolation_levels(run)
    if levels:
        found.append(f"sandbox: {levels}")
        if "process" in levels.split(", "):
            found.append("the model's code was not contained (level process)")
    if source := run.run.get("replay_of"):
        found.append(f"replay of {source}: its replies judged again, its timings as recorded")
    if run.run.get("interrupted"):
        found.append("interrupted: this run is not complete")
    given_up = run.run.get("given_up")
    if isinstance(given_up, Mapping):
        found += [f"{name} was given up: {reason}" for name, reason in given_up.items()]
    calibration = run.run.get("calibration")
    if isinstance(calibration, Mapping) and calibration.get("summary"):
        found.append(f"instrument's own error: {calibration['summary']}")
    for flag, count in sorted(flag_counts(run).items()):
        meaning = FLAG_MEANINGS.get(flag, "")
        records = "record" if count == 1 else "records"
        found.append(f"flag {flag}: {count} {records}" + (f" ({meaning})" if meaning else ""))
    found += [f"note: {warning}" for warning in run.warnings]
    return found


def formulas(run: RunFile) -> list[str]:
    """The composite's formula with the weights in force."""
    return list(dict.fromkeys(card.formula for card in run.scorecards if card.formula))


def remedies(run: RunFile) -> list[str]:
    """What to do about what is missing; every time coding was skipped for lack of containment."""
    reasons = dict.fromkeys(
        record.detail or record.error or "no reason given"
        for record in run.records
        if record.kind == "coding" and record.outcome == "skipped" and _uncontained(record)
    )
    return [SANDBOX_REMEDY.format(reason=reason) for reason in reasons]


def _uncontained(record: Record) -> bool:
    text = f"{record.detail} {record.error} {record.sandbox_error or ''}".lower()
    return "contain" in text or "sandbox" in text
