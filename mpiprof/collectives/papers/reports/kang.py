"""Kang et al. 2019: allgather between two groups."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.exhibits import Content, Results, make_series, make_table
from mpiprof.interface.format_units import format_round_size

NODE_BYTES = tuple(1 << e for e in range(16, 24))  # 64 KB to 8 MB per node
OLD, RING = "root_gathering_sequential", "root_gathering_ring"
TWO_STEP, TEAMS, OURS = "kang_two_step", "kang_teams", "kang"
PER_NODE = {64: 1, 256: 1, 2048: 32}  # processes per node of the paper's three configurations
REGULAR, IRREGULAR = (1, 2, 3, 4), (5, 6, 7, 8)
# Groups of 16 processes with slower links between them: the links of neighbours differ.
SLOW_LINKS = "256 processes, slow links"


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


def list_times(results: Results, names: dict[str, str], first: int, last: int) -> list[Row]:
    """Return the times of some settings by algorithm; `names` are those of the figure."""
    rows = [
        row | {"processes": processes, "name": names[row["algorithm"]]}
        for processes in PER_NODE
        for row in _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        if first <= row["setting"] <= last and row["algorithm"] in names
    ]
    order = list(names.values())
    return sorted(
        rows, key=lambda r: (r["processes"], r["setting"], order.index(r["name"]), r["bytes"])
    )


def find_improvements(results: Results, processes: int) -> list[Row]:
    """Return the time of root gathering over that of Algorithms 1 and 2, by setting and size.

    Root gathering is MPICH's as the paper describes it: irregular messages go along the ranks.
    """
    rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
    times = {(row["setting"], row["bytes"], row["algorithm"]): row["mean ms"] for row in rows}
    improvements: list[Row] = []
    for row in [row for row in rows if row["algorithm"] == TEAMS]:
        setting, size = row["setting"], row["bytes"]
        old = times[setting, size, RING if setting in IRREGULAR else OLD]
        improvements.append(
            {"processes": processes, "setting": setting, "size": row["bytes per node"]}
            | {"improvement": old / row["mean ms"]}
        )
    return improvements


def list_limits(results: Results, *counts: int) -> list[Row]:
    """Return the improvements of the largest messages on some numbers of processes."""
    limits = results.values.column("Figure 6", "limit")
    rows: list[Row] = []
    for processes in counts:
        last = {row["setting"]: row for row in find_improvements(results, processes)}
        rows += [
            {"processes": processes, "setting": n, "improvement": row["improvement"]}
            | {"paper's limit": limits[f"setting {n}"]}
            for n, row in last.items()
        ]
    return rows


def show_figure_6(results: Results) -> Content:
    """Return the improvements of all settings beside formula (5)."""
    panels = []
    limits = sorted(set(results.values.column("Figure 6", "limit").values()))
    names = {n: f"setting {n}" for n in (*REGULAR, *IRREGULAR)}
    ends = (NODE_BYTES[0], NODE_BYTES[-1])
    for processes in PER_NODE:
        rows = find_improvements(results, processes)
        lines = make_series(rows, "size", "improvement", "setting", names)
        lines += [Series(f"limit {n:g}", ends, (n, n), dashed=True) for n in limits]
        axes = ("largest message per node", "improvement")
        title = f"{processes} processes"
        panels.append(Lines(title, lines, *axes, y_scale="linear", ticks=format_round_size))
    table = make_table("Largest messages", list_limits(results, *PER_NODE))
    return Content([Panels("Improvement over root gathering", panels, 3)], [table])


# ---- cases of claims


def compare_two_step(results: Results) -> list[Row]:
    """Return the time of Algorithm 1 over the two-step algorithm's for the largest messages."""
    ratios: list[Row] = []
    for processes in PER_NODE:
        rows = _with_algorithm_1(results.rows[f"{processes} processes"], processes)
        largest = max(row["bytes"] for row in rows)
        times = {
            (r["setting"], r["algorithm"]): r["mean ms"] for r in rows if r["bytes"] == largest
        }
        ratios += [
            {"ratio": times[n, TEAMS] / times[n, TWO_STEP], "setting": n, "processes": processes}
            for n in REGULAR
        ]
    return ratios


def find_largest(results: Results) -> list[Row]:
    """Return the largest improvement of Algorithm 2 on 256 processes, also with slow links."""
    rows = list_limits(results, 256)
    largest = max(row["improvement"] for row in rows if row["setting"] in IRREGULAR)
    slow = {row["algorithm"]: row["mean ms"] for row in results.rows[SLOW_LINKS]}
    return [{"largest": largest, "slow": slow[RING] / slow[OURS], "factor": machines.SLOWER}]
