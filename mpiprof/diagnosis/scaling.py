"""Scaling of a program over numbers of ranks, from runs of each, by POP efficiencies.

The speed-up relative to the smallest run is the product of the ratio of the numbers of ranks, the
changes of load balance, serialisation and transfer efficiency, and the computation efficiency:
useful time of all ranks in the smallest run over that of the larger run. If the work grows with the
ranks (weak scaling), both the speed-up and the computation efficiency are for equal work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.metrics.efficiencies import RUN
from mpiprof.trace.trace import Trace

NOTABLE_LOSS = 0.02
FACTORS = ("load_balance", "serialisation", "transfer", "computation")
# If the waiting in MPI is not known, serialisation and transfer are not known separately.
JOINT_FACTORS = ("load_balance", "communication", "computation")
EFFICIENCIES = ("parallel", "load_balance", "communication", "serialisation", "transfer")
BOUNDS = tuple(
    f"{name}_{side}" for name in ("serialisation", "transfer") for side in ("low", "high")
)


@dataclass(frozen=True)
class Scaling:
    """Table of `make_scaling`, and the factor that loses most from the smallest run to the largest.

    factor: one of FACTORS or JOINT_FACTORS, "" if none loses NOTABLE_LOSS. before, after: its
    values.
    """

    table: pd.DataFrame
    is_weak: bool
    factor: str
    before: float
    after: float


def judge_scaling(traces: Sequence[Trace]) -> Scaling:
    """Return the scaling of some runs with at least two numbers of ranks."""
    table = _mean_runs(traces)
    first, last = table.iloc[0], table.iloc[-1]
    ratio = (table["ranks"] / first["ranks"]).to_numpy(np.float64)
    # Half-way between constant work of all ranks and constant work of each rank.
    is_weak = bool(last["useful_ns"] / first["useful_ns"] > math.sqrt(ratio[-1]))
    work = ratio if is_weak else np.ones(len(ratio))
    table["speedup"] = work * first["run_ns"] / table["run_ns"]
    table["ideal_speedup"] = ratio
    table["computation"] = work * first["useful_ns"] / table["useful_ns"]
    first, last = table.iloc[0], table.iloc[-1]
    factors = JOINT_FACTORS if math.isnan(first["transfer"] + last["transfer"]) else FACTORS
    losses = {name: 1 - last[name] / first[name] for name in factors}
    factor = max(losses, key=lambda name: losses[name])
    if not losses[factor] >= NOTABLE_LOSS:
        return Scaling(table, is_weak, "", math.nan, math.nan)
    return Scaling(table, is_weak, factor, float(first[factor]), float(last[factor]))


def _mean_runs(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return one row per number of ranks, ascending: runs and means over these runs.

    ranks, runs, run_ns, useful_ns (of all ranks), EFFICIENCIES and BOUNDS; NaN if unknown.
    """
    rows = []
    for trace in traces:
        table = trace.efficiencies
        run = table[table["phase"] == RUN].to_dict("records")
        values = run[0] if run else {}
        row = {"ranks": trace.ranks, "run_ns": float(trace.duration_ns)}
        rows.append(
            row | {n: values.get(n, math.nan) for n in ("useful_ns", *EFFICIENCIES, *BOUNDS)}
        )
    groups = pd.DataFrame(rows).groupby("ranks")
    means = groups.mean()
    means.insert(0, "runs", groups.size())
    return means.reset_index()
