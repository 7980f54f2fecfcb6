"""Builds the shim of virtual clocks, and runs programs under it, recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import mpiprof
from mpiprof.testing.synthetic import MACHINE
from mpiprof.trace import Trace
from support import PROGRAMS
from support.jobs import run, run_mpi
from support.mpis import Mpi


def build(mpi: Mpi, folder: Path, name: str) -> Path:
    """Compile tests/programs/<name>.c and the shim into a folder; returns the program."""
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-stringop-overread"]
    common = [mpi.mpicc, "-std=gnu11", "-O1", "-g", *warnings]
    run(
        [
            *common,
            "-shared",
            "-fPIC",
            "-o",
            folder / "shim.so",
            PROGRAMS / "virtual_clock.c",
            "-ldl",
        ],
        check=True,
    )
    program = folder / name
    run([*common, "-o", program, PROGRAMS / f"{name}.c", "-ldl"], check=True)
    return program


def record(
    mpi: Mpi,
    ranks: int,
    program: Path,
    arguments: Sequence[str],
    clocks: dict[str, str],
    killed: bool = False,
    more: Sequence[str] = (),
) -> Trace:
    """Run a built program on so many ranks under the shim, configured by `clocks`.

    more: options of `run`.
    """
    folder = program.parent
    machine = folder / "machine.json"
    machine.write_text(json.dumps(MACHINE))
    variables = {"LD_PRELOAD": str(folder / "shim.so"), **clocks}
    # Set after mpiexec, because the launcher itself must not be preloaded.
    prefix = ["env", *(f"{name}={value}" for name, value in variables.items())]
    options = ["-q", "-o", str(folder / "trace"), "--machine", str(machine), *more]
    wrapper = [str(mpi.python), "-m", "mpiprof", "run", *options, "--"]
    argv = [*prefix, *wrapper, str(program), *arguments]
    result = run_mpi(mpi, ranks, argv, check=not killed, cwd=folder)
    assert not killed or result.returncode != 0
    return mpiprof.open(folder / "trace")
