"""Faraj et al. 2008, Section 7: the routine ROBUST, the library's routine, and `auto`.

All rows come from `bench robust`, where `--switch robust` is the paper's routine. The gains of
ROBUST are over the MPI libraries of four machines, which do not exist any more. Libraries of today
have some of its algorithms, so that a report shows the ratios here but does not judge these claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCIBLE,
    ClaimVerdict,
    Content,
    Results,
    Table,
    judge_each,
    make_table,
)
from mpiprof.collectives.papers.reports.faraj_programs import find_places
from mpiprof.collectives.papers.reports.runs import Computation, Run
from mpiprof.collectives.papers.studies.apps import WHOLE
from mpiprof.facts.operations import AUTO, ROBUST
from mpiprof.interface.format_units import format_round_size

RUN = "robust"
TABLE_BYTES = 64 << 10
FACTORS = {"Figure 12": 1, "Table 9": 1, "Figure 13": 100}  # MAX_IF
MACHINES = ("LEMIEUX", "UC-TG", "AVIDD-T", "AURORA")
INTERVALS = {"native / robust": "native / robust 95 %", "auto / robust": "robust 95 %"}
NO_ROWS = "the quick report has no setting of this exhibit"
OLD_NATIVE = "NATIVE is the MPI libraries of machines that do not exist any more"


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


# ---- claims


def check_probes(results: Results) -> ClaimVerdict:
    """Judge that the routine probes as often as in the paper."""
    expected = int(results.values.find("ROBUST", "probes", "instances"))
    reason = f"settings have {expected} probes under robust"
    return judge_each(results.rows[RUN], lambda row: row["robust probes"] == expected, reason)


def check_not_slower(results: Results, exhibit: str) -> ClaimVerdict:
    """Judge that robust is not surely slower after its probes than native, which it includes."""
    rows, column = select_settings(results, exhibit), "native / robust"
    reason = "settings have robust not surely slower than native (95 %); native over robust: "
    reason += _list_ratios(rows, column)
    return judge_each(rows, lambda row: _find_limits(row, column)[1] >= 1, reason, NO_ROWS)


def state_gain(results: Results, exhibit: str) -> ClaimVerdict:
    """Return the times of native over robust with the library of today."""
    ratios = _list_ratios(select_settings(results, exhibit), "native / robust")
    fact = f"with the library of this machine, native over robust is {ratios}"
    return ClaimVerdict(NOT_REPRODUCIBLE, f"{OLD_NATIVE}; {fact if ratios else NO_ROWS}")


def check_rival(results: Results, exhibit: str) -> ClaimVerdict:
    """Judge that auto is not surely behind robust after probing."""
    rows = select_settings(results, exhibit)
    ratios = ", ".join(f"{row['auto / robust']:.3g}" for row in rows)
    reason = f"settings have auto not surely behind robust (95 %); auto over robust: {ratios}"
    return judge_each(rows, lambda row: _find_limits(row, "auto / robust")[0] <= 1, reason, NO_ROWS)


def _find_limits(row: Row, column: str) -> tuple[float, float]:
    """Return the limits of the interval of a ratio, twice the ratio if it is exact."""
    low, _, high = str(row[INTERVALS[column]]).partition(" to ")
    return (float(low), float(high)) if high else (row[column], row[column])


def _list_ratios(rows: Sequence[Row], column: str) -> str:
    """Return the ratios, each with its interval."""
    pairs = [(row[column], str(row[INTERVALS[column]])) for row in rows]
    return ", ".join(f"{ratio:.3g}" + f" ({limits})" * bool(limits) for ratio, limits in pairs)


def check_fewer_probes(results: Results) -> ClaimVerdict:
    """Judge that auto probes less often than robust."""
    pairs = [
        (count_probes(r["probes"]), count_probes(r["robust probes"])) for r in results.rows[RUN]
    ]
    reason = "settings have fewer probes under auto than under robust"
    return judge_each(pairs, lambda pair: pair[0] < pair[1], reason)


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
NO_PROGRAM = "no program calls the all-to-all after the last probe"


def compute_message_sizes(_: bool) -> list[Row]:
    """Return the bytes that a process sends to another one, for a problem in equal blocks."""
    return [
        {"program": name, "cluster": cluster, "processes": size, "KB": bytes_ * n / size**2 / 1024}
        for name, (points, bytes_) in PROBLEMS.items()
        for (cluster, size), n in zip(CLUSTERS.items(), points, strict=True)
    ]


RUNS: dict[str, Run] = {
    "message sizes": Computation(compute_message_sizes, "problem size over squared processes")
}


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


def check_sizes(results: Results) -> ClaimVerdict:
    """Judge that the paper's sizes follow from the problem sizes."""
    find, reason = results.values.find, "sizes of four programs on four clusters are the paper's"
    rows = results.rows["message sizes"]
    return judge_each(
        rows, lambda row: row["KB"] == find("Table 11", row["program"], row["cluster"]), reason
    )


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


def state_program_gain(results: Results, routine: str) -> ClaimVerdict:
    """Return the times of native over robust with the library of today, probes included."""
    rows = _find_rows(results, routine)
    ratios = ", ".join(f"{STAND_INS[r['program']]} {r['native / robust']:.3g}" for r in rows)
    fact = f"with the library of this machine, native over robust is {ratios}"
    return ClaimVerdict(NOT_REPRODUCIBLE, f"{OLD_NATIVE}; {fact if rows else NO_PROGRAM}")


def check_auto(results: Results) -> ClaimVerdict:
    """Judge that the all-to-all takes no longer under auto than under the paper's routine."""
    reason = (
        "programs have auto as fast as robust, within the difference of two native runs, of the "
        "programs that call the all-to-all after the last probe"
    )
    rows = _find_rows(results, ROUTINE)
    return judge_each(
        rows, lambda row: row["auto s"] <= row["robust s"] + row["native ±"], reason, NO_PROGRAM
    )


def _find_rows(results: Results, routine: str) -> list[Row]:
    """Return the rows of the programs that call the all-to-all after the last probe of robust."""
    probes = int(results.values.find("ROBUST", "probes", "instances"))
    calls = {r["program"]: r["instances"] for r in results.select("apps", routine=ROUTINE)}
    long = {name for name in STAND_INS if calls.get(name, 0) > probes}
    return [row for row in results.select("apps", routine=routine) if row["program"] in long]
