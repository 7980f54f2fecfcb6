"""Output files of options: early checks, and atomic writing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mpiprof.errors import MpiprofError, UsageError


def check_output(option: str, path: Path, example: str, *, replaced: bool = False) -> None:
    """Raise UsageError if the file cannot be written; `example` is a suitable name.

    replaced: a new file will replace an existing one, so that only the folder's permissions count.
    """
    if not path.name or path.is_dir():
        raise UsageError(f"{option} {path} is a folder: name a file, such as {example}")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() and not replaced else parent, os.W_OK):
        raise UsageError(f"{option} {path} can't be written: name a file elsewhere")


@contextlib.contextmanager
def finished(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which is renamed to `path` at the end: no partial file remains.

    A special file such as /dev/stdout is written directly. Raises MpiprofError.
    """
    real = path.resolve()
    if real.exists() and not (real.is_file() or real.is_dir()):
        yield path
        return
    unfinished = real.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(real)
    except OSError as error:
        raise MpiprofError(f"{path} can't be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            (shutil.rmtree if unfinished.is_dir() else os.unlink)(unfinished)


def write_whole(path: Path, text: str) -> None:
    """Write a text file.

    If that fails, an existing file is unchanged and MpiprofError is raised.
    """
    with finished(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
