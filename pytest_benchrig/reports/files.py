"""Writing report files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

# As given: resolved, it is the file that the stream was redirected to. /dev/shm holds plain files.
_OWN_STREAM = re.compile(r"/+(?:dev|proc/self)/(stdout|stderr|fd/(\d+))")
_OPEN_STREAM = re.compile(r"/+dev/(?!shm/)|/+proc/.+/fd/")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 to a temporary file beside ``path`` and rename it into place.

    A device or pipe is written to; renaming would put a file in its place. Through ``/dev/stdout``
    and its like an open stream is meant, which may be a file with something in it: what is there
    stays, and the text is added.

    Raises:
        OSError: With what could not be done and where; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory, expected a file", str(path))
    data = text.encode("utf-8", "backslashreplace")
    if _is_special(path):
        with _opened(path) as stream:
            stream.write(data)
        return
    destination = path.resolve() if path.is_symlink() else path
    handle, name = tempfile.mkstemp(
        prefix=f".{destination.name[:100]}.", suffix=".tmp", dir=destination.parent
    )
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(destination))
        temporary.replace(destination)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _opened(path: Path) -> BinaryIO:
    """The device or stream; one of our own by its number, so that its place in a file is shared."""
    own = _OWN_STREAM.fullmatch(path.absolute().as_posix())
    if own is None:
        return path.open("ab")
    sys.stdout.flush()
    sys.stderr.flush()
    number = {"stdout": 1, "stderr": 2}.get(own[1]) or int(own[2])
    return os.fdopen(os.dup(number), "wb")


def _is_special(path: Path) -> bool:
    """Whether something is there that is no plain file of its own: a device, pipe, open stream."""
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or bool(_OPEN_STREAM.match(path.absolute().as_posix()))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def check_writable(path: Path, *, is_dir: bool) -> None:
    """Make sure early that a report can be written there.

    Directories are created, and a file is tried out in the directory; an existing report is not
    touched.

    Args:
        path: The directory, or the file to be written.
        is_dir: Whether ``path`` is the directory itself.

    Raises:
        OSError: It cannot be written; the message says what and where.
    """
    if not is_dir and path.is_dir():
        raise IsADirectoryError(21, "is a directory, expected a file", str(path))
    if not is_dir and _is_special(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "may not be written to", str(path))
        return
    directory = path if is_dir else path.parent
    directory.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".benchrig-", suffix=".tmp", dir=directory)
    os.close(handle)
    Path(name).unlink()
