"""Runs programs with --switch, and returns the algorithms of their calls."""

from __future__ import annotations

from pathlib import Path

import mpiprof
from mpiprof.account.shape_names import is_native
from support.jobs import run_mpi
from support.mpis import Mpi
from support.trace_tables import table_rows


def script(folder: Path, text: str) -> Path:
    """Write a Python program."""
    path = folder / "app.py"
    path.write_text(text)
    return path


def switched(
    mpi: Mpi, ranks: int, folder: Path, switch: str, *words: str | Path
) -> tuple[mpiprof.Trace, list[str]]:
    """Run a program with --switch; returns its trace and the recorder's messages."""
    recorder: list[str | Path] = [
        mpi.python,
        "-m",
        "mpiprof",
        "run",
        "-o",
        folder / "trace",
        "--switch",
        switch,
    ]
    done = run_mpi(mpi, ranks, [*recorder, *words], cwd=folder, check=True)
    printed = [line.removeprefix("mpiprof: ") for line in done.stderr.splitlines()]
    printed = [line for line in printed if not line.startswith(("trace of", "next:"))]
    return mpiprof.open(folder / "trace"), printed


def algorithms_run(trace: mpiprof.Trace, line: int = 0) -> list[str]:
    """Return the algorithms of the instances at a source line, or of all instances, in order."""
    rows = table_rows(trace.instances)
    rows = rows.sort_values(["communicator", "sequence"], kind="stable")
    place = f":{line} " if line else ""
    at = rows["sites"].astype(str).str.contains(place, regex=False)
    return [unnamed(str(name)) for name in rows.loc[at, "algorithm"]]


def unnamed(algorithm: str) -> str:
    """Return an algorithm, with "native" for any library's own, because names differ."""
    return "native" if is_native(algorithm) else algorithm
