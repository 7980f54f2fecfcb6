"""Lines of source files around a call site, from folders that are allowed and nothing else.

The path comes from a trace, so it is not trusted: what is opened must be a regular file with the
name of a source file, and lie in an allowed folder after all links have been followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

AROUND, WIDEST, LARGEST = 6, 240, 4 << 20  # lines, characters of a line, bytes of a file
LOWER = ".py .pyx .pxd .c .h .cc .cpp .cxx .hh .hpp .hxx .cu .cuh .inc .jl .rs .f .for .ftn .f77"
SUFFIXES = frozenset((LOWER + " .f90 .f95 .f03 .f08 .C .H .F .F77 .F90 .F95 .F03 .F08").split())


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file: the number of the first, the lines, and which number is meant."""

    path: Path
    first: int
    lines: tuple[str, ...]
    line: int


def excerpt(file: str, line: int, allowed: Sequence[Path]) -> Excerpt | None:
    """Return the lines around one of a file; None where it isn't there or not allowed.

    A file that was recorded elsewhere is looked for by the end of its path in each folder.
    """
    if not 0 < line < 10**7 or len(file) > 4096 or "\0" in file:
        return None
    for path in _candidates(file, allowed):
        text = _read(path, allowed)
        if text is None:
            continue
        lines = text.split("\n", line + AROUND + 1)[: line + AROUND]
        if len(lines) >= line:
            first = max(line - AROUND, 1)
            shown = tuple(one.rstrip("\r").expandtabs(4)[:WIDEST] for one in lines[first - 1 :])
            return Excerpt(path, first, shown, line)
    return None


def _candidates(file: str, allowed: Sequence[Path]) -> Iterator[Path]:
    path = PurePosixPath(file)
    if path.suffix not in SUFFIXES or ".." in path.parts:
        return
    if path.is_absolute():
        yield Path(path)
    parts = path.parts[1:] if path.is_absolute() else path.parts
    for folder in allowed:
        for i in range(max(len(parts) - 16, 0), len(parts)):
            yield folder.joinpath(*parts[i:])


def _read(path: Path, allowed: Sequence[Path]) -> str | None:
    """Return a file's text if it is regular, small, and truly within an allowed folder."""
    try:
        real = path.resolve(strict=True)
        if not any(real.is_relative_to(folder) for folder in allowed):
            return None
        opened = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, RuntimeError):
        return None
    with os.fdopen(opened, "rb") as file:
        # What was opened, not what its name meant a moment ago.
        truly = Path(f"/proc/self/fd/{file.fileno()}").readlink()
        status = os.fstat(file.fileno())
        within = any(truly.is_relative_to(folder) for folder in allowed)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST or not within:
            return None
        return file.read(LARGEST).decode("utf-8", "replace")
