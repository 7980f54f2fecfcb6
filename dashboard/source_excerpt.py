"""Source lines around a call site, read from allowed folders only.

The path comes from a trace, so it is not trusted. The file must be a regular file with the suffix
of a source file, and lie in an allowed folder after all links are resolved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mpiprof.interface.untrusted_files import open_file
from mpiprof.interface.untrusted_text import decode_text

LINES_AROUND, MAX_COLUMNS, MAX_FILE_BYTES = 6, 240, 4 << 20  # columns: characters of a line
LOWER = ".py .pyx .pxd .c .h .cc .cpp .cxx .hh .hpp .hxx .cu .cuh .inc .jl .rs .f .for .ftn .f77"
SUFFIXES = frozenset((LOWER + " .f90 .f95 .f03 .f08 .C .H .F .F77 .F90 .F95 .F03 .F08").split())


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file: the number of the first line, the lines, and the call's line number."""

    first: int
    lines: tuple[str, ...]
    line: int


def read_excerpt(file: str, line: int, allowed: Sequence[Path]) -> Excerpt | None:
    """Return the lines around `line` of a file, or None if the file is missing or not allowed.

    A file recorded on another machine is searched in each folder by the end of its path.
    """
    if not 0 < line < 10**7 or len(file) > 4096 or "\0" in file:
        return None
    for path in _candidates(file, allowed):
        text = _read(path, allowed)
        if text is None:
            continue
        lines = text.split("\n", line + LINES_AROUND + 1)[: line + LINES_AROUND]
        if len(lines) >= line:
            first = max(line - LINES_AROUND, 1)
            excerpt = [source_line.rstrip("\r").expandtabs(4) for source_line in lines[first - 1 :]]
            return Excerpt(first, tuple(shown_line[:MAX_COLUMNS] for shown_line in excerpt), line)
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
    """Return a file's text, or None unless the file is regular, small and in an allowed folder."""
    try:
        real = path.resolve(strict=True)
        if not any(real.is_relative_to(folder) for folder in allowed):
            return None
        opened = open_file(real, MAX_FILE_BYTES)
    except (OSError, RuntimeError):
        return None
    with os.fdopen(opened, "rb") as file:
        # Check the opened file, because the path may have been replaced before the open.
        truly = Path(f"/proc/self/fd/{file.fileno()}").readlink()
        if not any(truly.is_relative_to(folder) for folder in allowed):
            return None
        return decode_text(file.read(MAX_FILE_BYTES))
