"""What the recorder is told through its environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mpiprof import __version__
from mpiprof.invocation import invocation
from mpiprof.launch import job, library
from mpiprof.launch.folder import base_name, shared_name
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import Program


@dataclass(frozen=True)
class Recording:
    """How a program shall be recorded; the recorder reads them from its environment."""

    folder: Path | None = None
    record: str = "events"
    sample: int = 1
    stack: int = 1
    limit: int = 1 << 30
    skip_packages: tuple[str, ...] = ()
    machine: Path | None = None
    partial: bool = False
    together: bool = False
    unrecorded: bool = False
    python_sites: str = "auto"
    quiet: bool = False
    mpi: str | None = None
    switch: str | None = None
    switch_model: str | None = None
    auto: bool = False
    explain: bool = False
    reproducible: bool = False
    scratch: int | None = None
    plan_out: Path | None = None


def recorder_environment(
    program: Program, mpi: Mpi, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a program is recorded; what is preloaded stays so."""
    ours = str(library.our_library(mpi))
    before = [word for word in re.split("[ :]", environment.get("LD_PRELOAD", "")) if word]
    left = {"TRACE", "MACHINE", "PARTIAL", "QUIET", "SWITCH", "SWITCH_MODEL"}
    left |= {"TOGETHER", "PARTS", "MARKS", "RANK", "ALONE", "JOB", "UNRECORDED"}
    left |= {"AUTO", "EXPLAIN", "REPRODUCIBLE", "PLAN_OUT", "SCRATCH"}
    result = {
        name: value
        for name, value in environment.items()
        if name.removeprefix("MPIPROF_") not in left or not name.startswith("MPIPROF_")
    }
    result |= {
        "LD_PRELOAD": ":".join([ours, *(word for word in before if word != ours)]),
        "MPIPROF_LIBRARY": ours,
        "MPIPROF_BASE": str(Path.cwd() / base_name(program)),
        "MPIPROF_PROGRAM": program.name,
        "MPIPROF_COMMAND": json.dumps(program.shown),
        "MPIPROF_RECORD": options.record,
        "MPIPROF_SAMPLE": str(options.sample),
        "MPIPROF_STACK": str(options.stack),
        "MPIPROF_LIMIT": str(options.limit),
        "MPIPROF_SKIP_PACKAGES": ":".join(options.skip_packages),
        "MPIPROF_PYTHON_SITES": options.python_sites,
        "MPIPROF_VERSION": __version__,
        "MPIPROF_INVOCATION": invocation(),
    }
    result |= place_in_job(program, options, environment)
    if options.machine is not None:
        result["MPIPROF_MACHINE"] = str(options.machine.absolute())
    for name in ("partial", "together", "unrecorded", "quiet", "auto", "explain", "reproducible"):
        if getattr(options, name):
            result[f"MPIPROF_{name.upper()}"] = "1"
    if options.plan_out is not None:
        result["MPIPROF_PLAN_OUT"] = str(options.plan_out.absolute())
    if options.scratch is not None:
        result["MPIPROF_SCRATCH"] = str(options.scratch)
    if options.switch is not None:
        result["MPIPROF_SWITCH"] = options.switch
    if options.switch_model is not None:
        result["MPIPROF_SWITCH_MODEL"] = options.switch_model
    return result


def place_in_job(
    program: Program, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what tells a process where to write, and what else of its job there is."""
    parts, rank = job.parts_in(environment), job.rank_in(environment)
    several = parts is not None and parts > 1
    shared = Path.cwd() / shared_name(program, environment)
    folder = options.folder.absolute() if options.folder is not None else None
    if folder is None and (options.partial or several):
        folder = shared
    found = {"MPIPROF_JOB": job.identity(environment)}
    if folder is not None:
        found["MPIPROF_TRACE"] = str(folder)
    if rank is None:
        return found
    found["MPIPROF_ALONE"] = str(shared)
    if several and not options.partial:
        found["MPIPROF_PARTS"] = str(parts)
        found["MPIPROF_RANK"] = str(rank)
        found["MPIPROF_MARKS"] = f"{folder}/.parts-{job.identity(environment)}"
    return found
