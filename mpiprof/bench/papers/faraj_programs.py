"""Faraj et al. 2008, Section 4: message times and arrivals in programs.

Samples of this project replace the paper's seven programs in Tables 1 to 5, Figures 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mpiprof.bench.harness.figures import Bars, Lines, Panels, Series
from mpiprof.bench.harness.intervals import Estimate
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import Claim, Content, Exhibit, Results, Table
from mpiprof.bench.papers.faraj_program_claims import (
    SIZES,
    STAND_INS,
    check_balanced_routine,
    check_bandwidths,
    check_few_balanced,
    check_measured_bandwidths,
    check_programs,
    check_routines,
    check_shares,
    check_similar,
    check_small,
    compare_message_times,
    compute_message_times,
    is_known,
)
from mpiprof.bench.papers.runs import CLUSTER, HOUR_S, Computation, Measurement, Run
from mpiprof.bench.studies.apps import ALL, SINGLE_WIDTH, WHOLE
from mpiprof.bench.studies.arrival import plot_factors
from mpiprof.interface.format_units import format_round_size, format_share
from mpiprof.metrics.aggregate import RANGE_NAMES

PLACED_RUNS = ("apps", "apps on the cluster")
RUNS: dict[str, Run] = {
    "message times": Computation(compute_message_times, "message times of the simulator"),
    # Two ranks have few arrivals in between: their factors scatter far around the median.
    "apps": Measurement(
        ("apps",),
        0.25 * HOUR_S,
        ("apps", "--cluster", "8x100mbit", "--quick"),
        120,
        ("apps", "--quick"),
    ),
    "apps on the cluster": Measurement(("apps", *CLUSTER), 0.3 * HOUR_S),
}
MACHINES = ("Lemieux", "Beowulf")


def find_places(results: Results, table: str = "") -> Iterator[tuple[str, list[Row]]]:
    """Yield the places where the programs ran, each with the rows of one of their tables."""
    for run in PLACED_RUNS:
        rows = results.rows.get(f"{run} {table}".strip(), [])
        if rows:
            yield results.find_place(run), rows


def show_single(value: float) -> Estimate:
    """Return a value of a single run, or of one measurement of message times, with two digits."""
    return Estimate(value, width=SINGLE_WIDTH * abs(value))


def find_stand_ins(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of programs that replace programs of Section 4, each with the replaced one."""
    for program, replaced in STAND_INS.items():
        yield from ((replaced, row) for row in rows if row["program"] == program)


# ---- Tables 1 to 3


def show_table_1(results: Results) -> Content:
    """Return the message times of the paper and of the simulator, and the measured ones."""
    rows = compare_message_times(results)
    series = []
    for machine in MACHINES:
        mine = [row for row in rows if row["machine"] == machine]
        sizes = [SIZES[row["size"]] for row in mine]
        series.append(Series(machine, sizes, [row["simulated ms"] for row in mine]))
        paper = f"{machine}, paper"
        series.append(Series(paper, sizes, [row["paper ms"] for row in mine], dashed=True))
    tables = []
    for place, times in find_places(results, "messages"):
        for link in dict.fromkeys(row["link"] for row in times):
            chosen = [
                row for row in times if row["link"] == link and row["bytes"] in SIZES.values()
            ]
            points = [(row["bytes"], row["time ms"]) for row in chosen]
            series.append(Series.of_points(f"{place}, {link}", points))
            shown = [
                {"size": format_round_size(row["bytes"])}
                | {column: show_single(row[column]) for column in ("time ms", "MB/s")}
                for row in chosen
            ]
            title = f"Measured one way: {place}, {link}"
            tables.append(Table(title, ("size", "time ms", "MB/s"), shown))
    columns = ("machine", "size", "simulated ms", "paper ms", "ratio")
    tables.append(Table("Message times of the simulator", columns, rows))
    figure = Lines("Message times", series, "size", "ms", ticks=format_round_size)
    return Content([figure], tables)


def show_table_2(results: Results) -> Content:
    """Return lines, time and time in collectives of the programs, beside the paper's."""
    tables = []
    for place, rows in find_places(results):
        lines = {
            row["program"]: row["lines"] for row in dict(find_places(results, "programs"))[place]
        }
        shown = []
        for replaced, row in find_stand_ins([row for row in rows if row["routine"] == WHOLE]):
            whole, program = row["native s"], row["program"]
            inside = next(
                r["native s"] for r in rows if r["program"] == program and r["routine"] == ALL
            )
            cells = {
                "exec. s": whole,
                "comm. s": inside,
                "comm. share": format_share(inside / whole),
            }
            paper = [
                results.values.find("Table 2", replaced, f"{kind} time")
                for kind in ("execution", "communication")
            ]
            cells["paper's share"] = format_share(paper[1] / paper[0])
            cells["paper's lines"] = f"{results.values.find('Table 2', replaced, 'program'):.0f}"
            shown.append({"for": replaced, "program": program, "lines": lines[program]} | cells)
        tables.append(Table(f"Programs on {place}", tuple(shown[0]), shown))
    return Content(tables=tables)


def show_table_3(results: Results) -> Content:
    """Return the routines of the programs, their calls and sizes, beside the paper's."""
    tables = []
    for place, rows in find_places(results, "collectives"):
        shown = []
        for replaced, row in find_stand_ins(rows):
            name = f"{replaced} {row['routine']}"
            calls = results.values.column("Table 3", "calls").get(name, "")
            cells = {"bytes": format_range(row), "calls": row["calls"]}
            cells |= {"bytes, paper": find_paper_bytes(results, name), "calls, paper": calls}
            shown.append({"for": replaced, "routine": row["routine"]} | cells)
        tables.append(Table(f"Collectives on {place}", tuple(shown[0]), shown))
    return Content(tables=tables)


def find_paper_bytes(results: Results, name: str) -> str:
    """Return the paper's message size of a routine, or its range; "" if it has none."""
    kinds = ("message", "least message", "largest message")
    sizes = [results.values.column("Table 3", kind).get(name) for kind in kinds]
    return " to ".join(f"{size:.0f}" for size in sizes if size is not None)


def format_range(row: Row) -> str:
    """Return the bytes of a routine's messages: the mean, or the range over its call sites."""
    least, most = row["least bytes"], row["most bytes"]
    same = least == most or not least < most
    return f"{row['message bytes']:.0f}" if same else f"{least:.0f} to {most:.0f}"


# ---- Tables 4 and 5, Figures 2 and 3


def add_paper_factors(results: Results, table: str, head: str) -> Row:
    """Return the paper's factors of a program or routine on both machines."""
    cells: Row = {}
    for machine in MACHINES:
        for kind in ("average", "worst"):
            column = f"{machine} {kind}"
            cells[column] = results.values.column(table, column).get(head, "")
    return cells


def _show_factors(row: Row) -> Row:
    """Return the measured factors; "" without message times."""
    names = {"average δ/T": "δ/T", "worst ω/T": "ω/T"}
    return {
        name: show_single(row[column]) if is_known(row[column]) else ""
        for name, column in names.items()
    }


def show_table_4(results: Results) -> Content:
    """Return the average factors of all collectives of each program, beside the paper's."""
    tables = []
    for place, rows in find_places(results):
        shown = []
        for replaced, row in find_stand_ins([row for row in rows if row["routine"] == ALL]):
            cells = {"for": replaced} | _show_factors(row)
            shown.append(cells | add_paper_factors(results, "Table 4", replaced))
        tables.append(Table(f"Factors of all collectives on {place}", tuple(shown[0]), shown))
    return Content(tables=tables)


def show_table_5(results: Results) -> Content:
    """Return the factors of the major routines: of the paper, and with a tenth of the time."""
    tables = []
    paper = results.values.column("Table 5", "Lemieux average")
    for place, rows in find_places(results, "collectives"):
        shown = []
        for replaced, row in find_stand_ins(rows):
            name = f"{replaced} {row['routine']}"
            if name in paper or row["share of time"] >= 0.1:
                cells = {"for": replaced, "routine": row["routine"]}
                cells |= {"share of time": format_share(row["share of time"])}
                cells |= _show_factors(row)
                shown.append(cells | add_paper_factors(results, "Table 5", name))
        tables.append(Table(f"Factors of major routines on {place}", tuple(shown[0]), shown))
    return Content(tables=tables)


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
            mine = [row for row in rows if row["program"] == program]
            title = f"{STAND_INS[program]}, {mine[0]['routine']}, {place}"
            panels.append(plot_factors(title, mine))
    return _combine_panels("Factors of single instances", panels)


def _combine_panels(title: str, panels: Sequence[Bars | Lines]) -> Content:
    """Return one figure of all panels, or the reason why there is none."""
    if not panels:
        return Content(notes=["No figure, because message times were not usable."])
    return Content([Panels(title, panels, min(len(panels), 2))])


# ---- exhibits


EXHIBITS = (
    Exhibit(
        "Table 1",
        "Section 4.1",
        "Message times: measured, and of the simulator's two machines, beside the paper's.",
        ("message times",),
        show_table_1,
        (
            Claim("The bandwidths follow from the times.", check_bandwidths),
            Claim("The bandwidth grows with the size.", check_measured_bandwidths),
        ),
        optional_runs=("apps", "apps on the cluster"),
    ),
    Exhibit(
        "Table 2",
        "Section 4.2",
        "Lines, times and times in collectives of samples, in place of the paper's programs.",
        ("apps",),
        show_table_2,
        (Claim("All programs spend time in collectives.", check_shares),),
        optional_runs=("apps on the cluster",),
    ),
    Exhibit(
        "Table 3",
        "Section 4.2",
        "Routines of the samples, their message sizes and calls, beside the paper's.",
        ("apps",),
        show_table_3,
        (Claim("The programs call these routines.", check_routines),),
        optional_runs=("apps on the cluster",),
    ),
    Exhibit(
        "Table 4",
        "Section 4.4",
        "Average imbalance factors of all collectives of the samples, beside the paper's.",
        ("apps",),
        show_table_4,
        (Claim("Arrivals of every program are imbalanced.", check_programs),),
        optional_runs=("apps on the cluster",),
    ),
    Exhibit(
        "Figure 2",
        "Section 4.4",
        "Distribution of worst-case factors, for small and for larger messages.",
        ("apps",),
        show_figure_2,
        (
            Claim("At most 21 % of the operations are balanced.", check_few_balanced),
            Claim("Operations with small messages are less balanced.", check_small),
        ),
        optional_runs=("apps on the cluster",),
    ),
    Exhibit(
        "Table 5",
        "Section 4.4",
        "Imbalance factors of the major routines of the samples, beside the paper's.",
        ("apps",),
        show_table_5,
        (Claim("Only the alltoallv of IS is balanced.", check_balanced_routine),),
        optional_runs=("apps on the cluster",),
    ),
    Exhibit(
        "Figure 3",
        "Section 4.4",
        "Factors of single instances: all-to-all in FT, and allgather in NBODY.",
        ("apps",),
        show_figure_3,
        (Claim("Most instances of a call site have similar factors.", check_similar),),
        optional_runs=("apps on the cluster",),
    ),
)
