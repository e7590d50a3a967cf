"""The embedded engine's own process: llama.cpp behind its HTTP server, until the parent is gone.

One JSON line on standard output says that the engine listens, or why it does not; all else goes to
standard error, the log.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from pytest_benchrig.runtimes.child import leave_when_stdin_ends, take_stdout, tie_to_parent

_LOG_LAG_SEC = 0.3
"""The engine logs from a thread of its own; its last words say why it failed."""


def main(wanted: Mapping[str, Any]) -> None:
    """Serve until standard input ends or the parent is gone.

    Args:
        wanted: ``model`` (path), ``alias``, ``threads`` (or None), ``slots``, ``context`` (tokens
            of each slot), ``parent`` and ``bound`` as :func:`tie_to_parent` takes them.
    """
    report = take_stdout()
    tie_to_parent(wanted["parent"], bound=wanted["bound"])
    leave_when_stdin_ends()
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
    load_sec = time.perf_counter() - began
    report({"event": "listening", "url": server.listening_address, "load_sec": load_sec})
    threading.Event().wait()


def _params(xllamacpp: Any, wanted: Mapping[str, Any]) -> Any:
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
