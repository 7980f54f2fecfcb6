"""Corrections of the model that `--switch auto` learns on a machine (`--learn FILE`).

core/selection/online/model_correction.c appends a line for each algorithm that a phase has tried,
when the phase ends. Processes and jobs may append at the same time. A later job starts with the
means over the lines recorded under its MPI.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mpiprof.collectives.tune.rules import library_name
from mpiprof.errors import UsageError
from mpiprof.facts.library_algorithms import mpi_name
from mpiprof.interface.output_files import check_output
from mpiprof.interface.untrusted_files import read_named_file
from mpiprof.interface.untrusted_text import parse_json

NEWEST_BYTES = 4096  # lines read, from the end of the file
MAX_ENTRIES = 512  # capacity of the recorder
MAX_RUNS = 16  # maximum weight of an entry, as in the recorder


@dataclass(frozen=True)
class Lesson:
    """Measured over predicted time of an algorithm, as the mean over some runs of a phase."""

    operation: str
    algorithm: str
    bytes: int
    members: int
    ratio: float
    runs: int
    mpi: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Key of the lessons that are combined: operation, algorithm, and powers of two."""
        powers = (self.bytes.bit_length() - 1, self.members.bit_length() - 1)
        return (self.operation, self.algorithm, *powers)

    def combine(self, later: Lesson) -> Lesson:
        """Return the weighted mean of two lessons."""
        runs = self.runs + later.runs
        ratio = (self.ratio * self.runs + later.ratio * later.runs) / runs
        return replace(self, ratio=ratio, runs=min(runs, MAX_RUNS))

    def as_text(self) -> str:
        """Return the lesson as the recorder reads it."""
        return f"{' '.join(map(str, self.key))} {self.ratio:.4g} {self.runs};"


def parse_lesson(line: bytes | str) -> Lesson | None:
    """Return the lesson of a line, or None if the recorder cannot have written the line."""
    try:
        fields = parse_json(line)
        names = (str(fields["operation"]), str(fields["algorithm"]))
        numbers = (int(fields["bytes"]), int(fields["members"]))
        mpi = mpi_name(str(fields["measured"]["mpi"]))
        lesson = Lesson(*names, *numbers, float(fields["ratio"]), int(fields["runs"]), mpi)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    is_native = library_name(lesson.algorithm)
    are_named = lesson.operation.isidentifier() and (is_native or lesson.algorithm.isidentifier())
    counts = min(lesson.bytes, lesson.members, lesson.runs) > 0
    return lesson if are_named and counts and 0 < lesson.ratio < math.inf else None


def read(path: Path) -> list[Lesson]:
    """Return the newest lessons of a file, [] if it does not exist yet; UsageError if unusable."""
    check_output("--learn", path, "learned.jsonl")
    try:
        lines = [*filter(None, read_named_file(path).split(b"\n"))][-NEWEST_BYTES:]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"--learn {path} can't be read: {error.strerror}") from None
    lessons = [lesson for line in lines if (lesson := parse_lesson(line)) is not None]
    if lines and not lessons:
        raise UsageError(f"--learn {path} exists and holds nothing that was learned: name another")
    return lessons


def format_start_values(lessons: list[Lesson], is_here: Callable[[str], bool]) -> str | None:
    """Return the recorder's start values, means of lessons under this MPI, or None."""
    means: dict[tuple[str, str, int, int], Lesson] = {}
    for lesson in lessons:
        if is_here(lesson.mpi):
            before = means.pop(lesson.key, None)
            means[lesson.key] = before.combine(lesson) if before else lesson
    return "".join(lesson.as_text() for lesson in list(means.values())[-MAX_ENTRIES:]) or None
