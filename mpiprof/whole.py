"""Files that are written as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mpiprof.errors import MpiprofError


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


def write(path: Path, text: str) -> None:
    """Write a file of text; one that is there is left as it is where that fails: MpiprofError."""
    with finished(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
