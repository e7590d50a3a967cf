"""The client of one target: what the fixture ``benchrig_client`` gives."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytest_benchrig import log
from pytest_benchrig.core.counts import believed
from pytest_benchrig.core.generation import (
    Generation,
    JsonValue,
    Message,
    ModelInfo,
    Placement,
    Request,
    Runtime,
    RuntimeFault,
    Target,
)
from pytest_benchrig.core.request import merge, sampling_of

if TYPE_CHECKING:
    from pytest_benchrig.active import Active
    from pytest_benchrig.engines import EngineInfo
    from pytest_benchrig.hardware.sampler import WindowReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """One generation with the hardware window around it."""

    request: Request
    generation: Generation
    window: WindowReport
    concurrent: bool
    endpoint: str
    placement: Placement = Placement()


class TargetClient:
    """Sends requests to one target and measures around them.

    Attributes:
        target: ``runtime:model``.
        info: What the runtime tells about the model.
        version: Name and version of the server.
    """

    def __init__(
        self,
        active: Active,
        target: Target,
        runtimes: Sequence[Runtime],
        engine: EngineInfo | None,
    ) -> None:
        self.target = target
        self._active = active
        # Workers begin at different endpoints.
        self._turn = int("".join(filter(str.isdigit, active.worker)) or 0)
        self._windows: dict[str, int | None] = {}
        self._held: contextlib.ExitStack | None = None
        self._exclusive = False
        self._observers: list[Callable[[Measured], None]] = []
        self.info: ModelInfo = ModelInfo(target.model)
        self.version = ""
        self._begin(runtimes, engine)

    @classmethod
    def connect(
        cls,
        active: Active,
        target: Target,
        engine: EngineInfo | None,
        again: TargetClient | None = None,
    ) -> TargetClient:
        """Connect to every endpoint of the target and ask once what the model can do.

        Args:
            active: Settings, and what is shared.
            target: Who is asked.
            engine: The plugin's own engine, where there is one.
            again: The target's client so far, whose engine died: tests hold it, so it is the one
                that goes on with the new engine.

        Raises:
            RuntimeFault: The engine did not start, no endpoint answers, or the runtime says that
                the model is not there.
        """
        from pytest_benchrig.runtimes.registry import connect

        if again is not None:
            again.close()
        if engine is not None and engine.fault is not None:
            raise engine.fault
        urls = (engine.url,) if engine else target.endpoints or ("",)
        runtimes = [
            connect(
                target.runtime,
                target.model,
                url,
                api_key_env=active.settings.api_key_env,
                pid=engine.pid if engine else None,
            )
            for url in urls
        ]
        if again is None:
            client = cls(active, target, runtimes, engine)
        else:
            client = again
            client._begin(runtimes, engine)
        client.learn()
        return client

    def _begin(self, runtimes: Sequence[Runtime], engine: EngineInfo | None) -> None:
        self._runtimes = list(runtimes)
        self._engine = engine
        self._windows.clear()
        self.load_sec = engine.load_sec if engine else None

    def learn(self) -> None:
        """Ask the first endpoint that answers for its version and the model's description."""
        faults: list[RuntimeFault] = []
        for runtime in list(self._runtimes):
            try:
                self.info = runtime.describe(self.target.model)
                self.version = self.version or runtime.version()
            except RuntimeFault as fault:
                faults.append(fault)
                if len(self._runtimes) > 1 and fault.kind in ("unreachable", "start"):
                    self._give_up(runtime, fault)
                    continue
                raise
        if not self._runtimes:
            raise faults[-1]

    @property
    def runtime(self) -> Runtime:
        """The endpoint in use."""
        return self._runtimes[self._turn % len(self._runtimes)]

    @property
    def endpoint(self) -> str:
        """URL of the endpoint in use, credentials redacted."""
        return self.runtime.base_url

    @property
    def model_context(self) -> int | None:
        """The largest window of the model, as far as the runtime tells."""
        return self.info.context_length

    @property
    def fixed_context(self) -> int | None:
        """The window that the plugin's own engine was started with."""
        return self._engine.context if self._engine else None

    @property
    def refuses_cache(self) -> bool:
        """Whether the server can be told not to use its prompt cache.

        Such a server needs no marker in front of the prompt, which a small model would read.
        """
        return self.target.runtime in ("llamacpp", "embedded")

    @contextlib.contextmanager
    def at_next_endpoint(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the next endpoint in turn that was not given up: alone for timings, else shared."""
        self._turn += 1
        self._forget_broken()
        with contextlib.ExitStack() as held:
            self._held, self._exclusive = held, exclusive
            self._hold()
            try:
                yield
            finally:
                self._held = None

    def wherever_alive(self, ask: Callable[[], T]) -> T:
        """Ask at the endpoint in use, and where that is dead at the next one.

        Raises:
            RuntimeFault: There is no usable answer, and no other endpoint or no reason to ask it.
        """
        while True:
            try:
                return ask()
            except RuntimeFault as fault:
                if not (self._is_dead(fault) and self._give_up(self.runtime, fault)):
                    raise
            self._forget_broken()
            self._hold()
            observers, self._observers = self._observers, []
            try:
                self._active.warm_up(self)
            finally:
                self._observers = observers

    def _forget_broken(self) -> None:
        alive = [r for r in self._runtimes if not self._active.coordination.broken(r.base_url)]
        if alive:
            self._runtimes = alive

    def _hold(self) -> None:
        if self._held is not None:
            # A dead endpoint stays locked beside this one, which is why nobody waits in a circle:
            # nobody waits for what is marked as dead.
            self._held.enter_context(
                self._active.coordination.endpoint(self.endpoint, exclusive=self._exclusive)
            )

    def _is_dead(self, fault: RuntimeFault) -> bool:
        """Whether the endpoint is gone: refused, or cut off in its answer and refusing now."""
        if fault.kind != "broken_stream" or len(self._runtimes) < 2:
            return fault.kind == "unreachable"
        try:
            self.runtime.list_models()
        except RuntimeFault as found:
            return found.kind == "unreachable"
        return False

    def _give_up(self, runtime: Runtime, fault: RuntimeFault) -> bool:
        """Take a dead endpoint out; ``False`` where it is the only one."""
        if len(self._runtimes) < 2:
            return False
        url = runtime.base_url
        self._active.coordination.break_circuit(url, fault.message)
        log.event("endpoint.given_up", logging.WARNING, target=str(self.target), url=url)
        self._runtimes = [r for r in self._runtimes if r is not runtime]
        return True

    def supports(self, capability: str) -> bool | None:
        """Whether the runtime says the model can do it; ``None`` where it does not say."""
        capabilities = self.info.capabilities
        return None if capabilities is None else capability in capabilities

    def window(self, num_ctx: int | None) -> float | None:
        """Untimed: have the model in memory with this window; seconds it took, where known."""
        if num_ctx == self._windows.get(self.endpoint):
            return None
        self._windows[self.endpoint] = num_ctx
        return self.runtime.load(self.target.model, num_ctx)

    def measure(self, request: Request) -> Measured:
        """Send one request with a hardware window around it.

        Raises:
            RuntimeFault: It gave no usable answer.
        """
        from pytest_benchrig.hardware.serving import find_serving

        runtime = self.runtime
        serving = find_serving(runtime.base_url, runtime.server_pid())
        flight_of = self._active.coordination.request_in_flight
        with contextlib.ExitStack() as stack:
            flight = stack.enter_context(flight_of(runtime.base_url))
            window = self._active.sampler.window(serving)
            window.open()
            try:
                generation = believed(runtime.generate(request), request)
            except RuntimeFault as fault:
                if self._engine is not None:
                    self._engine.explain(fault)
                raise
            finally:
                report = window.close()
        if self._engine is not None:
            generation = self._engine.marked(generation)
        placement = Placement()
        with contextlib.suppress(RuntimeFault):
            # Where the model lies is a note beside the reply; a fault here is the next request's.
            placement = runtime.placement(self.target.model)
        measured = Measured(
            request, generation, report, flight.overlapped, runtime.base_url, placement
        )
        for observe in self._observers:
            observe(measured)
        return measured

    def generate(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str = "",
        tools: Sequence[Mapping[str, JsonValue]] = (),
        stream: bool | None = None,
        cache_prompt: bool = True,
        **options: JsonValue,
    ) -> Generation:
        """Ask the model; for plain Python tests.

        Args:
            prompt: The user's text, or a whole conversation.
            system: A system message in front.
            tools: OpenAI function tools; the reply is then not streamed unless asked.
            stream: Whether to stream and time; default: unless there are tools.
            cache_prompt: Whether the server may answer the prompt from its cache.
            options: Sampling options in Ollama's names (``temperature=0``, ``num_predict=64``).

        Raises:
            RuntimeFault: It gave no usable answer; reported as an error of the test, not as a
                failure of the model.
            ValueError: The prompt is empty.
        """
        if not prompt:
            raise ValueError("the prompt is empty: give a text or a sequence of messages")
        messages = [Message("user", prompt)] if isinstance(prompt, str) else list(prompt)
        if system:
            messages.insert(0, Message("system", system))
        settings = self._active.request_settings
        sampling = merge(merge(settings.defaults, settings.options), sampling_of(options))
        if sampling.num_predict is None:
            sampling = dataclasses.replace(sampling, num_predict=1024)
        request = Request(
            model=self.target.model,
            messages=tuple(messages),
            sampling=sampling,
            tools=tuple(tools),
            stream=not tools if stream is None else stream,
            cache_prompt=cache_prompt,
            timeout_sec=settings.request_timeout,
            stall_timeout_sec=settings.stall_timeout,
        )
        return self.wherever_alive(lambda: self.measure(request)).generation

    @contextlib.contextmanager
    def observed(self, observe: Callable[[Measured], None]) -> Iterator[None]:
        """While open, ``observe`` sees each request that this client makes."""
        self._observers.append(observe)
        try:
            yield
        finally:
            self._observers.remove(observe)

    def facts(self) -> dict[str, JsonValue]:
        """What the runtime tells about server and model, for the run file."""
        info = self.info
        return {
            "version": self.version,
            "endpoint": self.endpoint,
            "context_length": info.context_length,
            "digest": info.digest,
            "quantisation": info.quantisation,
            "parameters": info.parameters,
            "size_bytes": info.size_bytes,
            "capabilities": sorted(info.capabilities) if info.capabilities is not None else None,
        }

    def close(self) -> None:
        """Close every connection."""
        for runtime in self._runtimes:
            runtime.close()
