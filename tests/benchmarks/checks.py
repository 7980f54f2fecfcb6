"""Rows of results: requirement, measurement and verdict, printed and stored for `make results`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from mpiprof.errors import MpiprofError

THRESHOLD_MISSED = 3  # exit code
FILE = (
    "BENCHMARK_ROWS"  # environment variable: the file that receives the rows, a JSON object a line
)


@dataclass(frozen=True)
class Row:
    """A promise: its subject, the requirement ("" if none), the measurement, and the verdict."""

    what: str
    asked: str
    measured: str
    holds: bool = True


def store(row: Row) -> None:
    """Append a row to the file that BENCHMARK_ROWS names, if it is set."""
    if path := os.environ.get(FILE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def printed(rows: Iterable[Row]) -> bool:
    """Print and store rows as they arrive; returns True if all meet their requirement."""
    line, met = "{:32} {:16} {:28} {}", True
    print(line.format("what", "asked", "measured", "holds"))
    for row in rows:
        mark = ("yes" if row.holds else "NO") if row.asked else ""
        print(line.format(row.what, row.asked, row.measured, mark).rstrip(), flush=True)
        store(row)
        met &= row.holds
    return met


def report_rows(rows: Iterable[Row]) -> int:
    """Print and store rows, and return the exit code; an error becomes one line on stderr."""
    try:
        return 0 if printed(rows) else THRESHOLD_MISSED
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code
