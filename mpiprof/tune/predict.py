"""Tuning by model: simulates each candidate under the recorded arrival patterns.

A work's present time is known from the recording. The model's error is estimated from its
predictions for the recorded algorithms (tune/model_error.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mpiprof.metrics.wait_states import score_parts
from mpiprof.model.machine import Machine
from mpiprof.model.simulate import Timing, simulate
from mpiprof.trace.types import Float
from mpiprof.tune.candidates import Candidate, list_candidates
from mpiprof.tune.model_error import UNKNOWN, Comparison, compute_doubt, compute_misfit
from mpiprof.tune.result import MODEL, Result, Trial, weighted_mean
from mpiprof.tune.tasks import Pattern, Work

FIRST_PATTERNS = 3  # patterns after which hopeless candidates are dropped
HOPELESS_FACTOR = 3.0
NEAR_FACTOR = 1.2  # a smaller doubt is not reported
MAX_DOUBT_SHOWN = 1000.0
MAX_PATTERNS = 16
MAX_ONE_BY_ONE = 64  # processes; simulators of single messages are too slow for more


def count_patterns(processes: int) -> int:
    """Return the number of patterns to simulate, which is smaller for more processes."""
    return max(4, min(MAX_PATTERNS, (1 << 14) // max(processes, 1)))


def predict(
    works: Iterable[Work], machine: Machine, budget_s: float, step: Callable[[], None]
) -> list[Result]:
    """Return the model's results for as many works as the budget allows.

    If the transport is known, each operation has the model with the smaller error.
    """
    end = time.monotonic() + budget_s
    models = [machine]
    if machine.has_transport:
        models.insert(0, machine.without_transport())
    results: list[list[Result]] = [[] for _ in models]
    compared: list[dict[str, list[Comparison]]] = [{} for _ in models]
    for work in works:
        for model, of_model, comparisons in zip(models, results, compared, strict=True):
            result, call = _predict_work(work, model, end)
            of_model.append(result)
            if call is not None:
                comparisons.setdefault(work.operation, []).append(call)
        step()
    doubts = [{name: compute_doubt(calls) for name, calls in c.items()} for c in compared]
    return [_choose_model(several, doubts) for several in zip(*results, strict=True)]


def _choose_model(results: Sequence[Result], doubts: Sequence[Mapping[str, float]]) -> Result:
    """Return the result of the model with the smallest error for the operation."""
    operation = results[0].work.operation
    errors = [of_model.get(operation, math.inf) for of_model in doubts]
    least = min(range(len(errors)), key=errors.__getitem__)
    return _apply_doubt(results[least], errors[least])


def _predict_work(work: Work, machine: Machine, end: float) -> tuple[Result, Comparison | None]:
    # In this order, every prefix is spread over all patterns.
    order = sorted(range(len(work.patterns)), key=lambda i: int(f"{i:012b}"[::-1], 2))
    patterns = [work.patterns[i] for i in order]
    recorded = [score_parts(work.operation, p.arrivals, p.exits, p.problem) for p in patterns]
    base = np.array([shares.mean() for shares in recorded])
    weights = np.array([p.weight for p in patterns])
    if time.monotonic() > end:
        note = "not examined within the --budget"
        return Result(work, MODEL, base, weights, (), note=note), None
    if machine.has_transport and work.members > MAX_ONE_BY_ONE:
        machine = machine.without_transport()
    if 1 < len(set(work.nodes)) < work.members <= MAX_ONE_BY_ONE:  # ranks share nodes
        machine = replace(machine, node_port=True)
    candidates = list_candidates(work, machine)
    scores, misfits = np.full((2, len(candidates), len(patterns)), np.nan)
    alive = list(range(len(candidates)))
    for j, pattern in enumerate(patterns):
        for i in alive:
            timing = simulate_candidate(work, candidates[i], pattern, machine)
            times = (timing.arrivals, timing.finish)
            modelled = score_parts(work.operation, *times, pattern.problem)
            scores[i, j] = modelled.mean()
            misfits[i, j] = compute_misfit(recorded[j], modelled)
        if j + 1 == FIRST_PATTERNS and alive:
            first = scores[:, :FIRST_PATTERNS].mean(1)
            least = first[alive].min()
            alive = [i for i in alive if first[i] <= HOPELESS_FACTOR * least]
        if time.monotonic() > end:
            break
    trials = tuple(Trial(c.name, row) for c, row in zip(candidates, scores, strict=True))
    result = Result(work, MODEL, base, weights, trials)
    return result, _make_comparison(result, misfits)


def _make_comparison(result: Result, misfits: Float) -> Comparison | None:
    """Return the comparison for the model's error, with each algorithm's nearest parameters."""
    work, weights = result.work, result.weights
    measured = weighted_mean(result.base_scores, weights)
    times: dict[str, float] = {}
    far: dict[str, float] = {}
    for trial, row in zip(result.trials, misfits, strict=True):
        predicted = weighted_mean(trial.scores, weights)
        if not (predicted > 0 and measured > 0):
            continue
        exact = trial.name == work.algorithm
        name = trial.name if exact else trial.name.partition(":")[0]
        near = abs(np.log(measured / predicted))
        if name not in times or near < abs(np.log(measured / times[name])):
            times[name], far[name] = predicted, weighted_mean(row, weights)
    if not times:
        return None
    key = (work.size, work.remote_size, work.bytes)
    recorded = work.algorithm if work.algorithm in times else None
    return Comparison(key, recorded, measured, times, far)


def _apply_doubt(result: Result, factor: float) -> Result:
    if result.note or not result.trials:
        return result
    if math.isinf(factor):
        return replace(result, doubt=factor, note=UNKNOWN)
    off = f"{factor:.2g}" if factor < MAX_DOUBT_SHOWN else f"more than {MAX_DOUBT_SHOWN:.0f}"
    note = f"predicted times may be wrong by a factor of {off}" if factor > NEAR_FACTOR else ""
    return replace(result, doubt=factor, note=note)


def predict_score(work: Work, candidate: Candidate, pattern: Pattern, machine: Machine) -> float:
    """Return a candidate's score for one pattern in ns."""
    timing = simulate_candidate(work, candidate, pattern, machine)
    parts = score_parts(work.operation, timing.arrivals, timing.finish, pattern.problem)
    return float(parts.mean())


def simulate_candidate(
    work: Work, candidate: Candidate, pattern: Pattern, machine: Machine
) -> Timing:
    """Return the simulated timing of a candidate under one pattern."""
    problem = candidate.set_parameters(pattern.problem, machine, work.nodes)
    return simulate(candidate.algorithm, problem, machine, pattern.arrivals, work.nodes)
