"""Reading scenario files and their prompt files from the disk."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_benchrig.core.files import LoadedFile, Problem, PromptProblem, parse_file

__all__ = ["LoadedFile", "Problem", "load_file", "load_text"]

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes of a scenario file that are read at the most."""
LARGEST_PROMPT = 16 * 1024 * 1024
"""Bytes of a prompt file that are read at the most; about four million tokens."""
_OTHER_ENCODINGS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class _Unreadable(Exception):  # noqa: N818
    """A file that cannot be taken; ``line`` is 1-based."""

    def __init__(self, message: str, hint: str = "", line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line


def load_file(
    path: Path,
    root: Path,
    *,
    existing_marks: Collection[str] = (),
    check_types: Collection[str] = (),
) -> LoadedFile:
    """Read a scenario file with the prompt files it names.

    Args:
        path: The file.
        root: The project's root: prompt files are looked for there first, then in the scenario
            file's folder, then in that folder's parent; messages show paths relative to it.
        existing_marks: Names that no suite or tag may have.
        check_types: Further ``check_type`` names that plugins offer.
    """
    name = _display(path, root)
    try:
        text = _read_text(path, LARGEST_FILE)
    except _Unreadable as problem:
        return LoadedFile((), (Problem(name, problem.line, "", "", problem.message, problem.hint),))
    return load_text(
        text,
        name,
        folders=(root, path.parent, path.parent.parent),
        existing_marks=existing_marks,
        check_types=check_types,
    )


def load_text(
    text: str,
    name: str,
    *,
    folders: Collection[Path] = (),
    existing_marks: Collection[str] = (),
    check_types: Collection[str] = (),
) -> LoadedFile:
    """Read the text of a scenario file; ``folders`` are where its prompt files are looked for."""
    return parse_file(
        text,
        name,
        read_prompt=lambda prompt: _read_prompt(prompt, folders),
        existing_marks=existing_marks,
        check_types=check_types,
    )


def _display(path: Path, root: Path) -> str:
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return str(path)


def _read_text(path: Path, limit: int) -> str:
    """The text of a file without a byte order mark.

    Raises:
        _Unreadable: It is no file, too large, not readable or not UTF-8.
    """
    try:
        if path.is_dir():
            raise _Unreadable("is a directory, not a file")
        if not path.is_file():
            exists = os.path.lexists(path)
            raise _Unreadable("is not a regular file" if exists else "does not exist")
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as problem:
        raise _Unreadable(f"cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # a NUL in the name
        raise _Unreadable(f"cannot be read: {problem}") from None
    if len(data) > limit:
        raise _Unreadable(f"is larger than {limit // 1024 // 1024} MiB", "split it")
    for mark, encoding in _OTHER_ENCODINGS.items():
        if data.startswith(mark):
            raise _Unreadable(f"is {encoding}, expected UTF-8", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise _Unreadable(
            f"is not UTF-8: byte 0x{data[problem.start]:02x} in line {line}",
            "save it as UTF-8",
            line,
        ) from None


def _read_prompt(name: str, folders: Collection[Path]) -> str | PromptProblem:
    """The text of a prompt file with LF line ends, or why it cannot be read."""
    flavours = (PurePosixPath(name), PureWindowsPath(name))
    if any(p.is_absolute() or p.drive or p.root for p in flavours):
        return PromptProblem(
            f"expected a relative path, got {name}",
            "write it relative to the project's root or to the scenario file",
        )
    if any(".." in p.parts for p in flavours):
        return PromptProblem(f'".." is not allowed in a prompt file\'s path, got {name}')
    tried: list[str] = []
    for folder in folders:
        candidate = folder / name
        try:
            if not os.path.lexists(candidate):
                tried.append(str(candidate))
                continue
            if not candidate.resolve().is_relative_to(folder.resolve()):
                return PromptProblem(f"{candidate} is a link that leaves {folder}")
            text = _read_text(candidate, LARGEST_PROMPT)
        except _Unreadable as problem:
            return PromptProblem(f"{candidate} {problem.message}", problem.hint)
        except (OSError, RuntimeError, ValueError) as problem:
            return PromptProblem(f"{name} cannot be read: {problem}")
        if not text.strip():
            return PromptProblem(f"{candidate} is empty")
        return text.replace("\r\n", "\n")
    return PromptProblem(
        f"{name} does not exist; looked for {', '.join(dict.fromkeys(tried)) or 'nothing'}",
        "prompt files are looked for in the project's root, the scenario file's folder and its "
        "parent",
    )
