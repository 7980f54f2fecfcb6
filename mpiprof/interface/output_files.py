"""Output files of options: early checks, and atomic writing."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mpiprof.errors import MpiprofError, UsageError


def check_output(option: str, path: Path, example: str, *, replaced: bool = False) -> None:
    """Raise UsageError if the file cannot be written; `example` is a suitable name.

    replaced: a new file will replace an existing one, so that only the folder's permissions count.
    """
    if not path.name or path.is_dir():
        raise UsageError(f"{option} {path} is a folder: pass a file, such as {example}")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} {path}: no such folder {path.parent}: create it")
    if not os.access(path if path.exists() and not replaced else parent, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written: pass a file in another folder")


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which is renamed to `path` at the end: no partial file remains.

    A special file such as /dev/stdout is written directly. Raises MpiprofError.
    """
    import tempfile  # every rank of a job imports this module

    real = path.resolve()
    if real.exists() and not (real.is_file() or real.is_dir()):
        yield path
        return
    private = None  # another user cannot have put a link into it
    try:
        private = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", dir=real.parent))
        yield private / real.name
        (private / real.name).replace(real)
    except OSError as error:
        raise MpiprofError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, or raise MpiprofError and leave an existing file unchanged."""
    with write_atomically(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")


def format_utf8_path(path: Path, file_format: str) -> str:
    """Return a path as text for the library of a format; MpiprofError if it is not UTF-8."""
    try:
        return path.as_posix().encode().decode()
    except UnicodeEncodeError:
        remedy = "rename the folder, or use another one"
        raise MpiprofError(f"{path}: {file_format} requires paths in UTF-8: {remedy}") from None


def create_file(path: Path, mode: int) -> int:
    """Return the descriptor of a new file for writing; raises OSError if the path exists."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def replace_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace a file atomically; a link is replaced, not followed. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with os.fdopen(
            create_file(unfinished, mode), "w", encoding="utf-8", errors="replace"
        ) as file:
            file.write(text)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def file_mode_in(folder: Path) -> int:
    """Return the mode of new files in a trace folder: readers of the folder may read them."""
    return folder.stat().st_mode & 0o666


def open_for_append(folder: Path, name: str) -> BinaryIO:
    """Open a file of a trace folder for appending; OSError for links and other users' files."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(folder / name, flags, file_mode_in(folder)), "ab")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_uid != os.geteuid():
        file.close()
        raise PermissionError(1, "the file is a link, or belongs to another user")
    return file
