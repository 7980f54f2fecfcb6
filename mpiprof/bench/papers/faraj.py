"""Faraj, Patarasuk and Yuan 2008: process arrival patterns."""

from __future__ import annotations

from functools import partial

from mpiprof.bench.harness.figures import Lines, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import faraj_adaptive, machines
from mpiprof.bench.papers.exhibits import Claim, Content, Exhibit, Paper, Results, Table, Verdict
from mpiprof.bench.papers.faraj_claims import (
    SIZES,
    check_applications,
    check_arrivals,
    check_bandwidths,
    check_change,
    check_growth,
    check_lead,
    check_programs,
    compare_message_times,
    compute_message_times,
)
from mpiprof.bench.papers.runs import Computation, Measurement, Run, Simulation
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import Machine

CLUSTER = ("--cluster", "16x100mbit")
HOUR = 3600.0
LARGE = 64 << 10


def _simulate(processes: int, machine: Machine) -> Simulation:
    full, quick = Options(), Options(laps=8)
    return Simulation("impact", processes, full, quick, machine, note=machines.MEASURED)


RUNS: dict[str, Run] = {
    "message times": Computation(compute_message_times, "message times of the simulator"),
    "apps": Measurement(("apps", *CLUSTER), 0.25 * HOUR, ("apps", "-n", "2", "--quick"), 60),
    "arrival": Measurement(
        ("arrival", *CLUSTER), 0.25 * HOUR, ("arrival", "-n", "2", "--quick"), 10
    ),
    "Lemieux": _simulate(32, machines.LEMIEUX),
    "Beowulf": _simulate(16, machines.BEOWULF),
    "robust": Measurement(
        ("robust", *CLUSTER, "--only", "alltoall", "--full"),
        4 * HOUR,
        ("robust", "-n", "2", "--quick", "--only", "alltoall", "--sizes", "64K"),
        90,
    ),
}


# ---- figures and tables


def show_table_1(results: Results) -> Content:
    """Return the paper's message times beside the simulator's."""
    rows = compare_message_times(results)
    series = []
    for machine in ("Lemieux", "Beowulf"):
        mine = [row for row in rows if row["machine"] == machine]
        sizes = [SIZES[row["size"]] for row in mine]
        series.append(Series(machine, sizes, [row["simulated ms"] for row in mine]))
        paper = f"{machine}, paper"
        series.append(Series(paper, sizes, [row["paper ms"] for row in mine], dashed=True))
    figure = Lines("Message times", series, "size", "ms", ticks=format_round_size)
    columns = ("machine", "size", "simulated ms", "paper ms", "ratio")
    return Content([figure], [Table("Message times", columns, rows)])


def show_rows(results: Results, run: str, title: str) -> Content:
    """Return a study's table."""
    rows = results.rows[run]
    return Content(tables=[Table(title, tuple(rows[0]), rows)])


def show_routines(results: Results, *, major: bool) -> Content:
    """Return the imbalance factors of programs, of all collectives or of major routines."""
    whole = ("(whole run)", "(all collectives)")
    rows = [
        row for row in results.rows["apps"] if (row["routine"] not in whole if major else
        row["routine"] == whole[1])
    ]  # fmt: skip
    columns = ("program", "routine", "instances", "δ/T", "ω/T")
    return Content(tables=[Table("Imbalance factors of samples", columns, rows)])


def show_arrivals(results: Results, table: str) -> Content:
    """Return the imbalance factors over the computation time, beside the paper's."""
    rows = results.rows["arrival"]
    series = []
    for kind in ("exit", "computation", "arrival"):
        points = [(row["computation ms"], row[f"{kind} ω/T"]) for row in rows]
        if all(isinstance(y, int | float) for _, y in points):
            series.append(Series.of_points(kind, points))
        paper = results.values.column(table, kind).items()
        known = [(float(head.removesuffix(" ms")), value) for head, value in paper]
        series.append(Series(f"{kind}, paper", *zip(*known, strict=True), dashed=True))
    figure = Lines(table, series, "computation (ms)", "ω/T")
    columns = [column for column in rows[0] if column not in ("Lemieux", "Beowulf")]
    return Content([figure], [Table("Worst-case factors", columns, rows)])


def show_impact(results: Results, run: str, operation: str) -> Content:
    """Return the times of algorithms over MAX_IF, for 1 B and 64 KB."""
    panels = []
    for size in (1, LARGE):
        rows: list[Row] = results.select(run, operation=operation, bytes=size)
        lines = []
        for name in dict.fromkeys(row["algorithm"] for row in rows):
            mine = [row for row in rows if row["algorithm"] == name]
            values = ([row[column] for row in mine] for column in ("MAX_IF", "mean ms", "± ms"))
            lines.append(Series(name, *values))
        title = f"{operation} of {format_round_size(size)}"
        panels.append(Lines(title, lines, "MAX_IF", "ms", ticks="{:.0f}".format))
    return Content([Panels(f"{run}: mean time of a process in the call", panels, 2)])


# ---- exhibits


def _missing(number: str, section: str, shows: str, why: str, claim: str = "") -> Exhibit:
    # No check runs, because a missing exhibit has no results.
    claims = (Claim(claim, check_arrivals),) if claim else ()
    return Exhibit(number, section, shows, claims=claims, missing=why)


def _lead(run: str, operation: str, size: int, name: str, *, late: bool) -> Claim:
    when = "large" if late else "small"
    check = partial(check_lead, run=run, operation=operation, size=size, name=name, late=late)
    text = f"{operation} of {format_round_size(size)}: {name} is the fastest at {when} MAX_IF."
    return Claim(text, check)


def _change(run: str, operation: str, size: int) -> Claim:
    def check(results: Results) -> Verdict:
        return check_change(results, run, operation, size)

    text = f"{operation} of {format_round_size(size)}: the best balanced one is not the best late."
    return Claim(text, check)


def _impact(number: str, run: str, operation: str, claims: tuple[Claim, ...]) -> Exhibit:
    shows = f"Times of {operation} algorithms over the imbalance on {run}."
    return Exhibit(
        number, "Section 6", shows, (run,), lambda r: show_impact(r, run, operation), claims
    )


PROGRAMS = "the paper's programs and machines; `bench apps` has samples in their place"
EXHIBITS = (
    Exhibit(
        "Table 1",
        "Section 4.1",
        "Message times of two machines, and their fit in the simulator.",
        ("message times",),
        show_table_1,
        (Claim("The bandwidths follow from the times.", check_bandwidths),),
    ),
    _missing("Table 2", "Section 4.2", "Times of the seven programs.", f"needs {PROGRAMS}"),
    _missing("Table 3", "Section 4.2", "Collectives of the seven programs.", f"needs {PROGRAMS}"),
    Exhibit(
        "Table 4",
        "Section 4.4",
        "Imbalance factors of all collectives of samples.",
        ("apps",),
        lambda r: show_routines(r, major=False),
        (Claim("Arrivals of every program are imbalanced.", check_programs),),
    ),
    _missing(
        "Figure 2",
        "Section 4.4",
        "Distribution of worst-case factors.",
        "the table of `bench apps` lacks the distribution, which only its own page has",
        "Few operations are balanced.",
    ),
    Exhibit(
        "Table 5",
        "Section 4.4",
        "Imbalance factors of the major routines of samples.",
        ("apps",),
        lambda r: show_routines(r, major=True),
    ),
    _missing(
        "Figure 3",
        "Section 4.4",
        "Factors of single instances of FT and NBODY.",
        "no study returns single instances of a program",
        "Patterns of a call site are similar for long.",
    ),
    _missing(
        "Figure 5",
        "Section 5",
        "Factors of single instances after 200 ms of computation.",
        "the table of `bench arrival` lacks single instances, which only its own page shows",
    ),
    Exhibit(
        "Table 6",
        "Section 5",
        "Worst-case factors of exits, computation and arrivals, beside Lemieux.",
        ("arrival",),
        lambda r: show_arrivals(r, "Table 6"),
        (
            Claim("Arrivals are imbalanced after balanced computation.", check_arrivals),
            Claim("The imbalance of computation grows with its time.", check_growth),
        ),
    ),
    Exhibit(
        "Table 7",
        "Section 5",
        "The same beside the Beowulf cluster.",
        ("arrival",),
        lambda r: show_arrivals(r, "Table 7"),
    ),
    _impact(
        "Figure 7",
        "Lemieux",
        "alltoall",
        (
            _lead("Lemieux", "alltoall", 1, "bruck", late=False),
            _lead("Lemieux", "alltoall", 1, "simple", late=True),
            _lead("Lemieux", "alltoall", LARGE, "pair", late=False),
            _lead("Lemieux", "alltoall", LARGE, "simple", late=True),
        ),
    ),
    _impact("Figure 8", "Beowulf", "alltoall", (_change("Beowulf", "alltoall", LARGE),)),
    _impact(
        "Figure 9",
        "Lemieux",
        "bcast",
        (
            _lead("Lemieux", "bcast", 1, "flat_tree", late=True),
            _lead("Lemieux", "bcast", LARGE, "flat_tree", late=True),
        ),
    ),
    _impact("Figure 10", "Beowulf", "bcast", (_change("Beowulf", "bcast", LARGE),)),
    *faraj_adaptive.EXHIBITS,
    _missing("Table 11", "Section 7.4", "Message sizes of four programs.", f"needs {PROGRAMS}"),
    Exhibit(
        "Table 12",
        "Section 7.4",
        "Times of samples with native algorithms and with `auto`.",
        ("apps",),
        lambda r: show_rows(r, "apps", "Times"),
        (Claim("The adaptive routine shortens communication.", check_applications),),
    ),
)
LINK = "https://doi.org/10.1007/s10766-008-0070-9"
PAPER = Paper("faraj", "Faraj, Patarasuk and Yuan 2008", LINK, RUNS, EXHIBITS)
