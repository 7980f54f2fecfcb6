"""Faraj et al. 2008, Section 4: message times, arrivals in programs, and cases of claims.

Samples of this project replace the paper's seven programs in Tables 1 to 5, Figures 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from statistics import median

import numpy as np

from mpiprof.account.aggregate import FACTOR_RANGES, RANGE_NAMES
from mpiprof.collectives.papers.harness.figures import Bars, Lines, Panels, Series
from mpiprof.collectives.papers.harness.intervals import IntervalEstimate
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.claim_rules import is_known
from mpiprof.collectives.papers.reports.exhibits import Content, Results, Table, make_table
from mpiprof.collectives.papers.reports.machines import BEOWULF, LEMIEUX
from mpiprof.collectives.papers.studies.apps import ALL, FACTORS, SINGLE_WIDTH, WHOLE
from mpiprof.collectives.papers.studies.arrival import plot_factors
from mpiprof.interface.format_units import format_round_size, format_share

SIZES = {"4 B": 4, "256 B": 256, **{f"{n} KB": n << 10 for n in (1, 4, 16, 32, 64, 128)}}
MACHINES = {"Lemieux": LEMIEUX, "Beowulf": BEOWULF}
STAND_INS = {  # samples in place of the programs of Section 4
    "ft": "FT",
    "is": "IS",
    "lammps": "LAMMPS",
    "paradyn": "PARADYN",
    "nbody": "NBODY",
    "md": "NTUBE 1",
    "ntube2": "NTUBE 2",
}
NO_TIMES = "message times were not usable, so there are no factors"
NEAR = 2.0  # ratio of the factors of similar instances
PLACED_RUNS = ("apps", "apps on the cluster")


def compute_message_times(_: bool) -> list[Row]:
    """Return the time of each size on the simulator's two machines."""
    return [
        {"size": name, "machine": machine, "simulated ms": (m.alpha + size * m.beta) / 1e6}
        for machine, m in MACHINES.items()
        for name, size in SIZES.items()
    ]


def compare_message_times(results: Results) -> list[Row]:
    """Return the rows with the paper's time."""
    rows = []
    for row in results.rows["message times"]:
        paper = results.values.find("Table 1", row["size"], f"{row['machine']} time")
        rows.append(row | {"paper ms": paper, "ratio": row["simulated ms"] / paper})
    return rows


def find_places(results: Results, table: str = "") -> Iterator[tuple[str, list[Row]]]:
    """Yield the places where the programs ran, each with the rows of one of their tables."""
    for run in PLACED_RUNS:
        rows = results.rows.get(f"{run} {table}".strip(), [])
        if rows:
            yield results.find_place(run), rows


def show_single(value: float) -> IntervalEstimate:
    """Return a value of a single run, or of one measurement of message times, with two digits."""
    return IntervalEstimate(value, width=SINGLE_WIDTH * abs(value))


def find_stand_ins(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of programs that replace programs of Section 4, each with the replaced one."""
    for program, replaced in STAND_INS.items():
        yield from ((replaced, row) for row in rows if row["program"] == program)


# ---- tables


def show_table_1(results: Results) -> Content:
    """Return the message times of the paper and of the simulator, and the measured ones."""
    rows = compare_message_times(results)
    series = []
    for machine in MACHINES:
        machine_rows = [row for row in rows if row["machine"] == machine]
        sizes = [SIZES[row["size"]] for row in machine_rows]
        series.append(Series(machine, sizes, [row["simulated ms"] for row in machine_rows]))
        paper = f"{machine}, paper"
        series.append(Series(paper, sizes, [row["paper ms"] for row in machine_rows], dashed=True))
    tables = []
    for place, times in find_places(results, "messages"):
        for link in dict.fromkeys(row["link"] for row in times):
            chosen = [r for r in times if r["link"] == link and r["bytes"] in SIZES.values()]
            points = [(row["bytes"], row["time ms"]) for row in chosen]
            series.append(Series.of_points(f"{place}, {link}", points))
            table_rows = [
                {"size": format_round_size(row["bytes"])}
                | {column: show_single(row[column]) for column in ("time ms", "MB/s")}
                for row in chosen
            ]
            tables.append(make_table(f"Measured one way: {place}, {link}", table_rows))
    columns = ("machine", "size", "simulated ms", "paper ms", "ratio")
    tables.append(Table("Message times of the simulator", columns, rows))
    figure = Lines("Message times", series, "size", "ms", ticks=format_round_size)
    return Content([figure], tables)


def list_samples(results: Results, table: str = "") -> list[Row]:
    """Return the rows of all places, with the replaced program, and two digits of the factors."""
    samples = []
    for place, rows in find_places(results, table):
        for replaced, row in find_stand_ins(rows):
            labels = {"place": place, "for": replaced, "name": f"{replaced} {row['routine']}"}
            factors = {c: show_single(row[c]) if is_known(row[c]) else "" for c in FACTORS}
            samples.append(row | labels | factors)
    return samples


def list_times(results: Results) -> list[Row]:
    """Return lines, time, and time in collectives of the programs."""
    places = find_places(results, "programs")
    lines = {(place, r["program"]): r["lines"] for place, rows in places for r in rows}
    samples = list_samples(results)
    inside = {(r["place"], r["program"]): r["native s"] for r in samples if r["routine"] == ALL}
    times: list[Row] = []
    for row in [row for row in samples if row["routine"] == WHOLE]:
        key = row["place"], row["program"]
        share = inside[key] / row["native s"]
        times.append(row | {"lines": lines[key], "inside s": inside[key], "share": share})
    return times


def list_sizes(results: Results) -> list[Row]:
    """Return the routines with the ranges of their message sizes, also of the paper's."""
    return [
        row | {"bytes": format_range(row), "paper bytes": find_paper_bytes(results, row["name"])}
        for row in list_samples(results, "collectives")
    ]


def find_paper_bytes(results: Results, name: str) -> str:
    """Return the paper's message size of a routine, or its range; "" if it has none."""
    kinds = ("message", "least message", "largest message")
    sizes = [results.values.column("Table 3", kind).get(name) for kind in kinds]
    return " to ".join(f"{size:.0f}" for size in sizes if size is not None)


def format_range(row: Row) -> str:
    """Return the bytes of a routine's messages: the mean, or the range over its call sites."""
    smallest, largest = row["least bytes"], row["most bytes"]
    same = smallest == largest or not smallest < largest
    return f"{row['message bytes']:.0f}" if same else f"{smallest:.0f} to {largest:.0f}"


# ---- figures


def show_figure_2(results: Results) -> Content:
    """Return the distribution of worst-case factors for small and larger messages."""
    panels = []
    for place, rows in find_places(results, "distribution"):
        shares: dict[str, list[float]] = {}
        for row in rows:
            shares.setdefault(row["messages"], []).append(row["share"])
        panels.append(Bars(place, RANGE_NAMES, shares, "of the instances", format_share))
    return _combine_panels("Worst-case factors ω/T", panels)


def show_figure_3(results: Results) -> Content:
    """Return both factors of each instance of FT's all-to-all and NBODY's allgather."""
    panels = []
    for place, rows in find_places(results, "instances"):
        for program in dict.fromkeys(row["program"] for row in rows):
            program_rows = [row for row in rows if row["program"] == program]
            title = f"{STAND_INS[program]}, {program_rows[0]['routine']}, {place}"
            panels.append(plot_factors(title, program_rows))
    return _combine_panels("Factors of single instances", panels)


def _combine_panels(title: str, panels: Sequence[Bars | Lines]) -> Content:
    """Return one figure of all panels, or the reason why there is none."""
    if not panels:
        return Content(notes=["No figure, because message times were not usable."])
    return Content([Panels(title, panels, min(len(panels), 2))])


# ---- cases of claims


def list_bandwidths(results: Results) -> list[Row]:
    """Return the sizes over the paper's times, beside its bandwidths in MB/s."""
    find = results.values.find
    return [
        {"computed": size / find("Table 1", name, f"{machine} time") / 1e3}
        | {"paper": find("Table 1", name, f"{machine} bandwidth")}
        for machine, (name, size) in product(MACHINES, SIZES.items())
    ]


def list_bandwidth_steps(results: Results) -> list[Row]:
    """Return the measured bandwidths of each size of Table 1 and of the next one."""
    rows = [r for r in results.rows.get("apps messages", []) if r["bytes"] in SIZES.values()]
    ends = {"first": rows[0]["MB/s"], "last": rows[-1]["MB/s"]} if rows else {}
    return [
        {"before": before["MB/s"], "after": after["MB/s"], **ends}
        for before, after in pairwise(rows)
        if before["link"] == after["link"]
    ]


def list_shares(results: Results) -> list[Row]:
    """Return the share of collectives in each program, beside the paper's smallest share."""
    execution = results.values.column("Table 2", "execution time")
    inside = results.values.column("Table 2", "communication time")
    smallest = min(inside[name] / execution[name] for name in execution)
    seconds = {(r["program"], r["routine"]): r["native s"] for r in results.rows["apps"]}
    return [
        {"share": seconds[name, ALL] / seconds[name, WHOLE], "smallest": smallest}
        | {"percent": 100 * smallest}
        for name in STAND_INS
    ]


def list_routines(results: Results) -> list[Row]:
    """Return the routines of Table 3, and whether the samples call them."""
    rows = find_stand_ins(results.rows["apps collectives"])
    called = {f"{replaced} {row['routine']}" for replaced, row in rows}
    names = dict.fromkeys(value.row for value in results.values.of_exhibit("Table 3"))
    return [{"name": name, "called": name in called} for name in names]


def list_factors(results: Results) -> list[Row]:
    """Return the worst-case factors of all routines of the samples."""
    rows = find_stand_ins(results.rows["apps collectives"])
    return [
        {"name": f"{replaced} {row['routine']}", "factor": row["ω/T"]} for replaced, row in rows
    ]


def compare_sizes(results: Results) -> list[Row]:
    """Return the shares of small and of large messages below each limit of a range of factors.

    "Arrival patterns for operations with large messages are in general less imbalanced than those
    for operations with small messages" (Section 4.4). The first limit is that of balance.
    """
    below: dict[str, list[float]] = {}
    for row in results.rows.get("apps distribution", []):
        below.setdefault(row["messages"], []).append(row["share"])
    if len(below) < 2:
        return []
    sums = {name: np.cumsum(shares)[:-1].tolist() for name, shares in below.items()}
    parts = [f"{name}: {', '.join(map(format_share, shares))}" for name, shares in sums.items()]
    texts = {"limits": ", ".join(f"{n:g}" for n in FACTOR_RANGES), "shares": "; ".join(parts)}
    small, large = sums.values()
    pairs = zip(small, large, strict=True)
    return [{"small": a, "large": b, "differs": small != large, **texts} for a, b in pairs]


def list_similar(results: Results) -> list[Row]:
    """Return how many instances of each followed call site are near the median."""
    factors: dict[str, list[float]] = {}
    for row in results.rows.get("apps instances", []):
        factors.setdefault(STAND_INS[row["program"]], []).append(row["ω/T"])
    return [
        {"program": program, "instances": len(values)}
        | {"near": sum(median(values) / NEAR <= f <= median(values) * NEAR for f in values)}
        for program, values in factors.items()
    ]
