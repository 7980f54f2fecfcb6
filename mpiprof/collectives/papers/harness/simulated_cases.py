"""Simulates the cases of a study on all processors, and predicts how long that takes."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial

import numpy as np

from mpiprof.account.wait_states import score_instances
from mpiprof.collectives import catalogue, ring_fast_path
from mpiprof.collectives.papers.harness.case import LINE, Case, problem_with_parameters
from mpiprof.collectives.papers.harness.processors import count_usable_processors
from mpiprof.collectives.papers.harness.study import CaseResult, Setup
from mpiprof.collectives.papers.harness.timing import lateness_ns
from mpiprof.collectives.problem_spec import assign_nodes
from mpiprof.collectives.schedule import Algorithm, Problem, Schedule
from mpiprof.collectives.simulate import runs_as_ring, simulate, simulate_patterns
from mpiprof.errors import MpiprofError

# Cost of a simulation in units of one round of one process: a round of all processes, a message
# that is simulated individually, and a step between groups. Measured with 2 to 2048 processes.
ROUND_COST = 500
MESSAGE_COST = 100
GROUPS_COST = 8
MIN_DIVIDED_S = 5.0  # minimum duration that is divided among processors, each with a new process
MAX_WORKERS = 16  # because each has the memory of a simulation
# Simulations that measure the present speed of this machine.
TRIAL_PROBLEM, RING_TRIAL_PROBLEM = Problem(256, 8), Problem(1024, 8)


def simulate_cases(
    cases: Sequence[Case], setup: Setup, step: Callable[[], None]
) -> list[CaseResult]:
    """Return the results of all applicable cases from the simulator."""
    results = []
    for result in _simulate_each(cases, setup):
        results += [result] if result is not None else []
        step()
    return results


def _simulate_each(cases: Sequence[Case], setup: Setup) -> Iterator[CaseResult | None]:
    """Yield the result of each case, None for those that do not apply."""
    simulated = partial(_simulate_if_applicable, setup=setup)
    workers = _count_workers(_estimate_work_s(cases, setup))
    if workers == 1:
        yield from map(simulated, cases)
        return
    context = multiprocessing.get_context("spawn")  # the program may have threads
    with ProcessPoolExecutor(workers, context, _ignore_interrupts) as pool:
        try:
            yield from pool.map(simulated, cases)
        except BrokenProcessPool:
            remedy = "free memory, or simulate fewer processes"
            raise MpiprofError(f"a process of the simulation was killed: {remedy}") from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the first process, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _simulate_if_applicable(case: Case, setup: Setup) -> CaseResult | None:
    """Return the simulated result; None without the algorithm, or if it does not apply."""
    with contextlib.suppress(MpiprofError):
        return simulate_case(case, setup)
    return None


def _count_workers(seconds: float) -> int:
    """Return the number of processes for a simulation that takes so long on one processor."""
    return min(count_usable_processors(), MAX_WORKERS) if seconds >= MIN_DIVIDED_S else 1


def simulate_case(case: Case, setup: Setup) -> CaseResult:
    """Return the simulated result; raises MpiprofError if the algorithm does not apply."""
    if case.operation == LINE:
        n = case.problem.bytes
        took = np.array([setup.machine.message_time(n, between=True, one_way=True)])
        return CaseResult(case, took, took, np.zeros(1))
    algorithm, problem = find_algorithm(case), _case_problem(case, setup)
    size = problem.size + problem.remote_size
    nodes = assign_nodes(problem.size, problem.remote_size, setup.per_node)
    # Laps with equal arrivals have equal times.
    laps = range(setup.laps if case.arrivals[0] > 1 else 1)
    late = [[lateness_ns(case, lap, rank) for rank in range(size)] for lap in laps]
    patterns = [np.array(ranks, np.float64) for ranks in late]
    times = list(simulate_patterns(algorithm, problem, setup.machine, patterns, nodes))
    total = np.array([t.after_last for t in times])
    elapsed = np.array([(t.finish - t.arrivals).mean() for t in times])
    scores = [score_instances(case.operation, t.arrivals, t.finish, problem) for t in times]
    return CaseResult(case, total, elapsed, np.zeros(len(total)), np.array(scores, np.float64))


def find_algorithm(case: Case) -> Algorithm:
    """Return the algorithm of a case; raises MpiprofError if there is none."""
    inter = case.problem.remote_size > 0
    return catalogue.find(case.operation, case.name, intercommunicator=inter)


def _case_problem(case: Case, setup: Setup) -> Problem:
    problem = problem_with_parameters(case, setup.machine)
    if setup.per_node == 1:
        return problem
    return replace(problem, nodes=tuple(assign_nodes(problem.size, 0, setup.per_node)))


def estimate_seconds(cases: Sequence[Case], setup: Setup) -> float:
    """Return the approximate time of `simulate_cases` in s."""
    seconds = _estimate_work_s(cases, setup)
    return seconds / _count_workers(seconds)


def _estimate_work_s(cases: Sequence[Case], setup: Setup) -> float:
    """Return the approximate time of the cases on one processor in s, scaled by that of trials."""
    in_rings, elsewhere = 0.0, 0.0
    one_by_one = setup.machine.node_port or setup.machine.has_transport
    for case in cases:
        problem = _case_problem(case, setup)
        nodes = np.array(assign_nodes(problem.size, problem.remote_size, setup.per_node), np.int64)
        with contextlib.suppress(MpiprofError):  # not applicable
            algorithm = find_algorithm(case)
            if runs_as_ring(algorithm, problem, setup.machine, nodes):
                in_rings += ring_fast_path.estimate_work(algorithm, problem)
            else:
                elsewhere += _simulation_cost(algorithm, problem, one_by_one=one_by_one)
    took = 0.0
    trials = (
        (in_rings, "allgather", RING_TRIAL_PROBLEM, ring_fast_path.estimate_work),
        (elsewhere, "alltoall", TRIAL_PROBLEM, _simulation_cost),
    )
    for work, operation, trial, estimate in trials:
        if work:
            ring = catalogue.find(operation, "ring")
            took += _time_simulation(ring, trial) * work / estimate(ring, trial)
    return took * setup.laps


def _time_simulation(algorithm: Algorithm, problem: Problem) -> float:
    """Return the present time of a simulation in s."""
    began = time.perf_counter()
    simulate(algorithm, problem)
    return time.perf_counter() - began


def _simulation_cost(algorithm: Algorithm, problem: Problem, *, one_by_one: bool = False) -> float:
    """Return the cost of a simulation: rounds of all, and the last rank's steps for each."""
    size = problem.size + problem.remote_size
    with Schedule(algorithm, problem, problem.size - 1) as schedule:
        rounds, steps = schedule.rounds, len(schedule.read_steps(0, schedule.rounds))
    if one_by_one:
        return float(size * steps * MESSAGE_COST)
    return float(rounds * ROUND_COST + size * steps * (GROUPS_COST if problem.remote_size else 1))
