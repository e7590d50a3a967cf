"""What is needed inside, by name, and how large private file systems usually are.

Read by the process from which programs are forked, before the first: nothing is imported here.
"""

from __future__ import annotations

SANDBOX_MODULES = tuple(
    f"pytest_benchrig.sandbox.{name}"
    for name in [
        "pristine",
        "wire",
        "known",
        "values",
        "containers",
        "layouts",
        "faults",
        "proxy",
        "codec",
        "operations",
        "turn",
        "peer",
        "candidate",
        "decoys",
        "judging",
        "names",
        "modules",
        "trees",
        "plainness",
        "delegate",
        "failures",
        "judge",
    ]
)
"""Every module of the two sides; importing the candidate and the judge brings in all of them."""

STEM_MODULES = tuple(
    f"pytest_benchrig.sandbox.{name}"
    for name in [
        "forked",
        "inventory",
        "landlock",
        "limits",
        "namespaces",
        "rehearse",
        "seccomp",
        "sights",
        "stem",
        "syscalls",
        "zygote",
    ]
)
"""What else the process needs from which both sides are forked."""

WARM_MODULES = [
    "abc",
    "ast",
    "bisect",
    "builtins",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "math",
    "numbers",
    "operator",
    "os",
    "random",
    "re",
    "statistics",
    "string",
    "sys",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
]
"""Standard modules worth importing before the fork, because answers import them."""

USUAL_FILE_SIZE_MB = 64
"""The private file system that is made ready has this size; another one takes a remount."""

FORKS_AHEAD = 4
"""So many candidates are forked at once, before there are programs for them.

Each page that a zygote writes to after a fork is copied first, and after several forks no more of
them than after one.
"""
