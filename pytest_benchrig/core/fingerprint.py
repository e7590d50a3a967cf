"""What makes two runs comparable, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_benchrig.core.generation import JsonValue
from pytest_benchrig.core.record import Record

PER_TARGET = ("model", "runtime")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of the fingerprint that is not the same in both runs.

    ``name`` is what ``--benchrig-allow-difference`` takes; its first word does as well.
    """

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'not known'} -> {self.after or 'not known'}"


def differences(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], targets: Iterable[str]
) -> list[Difference]:
    """What differs between the fingerprints of two runs.

    Parts that belong to one target (``model T``, ``runtime T``) count only for the targets that
    are compared.

    Args:
        before: The baseline's ``run`` object.
        after: This run's.
        targets: The targets compared.
    """
    old, new = _parts(before), _parts(after)
    if not old or not new:
        if old == new:
            return []
        return [
            Difference(
                "fingerprint", "none" if not old else "known", "none" if not new else "known"
            )
        ]
    compared = set(targets)
    names = dict.fromkeys((*old, *new))
    return [
        Difference(name, old.get(name, ""), new.get(name, ""))
        for name in names
        if old.get(name, "") != new.get(name, "") and _concerns(name, compared)
    ]


def _parts(run: Mapping[str, JsonValue]) -> dict[str, str]:
    parts = run.get("fingerprint")
    if not isinstance(parts, Mapping):
        return {}
    return {str(name): str(value) for name, value in parts.items()}


def _concerns(name: str, targets: set[str]) -> bool:
    kind, space, target = name.partition(" ")
    return not space or kind not in PER_TARGET or target in targets


def scenario_differences(pairs: Iterable[tuple[Record, Record]]) -> list[Difference]:
    """Scenarios whose text or judging changed between the two records of a pair."""
    changed: dict[str, Difference] = {}
    for before, after in pairs:
        if before.scenario_digest and after.scenario_digest != before.scenario_digest:
            name = f"scenario {after.suite}/{after.task_id}"
            changed.setdefault(
                name, Difference(name, before.scenario_digest[:12], after.scenario_digest[:12])
            )
    return list(changed.values())


def refused(found: Sequence[Difference], allowed: Iterable[str]) -> list[Difference]:
    """The differences that nobody allowed, by full name or by its first word."""
    names = {name.strip() for name in allowed}
    return [d for d in found if d.name not in names and d.name.split(" ", 1)[0] not in names]


def refusal(found: Sequence[Difference]) -> str:
    """One sentence that lists the differences and says how to allow them."""
    shown = "; ".join(str(d) for d in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    kinds = dict.fromkeys(d.name.split(" ", 1)[0] for d in found)
    options = " ".join(f"--benchrig-allow-difference {kind}" for kind in kinds)
    return f"not comparable: {shown}{more} (to compare all the same: {options})"
