"""Which algorithm would be fastest at a call site: simulated under its recorded arrivals.

The simulation is that of `tune`; here it is bounded in time, so that a page never waits long.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.analysis.findings import Gain
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.invocation import command
from mpiprof.model import machine as machines
from mpiprof.model.machine import Machine
from mpiprof.model.schedule import Problem
from mpiprof.trace.types import Float
from mpiprof.tune import predict, result, work
from mpiprof.tune.candidates import candidates
from mpiprof.tune.gains import gain_of
from mpiprof.tune.work import Pattern, Work
from mpiprof.units import count

from .data import Data

PATTERNS = 8  # recorded instances that are simulated
BUDGET_S, SIZES_BUDGET_S = 3.0, 4.0
MOST_UNASKED = 512  # processes; of more, one pattern alone takes long
MOST = 4096  # processes: 6 s of processor time; of 65536 a single candidate takes a minute
LARGEST = 1024  # processes
SEED = 20080601


def works(data: Data) -> list[Work]:
    """Return what the trace asks for, costliest first; none of a summary."""
    if data.trace.record == "summary":
        return []
    return data.once("works", lambda: work.works(data.trace, PATTERNS))


def machine_of(data: Data) -> Machine:
    """Return the machine of the trace; raises UsageError where none was measured."""
    return machines.of_table(data.trace.machine, "the trace")


def at_callsite(data: Data, callsite: int) -> Work | None:
    """Return what costs most of what is asked for at a call site."""
    return next((w for w in works(data) if w.callsite == callsite), None)


def simulated(data: Data, asked: Work) -> result.Result:
    """Return the result of the simulated race of all candidates; UsageError beyond MOST."""
    _refuse_many(data, asked)

    def race() -> result.Result:
        return predict.predict([asked], machine_of(data), BUDGET_S, lambda: None)[0]

    return data.once(("race", asked.callsite, asked.bytes, asked.ranks), race)


def _refuse_many(data: Data, asked: Work) -> None:
    if asked.members > MOST:
        raise UsageError(
            f"{count(asked.members)} processes are too many to simulate while a page waits; "
            f"in the terminal: {command('tune', data.path)}"
        )


def table(found: result.Result) -> pd.DataFrame:
    """Return one row a candidate, fastest first: algorithm, score_ns, gain (of the base), is_now.

    The recorded algorithm is the row with is_now, at its measured score.
    """
    base = result.mean(found.base, found.weights)
    rows: list[dict[str, Any]] = [
        {"algorithm": t.name, "score_ns": result.mean(t.scores, found.weights), "is_now": False}
        for t in found.trials
    ]
    rows.append({"algorithm": found.work.algorithm, "score_ns": base, "is_now": True})
    made = pd.DataFrame(rows)
    made["gain"] = 1 - made["score_ns"] / base if base > 0 else np.nan
    return made.sort_values("score_ns", kind="stable", ignore_index=True)


def verdict(data: Data, found: result.Result) -> result.Verdict:
    """Return what a race says."""
    return result.judge(found, float(data.callsites["total_elapsed_ns"].sum()))


def gains(data: Data) -> list[Gain]:
    """Return what the simulator would expect at the hot call sites; none without a machine."""
    try:
        machine_of(data)
        hot = [at_callsite(data, callsite) for callsite in data.derive("hot")]
        few = [w for w in hot if w is not None and w.members <= MOST_UNASKED]
        verdicts = [verdict(data, simulated(data, w)) for w in few]
    except MpiprofError:
        return []
    return [gain_of(v) for v in verdicts if v.worth == result.YES]


def sizes(data: Data, asked: Work) -> pd.DataFrame:
    """Return the race at the recorded and larger numbers of processes.

    Columns processes, algorithm, score_ns; UsageError beyond MOST. Arrivals are drawn from the
    recorded ones, each rank's data from the recorded ranks in turn; as many sizes as the time
    allows.
    """

    def race() -> pd.DataFrame:
        machine = machine_of(data)
        end = time.monotonic() + SIZES_BUDGET_S
        rows: list[tuple[int, str, float]] = []
        slow: set[str] = set()
        processes = asked.size
        while processes <= max(LARGEST, asked.size):
            larger = grown(asked, processes)
            for candidate in candidates(larger, machine):
                name = candidate.algorithm.name
                begin = time.monotonic()
                if begin > end or name in slow:
                    continue
                scores = [
                    predict.predicted(larger, candidate, pattern, machine)
                    for pattern in larger.patterns
                ]
                rows.append((processes, candidate.name, float(np.mean(scores))))
                if time.monotonic() - begin > SIZES_BUDGET_S / 8:
                    slow.add(name)  # the next number would take twice as long, at least
            processes *= 2
        return pd.DataFrame(rows, columns=["processes", "algorithm", "score_ns"])

    _refuse_many(data, asked)
    if asked.remote_size or asked.size < 2:
        raise UsageError("larger numbers are simulated for operations on one group of processes")
    return data.once(("sizes", asked.callsite, asked.bytes, asked.ranks), race)


def grown(asked: Work, processes: int) -> Work:
    """Return what would be asked for on more processes; the recorded one where it is no more."""
    if processes == asked.size:
        return asked
    random = np.random.default_rng([SEED, processes])
    each = max(len(asked.nodes) // max(len(set(asked.nodes)), 1), 1)
    nodes = tuple(i // each for i in range(processes))
    patterns = tuple(
        Pattern(
            grown_problem(p.problem, processes),
            arrivals := random.choice(p.arrivals, processes),
            arrivals,
            p.weight,
        )
        for p in asked.patterns
    )
    ranks = tuple(range(processes))
    return replace(asked, size=processes, ranks=ranks, nodes=nodes, patterns=patterns)


def grown_problem(problem: Problem, processes: int) -> Problem:
    """Return the problem on more processes, each with as much data as one of the recorded."""
    counts = tuple(np.resize(np.array(problem.counts, np.int64), processes).tolist())
    changes: dict[str, Any] = {"size": processes, "nodes": ()}
    if problem.counts:
        changes["counts"] = counts
    if problem.rows:
        square: Float = np.array(problem.rows)
        wide = np.resize(square, (len(square), processes))
        changes["rows"] = tuple(tuple(map(int, wide[i % len(wide)])) for i in range(processes))
    return replace(problem, **changes)
