"""The scripted server by hand: play schedules to any client and compare it with the truth.

    python benchmarks/scripted_server.py [MODEL...]

prints the port and serves until standard input closes. Ask ``/v1/chat/completions`` or
``/api/chat`` for a model named like ``ttft250-itl10-n100-pack5``; the words stand in
``pytest_benchrig/runtimes/schedule.py``. ``GET /log`` gives what was sent when, in ns of
``CLOCK_MONOTONIC``, for every request since the last call. ``GET /v1/models`` lists the arguments.
"""

from __future__ import annotations

from pytest_benchrig.runtimes.scripted import main

if __name__ == "__main__":
    main()
