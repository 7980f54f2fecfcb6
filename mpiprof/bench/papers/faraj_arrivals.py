"""Faraj et al. 2008, Section 5: arrivals after equal computation (Figure 5, Tables 6 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, isnan, log10

from mpiprof.bench.harness.figures import Lines, Panels, Series
from mpiprof.bench.harness.study import Row, format_cell
from mpiprof.bench.papers.exhibits import (
    FAILS,
    HOLDS,
    NOT_REPRODUCED,
    Claim,
    Content,
    Exhibit,
    Results,
    Table,
    Verdict,
    judge_share,
)
from mpiprof.bench.papers.faraj_program_claims import NO_TIMES, is_known
from mpiprof.bench.papers.runs import HOUR_S, Measurement, Run
from mpiprof.bench.studies.arrival import JOINED, KINDS, PAPER_PROCESSES, plot_factors
from mpiprof.interface.format_units import format_share

# Two nodes, so that each rank has a processor. At this rate 64 KB take about as long as on the
# paper's Beowulf cluster. An idle port sends the bytes of 1 ms at once, which at 500 Mbit/s are the
# whole message.
TWO_NODES = ("--cluster", "2x250mbit")
PLACED_RUNS = ("arrival", "arrival on the cluster")
RUNS: dict[str, Run] = {
    "arrival": Measurement(("arrival",), 0.27 * HOUR_S, ("arrival", "--quick"), 50),
    "arrival on the cluster": Measurement(
        ("arrival", *TWO_NODES), 0.27 * HOUR_S, ("arrival", *TWO_NODES, "--quick"), 50
    ),
}
MOST_SHARE = 0.99  # of its processor, above which a rank is alone
TIMER = "a timer replaced the computation, because ranks outnumber processors"


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
        shown = [_make_row(results, table, row) for row in rows]
        tables.append(Table(f"Worst-case imbalance factors ω/T, {place}", columns, shown))
    for kind in KINDS:
        paper = results.values.column(table, kind).items()
        known = [(float(head.removesuffix(" ms")), value) for head, value in paper]
        series.append(Series.of_points(f"{kind}, paper", known, dashed=True))
    return Content([Lines(table, series, "computation (ms)", "ω/T", ticks="{:g}".format)], tables)


def _make_row(results: Results, table: str, row: Row) -> Row:
    head = f"{row['computation ms']} ms"
    shown: Row = {"comp. time": head, "instances": row["instances"]}
    joined = row[f"{JOINED} ω/T"]
    shown[JOINED] = format_cell(joined) if is_known(joined) else ""
    for kind in KINDS:
        shown[kind] = format_interval(row[f"{kind} ω/T"], row[f"{kind} ±"])
        values = [results.values.column(table, column).get(head) for column in (kind, f"{kind} ±")]
        if None not in values:
            shown[f"{kind}, paper"] = "{} ± {}".format(*values)
    return shown


def format_interval(value: object, half: object) -> str:
    """Return a value with half of its interval, with one digit of the latter; "" if unknown."""
    if not isinstance(value, int | float) or not isinstance(half, int | float) or isnan(value):
        return ""
    digits = max(-floor(log10(half)), 0) if half > 0 else 2
    return f"{value:.{digits}f} ± {half:.{digits}f}"


# ---- checks


def find_known_factors(results: Results, *kinds: str) -> list[Row] | Verdict:
    """Return the rows of the first place with known factors, or why those of this machine are not.

    Times of messages through memory are not usable while other processes use the processors.
    """
    found = [find_factors(results, *kinds, run=run) for run in PLACED_RUNS]
    return next((rows for rows in found if not isinstance(rows, Verdict)), found[0])


def find_factors(results: Results, *kinds: str, run: str) -> list[Row] | Verdict:
    """Return the rows by computation time, or why the factors of some kinds are unknown."""
    rows = sorted(results.rows.get(run, ()), key=lambda row: float(row["computation ms"]))
    if not rows:
        return Verdict(NOT_REPRODUCED, f"{run} was not measured")
    if not all(is_known(row["arrival ω/T"]) for row in rows):
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    if not all(is_known(row[f"{kind} ω/T"]) for kind in kinds for row in rows):
        return Verdict(NOT_REPRODUCED, TIMER)
    return rows


def judge_rows(
    results: Results, kinds: tuple[str, ...], right: Callable[[Row], bool], text: str, run: str = ""
) -> Verdict:
    """Judge a statement about each computation time of a run; `text` follows the share.

    Without a run, the first place with known factors is judged.
    """
    rows = find_factors(results, *kinds, run=run) if run else find_known_factors(results, *kinds)
    if isinstance(rows, Verdict):
        return rows
    pairs = [" and ".join(format_cell(row[f"{kind} ω/T"]) for kind in kinds) for row in rows]
    reason = f"computation times {text}: {', '.join(pairs)}"
    return judge_share(sum(map(right, rows)), len(rows), reason + describe_others(rows))


def describe_others(rows: Sequence[Row]) -> str:
    """Return how much of the computation's time other processes had, if it was more than 1 %."""
    share = min((row["processor share"] for row in rows), default=1.0)
    text = f"; other processes had {format_share(1 - share)} of the processors"
    return text * (share < MOST_SHARE)


def check_arrivals(results: Results) -> Verdict:
    """Judge that arrivals are imbalanced after balanced computation, at each computation time."""
    text = "have factors of at least 1"
    return judge_rows(results, ("arrival",), lambda row: row["arrival ω/T"] >= 1, text)


def check_growth(results: Results) -> Verdict:
    """Judge that the imbalance of computation grows with the computation."""
    rows = find_known_factors(results, "computation")
    if isinstance(rows, Verdict):
        return rows
    factors = [row["computation ω/T"] for row in rows]
    state = HOLDS if factors == sorted(factors) and factors[-1] > factors[0] else FAILS
    reason = f"the factors are {', '.join(map(format_cell, factors))}"
    return Verdict(state, reason + describe_others(rows))


def check_sum(results: Results) -> Verdict:
    """Judge that arrivals are at least as imbalanced as the computation, within the interval."""

    def right(row: Row) -> bool:
        within = row["arrival ω/T"] + row["arrival ±"]
        return bool(within >= row["computation ω/T"])

    text = "have an arrival factor of at least that of computation"
    return judge_rows(results, ("arrival", "computation"), right, text)


def check_cause(results: Results) -> Verdict:
    """Judge that computation contributes more to the imbalance than exits from communication."""
    text = "have a computation factor above that of exits"
    return judge_rows(
        results, ("computation", "exit"), lambda row: row["computation ω/T"] > row["exit ω/T"], text
    )


def check_order(results: Results) -> Verdict:
    """Judge that computation factors are within the factors of the paper's two tables.

    Messages through memory take far less than those of the paper's networks, and factors are
    relative to this time. So the ranks on two nodes count, if they have usable message times. The
    paper's instances have 16 and 32 computations, so that successive instances are joined.
    """
    on_nodes = "arrival on the cluster"
    known = not isinstance(find_factors(results, JOINED, run=on_nodes), Verdict)
    paper = [results.values.column(t, "computation").values() for t in ("Table 6", "Table 7")]
    least, most = min(map(min, paper)), max(map(max, paper))
    text = (
        f"have a factor of {PAPER_PROCESSES} computations of {least:.3g} to {most:.3g}, as in "
        "Tables 6 and 7"
    )
    return judge_rows(
        results,
        (JOINED,),
        lambda row: least <= row[f"{JOINED} ω/T"] <= most,
        text + (" (two nodes)" if known else " (messages through memory)"),
        run=on_nodes if known else "arrival",
    )


def check_instances(results: Results) -> Verdict:
    """Judge that the arrivals of single instances are imbalanced."""
    tables = [results.rows.get(f"{run} instances", []) for run in PLACED_RUNS]
    rows = next(filter(None, tables), None)
    if not rows:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    right = sum(row["ω/T"] >= 1 for row in rows)
    return judge_share(right, len(rows), "instances have a worst-case factor of at least 1")


# ---- exhibits


EXHIBITS = (
    Exhibit(
        "Figure 5",
        "Section 5",
        "Factors of single instances after 200 ms of equal computation.",
        ("arrival",),
        show_instances,
        (Claim("Arrivals are imbalanced in each instance.", check_instances),),
        optional_runs=("arrival on the cluster",),
    ),
    Exhibit(
        "Table 6",
        "Section 5",
        "Worst-case factors of exits, computation and arrivals, beside Lemieux.",
        ("arrival",),
        lambda r: show_causes(r, "Table 6"),
        (
            Claim("Arrivals are imbalanced after balanced computation.", check_arrivals),
            Claim("The imbalance of computation grows with its time.", check_growth),
            Claim("Arrivals are at least as imbalanced as the computation.", check_sum),
            Claim("Computation causes more of the imbalance than communication.", check_cause),
            Claim("The factors of computation are 3 to 320.", check_order),
        ),
        optional_runs=("arrival on the cluster",),
    ),
    Exhibit(
        "Table 7",
        "Section 5",
        "The same beside the Beowulf cluster.",
        ("arrival",),
        lambda r: show_causes(r, "Table 7"),
        optional_runs=("arrival on the cluster",),
    ),
)
