"""Builds the shim of virtual clocks, and runs programs under it, recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import mpiprof
from mpiprof.trace import Trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run
from support.synthetic import MACHINE


def build(mpi: Mpi, folder: Path, name: str) -> Path:
    """Copy tests/programs/<name>.c and the shim, compiled, into a folder; returns the program."""
    common = ("-std=gnu11", "-O1", "-Wno-stringop-overread")
    shim = compiled(mpi, "virtual_clock.c", *common, "-shared", "-fPIC", "-ldl")
    shutil.copy(shim, folder / "shim.so")
    return Path(shutil.copy(compiled(mpi, f"{name}.c", *common, "-ldl"), folder / name))


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
    # Set after mpiexec, because the launcher itself must not be preloaded.
    variables = {"LD_PRELOAD": str(folder / "shim.so"), **clocks}
    options = ["-q", "-o", folder / "trace", "--machine", machine, *more]
    argv = prepare_run(options, [program, *arguments], env=variables)
    prefix = ["env", *(f"{name}={value}" for name, value in clocks.items())]
    result = run_mpi(mpi, ranks, [*prefix, *argv], check=not killed, cwd=folder)
    assert not killed or result.returncode != 0
    return mpiprof.open(folder / "trace")
