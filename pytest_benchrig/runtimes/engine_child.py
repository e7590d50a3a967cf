"""The embedded engine's own process: llama.cpp behind its HTTP server, until the parent is gone.

Run as a script with one argument, a JSON object (see :func:`main`). It imports nothing of this
package, so that it starts fast and its memory is the engine's alone. One JSON line on standard
output says that the engine listens, or why it does not; all else goes to standard error, the log.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

_PARENT_POLL_SEC = 0.5
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def main(argument: str) -> None:
    """Serve until standard input ends or the parent is gone.

    Args:
        argument: JSON with ``model`` (path), ``alias``, ``threads`` (or null), ``slots``,
            ``context`` (tokens of each slot), ``parent`` (its pid), ``bound`` (die with the
            parent's thread that started us), ``paths`` (where to import the engine from).
    """
    wanted = json.loads(argument)
    report = _take_stdout()
    if wanted["bound"]:
        _die_with_parent()
    _leave_if_orphan(wanted["parent"])
    threading.Thread(target=_watch_stdin, daemon=True).start()
    sys.path.extend(p for p in wanted["paths"] if p not in sys.path)
    try:
        import xllamacpp
    except ImportError as problem:
        report({"event": "failed", "step": "import", "message": str(problem)})
        return
    began = time.perf_counter()
    try:
        server = xllamacpp.Server(_params(xllamacpp, wanted))
    except Exception as problem:
        report({"event": "failed", "step": "load", "message": str(problem) or repr(problem)})
        os._exit(1)
    report(
        {
            "event": "listening",
            "url": server.listening_address,
            "load_sec": time.perf_counter() - began,
        }
    )
    while True:
        time.sleep(_PARENT_POLL_SEC)
        _leave_if_orphan(wanted["parent"])


def _params(xllamacpp: Any, wanted: dict[str, Any]) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = wanted["model"]
    alias = wanted["alias"]
    # A set of names since 2026; older releases take one name.
    params.model_alias = alias if isinstance(params.model_alias, str) else {alias}
    params.port = 0
    params.n_parallel = wanted["slots"]
    params.n_ctx = wanted["context"] * wanted["slots"]
    params.endpoint_metrics = True
    params.endpoint_slots = True
    # A prompt cache in main memory would grow with every request and count as the model's.
    if hasattr(params, "cache_ram_mib"):
        params.cache_ram_mib = 0
    if wanted["threads"]:
        params.cpuparams.n_threads = wanted["threads"]
        params.cpuparams_batch.n_threads = wanted["threads"]
    return params


def _take_stdout() -> Any:
    """Keep the real standard output for reports; whatever else prints goes to the log."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def report(event: dict[str, Any]) -> None:
        private.write(json.dumps(event) + "\n")
        private.flush()

    return report


def _die_with_parent() -> None:
    """Ask Linux to kill us when the parent dies (prctl(2), PR_SET_PDEATHSIG)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def _leave_if_orphan(parent: int) -> None:
    if os.name == "posix" and os.getppid() != parent:
        os._exit(0)


def _watch_stdin() -> None:
    """The parent holds the other end and never writes: its end is ours."""
    while os.read(0, 4096):
        continue
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
