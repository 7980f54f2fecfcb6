"""Tuning by model: simulates each candidate under the recorded arrival patterns.

A work's present time is known from the recording. The model's error is estimated from its
predictions for the recorded algorithms.

If a recorded call ran on an mpiprof algorithm, its recorded time is compared with the model's time
of that algorithm. The library's algorithm is unknown, and among several candidates one would match
any single time by chance. So the library's calls are taken together. One algorithm must explain the
times at all sizes of an operation, and also the ranks' times, if these distinguish algorithms. Each
size or rank distribution is one comparison, and the choice of the algorithm costs one degree of
freedom. By Student's t, few comparisons result in a wide doubt, and none in an infinite one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.account.wait_states import score_parts
from mpiprof.causes.findings import Gain
from mpiprof.collectives import machine as machines
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.simulate import Timing, simulate
from mpiprof.collectives.tune import tasks
from mpiprof.collectives.tune.candidates import Candidate, list_candidates
from mpiprof.collectives.tune.result import (
    MODEL,
    YES,
    Result,
    Trial,
    TuningVerdict,
    judge,
    weighted_mean,
)
from mpiprof.collectives.tune.tasks import Pattern, TuningTask
from mpiprof.errors import MpiprofError
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

CONFIDENCE = 0.95
# The ranks' times count if a misfit is below this share of the others' median.
MIN_RELATIVE_SPREAD = 0.25
UNKNOWN = (
    "the error of the model is unknown, because no recorded algorithm matches one of the "
    "catalogue: measure it"
)


@dataclass(frozen=True)
class ErrorComparison:
    """Recorded time of calls, and the model's time for each algorithm."""

    key: tuple[object, ...]  # operation, processes, size class; equal keys are one comparison
    recorded: str | None  # the algorithm, or None if it is not one of mpiprof
    time: float  # its score
    times: Mapping[str, float]  # model score by algorithm
    misfits: Mapping[str, float]  # by algorithm, relative error of the model's rank times


def compute_misfit(recorded: Float, modelled: Float) -> float:
    """Return the relative RMS error of the ranks' times, after scaling to equal sums."""
    recorded_total, predicted = float(recorded.sum()), float(modelled.sum())
    size: float = float(np.square(recorded).mean()) ** 0.5
    if min(recorded_total, predicted, size) <= 0:
        return math.inf
    apart: float = (
        float(np.square(recorded - modelled * (recorded_total / predicted)).mean()) ** 0.5
    )
    return apart / size


def compute_doubt(calls: Sequence[ErrorComparison]) -> float:
    """Return the factor by which model times may be off; infinite without comparisons."""
    recorded_name = [_time_ratio(c, c.recorded) for c in calls if c.recorded is not None]
    library = [c for c in calls if c.recorded is None]
    names = set.intersection(*(set(c.times) for c in library)) if library else set()
    candidates = (_errors_by_size(library, name) for name in names)
    library_errors = min(candidates, key=_error_size, default=[])
    errors = [*recorded_name, *library_errors]
    freedom = len(errors) - bool(library_errors)
    if freedom < 1:
        return math.inf
    from scipy import special

    spread = (sum(e * e for e in errors) / freedom) ** 0.5
    return math.exp(min(float(special.stdtrit(freedom, CONFIDENCE)) * spread, 700.0))


def _errors_by_size(calls: Sequence[ErrorComparison], name: str) -> list[float]:
    """Return an algorithm's errors: for each size its time, and the ranks' times if they count."""
    of_size: dict[tuple[object, ...], list[float]] = {}
    for call in calls:
        of_size.setdefault(call.key, []).append(_time_ratio(call, name))
    errors = [sum(ratios) / len(ratios) for ratios in of_size.values()]
    for call in calls:
        misfits = [value for other_name, value in call.misfits.items() if other_name != name]
        if misfits and call.misfits[name] < MIN_RELATIVE_SPREAD * float(np.median(misfits)):
            errors.append(call.misfits[name])
    return errors


def _error_size(errors: Sequence[float]) -> float:
    return sum(e * e for e in errors) / max(len(errors) - 1, 0.5)


def _time_ratio(call: ErrorComparison, name: str | None) -> float:
    return math.log(call.time / call.times[str(name)])


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
    works: Iterable[TuningTask], machine: Machine, budget_s: float, step: Callable[[], None]
) -> list[Result]:
    """Return the model's results for as many works as the budget allows.

    If the transport is known, each operation has the model with the smaller error.
    """
    end = time.monotonic() + budget_s
    models = [machine]
    if machine.has_transport:
        models.insert(0, machine.without_transport())
    results: list[list[Result]] = [[] for _ in models]
    compared: list[dict[str, list[ErrorComparison]]] = [{} for _ in models]
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
    best = min(range(len(errors)), key=errors.__getitem__)
    return _apply_doubt(results[best], errors[best])


def _predict_work(
    work: TuningTask, machine: Machine, end: float
) -> tuple[Result, ErrorComparison | None]:
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
            earliest = first[alive].min()
            alive = [i for i in alive if first[i] <= HOPELESS_FACTOR * earliest]
        if time.monotonic() > end:
            break
    trials = tuple(Trial(c.name, row) for c, row in zip(candidates, scores, strict=True))
    result = Result(work, MODEL, base, weights, trials)
    return result, _make_comparison(result, misfits)


def _make_comparison(result: Result, misfits: Float) -> ErrorComparison | None:
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
    return ErrorComparison(key, recorded, measured, times, far)


def _apply_doubt(result: Result, factor: float) -> Result:
    if result.note or not result.trials:
        return result
    if math.isinf(factor):
        return replace(result, doubt=factor, note=UNKNOWN)
    off = f"{factor:.2g}" if factor < MAX_DOUBT_SHOWN else f"more than {MAX_DOUBT_SHOWN:.0f}"
    note = f"predicted times may be wrong by a factor of {off}" if factor > NEAR_FACTOR else ""
    return replace(result, doubt=factor, note=note)


def predict_score(
    work: TuningTask, candidate: Candidate, pattern: Pattern, machine: Machine
) -> float:
    """Return a candidate's score for one pattern in ns."""
    timing = simulate_candidate(work, candidate, pattern, machine)
    parts = score_parts(work.operation, timing.arrivals, timing.finish, pattern.problem)
    return float(parts.mean())


def simulate_candidate(
    work: TuningTask, candidate: Candidate, pattern: Pattern, machine: Machine
) -> Timing:
    """Return the simulated timing of a candidate under one pattern."""
    problem = candidate.set_parameters(pattern.problem, machine, work.nodes)
    return simulate(candidate.algorithm, problem, machine, pattern.arrivals, work.nodes)


# ---- gains for the findings of a report


GAIN_PATTERNS = 8
GAIN_EVENTS = 5_000_000  # above it, another pass over the trace is left to `tune`
GAIN_MEMBERS = 256
GAIN_WORKS = 5


def find_gains(trace: Trace, budget_s: float) -> list[Gain]:
    """Return gains beyond the model's doubt; [] for summaries and for very long traces."""
    table = trace.callsites
    if trace.record == "summary" or (table["instances"] * table["size"]).sum() > GAIN_EVENTS:
        return []
    try:
        machine = machines.machine_of_table(trace.machine, "the trace")
        works = [w for w in tasks.list_works(trace, GAIN_PATTERNS) if w.members <= GAIN_MEMBERS]
        results = predict(works[:GAIN_WORKS], machine, budget_s, lambda: None)
    except MpiprofError:  # a report works without a machine table or schedule library
        return []
    collectives = float(table["total_elapsed_ns"].sum())
    verdicts = [judge(result, collectives) for result in results]
    return [make_gain(verdict) for verdict in verdicts if verdict.worth == YES]


def make_gain(verdict: TuningVerdict) -> Gain:
    """Convert a verdict to the form of a finding."""
    saving, callsite = verdict.total_saving, verdict.result.work.callsite
    error_ns = saving(verdict.gain_ns - max(verdict.low_ns, 0.0))
    return Gain(callsite, verdict.best, saving(verdict.gain_ns), error_ns, "simulated")
