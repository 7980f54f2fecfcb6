"""Tuning by model: recorded arrival patterns through the simulator, for each candidate.

What a work takes now is known from the recording. How far the model may be off is, too: where the
recorded algorithm is one of ours, by its own time; else by that of the candidate whose predicted
time is nearest, as the library runs an algorithm of some such kind, on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from mpiprof.analysis.score import score
from mpiprof.analysis.waits import Group
from mpiprof.model.machine import Machine, with_node_port
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate
from mpiprof.trace.types import Float
from mpiprof.tune.candidates import Candidate, candidates
from mpiprof.tune.result import MODEL, Result, Trial, mean
from mpiprof.tune.work import Pattern, Work

FIRST = 3  # patterns after which hopeless candidates are left out
HOPELESS = 3.0
NEAR = 1.2  # a model that is off by less needs no words
MOST_PATTERNS = 16
NODE_PORT_MOST = 64  # processes; message by message the simulator takes too long for more


def patterns_for(processes: int) -> int:
    """Return how many patterns to simulate: fewer of many processes."""
    return max(4, min(MOST_PATTERNS, (1 << 14) // max(processes, 1)))


def predict(
    works: Iterable[Work], machine: Machine, budget_s: float, step: Callable[[], None]
) -> list[Result]:
    """Return what the model says of each work, as many as the budget allows."""
    end = time.monotonic() + budget_s
    results = []
    for work in works:
        results.append(_one(work, machine, end))
        step()
    return results


def machine_for(work: Work, machine: Machine) -> Machine:
    """Return the machine with one port a node where ranks of a work share nodes."""
    nodes = len(set(work.nodes))
    shares = 1 < nodes < work.members <= NODE_PORT_MOST
    return with_node_port(machine) if shares else machine


def _one(work: Work, machine: Machine, end: float) -> Result:
    patterns = _spread(work.patterns)
    base = np.array([score_of(work, p.problem, p.arrivals, p.exits) for p in patterns])
    weights = np.array([p.weight for p in patterns])
    if time.monotonic() > end:
        return Result(work, MODEL, base, weights, (), note="not looked at within the --budget")
    machine = machine_for(work, machine)
    found = candidates(work, machine)
    scores = np.full((len(found), len(patterns)), np.nan)
    alive = list(range(len(found)))
    for j, pattern in enumerate(patterns):
        for i in alive:
            scores[i, j] = predicted(work, found[i], pattern, machine)
        if j + 1 == FIRST and alive:
            least = min(float(scores[i, :FIRST].mean()) for i in alive)
            alive = [i for i in alive if scores[i, :FIRST].mean() <= HOPELESS * least]
        if time.monotonic() > end:
            break
    trials = tuple(Trial(c.name, row) for c, row in zip(found, scores, strict=True))
    doubt, note = _doubt(work, base, weights, trials)
    return Result(work, MODEL, base, weights, trials, doubt, note)


def score_of(work: Work, problem: Problem, arrivals: Float, exits: Float) -> float:
    """Return the score of one instance of a work, in ns."""
    group = Group.of(problem.size, problem.remote_size, problem.root)
    return float(score(work.operation, arrivals, exits, group))


def predicted(work: Work, candidate: Candidate, pattern: Pattern, machine: Machine) -> float:
    """Return a candidate's score for one pattern, in ns."""
    problem = candidate.problem(pattern.problem, machine, work.nodes)
    timing = simulate(candidate.algorithm, problem, machine, pattern.arrivals, work.nodes)
    return score_of(work, problem, timing.arrivals, timing.finish)


def _spread(patterns: tuple[Pattern, ...]) -> list[Pattern]:
    """Return patterns in an order whose beginnings are spread over all of them."""
    order = sorted(range(len(patterns)), key=lambda i: int(f"{i:012b}"[::-1], 2))
    return [patterns[i] for i in order]


def _doubt(work: Work, base: Float, weights: Float, trials: tuple[Trial, ...]) -> tuple[float, str]:
    """Return by which factor the model is off where it can be compared, and what to say."""
    measured = mean(base, weights)
    means = {t.name: mean(t.scores, weights) for t in trials}
    known = {name: value for name, value in means.items() if value > 0}
    if measured <= 0 or not known:
        return 1.0, ""
    nearest = min(known, key=lambda name: abs(np.log(measured / known[name])))
    own = work.algorithm if work.algorithm in known else nearest
    doubt = float(max(measured / known[own], known[own] / measured))
    if doubt <= NEAR:
        return doubt, ""
    what = own if own == work.algorithm else f"{own}, the nearest,"
    return doubt, f"by the model {what} takes {known[own] / measured:.2g} of what was measured"
