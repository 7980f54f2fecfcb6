"""Predictions: scores of all candidate algorithms at a call site under its recorded arrivals.

The simulation is the one of `tune`, with a time limit so that a page never waits long.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.causes.findings import Gain
from mpiprof.collectives import machine as machines
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune import predict, result, tasks
from mpiprof.collectives.tune.candidates import list_candidates
from mpiprof.collectives.tune.predict import make_gain
from mpiprof.collectives.tune.tasks import Pattern, TuningTask
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.format_units import format_count
from mpiprof.interface.shell_hints import format_command
from mpiprof.trace.types import Float

from .trace_data import TraceData

MAX_PATTERNS = 8  # simulated instances
BUDGET_S, SIZES_BUDGET_S = 3.0, 4.0
# Processes in simulations that no user requested; above, one pattern takes long.
MAX_AUTOMATIC = 512
# Processes: 6 s of processor time; with 65536, a single candidate takes a minute.
MAX_PROCESSES = 4096
MAX_LARGER_SIZE = 1024  # processes in the predictions for larger jobs
SEED = 20080601


def list_works(data: TraceData) -> list[TuningTask]:
    """Return the tuning tasks of the trace, costliest first; an empty list for a summary."""
    if data.trace.record == "summary":
        return []
    return data.compute_once("works", lambda: tasks.list_works(data.trace, MAX_PATTERNS))


def require_machine(data: TraceData) -> Machine:
    """Return the machine of the trace; raises UsageError if none was measured."""
    return machines.machine_of_table(data.trace.machine, "the trace")


def work_at_callsite(data: TraceData, callsite: int) -> TuningTask | None:
    """Return the costliest task of a call site, or None if the call site has no task."""
    return next((w for w in list_works(data) if w.callsite == callsite), None)


def simulate_work(data: TraceData, work: TuningTask) -> result.Result:
    """Return the simulated result of all candidates; raises UsageError above MAX_PROCESSES."""
    _refuse_large(data, work)

    def race() -> result.Result:
        return predict.predict([work], require_machine(data), BUDGET_S, lambda: None)[0]

    return data.compute_once(("race", work.callsite, work.bytes, work.ranks), race)


def _refuse_large(data: TraceData, work: TuningTask) -> None:
    if work.members > MAX_PROCESSES:
        raise UsageError(
            f"{format_count(work.members)} processes are too many to simulate for a page: use "
            f"{format_command('tune', data.path)} in a terminal"
        )


def prediction_table(predicted: result.Result) -> pd.DataFrame:
    """Return one row per candidate, fastest first: algorithm, score_ns, is_now.

    The row with is_now is the recorded algorithm, and its score is the measured score.
    """
    candidates = [(trial.name, trial.scores, False) for trial in predicted.trials]
    candidates.append((predicted.work.algorithm, predicted.base_scores, True))
    rows = [
        (name, result.weighted_mean(scores, predicted.weights), is_now)
        for name, scores, is_now in candidates
    ]
    table = pd.DataFrame(rows, columns=["algorithm", "score_ns", "is_now"])
    return table.sort_values("score_ns", kind="stable", ignore_index=True)


def mean_wait_ns(data: TraceData, callsite: int) -> float:
    """Return the mean wait of a rank in an instance of a call site; NaN if it is unknown."""
    row: Any = data.callsites.set_index("callsite").loc[callsite]
    return float(row["wait_ns"]) / max(int(row["size"]), 1)


def judge_prediction(data: TraceData, predicted: result.Result) -> result.TuningVerdict:
    """Return the verdict on a result."""
    return result.judge(predicted, float(data.callsites["total_elapsed_ns"].sum()))


def find_gains(data: TraceData) -> list[Gain]:
    """Return the gains that the simulator predicts at hot call sites; empty without a machine."""
    try:
        require_machine(data)
        hot = [work_at_callsite(data, callsite) for callsite in data.derive("hot")]
        few = [w for w in hot if w is not None and w.members <= MAX_AUTOMATIC]
        verdicts = [judge_prediction(data, simulate_work(data, w)) for w in few]
    except MpiprofError:
        return []
    return [make_gain(v) for v in verdicts if v.worth == result.YES]


def predict_sizes(data: TraceData, work: TuningTask) -> pd.DataFrame:
    """Return the predictions at the recorded and at larger numbers of processes.

    Columns: processes, algorithm, score_ns. Arrivals are drawn from the recorded arrivals. Further
    ranks repeat the data of the recorded ranks cyclically. The time limit determines the number of
    sizes. Raises UsageError above MAX_PROCESSES.
    """

    def race() -> pd.DataFrame:
        machine = require_machine(data)
        end = time.monotonic() + SIZES_BUDGET_S
        rows: list[tuple[int, str, float]] = []
        slow: set[str] = set()
        processes = work.size
        while processes <= max(MAX_LARGER_SIZE, work.size):
            larger = grow_work(work, processes)
            for candidate in list_candidates(larger, machine):
                name = candidate.algorithm.name
                begin = time.monotonic()
                if begin > end or name in slow:
                    continue
                scores = [
                    predict.predict_score(larger, candidate, pattern, machine)
                    for pattern in larger.patterns
                ]
                rows.append((processes, candidate.name, float(np.mean(scores))))
                if time.monotonic() - begin > SIZES_BUDGET_S / 8:
                    slow.add(name)  # the next size would take at least twice as long
            processes *= 2
        return pd.DataFrame(rows, columns=["processes", "algorithm", "score_ns"])

    _refuse_large(data, work)
    if work.remote_size or work.size < 2:
        raise UsageError(
            "larger numbers of processes are simulated only for operations on an intra-communicator"
        )
    return data.compute_once(("sizes", work.callsite, work.bytes, work.ranks), race)


def grow_work(work: TuningTask, processes: int) -> TuningTask:
    """Return the task scaled to more processes, or the task itself if the number is the same."""
    if processes == work.size:
        return work
    random = np.random.default_rng([SEED, processes])
    each = max(len(work.nodes) // max(len(set(work.nodes)), 1), 1)
    nodes = tuple(i // each for i in range(processes))
    patterns = []
    for p in work.patterns:
        arrivals = random.choice(p.arrivals, processes)
        patterns.append(Pattern(grow_problem(p.problem, processes), arrivals, arrivals, p.weight))
    ranks = tuple(range(processes))
    return replace(work, size=processes, ranks=ranks, nodes=nodes, patterns=tuple(patterns))


def grow_problem(problem: Problem, processes: int) -> Problem:
    """Return the problem on more processes, each with the data of a recorded process."""
    counts = tuple(np.resize(np.array(problem.counts, np.int64), processes).tolist())
    changes: dict[str, Any] = {"size": processes, "nodes": ()}
    if problem.counts:
        changes["counts"] = counts
    if problem.rows:
        square: Float = np.array(problem.rows)
        wide = np.resize(square, (len(square), processes))
        changes["rows"] = tuple(tuple(map(int, wide[i % len(wide)])) for i in range(processes))
    return replace(problem, **changes)
