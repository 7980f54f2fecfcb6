"""Faraj et al. 2008: arrivals after equal computation (Section 5), and their impact (Section 6)."""

from __future__ import annotations

from math import floor, isnan, log10

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row, format_cell
from mpiprof.collectives.papers.reports.claim_rules import is_known
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCED,
    ClaimVerdict,
    Content,
    Results,
    Table,
)
from mpiprof.collectives.papers.reports.faraj_programs import NO_TIMES
from mpiprof.collectives.papers.studies.arrival import JOINED, KINDS, plot_factors
from mpiprof.collectives.papers.studies.impact import plot_times
from mpiprof.interface.format_units import format_round_size, format_share

PLACED_RUNS = ("arrival", "arrival on the cluster")
MOST_SHARE = 0.99  # of its processor, above which a rank is alone
TIMER = "a timer replaced the computation, because ranks outnumber processors"
LARGE = 64 << 10
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


def find_factors(results: Results, *kinds: str) -> list[Row] | ClaimVerdict:
    """Return the rows of the first place with known factors, or why those of this machine are not.

    Times of messages through memory are not usable while other processes use the processors.
    """
    candidates = [find_factors_of(results, run, *kinds) for run in PLACED_RUNS]
    return next((rows for rows in candidates if not isinstance(rows, ClaimVerdict)), candidates[0])


def find_factors_of(results: Results, run: str, *kinds: str) -> list[Row] | ClaimVerdict:
    """Return the rows by computation time, or why the factors of some kinds are unknown.

    highest arrival: the end of the interval. disturbance: how much of the computation's time other
    processes had, if it was more than 1 %.
    """
    rows = sorted(results.rows.get(run, ()), key=lambda row: float(row["computation ms"]))
    if not rows:
        return ClaimVerdict(NOT_REPRODUCED, f"{run} was not measured")
    if not all(is_known(row["arrival ω/T"]) for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, NO_TIMES)
    if not all(is_known(row[f"{kind} ω/T"]) for kind in kinds for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, TIMER)
    share = min(row["processor share"] for row in rows)
    text = f"; other processes had {format_share(1 - share)} of the processors"
    added = {"disturbance": text * (share < MOST_SHARE)}
    return [row | added | {"highest": row["arrival ω/T"] + row["arrival ±"]} for row in rows]


def find_joined_factors(results: Results) -> list[Row] | ClaimVerdict:
    """Return the rows of two nodes, if they have usable message times, beside the paper's range.

    Messages through memory take far less than those of the paper's networks, and factors are
    relative to this time. The paper's instances have 16 and 32 computations, so that successive
    instances are joined.
    """
    runs = {"arrival on the cluster": "two nodes", "arrival": "messages through memory"}
    paper = [results.values.column(t, "computation").values() for t in ("Table 6", "Table 7")]
    limits = {"smallest": min(map(min, paper)), "largest": max(map(max, paper))}
    rows: list[Row] | ClaimVerdict = []
    for run, title in runs.items():
        rows = find_factors_of(results, run, JOINED)
        if not isinstance(rows, ClaimVerdict):
            return [row | limits | {"network": title} for row in rows]
    return rows


def find_instances(results: Results) -> list[Row]:
    """Return the single instances of the first place that has some."""
    tables = [results.rows.get(f"{run} instances", []) for run in PLACED_RUNS]
    return next(filter(None, tables), [])


# ---- Section 6: algorithms under imbalanced arrivals


def find_times(results: Results, run: str, operation: str, size: int) -> Times:
    """Return the mean times of the algorithms by MAX_IF, in ascending order."""
    times: Times = {}
    rows = results.select(run, operation=operation, bytes=size)
    for row in sorted(rows, key=lambda row: int(row["MAX_IF"])):
        times.setdefault(row["MAX_IF"], {})[row["algorithm"]] = row["mean ms"]
    return times


def find_change(results: Results, run: str, operation: str, size: int) -> list[Row]:
    """Return the fastest algorithm of balanced arrivals, and its time over the best late one."""
    times = find_times(results, run, operation, size)
    first, last = min(times), max(times)
    best = min(times[first], key=times[first].__getitem__)
    ratio = times[last][best] / min(times[last].values())
    return [{"algorithm": best, "first": first, "last": last, "ratio": ratio}]


def list_leads(results: Results, run: str, operation: str, size: int, name: str) -> list[Row]:
    """Return an algorithm's time, and the fastest other one, for each MAX_IF."""
    rows: list[Row] = []
    for factor, times in find_times(results, run, operation, size).items():
        rival = min(ms for algorithm, ms in times.items() if algorithm != name)
        rows.append(
            {"MAX_IF": factor, "ms": times[name], "fastest": min(times, key=times.__getitem__)}
            | {"ratio": rival / times[name], "lead": rival - times[name]}
        )
    return rows


def compare_spreads(
    results: Results, operation: str, factor: int, exception: str, exception_size: int, *runs: str
) -> list[Row]:
    """Return the slowest over the fastest algorithm at a MAX_IF, beside that of the exception.

    The paper gives no number. Times are similar if they differ by less than half as much as those
    of the exception, which is one run with one size.
    """
    ratios = {}
    for run in runs:
        for size in sorted({row["bytes"] for row in results.select(run, operation=operation)}):
            times = find_times(results, run, operation, size)[factor].values()
            ratios[run, size] = max(times) / min(times)
    exceptional = ratios.pop((exception, exception_size))
    return [
        {"run": run, "bytes": size, "ratio": ratio, "exceptional": exceptional}
        for (run, size), ratio in ratios.items()
    ]


def show_impact(results: Results, run: str, operation: str) -> Content:
    """Return the times of algorithms over MAX_IF, for 1 B and 64 KB."""
    panels = []
    for size in (1, LARGE):
        rows = results.select(run, operation=operation, bytes=size)
        panels.append(plot_times(f"{operation} of {format_round_size(size)}", rows))
    return Content([Panels(f"{run}: mean time of a process in the call", panels, 2)])
