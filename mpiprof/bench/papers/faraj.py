"""Faraj, Patarasuk and Yuan 2008: process arrival patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mpiprof.bench.harness.figures import Lines, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.harness.timing import PATTERNS
from mpiprof.bench.papers import (
    faraj_adaptive,
    faraj_applications,
    faraj_arrivals,
    faraj_programs,
    machines,
)
from mpiprof.bench.papers.exhibits import Claim, Content, Exhibit, Paper, Results, Verdict
from mpiprof.bench.papers.faraj_claims import (
    check_change,
    check_convergence,
    check_fall,
    check_lead,
    check_overtaking,
    check_widening,
)
from mpiprof.bench.papers.runs import CLUSTER, HOUR_S, Measurement, Run, Simulation
from mpiprof.bench.studies.impact import MOST
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import Machine

LARGE = 64 << 10


def _simulate(
    processes: int, machine: Machine, operation: str, quick_patterns: int, per_node: int = 1
) -> Simulation:
    full = Options(per_node=per_node, only=(operation,))
    quick = replace(full, laps=quick_patterns)
    return Simulation("impact", processes, full, quick, machine, note=machines.WITH_TRANSPORT)


def _simulate_both(
    name: str, processes: int, machine: Machine, per_node: int = 1
) -> dict[str, Run]:
    """Return the runs of a machine; the root's arrival decides in broadcasts, so all patterns."""
    return {
        name: _simulate(processes, machine, "alltoall", PATTERNS // 2, per_node),
        f"{name}, bcast": _simulate(processes, machine, "bcast", PATTERNS, per_node),
    }


RUNS: dict[str, Run] = {
    **faraj_programs.RUNS,
    **faraj_arrivals.RUNS,
    **faraj_applications.RUNS,
    **_simulate_both("Lemieux", 32, machines.LEMIEUX, machines.LEMIEUX_PER_NODE),
    **_simulate_both("Beowulf", 16, machines.BEOWULF),
    "robust": Measurement(
        ("robust", *CLUSTER, "--only", "alltoall", "--full"),
        4 * HOUR_S,
        ("robust", "-n", "2", "--quick", "--only", "alltoall", "--sizes", "64K"),
        60,
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


def _lead(
    run: str, operation: str, size: int, name: str, factors: tuple[int, ...], when: str
) -> Claim:
    check = partial(check_lead, run=run, operation=operation, size=size, name=name, factors=factors)
    text = f"{operation} of {format_round_size(size)}: {name} is the fastest {when}."
    return Claim(text, check)


def _impact_claim(text: str, check: Callable[..., Verdict], *arguments: object) -> Claim:
    return Claim(text, lambda results: check(results, *arguments))


def _change(run: str, operation: str, size: int) -> Claim:
    def check(results: Results) -> Verdict:
        return check_change(results, run, operation, size)

    text = f"{operation} of {format_round_size(size)}: the best balanced one is not the best late."
    return Claim(text, check)


def _impact(
    number: str, run: str, operation: str, claims: tuple[Claim, ...], *more_runs: str
) -> Exhibit:
    machine = run.partition(",")[0]
    shows = f"Times of {operation} algorithms over the imbalance on {machine}."
    runs = (run, *more_runs)
    return Exhibit(
        number, "Section 6", shows, runs, lambda r: show_impact(r, run, operation), claims
    )


def _widening(run: str) -> Claim:
    text = "The larger MAX_IF, the larger the advantage of flat_tree."
    return _impact_claim(text, check_widening, run, "bcast", LARGE, "flat_tree")


ALL = MOST
UP_TO_9 = tuple(most for most in MOST if most <= 9)
FROM_9, FROM_17, FROM_33 = (tuple(m for m in MOST if m >= least) for least in (9, 17, 33))
FROM_17_TO_129 = FROM_17[:-1]
EXHIBITS = (
    *faraj_programs.EXHIBITS,
    *faraj_arrivals.EXHIBITS,
    _impact(
        "Figure 7",
        "Lemieux",
        "alltoall",
        (
            _lead("Lemieux", "alltoall", 1, "bruck", UP_TO_9, "up to MAX_IF 9"),
            _lead("Lemieux", "alltoall", 1, "simple", FROM_17_TO_129, "from MAX_IF 17 to 129"),
            _impact_claim(
                "alltoall of 1 B: simple takes less time up to MAX_IF 17, because processes share "
                "their interface.",
                check_fall,
                *("Lemieux", "alltoall", 1, "simple", 17),
            ),
            _lead("Lemieux", "alltoall", LARGE, "pair", UP_TO_9, "up to MAX_IF 9"),
            _lead("Lemieux", "alltoall", LARGE, "simple", FROM_33, "from MAX_IF 33 on"),
        ),
    ),
    _impact(
        "Figure 8",
        "Beowulf",
        "alltoall",
        (
            _change("Beowulf", "alltoall", 1),
            _change("Beowulf", "alltoall", LARGE),
            _impact_claim(
                "alltoall: at MAX_IF 257 all algorithms are similar, except on Lemieux with 64 KB.",
                check_convergence,
                *(("Lemieux", "Beowulf"), "alltoall", 257, ("Lemieux", LARGE)),
            ),
        ),
        "Lemieux",
    ),
    _impact(
        "Figure 9",
        "Lemieux, bcast",
        "bcast",
        (
            _lead("Lemieux, bcast", "bcast", 1, "flat_tree", FROM_9, "from MAX_IF 9 on"),
            _lead("Lemieux, bcast", "bcast", LARGE, "flat_tree", FROM_17, "from MAX_IF 17 on"),
            _widening("Lemieux, bcast"),
        ),
    ),
    _impact(
        "Figure 10",
        "Beowulf, bcast",
        "bcast",
        (
            _lead("Beowulf, bcast", "bcast", 1, "flat_tree", ALL, "everywhere"),
            # "The trend for large message sizes is similar" to Figure 9, without a MAX_IF.
            _impact_claim(
                "bcast of 64 KB: flat_tree is slower if balanced, and the fastest beyond a MAX_IF.",
                check_overtaking,
                *("Beowulf, bcast", "bcast", LARGE, "flat_tree"),
            ),
            _change("Beowulf, bcast", "bcast", LARGE),
            _widening("Beowulf, bcast"),
        ),
    ),
    *faraj_adaptive.EXHIBITS,
    *faraj_applications.EXHIBITS,
)
LINK = "https://doi.org/10.1007/s10766-008-0070-9"
PAPER = Paper("faraj", "Faraj, Patarasuk and Yuan 2008", LINK, RUNS, EXHIBITS)
