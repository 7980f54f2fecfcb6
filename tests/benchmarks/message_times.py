"""Repeatability of measured message times: `python -m benchmarks.message_times [--runs N]`.

Runs `calibrate` on two ranks several times. Each run must have the same message times as the others
or report that its times are unusable.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checks import THRESHOLD_MISSED, Row, printed
from mpiprof.errors import MpiprofError
from mpiprof.launch import ranks
from mpiprof.launch.program import verb_command
from mpiprof.trace.machine import find_fault

MOST = 1.3  # ratio of a message time to the median over the runs, and its inverse
WAYS = {"one_way_ns": "one way", "both_ways_ns": "both ways at once"}


def measure(folder: Path, runs: int) -> list[dict[str, Any]]:
    """Return the table of each run; raises MpiprofError if a run fails."""
    mpi, tables = ranks.mpi_of_this_python(os.environ), []
    for number in range(runs):
        path = folder / f"{number}.json"
        if ranks.start(mpi, 2, verb_command("calibrate", "-o", str(path)), {}):
            raise MpiprofError("calibrate failed")
        tables.append(json.loads(path.read_text("utf-8")))
    return tables


def promises(tables: list[dict[str, Any]]) -> Iterator[Row]:
    """Yield the number of unusable runs, and the spread of the times of the other runs."""
    usable = [table["within"] for table in tables if not find_fault(table)]
    count = len(usable)
    yield Row("runs reported as unusable", "", f"{len(tables) - count} of {len(tables)}")
    if count < 2:
        return
    for column, way in WAYS.items():
        times = np.array([table[column] for table in usable], np.float64)
        ratio = times / np.median(times, axis=0)
        worst = float(np.maximum(ratio, 1 / ratio).max())
        yield Row(
            f"{way}: largest ratio to the median", f"<= {MOST}", f"{worst:.2f}", worst <= MOST
        )


def command() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.message_times", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=10, metavar="N")
    args = parser.parse_args()
    if args.runs < 2:
        parser.error("at least two runs")
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-calibrate-") as name:
            return 0 if printed(promises(measure(Path(name), args.runs))) else THRESHOLD_MISSED
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(command())
