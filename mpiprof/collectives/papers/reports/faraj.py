"""Faraj et al. 2008: arrivals after equal computation (Section 5), and their impact (Section 6)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import floor, isnan, log10

from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row, format_cell
from mpiprof.collectives.papers.harness.timing import PATTERNS
from mpiprof.collectives.papers.reports import faraj_adaptive, faraj_programs, machines
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCED,
    ClaimVerdict,
    Content,
    Paper,
    Results,
    Table,
    judge,
    judge_each,
    judge_share,
    read_exhibits,
)
from mpiprof.collectives.papers.reports.faraj_programs import NO_TIMES, is_known
from mpiprof.collectives.papers.reports.runs import CLUSTER, HOUR_S, Measurement, Run, Simulation
from mpiprof.collectives.papers.studies.arrival import JOINED, KINDS, PAPER_PROCESSES, plot_factors
from mpiprof.collectives.papers.studies.impact import plot_times
from mpiprof.interface.format_units import format_round_size, format_share

# Two nodes, so that each rank has a processor. At this rate 64 KB take about as long as on the
# paper's Beowulf cluster. An idle port sends the bytes of 1 ms at once, which at 500 Mbit/s are the
# whole message.
TWO_NODES = ("--cluster", "2x250mbit")
PLACED_RUNS = ("arrival", "arrival on the cluster")
MOST_SHARE = 0.99  # of its processor, above which a rank is alone
TIMER = "a timer replaced the computation, because ranks outnumber processors"
SIMILAR = 1.001
LARGE = 64 << 10
LINK = "https://doi.org/10.1007/s10766-008-0070-9"
Times = dict[int, dict[str, float]]


# ---- Section 5: arrivals after equal computation


def show_instances(results: Results) -> Content:
    """Return both factors of each instance after 200 ms of computation."""
    panels = []
    for run in PLACED_RUNS:
        rows = results.rows.get(f"{run} instances", [])
        if rows:
            panels.append(plot_factors(results.find_place(run), rows))
    if not panels:
        return Content(notes=[f"No figure: {NO_TIMES}."])
    title = "Factors of single instances after 200 ms"
    return Content([Panels(title, panels, 2)] if len(panels) > 1 else panels)


def show_causes(results: Results, table: str) -> Content:
    """Return the factors of exits, computation and arrivals, beside the paper's."""
    series, tables = [], []
    for run in PLACED_RUNS:
        rows, place = results.rows.get(run, []), results.find_place(run)
        if not rows:
            continue
        for kind in KINDS:
            points = [(row["computation ms"], row[f"{kind} ω/T"]) for row in rows]
            if all(is_known(y) for _, y in points):
                series.append(Series.of_points(f"{kind}, {place}", points))
        columns = ("comp. time", *KINDS, *(f"{kind}, paper" for kind in KINDS), JOINED, "instances")
        table_rows = [_make_row(results, table, row) for row in rows]
        tables.append(Table(f"Worst-case imbalance factors ω/T, {place}", columns, table_rows))
    for kind in KINDS:
        paper = results.values.column(table, kind).items()
        points_of_paper = [(float(head.removesuffix(" ms")), value) for head, value in paper]
        series.append(Series.of_points(f"{kind}, paper", points_of_paper, dashed=True))
    return Content([Lines(table, series, "computation (ms)", "ω/T", ticks="{:g}".format)], tables)


def _make_row(results: Results, table: str, row: Row) -> Row:
    head = f"{row['computation ms']} ms"
    cells: Row = {"comp. time": head, "instances": row["instances"]}
    joined = row[f"{JOINED} ω/T"]
    cells[JOINED] = format_cell(joined) if is_known(joined) else ""
    for kind in KINDS:
        cells[kind] = format_interval(row[f"{kind} ω/T"], row[f"{kind} ±"])
        values = [results.values.column(table, column).get(head) for column in (kind, f"{kind} ±")]
        if None not in values:
            cells[f"{kind}, paper"] = "{} ± {}".format(*values)
    return cells


def format_interval(value: object, half: object) -> str:
    """Return a value with half of its interval, with one digit of the latter; "" if unknown."""
    if not isinstance(value, int | float) or not isinstance(half, int | float) or isnan(value):
        return ""
    digits = max(-floor(log10(half)), 0) if half > 0 else 2
    return f"{value:.{digits}f} ± {half:.{digits}f}"


def find_known_factors(results: Results, *kinds: str) -> list[Row] | ClaimVerdict:
    """Return the rows of the first place with known factors, or why those of this machine are not.

    Times of messages through memory are not usable while other processes use the processors.
    """
    candidates = [find_factors(results, *kinds, run=run) for run in PLACED_RUNS]
    return next((rows for rows in candidates if not isinstance(rows, ClaimVerdict)), candidates[0])


def find_factors(results: Results, *kinds: str, run: str) -> list[Row] | ClaimVerdict:
    """Return the rows by computation time, or why the factors of some kinds are unknown."""
    rows = sorted(results.rows.get(run, ()), key=lambda row: float(row["computation ms"]))
    if not rows:
        return ClaimVerdict(NOT_REPRODUCED, f"{run} was not measured")
    if not all(is_known(row["arrival ω/T"]) for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, NO_TIMES)
    if not all(is_known(row[f"{kind} ω/T"]) for kind in kinds for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, TIMER)
    return rows


def judge_rows(
    results: Results,
    kinds: tuple[str, ...],
    right: Callable[[Row], object],
    text: str,
    run: str = "",
) -> ClaimVerdict:
    """Judge a statement about each computation time, by default of the first place with factors."""
    rows = find_factors(results, *kinds, run=run) if run else find_known_factors(results, *kinds)
    if isinstance(rows, ClaimVerdict):
        return rows
    pairs = [" and ".join(format_cell(row[f"{kind} ω/T"]) for kind in kinds) for row in rows]
    reason = f"computation times {text}: {', '.join(pairs)}"
    return judge_each(rows, right, reason + describe_others(rows))


def describe_others(rows: Sequence[Row]) -> str:
    """Return how much of the computation's time other processes had, if it was more than 1 %."""
    share = min((row["processor share"] for row in rows), default=1.0)
    text = f"; other processes had {format_share(1 - share)} of the processors"
    return text * (share < MOST_SHARE)


def check_arrivals(results: Results) -> ClaimVerdict:
    """Judge that arrivals are imbalanced after balanced computation, at each computation time."""
    text = "have factors of at least 1"
    return judge_rows(results, ("arrival",), lambda row: row["arrival ω/T"] >= 1, text)


def check_growth(results: Results) -> ClaimVerdict:
    """Judge that the imbalance of computation grows with the computation."""
    rows = find_known_factors(results, "computation")
    if isinstance(rows, ClaimVerdict):
        return rows
    factors = [row["computation ω/T"] for row in rows]
    reason = f"the factors are {', '.join(map(format_cell, factors))}" + describe_others(rows)
    return judge(factors == sorted(factors) and factors[-1] > factors[0], reason)


def check_sum(results: Results) -> ClaimVerdict:
    """Judge that arrivals are at least as imbalanced as the computation, within the interval."""
    kinds, text = (
        ("arrival", "computation"),
        "have an arrival factor of at least that of computation",
    )
    return judge_rows(
        results, kinds, lambda r: r["arrival ω/T"] + r["arrival ±"] >= r["computation ω/T"], text
    )


def check_cause(results: Results) -> ClaimVerdict:
    """Judge that computation contributes more to the imbalance than exits from communication."""
    kinds, text = ("computation", "exit"), "have a computation factor above that of exits"
    return judge_rows(results, kinds, lambda r: r["computation ω/T"] > r["exit ω/T"], text)


def check_order(results: Results) -> ClaimVerdict:
    """Judge that computation factors are within the factors of the paper's two tables.

    Messages through memory take far less than those of the paper's networks, and factors are
    relative to this time. So the ranks on two nodes count, if they have usable message times. The
    paper's instances have 16 and 32 computations, so that successive instances are joined.
    """
    on_nodes = "arrival on the cluster"
    is_on_nodes = not isinstance(find_factors(results, JOINED, run=on_nodes), ClaimVerdict)
    paper = [results.values.column(t, "computation").values() for t in ("Table 6", "Table 7")]
    smallest, largest = min(map(min, paper)), max(map(max, paper))
    run, where = (on_nodes, "two nodes") if is_on_nodes else ("arrival", "messages through memory")
    text = (
        f"have a factor of {PAPER_PROCESSES} computations of {smallest:.3g} to {largest:.3g}, "
        f"as in Tables 6 and 7 ({where})"
    )
    return judge_rows(
        results, (JOINED,), lambda row: smallest <= row[f"{JOINED} ω/T"] <= largest, text, run
    )


def check_instances(results: Results) -> ClaimVerdict:
    """Judge that the arrivals of single instances are imbalanced."""
    tables = [results.rows.get(f"{run} instances", []) for run in PLACED_RUNS]
    reason = "instances have a worst-case factor of at least 1"
    return judge_each(next(filter(None, tables), []), lambda row: row["ω/T"] >= 1, reason, NO_TIMES)


# ---- Section 6: algorithms under imbalanced arrivals


def find_times(results: Results, run: str, operation: str, size: int) -> Times:
    """Return the mean times of the algorithms by MAX_IF, in ascending order."""
    times: Times = {}
    rows = results.select(run, operation=operation, bytes=size)
    for row in sorted(rows, key=lambda row: int(row["MAX_IF"])):
        times.setdefault(row["MAX_IF"], {})[row["algorithm"]] = row["mean ms"]
    return times


def check_change(results: Results, run: str, operation: str, size: int) -> ClaimVerdict:
    """Judge that the fastest algorithm of balanced arrivals is not that of imbalanced ones."""
    times = find_times(results, run, operation, size)
    first, last = min(times), max(times)
    best = min(times[first], key=times[first].__getitem__)
    ratio = times[last][best] / min(times[last].values())
    reason = f"{best} is the fastest at MAX_IF {first}, and takes {ratio:.4g} times the best at "
    return judge(ratio > SIMILAR, f"{reason}{last}")


def check_lead(
    results: Results, run: str, operation: str, size: int, name: str, first: int, last: int
) -> ClaimVerdict:
    """Judge that an algorithm is the only fastest one at some values of MAX_IF."""
    times = find_times(results, run, operation, size)
    chosen = [factor for factor in times if first <= factor <= last]
    reason = f"values of MAX_IF have {name} ahead of all others"
    exceptions = []
    for factor in chosen:
        ratio = _lead_ratio(times[factor], name)
        if ratio <= SIMILAR:
            fastest = min(times[factor], key=times[factor].__getitem__)
            exceptions.append(f"{factor} ({fastest}, {ratio:.3g})")
    if exceptions:
        reason += f"; the fastest, and its time over that of {name}, at the others: "
        reason += ", ".join(exceptions)
    return judge_share(len(chosen) - len(exceptions), len(chosen), reason)


def check_overtaking(
    results: Results, run: str, operation: str, size: int, name: str
) -> ClaimVerdict:
    """Judge that an algorithm is not the fastest at first, and the only one from some MAX_IF on."""
    times = find_times(results, run, operation, size)
    ratios = {factor: _lead_ratio(times[factor], name) for factor in times}
    leads = [ratio > SIMILAR for ratio in ratios.values()]
    reason = f"time of the fastest other one over that of {name} by MAX_IF: {_list_values(ratios)}"
    return judge(leads[-1] and not leads[0] and leads == sorted(leads), reason)


def _list_values(by_factor: Mapping[int, float]) -> str:
    return ", ".join(f"{factor}: {value:.3g}" for factor, value in by_factor.items())


def _lead_ratio(times: Mapping[str, float], name: str) -> float:
    """Return the time of the fastest other algorithm over that of the named one."""
    return min(t for algorithm, t in times.items() if algorithm != name) / times[name]


def check_fall(
    results: Results, run: str, operation: str, size: int, name: str, limit: int
) -> ClaimVerdict:
    """Judge that an algorithm takes less time with each step of MAX_IF up to a limit."""
    times = find_times(results, run, operation, size)
    steps = [times[factor][name] for factor in times if factor <= limit]
    text = " to ".join(f"{ms:.3g}" for ms in (steps[0], min(steps), steps[-1]))
    reason = f"steps are a fall; ms at first, at least and at MAX_IF {limit}: {text}"
    return judge_each([*pairwise(steps)], lambda step: step[1] < step[0], reason)


def check_convergence(
    results: Results, operation: str, factor: int, exception: str, exception_size: int, *runs: str
) -> ClaimVerdict:
    """Judge that all algorithms take a similar time at a MAX_IF, except in one run with one size.

    The paper gives no number. Times are similar if they differ by less than half as much as those
    of the exception.
    """
    ratios = {}
    for run in runs:
        for size in sorted({row["bytes"] for row in results.select(run, operation=operation)}):
            times = find_times(results, run, operation, size)[factor].values()
            ratios[run, size] = max(times) / min(times)
    exceptional = ratios.pop((exception, exception_size))
    text = ", ".join(f"{run}, {format_round_size(n)}: {r:.3g}" for (run, n), r in ratios.items())
    reason = f"cases; slowest over fastest algorithm: {text}; {exceptional:.3g} in the exception"
    return judge_each([*ratios.values()], lambda r: r - 1 < (exceptional - 1) / 2, reason)


def check_widening(
    results: Results, run: str, operation: str, size: int, name: str
) -> ClaimVerdict:
    """Judge that the others' best time less that of the named grows with each step of MAX_IF."""
    times = find_times(results, run, operation, size)
    leads = {
        factor: min(t for rival, t in several.items() if rival != name) - several[name]
        for factor, several in times.items()
    }
    reason = f"steps widen it; ms by MAX_IF: {_list_values(leads)}"
    return judge_each([*pairwise(leads.values())], lambda step: step[1] > step[0], reason)


# ---- runs


def _simulate(processes: int, machine: Machine, operation: str, per_node: int = 1) -> Simulation:
    """Return a run of a machine; the root's arrival decides in broadcasts, so all patterns."""
    full = Options(per_node=per_node, only=(operation,))
    quick = replace(full, laps=PATTERNS if operation == "bcast" else PATTERNS // 2)
    return Simulation("impact", processes, full, quick, machine, note=machines.WITH_TRANSPORT)


RUNS: dict[str, Run] = {
    **faraj_programs.RUNS,
    "arrival": Measurement(("arrival",), 0.27 * HOUR_S, ("arrival", "--quick"), 50),
    "arrival on the cluster": Measurement(
        ("arrival", *TWO_NODES), 0.27 * HOUR_S, ("arrival", *TWO_NODES, "--quick"), 50
    ),
    **faraj_adaptive.RUNS,
    "Lemieux": _simulate(32, machines.LEMIEUX, "alltoall", machines.LEMIEUX_PER_NODE),
    "Lemieux, bcast": _simulate(32, machines.LEMIEUX, "bcast", machines.LEMIEUX_PER_NODE),
    "Beowulf": _simulate(16, machines.BEOWULF, "alltoall"),
    "Beowulf, bcast": _simulate(16, machines.BEOWULF, "bcast"),
    "robust": Measurement(
        ("robust", *CLUSTER, "--only", "alltoall", "--full"),
        4 * HOUR_S,
        ("robust", "-n", "2", "--quick", "--only", "alltoall", "--sizes", "64K"),
        60,
    ),
}


def show_impact(results: Results, run: str, operation: str) -> Content:
    """Return the times of algorithms over MAX_IF, for 1 B and 64 KB."""
    panels = []
    for size in (1, LARGE):
        rows = results.select(run, operation=operation, bytes=size)
        panels.append(plot_times(f"{operation} of {format_round_size(size)}", rows))
    return Content([Panels(f"{run}: mean time of a process in the call", panels, 2)])


def make_paper() -> Paper:
    """Return the paper with its exhibits."""
    exhibits = read_exhibits("faraj", faraj_programs, faraj_adaptive, sys.modules[__name__])
    return Paper("faraj", "Faraj, Patarasuk and Yuan 2008", LINK, RUNS, exhibits)
