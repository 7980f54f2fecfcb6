"""Faraj, Patarasuk and Yuan 2008: process arrival patterns."""

from __future__ import annotations

from functools import partial

from mpiprof.bench.harness.figures import Lines, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import (
    faraj_adaptive,
    faraj_applications,
    faraj_arrivals,
    faraj_programs,
    machines,
)
from mpiprof.bench.papers.exhibits import Claim, Content, Exhibit, Paper, Results, Verdict
from mpiprof.bench.papers.faraj_claims import check_change, check_lead
from mpiprof.bench.papers.runs import Measurement, Run, Simulation
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import Machine

CLUSTER = ("--cluster", "16x100mbit")
HOUR = 3600.0
LARGE = 64 << 10


def _simulate(processes: int, machine: Machine) -> Simulation:
    full, quick = Options(), Options(laps=8)
    return Simulation("impact", processes, full, quick, machine, note=machines.MEASURED)


RUNS: dict[str, Run] = {
    **faraj_programs.RUNS,
    **faraj_arrivals.RUNS,
    **faraj_applications.RUNS,
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


EXHIBITS = (
    *faraj_programs.EXHIBITS,
    *faraj_arrivals.EXHIBITS,
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
    *faraj_applications.EXHIBITS,
)
LINK = "https://doi.org/10.1007/s10766-008-0070-9"
PAPER = Paper("faraj", "Faraj, Patarasuk and Yuan 2008", LINK, RUNS, EXHIBITS)
