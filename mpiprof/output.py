"""Files that are asked for: whether they can be, before the work begins, and written whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mpiprof.errors import MpiprofError, UsageError


def check_output(option: str, path: Path, example: str, *, replaced: bool = False) -> None:
    """Raise UsageError where no file can be written; `example` is a name that would do.

    replaced: a new file takes the place of one that is there, so that only the folder counts.
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
    """Give a path to write to, which becomes `path` when all is written: there is no half file.

    What is no file or folder, such as /dev/stdout, is written to itself. Raises MpiprofError.
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
    """Write a file of text; one that is there is left as it is where that fails: MpiprofError."""
    with finished(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
