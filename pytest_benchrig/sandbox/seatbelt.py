"""The level ``seatbelt``: macOS's ``sandbox-exec`` around both sides.

``sandbox-exec`` is marked as deprecated by Apple and has worked unchanged since macOS 10.5. The
profile language is what the system's own profiles in ``/System/Library/Sandbox/Profiles`` use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pytest_benchrig.sandbox.boot import SOURCES, interpreter
from pytest_benchrig.sandbox.process import ProcessLauncher, remove_tree
from pytest_benchrig.sandbox.visible import visible

EXECUTABLE = "/usr/bin/sandbox-exec"

_SYSTEM = (
    "/usr/lib",
    "/usr/share/zoneinfo",
    "/private/var/db/timezone",
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes",
    "/private/var/db/dyld",
    "/Library/Apple/System/Library",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class SeatbeltLauncher(ProcessLauncher):
    """The server of the level ``process``, and so all it forks, under a profile."""

    level = "seatbelt"
    name = "seatbelt"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="benchrig-")

    def command(self, boot: str) -> list[str]:
        """The server's command line."""
        readable = [*visible(packages=True).shown, interpreter(), str(SOURCES.parent)]
        return [EXECUTABLE, "-p", profile(readable, self.folder), *super().command(boot)]

    def close(self) -> None:
        """End the server and remove the private folder."""
        super().close()
        remove_tree(self.folder)


def profile(readable: list[str], home: str) -> str:
    """The rules: these paths to read, one private folder to write, and nothing of anything else.

    Args:
        readable: The interpreter, its libraries and the modules of both sides.
        home: The private folder; links are resolved, because rules hold for real paths.
    """
    paths = [*_SYSTEM, *(str(Path(path).resolve()) for path in readable)]
    folders = " ".join(f"(subpath {_quoted(path)})" for path in dict.fromkeys(paths))
    devices = " ".join(f"(literal {_quoted(path)})" for path in _DEVICES)
    private = f"(subpath {_quoted(str(Path(home).resolve()))})"
    return "\n".join(
        (
            "(version 1)",
            "(deny default)",
            "(deny network*)",
            "(allow process-exec*)",
            "(allow process-fork)",
            "(allow sysctl-read)",
            "(allow signal (target same-sandbox))",
            "(allow process-info* (target same-sandbox))",
            "(allow file-read-metadata)",
            f'(allow file-read* (literal "/") {folders})',
            f"(allow file-map-executable {folders})",
            f"(allow file-read* file-write-data {devices})",
            f"(allow file-read* file-write* {private})",
            "",
        )
    )


def _quoted(path: str) -> str:
    """A string of the profile language, which is Scheme's."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
