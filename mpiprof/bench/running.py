"""Runs a study: inside MPI by all ranks, or simulated by one process."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import cast

import numpy as np

from mpiprof.bench import timing
from mpiprof.bench.case import Case
from mpiprof.bench.options import Options
from mpiprof.bench.study import (
    Progress,
    Report,
    Result,
    Setup,
    Study,
    lap_seconds,
    laps_within,
    print_table,
    simulated,
    span_text,
    time_text,
    write,
)
from mpiprof.bench.timing import Ranks
from mpiprof.errors import MpiprofError
from mpiprof.model.machine import DEFAULT, Machine, read, uniform


def study_of(name: str) -> Study:
    """Import a study's module."""
    return cast(Study, importlib.import_module(f"mpiprof.bench.{name}"))


def wanted_laps(study: Study, options: Options) -> int:
    """Return the laps that a study is made for."""
    return options.laps or (3 if options.quick else int(getattr(study, "LAPS", 7)))


# ---- inside MPI


def run_ranks(name: str, options: Options, library: str) -> None:
    """Take part in a study as one rank of MPI; rank 0 speaks and writes."""
    try:
        _run_ranks(name, options, library)
    except BaseException as error:
        timing.abort_on_error(error)
        raise


def _run_ranks(name: str, options: Options, library: str) -> None:
    ranks, study = timing.begin(), study_of(name)
    if ranks.world.size < 2:
        raise MpiprofError("a study needs two ranks or more: `bench NAME -n 8`")
    alpha, beta = timing.message_model(ranks)
    alpha, beta = ranks.world.bcast((alpha, beta))
    machine = uniform(alpha, beta)
    setup = Setup(ranks.world.size, options, machine, library, timing.shared_nodes(ranks))
    cases = study.cases(setup)
    for case in cases:
        ranks.communicator(case.members)
    lap_s = lap_seconds(cases, setup)
    setup = replace(setup, laps=laps_within(setup, wanted_laps(study, options), lap_s))
    chief = ranks.rank == 0
    if chief:
        _announce(study, setup, cases, lap_s)
    samples = _measure(ranks, cases, setup, chief)
    if chief:
        conclude(
            study,
            [_result(s) for s in samples],
            setup,
        )


def _result(s: timing.Sample) -> Result:
    spread = s.arrivals.max(axis=1) - s.arrivals.min(axis=1)
    total = s.total_ns.astype(np.float64)
    return Result(s.case, total, s.elapsed_ns, spread.astype(np.float64))


def _announce(study: Study, setup: Setup, cases: list[Case], lap_s: float) -> None:
    m = setup.machine
    print(
        f"{study.TITLE}: {len(cases)} cases, {setup.laps} laps, {setup.ranks} ranks; messages take "
        f"{time_text(m.alpha)} and {m.beta:.3g} ns a byte.\n"
        f"This will take about {span_text(lap_s * (setup.laps + 1))}.",
        flush=True,
    )


def _measure(ranks: Ranks, cases: list[Case], setup: Setup, chief: bool) -> list[timing.Sample]:
    progress = Progress(len(cases) * (setup.laps + 1), chief)
    kept = timing.first_lap(ranks, cases, progress.step)
    progress.steps -= (len(cases) - len(kept)) * setup.laps
    if chief and len(kept) < len(cases):
        left = sorted({f"{c.operation} {c.choice}" for c in cases if c not in kept})
        print(f"Left out, as the library does not run them here: {', '.join(left)}")
    return timing.measure(ranks, kept, setup.laps, progress.step)


# ---- simulated


def run_simulated(name: str, options: Options, processes: int) -> None:
    """Compute a study's table for so many processes."""
    study = study_of(name)
    machine = read(options.machine) if options.machine else DEFAULT
    # A pattern's time is exact: only patterns that differ need laps.
    laps = wanted_laps(study, options) if name == "impact" else 1
    setup = Setup(processes, options, machine, simulated=True, laps=laps)
    cases = study.cases(setup)
    print(f"{study.TITLE}: {len(cases)} cases, {processes} processes, {_machine_text(machine)}.")
    progress = Progress(len(cases), shown=True)
    results = simulated(cases, setup, progress.step)
    conclude(study, results, setup)


def _machine_text(machine: Machine) -> str:
    return f"simulated with {time_text(machine.alpha)} and {machine.beta:.3g} ns a byte a message"


def conclude(study: Study, results: list[Result], setup: Setup) -> None:
    """Print and write what was found."""
    found: Report = study.report(results, setup)
    starts = [float(np.median(r.spread)) for r in results if r.case.arrivals[0] <= 1]
    if starts and not setup.simulated:
        found.notes.append(f"Ranks started within {time_text(float(np.median(starts)))} (median).")
    print()
    print_table(found)
    if setup.options.output is not None:
        where = "simulated" if setup.simulated else os.environ.get("MPIPROF_STUDY_PLACE", "")
        title = f"{study.TITLE}, {setup.ranks} processes" + (f", {where}" if where else "")
        files = write(found, title, setup.options.output)
        print(f"\nwritten: {', '.join(map(str, files))}")
