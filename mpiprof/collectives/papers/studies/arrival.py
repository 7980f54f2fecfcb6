"""Causes of imbalanced arrivals in balanced programs (Faraj et al. 2008, Section 5, Tables 6, 7).

Figure 4's loop: every process does the same computation and calls an all-to-all of 64 KB,
repeatedly and without a barrier. The table shows the worst-case imbalance of exits, of computation
(longest minus shortest) and of arrivals, over the time of one message, against the computation
time. `processor share` is the part of the computation's time in which a rank had its processor.
`computation of 16 ω/T` joins successive instances until they have 16 computations, as many as an
instance on the paper's Beowulf cluster, because few computations differ less.

The paper makes 5 experiments of 1000 instances on 5 days. Here 5 follow each other, as long as the
time limit allows. Means and 95 % intervals are over all instances, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from mpiprof.account.instance_metrics import compute_arrival_metrics
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.conditions import TIMER
from mpiprof.collectives.papers.harness.figures import Lines, Series
from mpiprof.collectives.papers.harness.loop import Behaviour, Loop, LoopTimes
from mpiprof.collectives.papers.harness.study import (
    Report,
    Row,
    Setup,
    Values,
    estimate_mean,
    list_columns,
)
from mpiprof.collectives.papers.harness.timing import Int
from mpiprof.collectives.schedule import Problem
from mpiprof.interface.format_units import format_round_size, format_time

TITLE = "Arrivals after balanced computation"
LAPS = 1000
QUICK_LAPS = 20
MIN_LAPS = 10
EXPERIMENTS = 5
BYTES = 64 << 10
COMPUTATION_MS = (50, 100, 200, 400, 800)
QUICK_MS = (50, 200, 400)
FIGURE_MS = 200
KINDS = ("exit", "computation", "arrival")
PAPER_PROCESSES = 16  # of the Beowulf cluster; 32 on Lemieux
JOINED = f"computation of {PAPER_PROCESSES}"
PAPER = {  # ms to exit, computation and arrival on Lemieux, and on the Beowulf cluster
    50: ("15.2 / 23.4 / 32.5", "5.07 / 3.16 / 7.02"),
    100: ("15.2 / 46.8 / 54.5", "4.32 / 7.52 / 9.53"),
    200: ("15.0 / 87.4 / 92.7", "3.71 / 14.18 / 15.17"),
    400: ("15.1 / 160 / 164", "6.22 / 31.41 / 33.17"),
    800: ("15.0 / 320 / 322", "11.62 / 56.24 / 56.29"),
}


def list_sizes(options: Options) -> tuple[int, ...]:
    """Return the sizes of the study in bytes."""
    return options.sizes or (BYTES,)


def find_smallest_message(setup: Setup) -> int:
    """Return the bytes of the shortest message that is a unit of factors."""
    return min(list_sizes(setup.options))


def make_loops(setup: Setup) -> list[Loop]:
    """Return the loops of all experiments; each experiment has every computation time."""
    several = 1 if setup.options.quick else min(EXPERIMENTS, setup.laps)
    durations = QUICK_MS if setup.options.quick else COMPUTATION_MS
    loops = []
    for experiment, n, ms in product(range(several), list_sizes(setup.options), durations):
        laps = setup.laps // several + (experiment < setup.laps % several)
        labels = {"computation ms": ms, "bytes": n}
        case = Case(labels, "alltoall", "native", Problem(setup.ranks, n))
        loops.append(Loop(labels, (case,), laps, ms * 1_000_000, agreed=False))
    return loops


def row_of(results: Sequence[LoopTimes], message_ns: float) -> Row:
    """Return the row of one computation time, from its experiments."""
    exits, begins, arrivals = (
        np.concatenate([getattr(r, name)[0] for r in results])
        for name in ("exits", "begins", "arrivals")
    )
    row: Row = {"instances": sum(r.loop.laps for r in results)}
    for kind, times in zip(KINDS, (exits, arrivals - begins, arrivals), strict=True):
        factor = estimate_mean(np.ptp(times, axis=-1).astype(np.float64)).scale(1 / message_ns)
        row[f"{kind} ω/T"], row[f"{kind} ±"] = factor, factor.margin
    groups = np.concatenate([join_computations(r.arrivals[0] - r.begins[0]) for r in results])
    joined = estimate_mean(groups).scale(1 / message_ns) if len(groups) else np.nan
    row[f"{JOINED} ω/T"] = joined
    row["arrival ω ms"] = estimate_mean(np.ptp(arrivals, axis=-1) / 1e6)
    shares = [r.processor_share for r in results]
    row["processor share"] = sum(shares) / len(shares)
    row["in the call ms"] = estimate_mean((exits - arrivals).mean(axis=-1) / 1e6)
    return row


def join_computations(times: Int) -> Values:
    """Return the differences in groups of PAPER_PROCESSES computations; times: instances x ranks.

    A group has whole instances, at least one. Instances that fill no group are left out.
    """
    several = -(-PAPER_PROCESSES // times.shape[1])
    count = len(times) // several
    groups = times[: count * several].reshape(count, several * times.shape[1])
    return np.asarray(np.ptp(groups, axis=-1), np.float64)


def make_report(results: Sequence[LoopTimes], _: Sequence[Behaviour], setup: Setup) -> Report:
    """Return a row for each computation time, beside the paper's two clusters."""
    rows = []
    for labels in dict.fromkeys(tuple(r.loop.labels.items()) for r in results):
        case_results = [r for r in results if tuple(r.loop.labels.items()) == labels]
        columns = dict(labels)
        row = columns | row_of(case_results, setup.message_ns(columns["bytes"]))
        if setup.computation == TIMER:
            row |= {"computation ω/T": np.nan, "computation ±": np.nan, f"{JOINED} ω/T": np.nan}
        of_paper = PAPER[columns["computation ms"]] if columns["bytes"] == BYTES else ("", "")
        row["Lemieux"], row["Beowulf"] = of_paper
        rows.append(row)
    sizes = sorted({row["bytes"] for row in rows})
    times = [f"{format_round_size(n)} take {format_time(setup.message_ns(n))}" for n in sizes]
    notes = [f"T: {', '.join(times)}. The paper's clusters: exit / computation / arrival."]
    if setup.computation == TIMER:
        notes.append("The imbalance of computation is unknown, because a timer replaces it.")
    if setup.fault:
        return Report(list_columns(rows), rows, notes)
    figures = [_means([row for row in rows if row["bytes"] == n], n) for n in sizes]
    typical: dict[int, LoopTimes] = {}  # the first experiment of each size
    for result in results:
        if result.loop.labels["computation ms"] == FIGURE_MS:
            typical.setdefault(result.loop.labels["bytes"], result)
    instances: list[Row] = []
    for number, result in typical.items():
        title = f"All-to-all of {format_round_size(number)} after {FIGURE_MS} ms (Figure 5)"
        instances += (factors := tabulate_instances(result, setup))
        figures.append(plot_factors(title, factors))
    tables = {"instances": instances} if instances else {}
    return Report(list_columns(rows), rows, notes, figures, tables=tables)


def tabulate_instances(times: LoopTimes, setup: Setup) -> list[Row]:
    """Return both factors of each instance (Figure 5)."""
    message_ns = setup.message_ns(times.loop.labels["bytes"])
    first, last, _, _, average = compute_arrival_metrics(times.arrivals[0].T)
    factors = np.stack((average, last - first), 1) / message_ns
    return [
        {**times.loop.labels, "instance": number, "δ/T": mean, "ω/T": worst}
        for number, (mean, worst) in enumerate(factors.tolist(), 1)
    ]


def plot_factors(title: str, rows: Sequence[Row]) -> Lines:
    """Plot both factors of single instances."""
    names = {"worst case ω/T": "ω/T", "average case δ/T": "δ/T"}
    series = [
        Series(name, *([row[c] for row in rows] for c in ("instance", column)))
        for name, column in names.items()
    ]
    return Lines(title, series, "instance", "factor", x_scale="linear")


def _means(rows: Sequence[Row], number: int) -> Lines:
    series = []
    for kind in KINDS:
        columns = ("computation ms", f"{kind} ω/T", f"{kind} ±")
        if not any(np.isnan(row[columns[1]]) for row in rows):
            series.append(Series(kind, *([row[column] for row in rows] for column in columns)))
    title = f"All-to-all of {format_round_size(number)} (Tables 6 and 7)"
    return Lines(title, series, "computation (ms)", "ω/T", ticks="{:g}".format)
