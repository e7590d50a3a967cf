"""The runtime ``replay``: answers from stored records, without inference.

``replay:results/latest.json`` answers from that run file or journal; where it holds several
targets, ``replay:results/latest.json#ollama:qwen3`` says which. A prompt that was not asked in that
run is a fault, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast, get_args

from pytest_benchrig.core.generation import (
    Arrival,
    EngineTimings,
    FaultKind,
    Generation,
    JsonValue,
    ModelInfo,
    Request,
    RuntimeFault,
    TimingMarks,
    ToolCall,
    Usage,
)
from pytest_benchrig.core.runfile import load_run
from pytest_benchrig.runtimes.bases import ServerlessRuntime
from pytest_benchrig.runtimes.faults import near_names

Stored = Mapping[str, JsonValue]
"""A record as its JSON object."""

_TARGET_MARK = "#"


def replay_runtime(
    base_url: str, *, target_model: str = "", api_key_env: str = "", pid: int | None = None
) -> ReplayRuntime:
    """The runtime for a run file or journal, ``path`` or ``path#runtime:model``.

    Raises:
        RuntimeFault: ``model_not_found``: no such file, not a run file, no such target in it.
    """
    name, _, target = target_model.partition(_TARGET_MARK)
    path = Path(name).expanduser()
    try:
        run = load_run(path.read_text("utf-8"), scored=False)
        records = [record.to_json() for record in run.records]
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise _fault(
            target_model,
            f"{name} cannot be replayed: {reason}",
            "Name a run file or journal, as in replay:results/latest.json",
        ) from None
    return ReplayRuntime(records, source=target_model, target=target)


class ReplayRuntime(ServerlessRuntime):
    """Stored replies by what was asked.

    Args:
        records: Records as JSON objects, of any number of targets.
        source: Where they come from, for messages.
        target: The recorded ``runtime:model`` to answer as; may be left out where there is one.

    Raises:
        RuntimeFault: ``model_not_found``: the target is not in the records, or is not named though
            there are several.
    """

    name: ClassVar[str] = "replay"

    def __init__(self, records: Sequence[Stored], *, source: str = "", target: str = "") -> None:
        self._source = source
        targets = list(dict.fromkeys(str(record.get("target")) for record in records))
        if target and target not in targets:
            raise _fault(
                source, f"it holds no target {target!r}; {near_names(target, targets)}", _CHOOSE
            )
        if not target and len(targets) != 1:
            held = f"it holds {len(targets)} targets: {', '.join(targets)}"
            raise _fault(source, held if targets else "it holds no record", _CHOOSE)
        self.recorded_target = target or targets[0]
        self._by_item: dict[tuple[str, str, int], Stored] = {}
        self._by_prompt: dict[tuple[str, str], list[Stored]] = {}
        self._served: dict[tuple[str, str], int] = {}
        for record in records:
            if str(record.get("target")) == self.recorded_target:
                self._add(record)
        for asked in self._by_prompt.values():
            asked.sort(key=lambda record: int(record.get("run_index") or 0))

    def lookup(
        self,
        suite: str,
        task_id: str,
        target: str,
        run_index: int,
        *,
        prompt: str | None = None,
        system: str | None = None,
    ) -> Generation:
        """The reply of one run of one scenario, timings as recorded.

        Args:
            suite: The scenario's suite.
            task_id: Its id.
            target: The recorded target.
            run_index: Which run, from 0.
            prompt: What would be asked now, without a marker; ``None`` does not compare it.
            system: The system message that would be sent now.

        Raises:
            RuntimeFault: There is no such reply, the prompt is another one by now, or the recorded
                request had failed itself.
        """
        record = self._by_item.get((suite, task_id, run_index))
        if record is None or target != self.recorded_target:
            raise self._missing(f"{suite}/{task_id}, run {run_index}, of {target}")
        for what, now in (("prompt", prompt), ("system message", system)):
            stored = record.get("prompt" if what == "prompt" else "system") or ""
            if now is not None and now != stored:
                raise _fault(
                    self._source,
                    f"the {what} of {suite}/{task_id} no longer matches: stored {stored[:80]!r}, "
                    f"now {now[:80]!r}",
                    "Run the scenario again, or replay with the scenario file of that run",
                    kind="http",
                )
        return self._reply_of(record)

    def generate(self, request: Request) -> Generation:
        """The reply to the same messages; runs are told apart by their seed, else by their order.

        Raises:
            RuntimeFault: ``http`` where this was not asked in that run, ``unsupported`` for
                conversations with tools, and whatever the recorded request had failed with.
        """
        if request.tools:
            raise _fault(
                self._source,
                "a conversation with tools is not kept message by message",
                "Judge it again with --benchrig-replay",
                kind="unsupported",
            )
        key = asked_of(request)
        stored = self._by_prompt.get(key, [])
        seeded = [
            record
            for record in stored
            if request.sampling.seed is not None
            and _options(record).get("seed") == request.sampling.seed
        ]
        if seeded:
            return self._reply_of(seeded[-1])
        turn = self._served.get(key, 0)
        if turn >= len(stored):
            raise self._missing(f"the prompt {key[1][:80]!r}" + (" once more" if stored else ""))
        self._served[key] = turn + 1
        return self._reply_of(stored[turn])

    def version(self) -> str:
        """What is replayed."""
        return f"replay of {self._source}"

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The recorded target."""
        return (ModelInfo(self._source, aliases=(self.recorded_target,)),)

    def describe(self, model: str) -> ModelInfo:
        """Nothing is known of the model but its name."""
        return ModelInfo(model)

    def load(self, model: str, num_ctx: int | None = None) -> float | None:
        """Nothing to load."""
        return None

    def unload(self, model: str) -> bool:
        """Nothing is loaded."""
        return True

    def _add(self, record: Stored) -> None:
        run = int(record.get("run_index") or 0)
        if record.get("phase") != "warmup":
            item = (str(record.get("suite")), str(record.get("task_id")), run)
            known = self._by_item.get(item)
            if known is None or int(known.get("attempt") or 1) <= int(record.get("attempt") or 1):
                self._by_item[item] = record
        key = (str(record.get("system") or ""), str(record.get("prompt") or ""))
        self._by_prompt.setdefault(key, []).append(record)

    def _reply_of(self, record: Stored) -> Generation:
        kind = record.get("error_kind")
        if kind:
            known = kind in get_args(FaultKind)
            raise RuntimeFault(
                cast("FaultKind", kind) if known else "http",
                f"the recorded request had failed: {record.get('error')}",
                target=self.recorded_target,
                phase="replay",
            )
        return stored_generation(record, self._source)

    def _missing(self, what: str) -> RuntimeFault:
        return _fault(
            self._source,
            f"no reply is stored to {what}",
            "Record it first with a run against the model",
            kind="http",
        )


def asked_of(request: Request) -> tuple[str, str]:
    """System message and prompt of a request, its cache marker taken off."""
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    prompt = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
    marker = request.marker
    return system.removeprefix(marker), prompt.removeprefix(marker)


def stored_generation(record: Stored, source: str = "") -> Generation:
    """The generation as far as a record keeps it.

    The marks are made so that TTFT, decode rate and total time come out as recorded; single gaps
    between tokens are not kept, so no inter-token latency comes out.
    """
    kept_note = f"replayed from {source}: timings as recorded there" if source else ""
    notes = [str(n) for n in record.get("notes") or ()]
    rate = record.get("engine_eval_tok_per_sec")
    calls = record.get("tool_calls") or ()
    return Generation(
        text=str(record.get("response") or ""),
        marks=_marks(record),
        thinking=str(record.get("thinking") or ""),
        tool_calls=tuple(
            ToolCall(str(c["name"]), str(c["arguments"]), str(c.get("id") or "")) for c in calls
        ),
        finish_reason=str(record.get("finish_reason") or ""),
        usage=Usage(
            record.get("prompt_tokens_actual"),
            record.get("completion_tokens"),
            record.get("cached_prompt_tokens"),
            record.get("thinking_tokens"),
        ),
        engine_timings=None
        if rate is None
        else EngineTimings(decode_tok_per_sec=rate, load_sec=record.get("load_time_sec")),
        engine=str(record.get("engine") or ""),
        served_model=str(record.get("served_model") or ""),
        endpoint=str(record.get("endpoint") or ""),
        device=str(record.get("observed_device") or ""),
        options_sent=_options(record),
        notes=(*notes, kept_note) if kept_note else tuple(notes),
        flags=tuple(str(f) for f in record.get("flags") or ()),
    )


def _marks(record: Stored) -> TimingMarks:
    ttft, rate = record.get("ttft_sec"), record.get("eval_tok_per_sec")
    answer, tokens = record.get("answer_ttft_sec"), record.get("completion_tokens") or 0
    arrivals: list[Arrival] = []
    if ttft is not None:
        first = _ns(ttft)
        thought = bool(record.get("thinking")) and (answer is None or answer > ttft)
        arrivals.append(Arrival(first, "thinking" if thought else "answer", 1))
        if thought and answer is not None:
            arrivals.append(Arrival(_ns(answer), "answer", 0))
        if rate and tokens > 1:
            last = max(first + _ns((tokens - 1) / rate), arrivals[-1].ns)
            never_answered = thought and answer is None
            arrivals.append(Arrival(last, "thinking" if never_answered else "answer", tokens - 1))
    end = max([_ns(record.get("total_time_sec") or 0.0), *(a.ns for a in arrivals)])
    return TimingMarks(0, end, arrivals=tuple(arrivals))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _options(record: Stored) -> Stored:
    options = record.get("options")
    return options if isinstance(options, dict) else {}


_CHOOSE = "Name one behind the file, as in replay:results/latest.json#ollama:qwen3"


def _fault(
    source: str, message: str, remedy: str, *, kind: FaultKind = "model_not_found"
) -> RuntimeFault:
    return RuntimeFault(kind, message, target=f"replay:{source}", phase="replay", remedy=remedy)
