"""Runs a study: inside MPI on all ranks, as single calls or loops, or simulated in one process."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mpiprof.account.message_volume import choose_link
from mpiprof.collectives.machine import DEFAULT, Machine, from_options, machine_of_table, read_table
from mpiprof.collectives.papers.harness import loop, simulated_cases, timing
from mpiprof.collectives.papers.harness.case import LINE, Case, Options
from mpiprof.collectives.papers.harness.conditions import ARITHMETIC, TIMER, list_conditions
from mpiprof.collectives.papers.harness.loop import Loop, LoopTimes, read_behaviour, read_log
from mpiprof.collectives.papers.harness.message_times import find_study_fault, measure_message_times
from mpiprof.collectives.papers.harness.processors import measure_processor_use
from mpiprof.collectives.papers.harness.study import (
    MIN_LAPS,
    CaseResult,
    Report,
    Setup,
    estimate_lap_s,
    fit_laps,
    print_table,
    write,
)
from mpiprof.collectives.papers.harness.timing import Int, Ranks
from mpiprof.collectives.papers.studies import import_study
from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import SELECTORS
from mpiprof.interface.format_units import format_rough_time, format_time
from mpiprof.interface.progress import Progress


def requested_laps(study: ModuleType, options: Options) -> int:
    """Return the number of laps of a study without a time limit."""
    name, usual = ("QUICK_LAPS", MIN_LAPS) if options.quick else ("LAPS", 7)
    return options.laps or int(getattr(study, name, usual))


def make_cases(study: ModuleType, setup: Setup) -> list[Case]:
    """Return the cases of a study; raises MpiprofError if --only leaves none."""
    cases: list[Case] = study.make_cases(setup)
    if not cases:
        raise MpiprofError("no case is left: select other algorithms with --only")
    return cases


# ---- inside MPI


def run_study(name: str, options: Options, library: str, *, in_loops: bool) -> None:
    """Take part in a study as one MPI rank; rank 0 prints and writes."""
    try:
        ranks = timing.begin_study()
        if ranks.world.size < 2:
            raise MpiprofError("a study requires at least two ranks: `bench NAME -n 8`")
        study = import_study(name)
        machine, why, table = find_machine(ranks, study, options)
        nodes = timing.first_rank_of_nodes(ranks.world)
        shared = 1 < len(set(nodes)) < len(nodes)
        link = choose_link(table, between=len(set(nodes)) > 1)
        setup = Setup(ranks.world.size, options, machine, library, shared, fault=why, link=link)
        setup = replace(setup, processors=measure_processor_use(ranks.world))
        run = _run_loops if in_loops else _run_calls
        run(study, ranks, setup)
    except BaseException as error:
        timing.abort_on_error(error)
        raise


def find_machine(
    ranks: Ranks, study: ModuleType, options: Options
) -> tuple[Machine, str, dict[str, Any]]:
    """Return the machine of --machine or of these ranks with its table.

    If the times of these ranks are not usable, the machine is assumed, and the text is the reason.
    """
    find_fault = partial(find_study_fault, study, ranks.world.size, options)
    if options.machine is not None:
        table = read_table(options.machine, find_fault)
        return machine_of_table(table, str(options.machine)), "", table
    table = measure_message_times(ranks)
    why = find_fault(table)
    return DEFAULT if why else machine_of_table(table, "these ranks"), why, table


def _run_calls(study: ModuleType, ranks: Ranks, setup: Setup) -> None:
    cases = make_cases(study, setup)
    for case in cases:
        ranks.communicator(case.members)
    lap_s = estimate_lap_s(cases, setup)
    setup = replace(setup, laps=fit_laps(setup, requested_laps(study, setup.options), lap_s))
    chief = ranks.rank == 0
    if chief:
        _announce(study.TITLE, setup, f"{len(cases)} cases", lap_s * (setup.laps + 1))
    progress = Progress(len(cases) * (setup.laps + 1), chief)
    applicable = _run_first_lap(ranks, cases, progress)
    progress.steps -= (len(cases) - len(applicable)) * setup.laps
    samples = timing.measure(ranks, applicable, setup.laps, progress.advance)
    if chief:
        publish_results(study, [_make_result(*sample) for sample in samples], setup)


def _make_result(case: Case, arrivals: Int, exits: Int) -> CaseResult:
    total = loop.total_ns(case, arrivals, exits)
    score = total if case.operation == LINE else loop.score_ns(case, arrivals, exits)
    elapsed, spread = loop.elapsed_ns(case, arrivals, exits), np.ptp(arrivals, axis=1)
    return CaseResult(case, total, elapsed, spread.astype(np.float64), score)


def _announce(title: str, setup: Setup, extent: str, seconds: float) -> None:
    lines = [f"{title}: {extent}."]
    lines += [f"{name}: {text}" for name, text in list_conditions(setup).items()]
    lines.append(f"This will take about {format_rough_time(seconds)}.")
    print("\n".join(lines), flush=True)


def _run_first_lap(ranks: Ranks, cases: list[Case], progress: Progress) -> list[Case]:
    applicable = timing.run_first_lap(ranks, cases, progress.advance)
    if ranks.rank == 0 and len(applicable) < len(cases):
        inapplicable = sorted({f"{c.operation} {c.choice}" for c in cases if c not in applicable})
        print(f"Not measured, because the library cannot run them here: {', '.join(inapplicable)}")
    return applicable


# ---- loops inside MPI


def fit_time_limit(study: ModuleType, setup: Setup) -> Setup:
    """Return the set-up with as many instances as requested, or as the time limit allows."""
    options = setup.options
    requested = requested_laps(study, options)
    setup = replace(setup, laps=requested)
    if options.laps or options.full:
        return setup
    seconds = loop.estimate_seconds(study.make_loops(setup), setup.machine, setup.ranks)
    possible = int(requested * (options.minutes * 60 / seconds))
    return replace(setup, laps=min(requested, max(possible, study.MIN_LAPS)))


def _run_loops(study: ModuleType, ranks: Ranks, setup: Setup) -> None:
    setup = fit_time_limit(study, setup)
    loops = study.make_loops(setup)
    for current in loops:
        ranks.communicator(current.cases[0].members)
    work = loop.LoopComputation(ranks)
    setup = replace(setup, computation=TIMER if work.timer else ARITHMETIC)
    if ranks.rank == 0:
        took = loop.estimate_seconds(loops, setup.machine, setup.ranks)
        _announce(study.TITLE, setup, f"{len(loops)} loops", took)
    all_cases = [case for current in loops for case in current.cases]
    fixed = {_case_identity(c): c for c in all_cases if c.choice not in SELECTORS}
    progress = Progress(len(fixed) + _count_instances(loops), ranks.rank == 0)
    applicable = {_case_identity(c) for c in _run_first_lap(ranks, list(fixed.values()), progress)}
    missing = fixed.keys() - applicable
    for i, current in enumerate(loops):
        cases = tuple(case for case in current.cases if _case_identity(case) not in missing)
        loops[i] = replace(current, cases=cases)
    progress.steps = len(fixed) + _count_instances(loops)
    folder = find_trace_folder()
    times: list[LoopTimes] = []
    for current in loops:
        looped = loop.run(ranks, work, current, lambda: read_log(folder), progress.advance)
        times += [looped] if looped is not None else []
    if ranks.rank == 0:
        report = study.make_report(times, read_behaviour(folder, times), setup)
        publish_report(report, study.TITLE, setup)


def _count_instances(loops: list[Loop]) -> int:
    return sum(current.laps * len(current.cases) for current in loops)


def _case_identity(case: Case) -> tuple[object, ...]:
    return case.operation, case.choice, case.problem, case.members


def find_trace_folder() -> Path | None:
    """Return the trace folder of this process, or None if it is not recorded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.partition("/")[1] + line.partition("/")[2])
        if path.suffix == ".log" and path.name.startswith(("rank-", "node-")):
            return path.parent
    return None


# ---- simulated


def simulate_study(name: str, options: Options, processes: int) -> None:
    """Simulate a study for so many processes."""
    study = import_study(name)
    find_fault = partial(find_study_fault, study, processes, options)
    port = options.node_port
    machine = from_options(options.machine, options.per_node, find_fault, node_port=port)
    setup = make_simulated_setup(name, options, processes, machine)
    cases = make_cases(study, setup)
    seconds = simulated_cases.estimate_seconds(cases, setup)
    _announce(study.TITLE, setup, f"{len(cases)} cases", seconds)
    progress = Progress(len(cases), shown=True)
    results = simulated_cases.simulate_cases(cases, setup, progress.advance)
    publish_results(study, results, setup)


def make_simulated_setup(name: str, options: Options, processes: int, machine: Machine) -> Setup:
    """Return the set-up of a simulated study."""
    # Simulated times are exact, so more laps are needed only for different patterns.
    laps = 1
    if name == "impact":
        laps = min(requested_laps(import_study(name), options), timing.PATTERNS)
    per_node, shared = options.per_node, options.per_node > 1
    setup = Setup(processes, options, machine, "", shared, simulated=True)
    return replace(setup, laps=laps, per_node=per_node)


def publish_results(study: ModuleType, results: list[CaseResult], setup: Setup) -> None:
    """Print and write the results."""
    report: Report = study.make_report(results, setup)
    starts = [float(np.median(r.spread)) for r in results if r.case.arrivals[0] <= 1]
    if starts and not setup.simulated:
        spread = format_time(float(np.median(starts)))
        report.notes.append(f"Ranks started within {spread} (median).")
    publish_report(report, study.TITLE, setup)


def publish_report(
    report: Report, title: str, setup: Setup, *, show_conditions: bool = False
) -> None:
    """Print a report, with its conditions if required, and write it if there is an output."""
    report.notes += setup.warnings
    report.conditions = report.conditions or list_conditions(setup)
    if show_conditions:
        print("\n".join(f"{name}: {text}" for name, text in report.conditions.items()))
    print()
    print_table(report)
    if setup.options.output is not None:
        where = "simulated" if setup.simulated else os.environ.get("MPIPROF_STUDY_PLACE", "")
        page = f"{title}, {setup.ranks} processes" + (f", {where}" if where else "")
        files = write(report, page, setup.options.output, setup.options.figures)
        print(f"\nwritten: {', '.join(map(str, files))}")
