"""Causes of imbalanced arrivals in balanced programs (Faraj et al. 2008, Section 5, Tables 6, 7).

Figure 4's loop: every process does the same computation and calls an all-to-all of 64 KB,
repeatedly and without a barrier. The table shows the worst-case imbalance of exits, of computation
(longest minus shortest) and of arrivals, over the time of one message, against the computation
time. `processor share` is the part of the computation's time in which a rank had its processor. If
ranks outnumber processors, computation is a timer, so that the table lacks its imbalance.
The difference of the longest and the shortest of few computations is less than that of many. So
`computation of 16 ω/T` joins successive instances until they have 16 computations, as many as an
instance on the paper's Beowulf cluster.

The paper makes 5 experiments of 1000 instances on 5 days. Here 5 follow each other, as long as the
time limit allows. Means and 95 % intervals are over all instances, as in the paper. Figure 5 and
the table NAME-instances.csv show both factors of each instance after 200 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.bench.harness.case import Case
from mpiprof.bench.harness.conditions import TIMER
from mpiprof.bench.harness.figures import Lines, Series
from mpiprof.bench.harness.loop import Loop, LoopTimes
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.selector import Behaviour
from mpiprof.bench.harness.study import Report, Row, Setup, Values, estimate_mean, list_columns
from mpiprof.bench.harness.timing import Int
from mpiprof.interface.format_units import format_round_size, format_time
from mpiprof.metrics.instance_metrics import compute_arrival_metrics
from mpiprof.model.schedule import Problem

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
    loops = []
    for experiment in range(several):
        laps = setup.laps // several + (experiment < setup.laps % several)
        for n in list_sizes(setup.options):
            for ms in QUICK_MS if setup.options.quick else COMPUTATION_MS:
                labels = {"computation ms": ms, "bytes": n}
                case = Case(labels, "alltoall", "native", Problem(setup.ranks, n))
                loops.append(Loop(labels, (case,), laps, ms * 1_000_000, agreed=False))
    return loops


def row_of(results: Sequence[LoopTimes], message_ns: float) -> Row:
    """Return the row of one computation time, from its experiments."""

    def spread(times: Int) -> Values:
        return np.asarray(np.ptp(times[0], axis=-1), np.float64)

    imbalance = {
        "exit": [spread(r.exits) for r in results],
        "computation": [spread(r.arrivals - r.begins) for r in results],
        "arrival": [spread(r.arrivals) for r in results],
    }
    row: Row = {"instances": sum(r.loop.laps for r in results)}
    for kind, parts in imbalance.items():
        factor = estimate_mean(np.concatenate(parts)).scale(1 / message_ns)
        row[f"{kind} ω/T"], row[f"{kind} ±"] = factor, factor.margin
    groups = np.concatenate([join_computations(r.arrivals[0] - r.begins[0]) for r in results])
    joined = estimate_mean(groups).scale(1 / message_ns) if len(groups) else np.nan
    row[f"{JOINED} ω/T"] = joined
    row["arrival ω ms"] = estimate_mean(np.concatenate(imbalance["arrival"]) / 1e6)
    durations = [(r.exits[0] - r.arrivals[0]).mean(axis=-1) for r in results]
    shares = [r.processor_share for r in results]
    row["processor share"] = sum(shares) / len(shares)
    row["in the call ms"] = estimate_mean(np.concatenate(durations) / 1e6)
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
        mine = [r for r in results if tuple(r.loop.labels.items()) == labels]
        known = dict(labels)
        row = known | row_of(mine, setup.message_ns(known["bytes"]))
        if setup.computation == TIMER:
            row |= {"computation ω/T": np.nan, "computation ±": np.nan, f"{JOINED} ω/T": np.nan}
        of_paper = PAPER[known["computation ms"]] if known["bytes"] == BYTES else ("", "")
        row["Lemieux"], row["Beowulf"] = of_paper
        rows.append(row)
    shown = sorted({row["bytes"] for row in rows})
    times = [f"{format_round_size(n)} take {format_time(setup.message_ns(n))}" for n in shown]
    notes = [f"T: {', '.join(times)}. The paper's clusters: exit / computation / arrival."]
    if setup.computation == TIMER:
        notes.append("The imbalance of computation is unknown, because a timer replaces it.")
    if setup.fault:
        return Report(list_columns(rows), rows, notes)
    figures = [_means([row for row in rows if row["bytes"] == n], n) for n in shown]
    typical: dict[int, LoopTimes] = {}  # the first experiment of each size
    for result in results:
        if result.loop.labels["computation ms"] == FIGURE_MS:
            typical.setdefault(result.loop.labels["bytes"], result)
    instances = [row for result in typical.values() for row in tabulate_instances(result, setup)]
    for number in typical:
        title = f"All-to-all of {format_round_size(number)} after {FIGURE_MS} ms (Figure 5)"
        figures.append(plot_factors(title, [row for row in instances if row["bytes"] == number]))
    tables = {"instances": instances} if instances else {}
    return Report(list_columns(rows), rows, notes, figures, tables=tables)


def tabulate_instances(times: LoopTimes, setup: Setup) -> list[Row]:
    """Return both factors of each instance (Figure 5)."""
    message_ns = setup.message_ns(times.loop.labels["bytes"])
    first, last, _, _, average = compute_arrival_metrics(times.arrivals[0].T)
    pairs = zip(
        (average / message_ns).tolist(), ((last - first) / message_ns).tolist(), strict=True
    )
    return [
        {**times.loop.labels, "instance": number, "δ/T": mean, "ω/T": worst}
        for number, (mean, worst) in enumerate(pairs, 1)
    ]


def plot_factors(title: str, rows: Sequence[Row]) -> Lines:
    """Plot both factors of single instances."""
    numbers = [row["instance"] for row in rows]
    names = {"worst case ω/T": "ω/T", "average case δ/T": "δ/T"}
    series = [
        Series(name, numbers, [row[column] for row in rows]) for name, column in names.items()
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
