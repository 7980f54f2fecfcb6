"""The verbs of the command line, one file per verb; the module's docstring is the verb's help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every rank of a job imports this module
    from mpiprof.trace import Trace
    from mpiprof.trace.trace import WorkerPool

FAIL_ON_HELP = "exit with 3 if a call site, place, cause or the run meets it"


def open_named_trace(
    named: Path | None, machine: Path | None, workers: WorkerPool | None = None
) -> Trace:
    """Open the named trace, or the newest one, with the table of --machine; raises MpiprofError."""
    from mpiprof.account.analysis_memory import count_processes
    from mpiprof.collectives.machine import read_table
    from mpiprof.formats.cached_trace import open_trace
    from mpiprof.trace.default_trace import choose_trace
    from mpiprof.trace.machine import find_fault

    folder = choose_trace(named)
    trace = open_trace(folder, workers, read_table(machine, find_fault) if machine else None)
    trace.parallel = count_processes()
    return trace
