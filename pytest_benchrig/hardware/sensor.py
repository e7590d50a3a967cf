"""A slow sensor on a thread of its own, so that one that hangs hangs alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pytest_benchrig.hardware.readings import GpuProcess, SensorError, SlowReading

T = TypeVar("T")
Deliver = Callable[["SensorThread", float, SlowReading], None]
"""Takes a reading: the sensor, when it came (``time.perf_counter``), and what it said."""


class SlowSensor(Protocol):
    """A sensor whose reading may take long, block or fail.

    ``cadence_sec`` is the shortest time between two readings, which is longer in old windows
    (:func:`pause_sec`); a window that is shorter still gets
    one at its opening and one at its close, unless ``cadence_sec`` is half a minute or more: then
    only the first.
    """

    name: str
    cadence_sec: float

    def probe(self) -> None:
        """Find the sensor; called once, before any reading.

        Raises:
            SensorError: It is not there or cannot be used, with what to do about it.
        """
        ...

    def read(self) -> SlowReading:
        """One reading; what single figures lack stands in it.

        Raises:
            SensorError: Nothing could be read.
        """
        ...


class GpuSensor(SlowSensor, Protocol):
    """A sensor of GPUs, which also knows who uses them."""

    def processes(self) -> tuple[GpuProcess, ...]:
        """The processes on the GPUs; expensive, so asked once a window.

        Raises:
            SensorError: They cannot be listed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queue of one sensor: the reading and the list of processes asked for."""

    reading: int
    processes: int


class SensorThread:
    """Runs one slow sensor: probes it once, then reads it while somebody wants it.

    Nothing here waits longer than it is told to. A reading that does not come back leaves the
    thread behind, and every figure of the sensor absent with that reason.
    """

    def __init__(self, sensor: SlowSensor, deliver: Deliver) -> None:
        self.sensor = sensor
        self.name = sensor.name
        self._deliver = deliver
        self._state = threading.Condition()
        self._users = 0
        self._begun_at = 0.0
        self._alive = False
        self._found = False
        self._busy_since: float | None = None
        self._problem: SensorError | None = SensorError(f"the sensor {self.name} was not asked yet")
        self._latest: SlowReading | None = None
        self._wanted = self._done = 0
        self._lists_wanted = self._lists_done = 0
        self._processes: tuple[GpuProcess, ...] | SensorError = ()

    @property
    def found(self) -> bool:
        """Whether the sensor is there."""
        return self._found

    @property
    def problem(self) -> SensorError | None:
        """Why there is no reading; ``None`` when the last one worked."""
        with self._state:
            if self._busy_since is not None:
                waited = time.perf_counter() - self._busy_since
                return SensorError(f"the sensor {self.name} has not answered for {waited:.3g} s")
            return self._problem

    def why_not(self) -> str:
        """Why there is no reading; empty when the last one worked."""
        problem = self.problem
        return "" if problem is None else problem.reason

    def probe(self) -> None:
        """Begin to look for the sensor, on a thread of its own."""
        with self._state:
            self._busy_since = time.perf_counter()
        self._start(self._probe)

    def wait_probed(self, until: float) -> bool:
        """Wait for the probe, not longer than to a moment of ``time.perf_counter``."""
        with self._state:
            return self._state.wait_for(
                lambda: self._busy_since is None, max(0.0, until - time.perf_counter())
            )

    def begin(self) -> Ticket:
        """Read now, then list the processes, and go on reading until :meth:`end`."""
        with self._state:
            self._users += 1
            self._begun_at = time.perf_counter()
            self._lists_wanted += 1
        return self.ask()

    def ask(self) -> Ticket:
        """One more reading as soon as possible; its ticket covers all lists asked for so far."""
        with self._state:
            self._wanted += 1
            ticket = Ticket(self._wanted, self._lists_wanted)
            self._state.notify_all()
            if self._alive:
                return ticket
            self._alive = True
        self._start(self._loop)
        return ticket

    def end(self) -> None:
        """Undo one :meth:`begin`; after the last one the thread ends with its present reading."""
        with self._state:
            self._users = max(0, self._users - 1)
            self._state.notify_all()

    def wait(self, ticket: Ticket, until: float, *, lists: bool = False) -> bool:
        """Wait until a reading that was begun after the ticket was given has come in.

        With ``lists`` wait for the list of processes as well.

        A sensor that has been silent for long is not waited for again.
        """
        with self._state:
            now = time.perf_counter()
            if self._busy_since is not None and now - self._busy_since > _SILENT_SEC:
                return False
            return self._state.wait_for(
                lambda: (
                    self._done >= ticket.reading
                    and (not lists or self._lists_done >= ticket.processes)
                ),
                max(0.0, until - now),
            )

    def processes(self, ticket: Ticket) -> tuple[GpuProcess, ...]:
        """The processes on the GPUs, listed after the ticket was given.

        Raises:
            SensorError: They were not listed in time, or cannot be.
        """
        with self._state:
            if self._lists_done < ticket.processes:
                raise SensorError(f"the sensor {self.name} did not list the processes in time")
            if isinstance(self._processes, SensorError):
                raise self._processes
            return self._processes

    def read_now(self, within_sec: float) -> SlowReading:
        """One reading outside any window.

        Raises:
            SensorError: It fails, or does not come in time.
        """
        ticket = self.ask()
        if not self.wait(ticket, time.perf_counter() + within_sec):
            raise self.problem or SensorError(f"the sensor {self.name} did not answer in time")
        with self._state:
            if self._latest is None:
                raise self._problem or SensorError(f"the sensor {self.name} gave nothing")
            return self._latest

    def processes_now(self, within_sec: float) -> tuple[GpuProcess, ...]:
        """The processes on the GPUs, outside any window.

        Raises:
            SensorError: They cannot be listed, or not in time.
        """
        ticket = self.begin()
        try:
            with self._state:
                self._state.wait_for(lambda: self._lists_done >= ticket.processes, within_sec)
            return self.processes(ticket)
        finally:
            self.end()

    def _start(self, target: Callable[[], None]) -> None:
        name = f"benchrig-sampler-{self.name}"
        threading.Thread(target=target, name=name, daemon=True).start()

    def _probe(self) -> None:
        problem: SensorError | None = None
        try:
            self.sensor.probe()
        except SensorError as said:
            problem = said
        except Exception as unexpected:
            problem = _unexpected(self.name, unexpected)
        with self._state:
            self._problem = problem
            self._found = problem is None
            self._busy_since = None
            self._state.notify_all()

    def _loop(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(
                    lambda: self._due() or not self._users,
                    pause_sec(self.sensor.cadence_sec, time.perf_counter() - self._begun_at),
                )
                if not self._users and self._wanted <= self._done:
                    self._alive = False
                    return
                reading, lists = self._wanted, self._lists_wanted
                only_lists = reading <= self._done and lists > self._lists_done
                self._busy_since = time.perf_counter()
            if only_lists:
                processes = self._list_processes()
                with self._state:
                    self._processes, self._lists_done = processes, lists
                    self._busy_since = None
                    self._state.notify_all()
                continue
            problem = self._read()
            with self._state:
                self._problem, self._done = problem, reading
                self._busy_since = None
                self._state.notify_all()

    def _due(self) -> bool:
        return self._wanted > self._done or self._lists_wanted > self._lists_done

    def _read(self) -> SensorError | None:
        try:
            reading = self.sensor.read()
        except SensorError as said:
            self._latest = None
            return said
        except Exception as unexpected:
            self._latest = None
            return _unexpected(self.name, unexpected)
        self._latest = reading
        self._deliver(self, time.perf_counter(), reading)
        return None

    def _list_processes(self) -> tuple[GpuProcess, ...] | SensorError:
        ask = getattr(self.sensor, "processes", None)
        if ask is None:
            return SensorError(f"the sensor {self.name} knows no processes")
        try:
            found: tuple[GpuProcess, ...] = ask()
        except SensorError as said:
            return said
        except Exception as unexpected:
            return _unexpected(self.name, unexpected)
        return found


def pause_sec(cadence_sec: float, age_sec: float) -> float:
    """How long to wait for the next reading, for a window that was opened ``age_sec`` ago.

    A reading of NVML costs as much as five ticks, so a long window is read less often: at a tenth
    of its age, but at least once a second (a driver's power figure is a mean over that time), or as
    often as the sensor allows.
    """
    pause = max(cadence_sec, min(age_sec / 10, 1.0))
    return min(pause, threading.TIMEOUT_MAX)


def bounded(name: str, call: Callable[[], T], within_sec: float) -> T:
    """The result of a call that may hang, on a thread that is then left behind.

    Raises:
        SensorError: It failed, or did not come back in time.
    """
    results: list[T] = []
    problems: list[SensorError] = []

    def run() -> None:
        try:
            results.append(call())
        except SensorError as said:
            problems.append(said)
        except Exception as unexpected:
            problems.append(_unexpected(name, unexpected))

    thread = threading.Thread(target=run, name=f"benchrig-sampler-{name}", daemon=True)
    thread.start()
    thread.join(within_sec)
    if problems:
        raise problems[0]
    if not results:
        raise SensorError(f"the sensor {name} did not answer within {within_sec:g} s")
    return results[0]


_SILENT_SEC = 0.1
"""From when on a reading that does not come back is no longer waited for."""


def _unexpected(name: str, problem: Exception) -> SensorError:
    return SensorError(f"the sensor {name} failed: {type(problem).__name__}: {problem}")
