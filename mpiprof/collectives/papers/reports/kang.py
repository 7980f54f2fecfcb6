"""Kang et al. 2019: allgather between two groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from mpiprof.collectives.machine import DEFAULT, WITH_FAST_MEMORY
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import kang_theorems, schedule_pictures
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCIBLE,
    ClaimVerdict,
    Content,
    Paper,
    Results,
    Table,
    judge_each,
    judge_share,
    judge_values,
    make_series,
    read_exhibits,
)
from mpiprof.collectives.papers.reports.kang_theorems import THEOREM_RUNS, trace_examples
from mpiprof.collectives.papers.reports.machines import ASSUMED
from mpiprof.collectives.papers.reports.runs import Computation, Run, Simulation
from mpiprof.interface.format_units import format_round_size

NODE_BYTES = tuple(1 << e for e in range(16, 24))  # 64 KB to 8 MB per node
QUICK_BYTES = (1 << 16, 1 << 20, 1 << 23)
OLD, RING = "root_gathering_sequential", "root_gathering_ring"
TWO_STEP, TEAMS, OURS = "kang_two_step", "kang_teams", "kang"
ALGORITHMS = (OLD, RING, TWO_STEP, TEAMS, OURS)
PER_NODE = {64: 1, 256: 1, 2048: 32}  # processes per node of the paper's three configurations
MANY_TIMES = 3
REGULAR, IRREGULAR = (1, 2, 3, 4), (5, 6, 7, 8)


def _simulate(processes: int) -> Simulation:
    per_node = PER_NODE[processes]
    full = Options(sizes=tuple(n // per_node for n in NODE_BYTES), per_node=per_node)
    sizes = QUICK_BYTES if per_node == 1 else QUICK_BYTES[-1:]
    quick = Options(sizes=tuple(n // per_node for n in sizes), per_node=per_node)
    machine = WITH_FAST_MEMORY if per_node > 1 else DEFAULT
    return Simulation("intergroup", processes, full, quick, machine, ALGORITHMS, ASSUMED)


# Groups of 16 processes with slower links between them: the links of neighbours differ.
SLOW_LINKS, SLOWER = "256 processes, slow links", 4
SLOW_OPTIONS = Options(sizes=NODE_BYTES[-1:], per_node=16)
RUNS: dict[str, Run] = {
    "examples": Computation(trace_examples, "simulated, 1 time unit per byte"),
    **{f"{p} processes": _simulate(p) for p in PER_NODE},
    SLOW_LINKS: Simulation(
        "intergroup", 256, SLOW_OPTIONS, machine=replace(DEFAULT, beta=SLOWER * DEFAULT.beta),
        algorithms=(RING, OURS), note=ASSUMED, labels=(("setting", 6),),
    ),
    **THEOREM_RUNS,
}  # fmt: skip


# ---- figures


def _with_algorithm_1(rows: Sequence[Row], processes: int) -> list[Row]:
    """Return rows with the bytes per node, and Algorithm 1 under one name.

    `kang_teams` is Algorithm 1 if neither size divides the other, otherwise `kang`.
    """
    in_teams = {(row["setting"], row["bytes"]) for row in rows if row["algorithm"] == TEAMS}
    renamed = []
    for row in rows:
        paper_name = row["algorithm"]
        if paper_name == OURS and (row["setting"], row["bytes"]) not in in_teams:
            paper_name = TEAMS
        per_node = row["bytes"] * PER_NODE[processes]
        renamed.append(row | {"algorithm": paper_name, "bytes per node": per_node})
    return renamed


FIGURE_4 = {TEAMS: "Algorithm 1", TWO_STEP: "EuroMPI", OLD: "root gathering", OURS: "ours"}
FIGURE_5 = {
    TEAMS: "Algorithm 2",
    RING: "root gathering (along ranks)",
    OLD: "root gathering (tree)",
}


def show_times(results: Results, first: int, last: int) -> Content:
    """Return the times of some settings: of Figure 4, or of Figure 5."""
    settings = range(first, last + 1)
    names = FIGURE_4 if first in REGULAR else FIGURE_5
    panels = []
    for processes in PER_NODE:
        rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        for setting in settings:
            setting_rows = [row for row in rows if row["setting"] == setting]
            lines = make_series(setting_rows, "bytes per node", "mean ms", "algorithm", names)
            title, axes = f"{processes} ({setting})", ("largest message per node", "ms")
            panels.append(Lines(title, lines, *axes, ticks=format_round_size))
    return Content([Panels("Time, titles: processes (setting)", panels, len(settings))])


def find_improvements(results: Results, processes: int) -> dict[int, list[tuple[int, float]]]:
    """Return the time of root gathering over that of Algorithms 1 and 2, by setting and size.

    Root gathering is MPICH's as the paper describes it: irregular messages go along the ranks.
    """
    rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
    times = {(row["setting"], row["bytes"], row["algorithm"]): row["mean ms"] for row in rows}
    curves: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        if row["algorithm"] == TEAMS:
            setting = row["setting"]
            old = times[setting, row["bytes"], RING if setting in IRREGULAR else OLD]
            curves.setdefault(setting, []).append((row["bytes per node"], old / row["mean ms"]))
    return curves


def show_figure_6(results: Results) -> Content:
    """Return the improvements of all settings beside formula (5)."""
    panels, rows = [], []
    limits = results.values.column("Figure 6", "limit")
    for processes in PER_NODE:
        curves = find_improvements(results, processes)
        lines = [Series.of_points(f"setting {n}", points) for n, points in curves.items()]
        ends = (NODE_BYTES[0], NODE_BYTES[-1])
        lines += [
            Series(f"limit {limit:g}", ends, (limit, limit), dashed=True)
            for limit in sorted(set(limits.values()))
        ]
        axes = ("largest message per node", "improvement")
        title = f"{processes} processes"
        panels.append(Lines(title, lines, *axes, y_scale="linear", ticks=format_round_size))
        rows += [
            {"processes": processes, "setting": n, "improvement": points[-1][1]}
            | {"paper's limit": limits[f"setting {n}"]}
            for n, points in curves.items()
        ]
    columns = ("processes", "setting", "improvement", "paper's limit")
    table = Table("Largest messages", columns, rows)
    return Content([Panels("Improvement over root gathering", panels, 3)], [table])


# ---- claims


def check_limits(results: Results) -> ClaimVerdict:
    """Judge the improvements of the largest messages on 256 processes.

    "According to Eq. (5), improvement curves for setting 1, 2, 3, 4, 5, 6, 7, and 8 should converge
    to 7.0, 4.84, 4.21, 6.68, 7.0, 7.0, 4.84, and 4.84" (Section 5). Pieces of unequal length pass
    the last rings in blocks: "the final intragroup Allgather operations can be performed [...] by
    an Allgatherv operation" (Section 4). So do messages that the roots gather along the ranks: "the
    ring-based intragroup Gather algorithm achieves the lower bound" (Section 5).
    """
    limits = results.values.column("Figure 6", "limit")
    curves = find_improvements(results, 256)
    improvements = {f"setting {n}": points[-1][1] for n, points in curves.items()}
    return judge_values(improvements, limits, 0.05)


def check_large_messages(results: Results) -> ClaimVerdict:
    """Judge that the largest messages are many times faster; formula (5) has 4.2 to 7."""
    curves = [curve for p in PER_NODE for curve in find_improvements(results, p).values()]
    ends = [points[-1][1] for points in curves]
    reason = f"curves end above {MANY_TIMES}, at {min(ends):.3g} to {max(ends):.3g}"
    return judge_each(ends, lambda ratio: ratio > MANY_TIMES, reason)


def check_two_step(results: Results) -> ClaimVerdict:
    """Judge that Algorithm 1 and the two-step algorithm take equally long for large messages."""
    count, exceptions = 0, []
    for processes in PER_NODE:
        rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        largest = max(row["bytes"] for row in rows)
        times = {
            (r["setting"], r["algorithm"]): r["mean ms"] for r in rows if r["bytes"] == largest
        }
        for setting in REGULAR:
            ratio = times[setting, TEAMS] / times[setting, TWO_STEP]
            count += 1
            if abs(ratio - 1) > 0.05:
                exceptions.append(f"{ratio:.3g} (setting {setting} on {processes} processes)")
    reason = "settings have times within 5 % of each other"
    if exceptions:
        reason += f"; Algorithm 1 over EuroMPI in the others: {', '.join(exceptions)}"
    return judge_share(count - len(exceptions), count, reason)


def state_excess(results: Results) -> ClaimVerdict:
    """Return the largest improvement of Algorithm 2 on 256 processes with equal links."""
    expected = results.values.find("Figure 5", "largest improvement on 256 nodes", "improvement")
    curves = find_improvements(results, 256)
    largest = max(points[-1][1] for n, points in curves.items() if n in IRREGULAR)
    slow = {row["algorithm"]: row["mean ms"] for row in results.rows[SLOW_LINKS]}
    reason = (
        f"the paper measured {expected:g} on Cori, which was shut down in 2023, and explains it by "
        f"links of that machine. With equal links it is {largest:.3g}: root gathering passes "
        "messages along the ranks, as the paper says of MPICH. Slow links between neighbours do "
        "not raise it, because Algorithm 2's rings use the same links: if every 16th link is "
        f"{SLOWER} times as slow, it is {slow[RING] / slow[OURS]:.3g}"
    )
    return ClaimVerdict(NOT_REPRODUCIBLE, reason)


def make_paper() -> Paper:
    """Return the paper with its exhibits."""
    exhibits = read_exhibits("kang", schedule_pictures, kang_theorems, sys.modules[__name__])
    link = "https://doi.org/10.1016/j.parco.2019.04.015"
    return Paper("kang", "Kang et al. 2019", link, RUNS, exhibits)
