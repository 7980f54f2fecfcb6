"""Kang et al. 2019: allgather between two groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiprof.bench.harness.figures import Lines, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCIBLE,
    Claim,
    Content,
    Exhibit,
    Paper,
    Results,
    Table,
    Verdict,
    judge_share,
    judge_values,
    make_series,
)
from mpiprof.bench.papers.kang_theorem_3 import THEOREM_3_RUNS, check_theorem_3, show_theorem_3
from mpiprof.bench.papers.kang_theorems import (
    THEOREM_RUNS,
    check_bound,
    check_formula_1,
    check_formula_2,
    check_linear_links,
    check_link_parts,
    check_links,
    check_proofs,
    show_bound,
    show_formulas,
    trace_examples,
)
from mpiprof.bench.papers.runs import Computation, Run, Simulation
from mpiprof.bench.papers.schedule_pictures import show_schedules
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import DEFAULT, WITH_FAST_MEMORY

NODE_BYTES = tuple(1 << e for e in range(16, 24))  # 64 KB to 8 MB per node
QUICK_BYTES = (1 << 16, 1 << 20, 1 << 23)
OLD, RING = "root_gathering_sequential", "root_gathering_ring"
TWO_STEP, TEAMS, OURS = "kang_two_step", "kang_teams", "kang"
ALGORITHMS = (OLD, RING, TWO_STEP, TEAMS, OURS)
ASSUMED = "assumed, because the paper gives no message times"
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
    **THEOREM_3_RUNS,
}  # fmt: skip
CONFIGURATIONS = tuple(f"{p} processes" for p in PER_NODE)


# ---- figures


def _with_algorithm_1(rows: Sequence[Row], processes: int) -> list[Row]:
    """Return rows with the bytes per node, and Algorithm 1 under one name.

    `kang_teams` is Algorithm 1 if neither size divides the other, otherwise `kang`.
    """
    in_teams = {(row["setting"], row["bytes"]) for row in rows if row["algorithm"] == TEAMS}
    named = []
    for row in rows:
        paper_name = row["algorithm"]
        if paper_name == OURS and (row["setting"], row["bytes"]) not in in_teams:
            paper_name = TEAMS
        per_node = row["bytes"] * PER_NODE[processes]
        named.append(row | {"algorithm": paper_name, "bytes per node": per_node})
    return named


def _show_times(results: Results, settings: Sequence[int], names: dict[str, str]) -> Content:
    panels = []
    for processes in PER_NODE:
        rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        for setting in settings:
            mine = [row for row in rows if row["setting"] == setting]
            lines = make_series(mine, "bytes per node", "mean ms", "algorithm", names)
            title, axes = f"{processes} ({setting})", ("largest message per node", "ms")
            panels.append(Lines(title, lines, *axes, ticks=format_round_size))
    return Content([Panels("Time, titles: processes (setting)", panels, len(settings))])


def show_figure_4(results: Results) -> Content:
    """Return the times of settings 1 to 4."""
    names = {TEAMS: "Algorithm 1", TWO_STEP: "EuroMPI", OLD: "root gathering", OURS: "ours"}
    return _show_times(results, REGULAR, names)


def show_figure_5(results: Results) -> Content:
    """Return the times of settings 5 to 8."""
    names = {
        TEAMS: "Algorithm 2",
        RING: "root gathering (along ranks)",
        OLD: "root gathering (tree)",
    }
    return _show_times(results, IRREGULAR, names)


def find_improvements(
    results: Results, processes: int, new: str = TEAMS
) -> dict[int, list[tuple[int, float]]]:
    """Return the time of root gathering over that of `new`, by setting and size.

    Root gathering is MPICH's as the paper describes it: irregular messages go along the ranks.
    """
    rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
    times = {(row["setting"], row["bytes"], row["algorithm"]): row["mean ms"] for row in rows}
    curves: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        if row["algorithm"] == new:
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


def check_limits(results: Results) -> Verdict:
    """Judge the improvements of the largest messages on 256 processes.

    "According to Eq. (5), improvement curves for setting 1, 2, 3, 4, 5, 6, 7, and 8 should converge
    to 7.0, 4.84, 4.21, 6.68, 7.0, 7.0, 4.84, and 4.84" (Section 5). Pieces of unequal length pass
    the last rings in blocks: "the final intragroup Allgather operations can be performed [...] by
    an Allgatherv operation" (Section 4). So do messages that the roots gather along the ranks: "the
    ring-based intragroup Gather algorithm achieves the lower bound" (Section 5).
    """
    limits = results.values.column("Figure 6", "limit")
    curves = find_improvements(results, 256)
    found = {f"setting {n}": points[-1][1] for n, points in curves.items()}
    return judge_values(found, limits, 0.05)


def check_large_messages(results: Results) -> Verdict:
    """Judge that the algorithms are many times faster with the largest messages.

    The paper gives no least number. Its formula (5) has 4.2 to 7.
    """
    found = [
        points[-1][1]
        for processes in PER_NODE
        for points in find_improvements(results, processes).values()
    ]
    right = sum(ratio > MANY_TIMES for ratio in found)
    reason = f"curves end above {MANY_TIMES}, at {min(found):.3g} to {max(found):.3g}"
    return judge_share(right, len(found), reason)


def check_two_step(results: Results) -> Verdict:
    """Judge that Algorithm 1 and the two-step algorithm take equally long for large messages."""
    ratios = {}
    for processes in PER_NODE:
        rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        largest = max(row["bytes"] for row in rows)
        for setting in REGULAR:
            mine = [r for r in rows if (r["setting"], r["bytes"]) == (setting, largest)]
            times = {row["algorithm"]: row["mean ms"] for row in mine}
            ratios[processes, setting] = times[TEAMS] / times[TWO_STEP]
    others = {where: ratio for where, ratio in ratios.items() if abs(ratio - 1) > 0.05}
    text = ", ".join(
        f"{ratio:.3g} (setting {setting} on {processes} processes)"
        for (processes, setting), ratio in others.items()
    )
    reason = "settings have times within 5 % of each other"
    reason += f"; Algorithm 1 over EuroMPI in the others: {text}" * bool(others)
    return judge_share(len(ratios) - len(others), len(ratios), reason)


def state_excess(results: Results) -> Verdict:
    """Return the largest improvement of Algorithm 2 on 256 processes with equal links."""
    expected = results.values.find("Figure 5", "largest improvement on 256 nodes", "improvement")
    curves = find_improvements(results, 256)
    found = max(points[-1][1] for n, points in curves.items() if n in IRREGULAR)
    slow = {row["algorithm"]: row["mean ms"] for row in results.rows[SLOW_LINKS]}
    reason = (
        f"the paper measured {expected:g} on Cori, which was shut down in 2023, and explains it by "
        f"links of that machine. With equal links it is {found:.3g}: root gathering passes "
        "messages along the ranks, as the paper says of MPICH. Slow links between neighbours do "
        "not raise it, because Algorithm 2's rings use the same links: if every 16th link is "
        f"{SLOWER} times as slow, it is {slow[RING] / slow[OURS]:.3g}"
    )
    return Verdict(NOT_REPRODUCIBLE, reason)


COMPLETE = "Every process receives all data."
EXHIBITS = (
    Exhibit(
        "Figure 1",
        "Section 4",
        "Algorithm 1 on groups of 6 and 2: 0 to 5 are group A, 6 and 7 group B.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="6 and 2 processes")),
    ),
    Exhibit(
        "Figure 2",
        "Section 4",
        "Algorithm 1 on groups of 8 and 3, whose sizes do not divide each other.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="8 and 3 processes")),
    ),
    Exhibit(
        "Figure 3",
        "Section 4.1",
        "Algorithm 2 on groups of 6 and 2. The text gives no sizes: here they rise by rank.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="6 and 2, rising sizes")),
    ),
    Exhibit(
        "Formula (1)",
        "Section 3.1",
        "Cost of the best root gathering, about three times the lower bound M.",
        ("formulas",),
        lambda r: show_formulas(r, "(1)"),
        (Claim("The best root gathering takes about 3 M.", check_formula_1),),
    ),
    Exhibit(
        "Formula (2)",
        "Section 3.1",
        "Cost of root gathering in MPI libraries, with sequential exchanges.",
        ("formulas",),
        lambda r: show_formulas(r, "(2)"),
        (Claim("Root gathering of libraries takes M + 3 (p k_A + q k_B).", check_formula_2),),
    ),
    Exhibit(
        "Theorem 1",
        "Section 4",
        "The transfer time of Algorithm 1 is at most M + k_B.",
        ("theorem 1",),
        lambda r: show_bound(r, "theorem 1"),
        (Claim("No case exceeds M + k_B.", lambda r: check_bound(r, "theorem 1")),),
    ),
    Exhibit(
        "Theorem 2",
        "Section 4",
        "Algorithm 1 is correct.",
        ("proofs",),
        claims=(Claim(COMPLETE, lambda r: check_proofs(r, "allgather")),),
    ),
    Exhibit(
        "Links",
        "Section 4",
        "Links that Algorithm 1 requires.",
        ("links",),
        lambda r: Content(tables=[Table("Links", tuple(r.rows["links"][0]), r.rows["links"])]),
        (
            Claim("The exchange uses p links, the rings p and q.", check_link_parts),
            Claim("It uses fewer than p + q + p/q links.", check_links),
            Claim("Their number is linear in that of processes.", check_linear_links),
        ),
    ),
    Exhibit(
        "Theorem 3",
        "Section 4.1",
        "The transfer time of Algorithm 2 is at most max(K_A + max k_A, K_B + max k_B).",
        ("theorem 3", "counter-examples"),
        show_theorem_3,
        (Claim("No case exceeds the bound.", check_theorem_3),),
    ),
    Exhibit(
        "Theorem 4",
        "Section 4.1",
        "Algorithm 2 is correct.",
        ("proofs",),
        claims=(Claim(COMPLETE, lambda r: check_proofs(r, "allgatherv")),),
    ),
    Exhibit(
        "Figure 4",
        "Section 5",
        "Time of allgather over the size, settings 1 to 4, on 64, 256 and 2048 processes: the mean "
        "of the slowest processes' times, which are equal in all simulated calls. "
        "Ours (kang) divides messages evenly where group sizes do not divide each other.",
        CONFIGURATIONS,
        show_figure_4,
        (Claim("Algorithm 1 takes as long as the EuroMPI algorithm.", check_two_step),),
    ),
    Exhibit(
        "Figure 5",
        "Section 5",
        "Time of allgatherv over the size, settings 5 to 8, on 64, 256 and 2048 processes.",
        (*CONFIGURATIONS, SLOW_LINKS),
        show_figure_5,
        (Claim("The improvement on 256 nodes is up to 23.67.", state_excess),),
    ),
    Exhibit(
        "Figure 6",
        "Section 5",
        "Time of root gathering over that of Algorithms 1 and 2, for settings 1 to 8.",
        CONFIGURATIONS,
        show_figure_6,
        (
            Claim("With the size, improvements converge to formula (5).", check_limits),
            Claim("Large messages are many times faster.", check_large_messages),
        ),
    ),
)
CITATION = "Kang et al. 2019"
PAPER = Paper("kang", CITATION, "https://doi.org/10.1016/j.parco.2019.04.015", RUNS, EXHIBITS)
