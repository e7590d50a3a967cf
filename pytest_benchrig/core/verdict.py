"""A verdict: what was decided about one generation, and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pytest_benchrig.core.generation import JsonValue

VerdictKind: TypeAlias = Literal[
    "pass", "fail", "truncated", "timeout", "crash", "no_code", "tampered"
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision with what is needed to audit it.

    Attributes:
        kind: ``None`` where nothing was to be judged (speed, a timing-only context step).
        detail: Why, in a sentence a reader of a failure understands; the first word is TRUNCATED
            for a failure of a cut-off reply.
        rule: The rule that decided.
        fields: Record fields of the kind (``extracted_answer``, ``passed_tests``, ...), by the
            names of DESIGN section 6, as plain JSON values.
    """

    kind: VerdictKind | None
    detail: str = ""
    rule: str = ""
    fields: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """``None`` where nothing was judged."""
        return None if self.kind is None else self.kind == "pass"
