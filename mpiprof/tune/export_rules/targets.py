"""Exports a plan to one library: its cells, file, environment variables and check."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.output_files import write_text
from mpiprof.launch import library
from mpiprof.libraries.table import INTEL, MPICH, OPENMPI
from mpiprof.operations import OPERATIONS
from mpiprof.trace.trace import Trace
from mpiprof.tune.export_rules import callsites, intel, mpich, openmpi
from mpiprof.tune.export_rules.cells import NO_END, Asked, Call, Cell, Refusal, Refusals, cells
from mpiprof.tune.plan import entry_rules, file_rules
from mpiprof.tune.plan_entries import Entry
from mpiprof.tune.rules import Rule

Handed = dict[str, Any]  # see `as_data`

HAN = (
    "Over several nodes Open MPI's component han decides before these rules are read. "
    "OMPI_MCA_coll=^han turns it off, for all operations."
)
IN_PLACE = (
    "For an allgather or alltoall in place Open MPI takes the size from arguments that MPI "
    "ignores: a rule by bytes may miss it."
)
COUNTED = (
    "A job with OMPI_MCA_pml_monitoring_enable=1 OMPI_MCA_pml_monitoring_enable_output=3 "
    "OMPI_MCA_pml_monitoring_filename=messages writes messages.RANK.prof: how many messages and "
    "bytes went to each rank."
)
SUMMARY = (
    "A job with MPIR_CVAR_DEBUG_SUMMARY=1 prints when it begins which file its choices are from."
)
UNTESTED = (
    "Untested: written by the reference of Intel MPI 2019 and 2020, as it can't be run here. "
    "I_MPI_DEBUG=4 prints the settings that the library has taken."
)


@dataclass(frozen=True)
class Target:
    """Target of an export: the library, the file, and whether all operations commute."""

    library: str
    path: Path
    commutative: bool = False


@dataclass(frozen=True)
class Handover:
    """Result of an export.

    text: content of the file.
    environment: variables to set.
    notes: further facts, one sentence each.
    check: how to verify that the file takes effect.
    """

    library: str
    cells: Sequence[Cell]
    refusals: Sequence[Refusal]
    text: str
    environment: Mapping[str, str]
    notes: Sequence[str]
    check: str


def hand_over(asked: Asked, path: Path, libmpi: Path | None = None) -> Handover:
    """Return the export to a file at `path`.

    Raises MpiprofError if the file would do anything else.

    libmpi: the MPICH with the original selection tree, by default that of this Python.
    """
    refusals = Refusals()
    found = cells(asked, refusals)
    if asked.library == INTEL:
        return _to_intel(found, refusals)
    if asked.library == MPICH:
        return _to_mpich(found, refusals, path, libmpi or own_mpich())
    return _to_openmpi(found, refusals, path)


def _to_intel(found: Sequence[Cell], refusals: Refusals) -> Handover:
    kept = intel.possible(found, refusals)
    variables = intel.environment(kept)
    text = "".join(f'export {name}="{value}"\n' for name, value in variables.items())
    return Handover(INTEL, kept, refusals.all(), text, variables, [], UNTESTED)


def _to_mpich(found: Sequence[Cell], refusals: Refusals, path: Path, libmpi: Path) -> Handover:
    tree = mpich.own_tree(libmpi)
    kept = mpich.possible(found, libmpi, refusals)
    text = json.dumps(mpich.merged(tree, kept), indent=1) + "\n"
    for difference in mpich.differences(tree, json.loads(text), kept):
        raise MpiprofError(
            f"{path} is not written, because its choice would differ for {difference}"
        )
    variables = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(path.absolute())}
    notes = [f"Valid only for this MPICH ({libmpi}): an MPICH with another tree may abort the job."]
    return Handover(MPICH, kept, refusals.all(), text, variables, notes, SUMMARY)


def own_mpich() -> Path:
    """Return the MPICH of this Python; raises UsageError if it has another MPI."""
    mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    if mpi is None or mpi.abi != "mpich" or mpi.library is None:
        raise UsageError(
            "--to mpich reads the tree of algorithms from the MPICH of this Python, "
            "which has none: run this command with the Python whose mpi4py uses that "
            "MPICH"
        )
    return mpi.library


def _to_openmpi(found: Sequence[Cell], refusals: Refusals, path: Path) -> Handover:
    kept = openmpi.possible(found, refusals)
    text = openmpi.write(kept)
    for difference in openmpi.differences(openmpi.read(text), kept):
        raise MpiprofError(
            f"{path} is not written, because its choice would differ for {difference}"
        )
    variables = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path.absolute()),
    }
    operations = {cell.operation for cell in kept}
    notes = [HAN, *([IN_PLACE] if operations & {"allgather", "alltoall"} else [])]
    for ruled in sorted(operations):
        around = [name for name, inside in openmpi.INSIDE.items() if ruled in inside]
        if around:
            notes.append(
                f"Open MPI may run {' or '.join(around)} as several operations. If "
                f"{ruled} is one of them, its rule applies there as well."
            )
    return Handover(OPENMPI, kept, refusals.all(), text, variables, notes, COUNTED)


def of_plan(plan: Path, target: Target, trace: Trace | None, ranks: int | None) -> Handed:
    """Export a plan file; a trace supplies the calls at its call sites."""
    largest = ranks or (0 if trace is None else trace.ranks)
    calls = None if trace is None else callsites.calls(trace)
    return _written(file_rules(plan, None), target, largest, calls)


def of_entries(entries: Sequence[Entry], target: Target, trace: Trace) -> Handed:
    """Export the entries that were found in a trace."""
    rules = [
        replace(rule, file="the plan", entry=number)
        for number, entry in enumerate(entries, 1)
        for rule in entry_rules(f"entry {number}", entry)
    ]
    return _written(rules, target, trace.ranks, callsites.calls(trace))


def _written(
    rules: Sequence[Rule], target: Target, largest: int, calls: Sequence[Call] | None
) -> Handed:
    asked = Asked(rules, target.library, largest, calls, target.commutative)
    done = hand_over(asked, target.path)
    if done.cells:
        write_text(target.path, done.text)
    return as_data(done, target.path)


def as_data(done: Handover, path: Path) -> Handed:
    """Return an export as plain values, with cells of several sizes merged.

    written: None if nothing could be exported. bytes: first and last byte, or None if no choice
    depends on bytes; the last byte is None for an open range.
    """
    together: dict[tuple[Any, ...], list[int]] = {}
    for c in done.cells:
        together.setdefault((c.operation, c.own, c.first, c.last, c.segment), []).append(c.size)
    return {
        "to": done.library,
        "path": str(path),
        "written": str(path) if done.cells else None,
        "handed_over": [
            {
                "operation": operation,
                "sizes": sizes,
                "bytes": _span(operation, first, last),
                "algorithm": chosen.name,
                "number": chosen.number,
                "segment": segment or None,
                "ours": chosen.catalogue_name or None,
                "differs": next(filter(None, map(chosen.describe_difference, sizes)), None),
            }
            for (operation, chosen, first, last, segment), sizes in together.items()
        ],
        "refused": [
            {"where": r.where, "what": r.what, "sizes": list(r.sizes), "why": r.why}
            for r in done.refusals
        ],
        "environment": dict(done.environment),
        "notes": list(done.notes),
        "check": done.check,
    }


def _span(operation: str, first: int, last: int) -> list[int | None] | None:
    if not OPERATIONS[operation].sized:
        return None
    return [first, None if last == NO_END else last]
