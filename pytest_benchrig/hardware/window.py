"""One window: what is read when it opens, while it is open, and when it closes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_benchrig.hardware.energy import EnergyMeter
from pytest_benchrig.hardware.gathered import Gathered
from pytest_benchrig.hardware.gpus import GpuFigures
from pytest_benchrig.hardware.host import HostProcess
from pytest_benchrig.hardware.processes import ProcessSet
from pytest_benchrig.hardware.readings import CpuTimes, Memory, SlowReading
from pytest_benchrig.hardware.report import WindowReport
from pytest_benchrig.hardware.sensor import SensorThread, Ticket
from pytest_benchrig.hardware.serving import Serving
from pytest_benchrig.hardware.summary import summarise
from pytest_benchrig.hardware.ticker import Watch

if TYPE_CHECKING:
    from pytest_benchrig.hardware.sampler import Sampler

_Handles: TypeAlias = "tuple[HostProcess, ...]"

FULL_SEC = 2.0
"""When a window takes its first full sample and looks for new children of the server.

Such a sample costs as much as five ticks, so the pause doubles, up to :data:`FULL_MOST_SEC`.
"""

FULL_MOST_SEC = 10.0
"""The longest pause between two full samples."""


class Window:
    """Opened just before a request, closed just after it.

    Neither opening nor closing raises, whatever a sensor does; what could not be read is absent
    from the report, with the reason.
    """

    def __init__(self, sampler: Sampler, serving: Serving) -> None:
        self._sampler = sampler
        self._serving = serving
        self._lock = threading.Lock()
        self._open = False
        self._report: WindowReport | None = None
        self._full_pause = FULL_SEC
        self._handles: _Handles = ()
        self._read: list[Any] = []
        self._watch = Watch(self._read.append, self._full)
        self._in_process = os.getpid() in serving.pids
        self._data = Gathered(serving, sampler.interval_sec, sampler.memory_warning_pct)
        self._client: HostProcess | None = None
        self._own: ProcessSet | None = None
        self._server: ProcessSet | None = None
        self._tickets: dict[SensorThread, Ticket] = {}

    def open(self) -> Window:
        """Begin: the first sample is taken before this returns.

        Raises:
            RuntimeError: The window was opened before.
        """
        if self._open or self._report is not None:
            raise RuntimeError("a window is opened once: ask the sampler for another one")
        data = self._data
        if self._sampler.keep_samples:
            data.samples = []
        sensors = self._sampler.slow_sensors(self._serving)
        self._open = True
        self._sampler.listen(self)
        self._follow_processes()
        self._tickets = {sensor: sensor.begin() for sensor in sensors}
        until = time.perf_counter() + self._sampler.sensor_wait_sec
        for sensor, ticket in self._tickets.items():
            sensor.wait(ticket, until)
        with self._lock:
            data.cpu_before, data.swapped_before = self._counters()
            data.opened_at = time.perf_counter()
            self._sample(data.opened_at)
        self._sampler.ticker.enter(self._watch)
        return self

    def close(self) -> WindowReport:
        """End: take the last sample and sum up; closing again gives the same report.

        Raises:
            RuntimeError: The window was never opened.
        """
        if self._report is not None:
            return self._report
        if not self._open:
            raise RuntimeError("the window is not open: call open() first, or use it in a with")
        data = self._data
        closed_at = time.perf_counter()
        tickets = [
            (sensor, sensor.ask())
            for sensor in self._tickets
            if sensor.sensor.cadence_sec < _ONCE_SEC
        ]
        with self._lock:
            data.closed_at = closed_at
            self._sample(closed_at)
            data.cpu_after, data.swapped_after = self._counters()
            self._settle_cpu()
        thread = self._sampler.ticker.leave(self._watch, self._let_go)
        until = closed_at + self._sampler.sensor_wait_sec
        for sensor, ticket in tickets:
            sensor.wait(ticket, until, lists=True)
        with self._lock:
            self._open = False
        self._sampler.unlisten(self)
        for sensor in self._tickets:
            sensor.end()
        if thread is not None:
            thread.join(_JOIN_SEC)
        self._report = summarise(data, self._sampler, self._tickets)
        return self._report

    @property
    def report(self) -> WindowReport:
        """The report of a closed window.

        Raises:
            RuntimeError: The window is still open.
        """
        if self._report is None:
            raise RuntimeError("the window is not closed yet: its report comes with close()")
        return self._report

    def __enter__(self) -> Window:
        return self if self._open else self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _full(self, now: float) -> None:
        """A full sample in the place of a tick; called by the sampler's thread."""
        with self._lock:
            if not self._data.closed_at:
                self._refresh(self._server)
                self._sample(now)

    def deliver(self, sensor: SensorThread, at: float, reading: SlowReading) -> None:
        """Take a reading of a slow sensor; called by that sensor's thread."""
        with self._lock:
            if not self._open:
                return
            data = self._data
            if reading.gpus:
                figures = data.gpus.setdefault(sensor.name, GpuFigures(sensor.name))
                figures.add(at, reading.gpus)
                if data.samples is not None and figures.memory.count:
                    data.samples.append({"t": at - data.opened_at, "vram_mb": figures.memory.last})
            for counter in reading.counters:
                meter = data.packages.setdefault(counter.name, EnergyMeter((counter.range_j,)))
                meter.add(at, counter.energy_j)
            if reading.cpu_mhz is not None:
                data.cpu_mhz.add(at, reading.cpu_mhz)
            if reading.swapped_mb is not None:
                data.swap_traffic.add(at, reading.swapped_mb)
            if reading.throttle_events is not None:
                data.throttle_events.append(reading.throttle_events)
            if reading.battery is not None:
                data.battery = reading.battery
            data.missing.update(reading.missing)

    def _follow_processes(self) -> None:
        host = self._sampler.host
        if host is None:
            return
        try:
            self._client = host.process(os.getpid())
            if self._serving.seen:
                self._server = ProcessSet(host, self._serving.pids)
                self._server.open()
            without = self._server.pids if self._server is not None else frozenset()
            self._own = ProcessSet(host, self._sampler.own_pids, without)
            self._own.open()
        except OSError as problem:
            self._data.missing["client_rss_mb"] = f"processes: {problem}"

    def _counters(self) -> tuple[CpuTimes | None, float | None]:
        host = self._sampler.host
        if host is None:
            return None, None
        cpu = swapped = None
        try:
            cpu = host.cpu()
        except OSError as problem:
            self._data.missing["cpu_pct"] = str(problem)
        try:
            swapped = host.swapped_mb()
        except OSError as problem:
            self._data.missing["swapped_mb"] = str(problem)
        return cpu, swapped

    def _sample(self, now: float) -> None:
        """A full sample: client, server and host."""
        self._watch.full_at = now + self._full_pause
        self._full_pause = min(2 * self._full_pause, FULL_MOST_SEC)
        self._understand()
        client = None if self._client is None else _size((self._client,))
        server = None if self._server is None else _size(self._server.handles)
        self._take(now, client, server)
        self._choose()
        memory = self._host_memory(now)
        if memory is not None and self._data.samples is not None:
            self._data.samples.append(
                {"t": now - self._data.opened_at, "memory_used_mb": memory.used_mb}
            )

    def _choose(self) -> None:
        """Choose whose memory the next ticks read: the server's, else that of this process."""
        handles: _Handles = () if self._client is None else (self._client,)
        if self._server is not None:
            handles = self._server.handles
        self._handles = handles
        self._watch.readers = tuple(handle.read_rss for handle in handles)

    def _understand(self) -> None:
        """Take in what the ticks have read since the last time.

        No lock is needed against the thread, which may be appending: only whole ticks are taken.
        """
        width = 1 + len(self._handles)
        whole = len(self._read) // width * width
        for begin in range(0, whole, width):
            at = self._read[begin]
            size = _sum(self._handles, self._read[begin + 1 : begin + width])
            if self._server is None:
                self._take(at, size, None)
            else:
                self._take(at, None, size)
        del self._read[:whole]

    def _take(self, at: float, client: float | None, server: float | None) -> None:
        data = self._data
        figures: dict[str, float] = {}
        if client is not None:
            data.client.add(at, client)
            figures["client_rss_mb"] = client
        if server is not None:
            data.server.add(at, server)
            figures["server_rss_mb"] = server
            if data.client.count:
                both = server if self._in_process else server + data.client.last
                data.rss.add(at, both)
        elif self._server is not None:
            data.server_ended = True
        data.sample_count += 1
        if data.samples is not None:
            data.samples.append({"t": at - data.opened_at, **figures})

    def _host_memory(self, now: float) -> Memory | None:
        host, data = self._sampler.host, self._data
        if host is None:
            return None
        try:
            memory = host.memory()
        except OSError as problem:
            data.missing["peak_memory_used_mb"] = str(problem)
            return None
        data.memory_total_mb = memory.total_mb
        data.memory.add(now, memory.used_mb)
        if memory.swap_used_mb is not None:
            data.swap.add(now, memory.swap_used_mb)
        return memory

    def _refresh(self, processes: ProcessSet | None) -> None:
        if processes is not None:
            try:
                processes.refresh()
            except OSError as problem:
                self._data.missing["client_rss_mb"] = f"processes: {problem}"

    def _settle_cpu(self) -> None:
        """Attribute the processor time; look for new children only where the verdict needs it."""
        data = self._data
        if self._own is None or data.cpu_before is None or data.cpu_after is None:
            return
        for processes in (self._own, self._server):
            if processes is not None:
                processes.read_cpu()
        busy = data.cpu_after.busy_sec - data.cpu_before.busy_sec
        total = data.cpu_after.total_sec - data.cpu_before.total_sec
        if busy - self._used() > _SUSPICIOUS_SHARE * total:
            self._refresh(self._own)
            self._refresh(self._server)
        data.own_cpu_sec = self._own.cpu_sec()
        data.active = self._own.active
        data.ours = self._own.pids
        if self._server is not None:
            data.serving_cpu_sec = self._server.cpu_sec()
            data.active += self._server.active
            data.ours |= self._server.pids

    def _used(self) -> float:
        return sum(p.cpu_sec() for p in (self._own, self._server) if p is not None)

    def _let_go(self) -> None:
        for processes in (self._client, self._server, self._own):
            if processes is not None:
                processes.close()


def _sum(handles: _Handles, found: Sequence[object]) -> float | None:
    """Resident memory of all together in MiB; ``None`` once all have ended."""
    known = [
        size
        for handle, read in zip(handles, found, strict=True)
        if read is not None and (size := handle.rss_mb(read)) is not None
    ]
    return sum(known) if known else None


def _size(handles: _Handles) -> float | None:
    """The same, read now."""
    found: list[object] = []
    for handle in handles:
        try:
            found.append(handle.read_rss())
        except OSError:
            found.append(None)  # it has ended; its processor time was counted up to the last look
    return _sum(handles, found)


_JOIN_SEC = 0.001
"""The thread ends by itself; this only lets it be gone before the reply is judged."""

_SUSPICIOUS_SHARE = 0.05
"""From which unexplained load on it is worth looking for children that were born meanwhile."""

_ONCE_SEC = 30.0
"""A sensor this slow is read at the opening only."""
