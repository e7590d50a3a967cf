"""What the workers of one session share."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from pytest_benchrig.coordination import Coordination

URL = "http://127.0.0.1:1/v1"


def test_alone_nothing_is_shared_and_nothing_written() -> None:
    alone = Coordination(None, "")

    with alone.endpoint(URL, exclusive=True), alone.request_in_flight(URL) as flight:
        pass

    assert not flight.overlapped
    assert alone.first("a")
    assert not alone.first("a")


def test_the_first_worker_to_ask_is_the_only_one(tmp_path: Path) -> None:
    one, two = Coordination(tmp_path, "gw0"), Coordination(tmp_path, "gw1")

    assert [one.first("x"), two.first("x"), one.first("x"), two.first("y")] == [
        True, False, False, True,
    ]  # fmt: skip


def test_a_broken_target_is_known_to_every_worker(tmp_path: Path) -> None:
    one, two = Coordination(tmp_path, "gw0"), Coordination(tmp_path, "gw1")

    one.break_circuit("openai:m", "refused")

    assert two.broken("openai:m") == "refused"
    assert two.broken("openai:other") == ""


def test_requests_that_overlap_know_it(tmp_path: Path) -> None:
    one, two = Coordination(tmp_path, "gw0"), Coordination(tmp_path, "gw1")

    with one.request_in_flight(URL) as first, two.request_in_flight(URL) as second:
        pass
    with one.request_in_flight(URL) as alone:
        pass

    assert (first.overlapped, second.overlapped, alone.overlapped) == (True, True, False)


def test_a_request_of_a_dead_worker_does_not_count(tmp_path: Path) -> None:
    one = Coordination(tmp_path, "gw0")
    with one.request_in_flight(URL):
        folder = next(tmp_path.glob("*.inflight"))
    context = multiprocessing.get_context("spawn")
    ended = context.Process(target=os.getpid)
    ended.start()
    ended.join()
    (folder / f"{ended.pid}-gw1.now").touch()

    with one.request_in_flight(URL) as flight:
        pass

    assert not flight.overlapped


def _hold_and_die(directory: Path, ready: object) -> None:
    lock = Coordination(directory, "gw1").endpoint(URL, exclusive=True)
    lock.__enter__()
    ready.set()  # type: ignore[attr-defined]
    os._exit(1)


@pytest.mark.timeout(60)
def test_a_crashed_worker_releases_its_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    worker = context.Process(target=_hold_and_die, args=(tmp_path, ready))
    worker.start()
    assert ready.wait(30)
    worker.join()

    with Coordination(tmp_path, "gw0").endpoint(URL, exclusive=True):
        held = True

    assert held


def test_consecutive_failures_are_counted_over_all_workers(tmp_path: Path) -> None:
    one, other = Coordination(tmp_path, "gw0"), Coordination(tmp_path, "gw1")

    counted = [one.count_failure("a"), other.count_failure("a"), other.count_failure("b")]
    one.count_success("a")

    assert counted == [1, 2, 1]
    assert other.count_failure("a") == 1


def test_what_was_given_up_is_known_to_the_controller(tmp_path: Path) -> None:
    Coordination(tmp_path, "gw1").break_circuit("http://b/v1", "refused\nagain")
    controller = Coordination(tmp_path, "controller")
    controller.break_circuit("a:m", "out of memory")

    assert controller.given_up() == {"a:m": "out of memory", "http://b/v1": "refused\nagain"}
    assert controller.broken("http://b/v1") == "refused\nagain"
