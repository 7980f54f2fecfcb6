"""Faraj et al. 2008, Section 7: the routine ROBUST, the library's routine, and `auto`.

All rows come from `bench robust`, where `--switch robust` is the paper's routine. The gains of
ROBUST are over the MPI libraries of four machines, which do not exist any more. Libraries of today
have some of its algorithms, so that a report shows the ratios here but does not judge these claims.
"""

from __future__ import annotations

from itertools import product

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import Content, Results, Table, make_table
from mpiprof.collectives.papers.reports.faraj_programs import find_places
from mpiprof.collectives.papers.studies.apps import WHOLE
from mpiprof.facts.operations import AUTO, ROBUST
from mpiprof.interface.format_units import format_round_size

RUN = "robust"
TABLE_BYTES = 64 << 10
FACTORS = {"Figure 12": 1, "Table 9": 1, "Figure 13": 100}  # MAX_IF
MACHINES = ("LEMIEUX", "UC-TG", "AVIDD-T", "AURORA")
INTERVALS = {"native / robust": "native / robust 95 %", "auto / robust": "robust 95 %"}
NO_ROWS = "the quick report has no setting of this exhibit"


# ---- rows


def select_settings(results: Results, exhibit: str) -> list[Row]:
    """Return the settings of an exhibit; Table 10 has the computation of the largest MAX_IF."""
    rows = results.rows[RUN]
    if exhibit in FACTORS:
        rows = [row for row in rows if row["MAX_IF"] == FACTORS[exhibit]]
    if exhibit.startswith("Table"):
        rows = [row for row in rows if row["bytes"] == TABLE_BYTES]
    if exhibit == "Table 10":
        largest = max((row["MAX_IF"] for row in rows), default=0)
        times = {row["computation ms"] for row in rows if row["MAX_IF"] == largest}
        rows = [row for row in rows if row["computation ms"] in times]
    return rows


# ---- figures and tables

SHOWN = ("native", "robust", "auto", "best")
SIZE_COLUMNS = ("bytes", "computation ms", *(f"{name} ms" for name in SHOWN), "native / robust")


def show_sizes(results: Results, exhibit: str) -> Content:
    """Return the times of native, robust and auto over the size, for each computation time."""
    rows = select_settings(results, exhibit)
    if not rows:
        return Content(notes=[NO_ROWS])
    panels = []
    for computation in sorted({row["computation ms"] for row in rows}):
        settings = [row for row in rows if row["computation ms"] == computation]
        sizes = [row["bytes"] for row in settings]
        lines = [Series(name, sizes, [row[f"{name} ms"] for row in settings]) for name in SHOWN]
        title = f"{computation} ms of computation"
        panels.append(Lines(title, lines, "size", "ms", ticks=format_round_size))
    figure = Panels(f"MAX_IF {FACTORS[exhibit]}", panels, 2)
    return Content([figure], [Table("Times", SIZE_COLUMNS, rows)])


def show_table(results: Results, exhibit: str, label: str, unit: str) -> Content:
    """Return the times of both routines and of auto over a label, and the paper's speed-ups."""
    columns = (
        *("native ms", "robust ms", "auto ms", "native / robust", "native / auto"),
        *("robust algorithm", "algorithm", "robust probes", "probes"),
    )
    table_rows = []
    for row in select_settings(results, exhibit):
        head = unit.format(row[label])
        paper = results.values.column(exhibit, head)
        speedups = {f"{m} %": paper.get(f"{m} speed-up", "") for m in MACHINES}
        table_rows.append({label: row[label]} | {c: row[c] for c in columns} | speedups)
    if not table_rows:
        return Content(notes=[NO_ROWS])
    note = "The columns of machines are the paper's speed-ups of ROBUST over NATIVE in percent."
    return Content(tables=[make_table(exhibit, table_rows)], notes=[note])


# ---- cases of claims


def list_ratios(results: Results, exhibit: str, column: str) -> list[Row]:
    """Return a ratio in the settings of an exhibit, with its interval and the limits of it."""
    rows: list[Row] = []
    for row in select_settings(results, exhibit):
        interval = str(row[INTERVALS[column]])
        limits = interval.split(" to ") if interval else (row[column],) * 2  # an exact ratio
        rows.append(
            {"ratio": row[column], "interval": f" ({interval})" * bool(interval)}
            | dict(zip(("low", "high"), map(float, limits), strict=True))
        )
    return rows


def list_probes(results: Results) -> list[Row]:
    """Return the number of probes under auto and robust in all settings."""
    columns = {"auto": "probes", "robust": "robust probes"}
    return [
        {name: count_probes(row[column]) for name, column in columns.items()}
        for row in results.rows[RUN]
    ]


def count_probes(text: object) -> int:
    """Return the number of probes in all phases, such as "12+4"; 0 if unknown."""
    words = str(text).split("+")
    return sum(int(word) for word in words) if all(word.isdigit() for word in words) else 0


# ---- Section 7.4: four programs


CLUSTERS = {"LEMIEUX": 128, "UC-TG": 64, "AVIDD-T": 32, "AURORA": 16}  # processes
# Points of the whole problem on each cluster, and bytes per point. 20 B per cell of VH-1 follow
# from the sizes of Table 11.
PROBLEMS = {
    "FT": ((512**3,) * 4, 16),
    "VH-1": (tuple((1024 * i) ** 2 for i in (16, 8, 4, 2)), 20),
    "FFT-2D": ((4096**2,) * 4, 16),
    "MT": ((4096**2,) * 4, 8),
}
STAND_INS = {"ft": "FT", "hydro": "VH-1", "fft2d": "FFT-2D", "transpose": "MT"}
ROUTINE = "alltoall"


def compute_message_sizes(_: bool) -> list[Row]:
    """Return the bytes that a process sends to another one, for a problem in equal blocks."""
    return [
        {"program": name, "cluster": cluster, "processes": size, "KB": bytes_ * n / size**2 / 1024}
        for name, (points, bytes_) in PROBLEMS.items()
        for (cluster, size), n in zip(CLUSTERS.items(), points, strict=True)
    ]


def show_table_11(results: Results) -> Content:
    """Return the message sizes by number of processes, beside the paper's."""
    find, series = results.values.find, []
    table_rows = [
        row | {"paper KB": find("Table 11", row["program"], row["cluster"])}
        for row in results.rows["message sizes"]
    ]
    for name in PROBLEMS:
        rows = [row for row in table_rows if row["program"] == name]
        sizes, simulated, paper = ([r[c] for r in rows] for c in ("processes", "KB", "paper KB"))
        series.append(Series(name, sizes, simulated))
        series.append(Series(f"{name}, paper", sizes, paper, dashed=True))
    figure = Lines("Messages of the all-to-all", series, "processes", "KB", ticks="{:.0f}".format)
    return Content([figure], [make_table("Message sizes", table_rows)])


# ---- Table 12


def show_table_12(results: Results) -> Content:
    """Return the table with the paper's rows and columns, measured and of the paper."""
    tables = []
    for place, rows in find_places(results):
        table_rows = []
        for program, replaced in STAND_INS.items():
            by_routine = {r["routine"]: r for r in rows if r["program"] == program}
            if ROUTINE in by_routine:
                table_rows += _make_rows(replaced, by_routine[ROUTINE], by_routine[WHOLE])
        if table_rows:
            tables.append(make_table(f"Measured on {place}", table_rows))
    tables.append(_make_paper_table(results))
    return Content(tables=tables)


def _make_rows(name: str, inside: Row, total: Row) -> list[Row]:
    both = {"comm.": inside, "total": total}
    rows: list[Row] = [
        {"program": name, "implem.": "NATIVE"} | _cells(both, "native s"),
        *_rows_of(both, ROBUST, "ROBUST", "robust algorithm"),
        *_rows_of(both, AUTO, AUTO, "algorithm"),
    ]
    for column, row in both.items():
        rows[0][column] += f" ± {row['native ±']:.1g}"
    return rows


def _rows_of(both: dict[str, Row], selector: str, title: str, algorithm: str) -> list[Row]:
    """Return the rows of a selector's run: times, speed-ups and its algorithm."""
    speedups = {c: f"{100 * (row[f'native / {selector}'] - 1):.0f} %" for c, row in both.items()}
    return [
        {"program": "", "implem.": title} | _cells(both, f"{selector} s"),
        {"program": "", "implem.": "speed-up"} | speedups,
        {"program": "", "implem.": "algorithm", "comm.": both["comm."][algorithm], "total": ""},
    ]


def _cells(both: dict[str, Row], column: str) -> Row:
    return {name: f"{row[column]:.3g} s" for name, row in both.items()}


def _make_paper_table(results: Results) -> Table:
    rows: list[Row] = []
    kinds = {"communication": "comm.", "total": "total"}
    for name, implementation in product(PROBLEMS, ("NATIVE", "ROBUST")):
        row: Row = {"program": name, "implem.": implementation}
        for cluster, kind in product(CLUSTERS, kinds):
            head, column = f"{name} {implementation}", f"{cluster} {kind}"
            row[f"{cluster} {kinds[kind]}"] = f"{results.values.find('Table 12', head, column):g} s"
        rows.append(row)
    return make_table("The paper's times", rows)


def list_long_programs(results: Results, routine: str) -> list[Row]:
    """Return the rows of the programs that call the all-to-all after the last probe of robust."""
    probes = int(results.values.find("ROBUST", "probes", "instances"))
    calls = {r["program"]: r["instances"] for r in results.select("apps", routine=ROUTINE)}
    return [
        row | {"name": STAND_INS[row["program"]], "longest": row["robust s"] + row["native ±"]}
        for row in results.select("apps", routine=routine)
        if row["program"] in STAND_INS and calls.get(row["program"], 0) > probes
    ]
