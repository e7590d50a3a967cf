"""Where and on what the figures were made: the machine, and the model as its runtime describes it.

A rate without its machine and its quantisation cannot be compared with anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_benchrig.core.runfile import RunFile


def provenance(run: RunFile) -> list[str]:
    """A line on the machine, and one for each target; none where the run does not tell.

    Runs that were merged tell their own, each under its id.
    """
    merged = run.run.get("merged")
    if isinstance(merged, list):
        return [
            f"{block.get('id') or f'run {number}'}: {line}"
            for number, block in enumerate(merged, 1)
            if isinstance(block, Mapping)
            for line in provenance(RunFile(block))
        ]
    lines = []
    environment = run.run.get("environment")
    if isinstance(environment, Mapping) and (machine := ", ".join(_machine(environment))):
        lines.append(f"machine: {machine}")
    models = run.run.get("models")
    for target, model in models.items() if isinstance(models, Mapping) else ():
        if isinstance(model, Mapping) and (known := ", ".join(_model(model))):
            lines.append(f"model {target}: {known}")
    return lines


def _machine(environment: Mapping[str, Any]) -> Iterator[str]:
    if cpu := environment.get("cpu_model"):
        yield str(cpu)
    if cores := environment.get("cpu_cores_logical"):
        yield f"{cores} logical cores"
    ram = environment.get("ram_mb")
    if isinstance(ram, int | float):
        yield f"{ram / 1024:.1f} GiB RAM"
    gpus = environment.get("gpus")
    if isinstance(gpus, list) and gpus:
        yield from (str(gpu.get("name", "GPU")) for gpu in gpus if isinstance(gpu, Mapping))
    else:
        yield "no GPU seen"
    if environment.get("virtual_machine") == "yes":
        yield "virtual machine"
    if environment.get("on_battery") is True:
        yield "on battery"
    if system := environment.get("os"):
        yield str(system)
    if kernel := environment.get("kernel"):
        yield f"kernel {kernel}"
    if python := environment.get("python"):
        yield f"Python {python}"


def _model(model: Mapping[str, Any]) -> Iterator[str]:
    for name in ("version", "quantisation", "parameters"):
        if value := model.get(name):
            yield str(value)
    if window := model.get("context_length"):
        yield f"context {window}"
    size = model.get("size_bytes")
    if isinstance(size, int | float):
        yield f"{size / 1e9:.2f} GB"
    digest = str(model.get("digest") or "")
    if digest:
        kind, _, value = digest.rpartition(":")
        yield f"{kind}:{value[:12]}" if kind else value[:12]
