"""Measure the machine's message times in full, for --machine FILE of `run`, `report` and others.

  mpiexec -n 8 python -m mpiprof calibrate -o FILE

Place the ranks in the same way as in the programs to be recorded. On several nodes, times within
and between nodes are measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.untrusted_files import read_named_json
from mpiprof.launch.job import find_rank
from mpiprof.launch.library import ABIS, FAMILIES, Mpi


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="where to write")
    default = "the MPI to measure; by default that of the launcher"
    parser.add_argument("--mpi", choices=ABIS, help=default)


def run(args: argparse.Namespace) -> int:
    """Measure the machine: every rank takes part, and rank 0 writes and prints the result."""
    if args.output is None:
        line = format_command("calibrate", "-o", "machine.json", ranks=8)
        raise UsageError(f"-o is missing: `{line}`")
    folder, name = args.output.parent, args.output.name
    if not folder.absolute().is_dir():
        raise UsageError(f"{folder}: no such folder, so {name} cannot be written")
    environment = dict(os.environ)
    rank = find_rank(environment)
    again = format_command("calibrate", "-o", args.output, ranks=8)
    if rank is None:
        raise UsageError(f"calibrate requires at least two ranks: `{again}`")
    run_measurement(find_mpi(args.mpi, environment), args.output)
    if rank == 0:
        from mpiprof.trace.machine import find_fault

        try:
            table = read_named_json(args.output)
        except (OSError, ValueError) as error:
            raise MpiprofError(f"{args.output} was not written: {error}") from None
        why = find_fault(table)
        print(describe(args.output, table, why))
        line = format_command("run", "--machine", args.output, "app.py", ranks=8)
        print(f"next: {again}   (measure again)" if why else f"next: {line}")
    sys.stdout.flush()
    return 0


def find_mpi(requested_abi: str | None, environment: dict[str, str]) -> Mpi:
    """Return the launcher's MPI with its library; raises UsageError if it cannot be found."""
    from mpiprof.launch import library

    launcher = library.mpi_of_launcher(environment)
    try:
        mpi4py = library.mpi_of_python(library.this_interpreter(), environment)
    except UsageError:
        mpi4py = None
    abi = requested_abi or launcher or (mpi4py.abi if mpi4py else None)
    if abi is None:
        raise UsageError("no MPI found: pass --mpi mpich, --mpi openmpi or --mpi mpiabi")
    if mpi4py is not None and mpi4py.abi == abi:
        return mpi4py
    mpi = library.mpi_by_name(abi, environment, "the launcher's environment")
    if mpi.library is None:
        missing_library = f"the shared library of {FAMILIES[abi]}"
        raise UsageError(f"{missing_library} was not found: add its folder to LD_LIBRARY_PATH")
    return mpi


def run_measurement(mpi: Mpi, output: Path) -> None:
    """Run the measurement of the recorder library on this MPI; raises MpiprofError if it fails."""
    import ctypes

    from mpiprof.launch import library

    ctypes.CDLL(str(mpi.library), mode=ctypes.RTLD_GLOBAL)
    recorder = ctypes.CDLL(str(library.recorder_library(mpi)), mode=ctypes.RTLD_GLOBAL)
    recorder.mpiprof_calibrate.argtypes = [ctypes.c_char_p]
    code = recorder.mpiprof_calibrate(os.fsencode(output.absolute()))
    if code == 2:
        remedy = "start it with the mpiexec of its MPI and -n 2 or more"
        raise UsageError(f"calibrate requires at least two ranks of one job: {remedy}")
    if code:
        raise MpiprofError(f"calibration failed with code {code}; {output} was not written")


def describe(output: Path, machine: dict[str, Any], why: str) -> str:
    """Return a summary of the measurement; why: the reason that it is unusable, or ""."""
    from mpiprof.collectives.machine import find_pace
    from mpiprof.interface.format_units import format_time

    lines = [f"{output}: message times of this machine"]
    for name, label in (("within", "within a node"), ("between", "between nodes")):
        link = machine.get(name)
        if not link:
            lines.append(f"  {label:<14} not measured: the job had no such pair of ranks")
            continue
        pace, bandwidth = find_pace(link), ""
        if pace > 0:
            bandwidth = f", {1 / pace:.2f} GB/s" if pace < 1 else f", {1000 / pace:.3g} MB/s"
        alpha = format_time(link["alpha_ns"])
        lines.append(f"  {label:<14} {alpha} for an empty message{bandwidth}")
    if why:
        remedy = "measure again with one core for each rank and no other programs running"
        lines.append(f"  not usable: {why}; {remedy}")
    return "\n".join(lines)
