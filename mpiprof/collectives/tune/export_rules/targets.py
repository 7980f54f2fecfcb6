"""Exports a plan to one library: its cells, file, environment variables and check.

Intel MPI's environment is `I_MPI_ADJUST_<OPERATION>="<id>:<from>-<to>@<p>-<q>;..."`. The source is
the reference manual of 2019 and 2020. Later versions number presets, not algorithms. Intel MPI 2021
accepts the lines, but does not report which algorithm runs. Their sizes equal a plan's: a block, a
vector or message, or all counts together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mpiprof.collectives.tune.export_rules import mpich, openmpi
from mpiprof.collectives.tune.export_rules.cells import (
    NO_END,
    Cell,
    ExportRequest,
    Refusals,
    RefusedError,
    exclude_cells,
    make_cells,
)
from mpiprof.collectives.tune.plan import make_entry_rules, read_file_rules
from mpiprof.collectives.tune.plan_entries import Entry
from mpiprof.collectives.tune.rules import Rule
from mpiprof.collectives.tune.tasks import TuningTask, list_works
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.facts.library_table import INTEL, MPICH, OPENMPI
from mpiprof.facts.operations import OPERATIONS
from mpiprof.interface.output_files import write_text
from mpiprof.launch import library
from mpiprof.trace.trace import Trace

MAX_BYTES = (1 << 31) - 1


def check_cell(cell: Cell) -> None:
    """Raise RefusedError if Intel MPI cannot express a cell."""
    if cell.first > MAX_BYTES:
        raise RefusedError(f"begins above {MAX_BYTES} bytes")


def make_environment(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the variables for possible cells."""
    variables: dict[str, list[str]] = {}
    for cell in cells:
        last = min(cell.last, MAX_BYTES)
        span = f"{cell.first}-{last}" if OPERATIONS[cell.operation].sized else f"0-{MAX_BYTES}"
        condition = f"{cell.algorithm.number}:{span}@{cell.size}-{cell.size}"
        variables.setdefault(f"I_MPI_ADJUST_{cell.operation.upper()}", []).append(condition)
    return {name: ";".join(conditions) for name, conditions in variables.items()}


ExportData = dict[str, Any]  # see `as_data`

HAN_NOTE = (
    "Over several nodes Open MPI's component han decides before these rules are read. "
    "OMPI_MCA_coll=^han turns it off, for all operations."
)
IN_PLACE_NOTE = (
    "For an allgather or alltoall in place Open MPI takes the size from arguments that MPI "
    "ignores: a rule by bytes may miss it."
)
MONITORING_NOTE = (
    "A job with OMPI_MCA_pml_monitoring_enable=1 OMPI_MCA_pml_monitoring_enable_output=3 "
    "OMPI_MCA_pml_monitoring_filename=messages writes messages.RANK.prof: how many messages and "
    "bytes went to each rank."
)
SUMMARY_NOTE = (
    "A job with MPIR_CVAR_DEBUG_SUMMARY=1 prints when it begins which file its choices are from."
)
ADJUST_NOTE = (
    "The lines follow the reference of Intel MPI 2019 and 2020. Later releases accept them, but do "
    "not report which algorithm runs. I_MPI_DEBUG=4 prints the lines that the library ignores."
)


@dataclass(frozen=True)
class Target:
    """Target of an export: the library, the file, and whether all operations commute."""

    library: str
    path: Path
    commutative: bool = False


@dataclass(frozen=True)
class Export:
    """Result of an export."""

    library: str
    cells: Sequence[Cell]
    refusals: Refusals
    text: str  # content of the file
    environment: Mapping[str, str]  # variables to set
    notes: Sequence[str]  # further facts, one sentence each
    check: str  # how to verify that the file takes effect


def export_rules(request: ExportRequest, path: Path, libmpi: Path | None = None) -> Export:
    """Return the export to `path`; raises MpiprofError if the file would do anything else."""
    refusals = Refusals()
    cells = make_cells(request, refusals)
    if request.library == INTEL:
        cells = exclude_cells(cells, check_cell, refusals)
        variables = make_environment(cells)
        text = "".join(f'export {name}="{value}"\n' for name, value in variables.items())
        return Export(INTEL, cells, refusals, text, variables, [], ADJUST_NOTE)
    # The MPICH with the original selection tree is by default that of this Python.
    if request.library == MPICH:
        return _export_to_mpich(cells, refusals, path, libmpi or installed_mpich())
    return _export_to_openmpi(cells, refusals, path)


def _export_to_mpich(
    requested_cells: Sequence[Cell], refusals: Refusals, path: Path, libmpi: Path
) -> Export:
    tree = mpich.read_compiled_tree(libmpi)
    check = partial(mpich.check_cell, libmpi.read_bytes())
    cells = exclude_cells(requested_cells, check, refusals)
    text = json.dumps(mpich.merge_cells(tree, cells), indent=1) + "\n"
    _refuse_differences(path, mpich.find_differences(tree, json.loads(text), cells))
    variables = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(path.absolute())}
    notes = [f"Valid only for this MPICH ({libmpi}): an MPICH with another tree may abort the job."]
    return Export(MPICH, cells, refusals, text, variables, notes, SUMMARY_NOTE)


def _refuse_differences(path: Path, differences: Iterator[str]) -> None:
    for difference in differences:
        why = f"its choice would differ for {difference}"
        raise MpiprofError(f"{path} is not written, because {why}")


def installed_mpich() -> Path:
    """Return the MPICH of this Python; raises UsageError if it has another MPI."""
    mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    if mpi is None or mpi.abi != "mpich" or mpi.library is None:
        raise UsageError(
            "--to mpich reads the tree of algorithms from the MPICH of this Python, which has "
            "none: run this command with the Python whose mpi4py uses that MPICH"
        )
    return mpi.library


def _export_to_openmpi(requested_cells: Sequence[Cell], refusals: Refusals, path: Path) -> Export:
    cells = exclude_cells(requested_cells, openmpi.cell_lines, refusals)
    text = openmpi.format_rules(cells)
    _refuse_differences(path, openmpi.find_differences(openmpi.parse_rules(text), cells))
    variables = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path.absolute()),
    }
    operations = {cell.operation for cell in cells}
    notes = [HAN_NOTE, *([IN_PLACE_NOTE] if operations & {"allgather", "alltoall"} else [])]
    for with_rules in sorted(operations):
        around = [name for name, inside in openmpi.CALLED_INSIDE.items() if with_rules in inside]
        if around:
            fact = f"Open MPI may run {' or '.join(around)} as several operations"
            effect = f"If {with_rules} is one of them, its rule applies there as well"
            notes.append(f"{fact}. {effect}.")
    return Export(OPENMPI, cells, refusals, text, variables, notes, MONITORING_NOTE)


def export_plan(plan: Path, target: Target, trace: Trace | None, ranks: int | None) -> ExportData:
    """Export a plan file; a trace supplies the calls at its call sites."""
    largest = ranks or (0 if trace is None else trace.ranks)
    calls = None if trace is None else _list_calls(trace)
    return _write_export(read_file_rules(plan, None), target, largest, calls)


def export_entries(entries: Sequence[Entry], target: Target, trace: Trace) -> ExportData:
    """Export the entries that were found in a trace."""
    rules = [
        replace(rule, file="the plan", entry=number)
        for number, entry in enumerate(entries, 1)
        for rule in make_entry_rules(f"entry {number}", entry)
    ]
    return _write_export(rules, target, trace.ranks, _list_calls(trace))


def _list_calls(trace: Trace) -> list[TuningTask]:
    """Return the calls on intra-communicators, by call site and size class."""
    return [work for work in list_works(trace, 1) if not work.remote_size]


def _write_export(
    rules: Sequence[Rule], target: Target, largest: int, calls: Sequence[TuningTask] | None
) -> ExportData:
    request = ExportRequest(rules, target.library, largest, calls, target.commutative)
    done = export_rules(request, target.path)
    if done.cells:
        write_text(target.path, done.text)
    return as_data(done, target.path)


def as_data(done: Export, path: Path) -> ExportData:
    """Return an export as plain values, with cells of several sizes merged.

    written: None if nothing could be exported. bytes: first and last byte, or None if no choice
    depends on bytes; the last byte is None for an open range.
    """
    sizes_by_choice: dict[tuple[Any, ...], list[int]] = {}
    for c in done.cells:
        key = (c.operation, c.algorithm, c.first, c.last, c.segment)
        sizes_by_choice.setdefault(key, []).append(c.size)
    handed_over = []
    for key, sizes in sizes_by_choice.items():
        operation, chosen, first, last, segment = key
        differences = filter(None, map(chosen.describe_difference, sizes))
        handed_over.append(
            {
                "operation": operation,
                "sizes": sizes,
                "bytes": _format_span(operation, first, last),
                "algorithm": chosen.name,
                "number": chosen.number,
                "segment": segment or None,
                "ours": chosen.catalogue_name or None,
                "differs": next(differences, None),
            }
        )
    return {
        "to": done.library,
        "path": str(path),
        "written": str(path) if done.cells else None,
        "handed_over": handed_over,
        "refused": [
            {"where": r.source, "what": r.request, "sizes": sizes, "why": r.reason}
            for r, sizes in done.refusals.items()
        ],
        "environment": dict(done.environment),
        "notes": list(done.notes),
        "check": done.check,
    }


def _format_span(operation: str, first: int, last: int) -> list[int | None] | None:
    if not OPERATIONS[operation].sized:
        return None
    return [first, None if last == NO_END else last]
