"""Faraj et al. 2008: arrivals after equal computation (Section 5), their impact (6), ROBUST (7).

All rows of Section 7 come from `bench robust`, where `--switch robust` is the paper's routine. The
gains of ROBUST are over the MPI libraries of four machines, which do not exist any more. Libraries
of today have some of its algorithms, so that a report shows the ratios here but does not judge
these claims.
"""

from __future__ import annotations

from itertools import product
from math import floor, isnan, log10

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row, format_cell
from mpiprof.collectives.papers.reports.claim_rules import is_known
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCED,
    ClaimVerdict,
    Content,
    Results,
    Table,
    make_table,
)
from mpiprof.collectives.papers.reports.faraj_programs import NO_TIMES, find_places
from mpiprof.collectives.papers.studies.apps import WHOLE
from mpiprof.collectives.papers.studies.arrival import JOINED, KINDS, plot_factors
from mpiprof.facts.operations import AUTO, ROBUST
from mpiprof.interface.format_units import format_share

PLACED_RUNS = ("arrival", "arrival on the cluster")
MOST_SHARE = 0.99  # of its processor, above which a rank is alone
TIMER = "a timer replaced the computation, because ranks outnumber processors"
LARGE = 64 << 10
Times = dict[int, dict[str, float]]


# ---- Section 5: arrivals after equal computation


def show_instances(results: Results) -> Content:
    """Return both factors of each instance after 200 ms of computation."""
    tables = {run: results.rows.get(f"{run} instances", []) for run in PLACED_RUNS}
    panels = [plot_factors(results.find_place(run), rows) for run, rows in tables.items() if rows]
    if not panels:
        return Content(notes=[f"No figure: {NO_TIMES}."])
    title = "Factors of single instances after 200 ms"
    return Content([Panels(title, panels, 2)] if len(panels) > 1 else panels)


def show_causes(results: Results, table: str) -> Content:
    """Return the factors of exits, computation and arrivals, beside the paper's."""
    series, tables = [], []
    for run in PLACED_RUNS:
        rows, place = results.rows.get(run, []), results.find_place(run)
        if not rows:
            continue
        for kind in KINDS:
            points = [(row["computation ms"], row[f"{kind} ω/T"]) for row in rows]
            if all(is_known(y) for _, y in points):
                series.append(Series.of_points(f"{kind}, {place}", points))
        columns = ("comp. time", *KINDS, *(f"{kind}, paper" for kind in KINDS), JOINED, "instances")
        table_rows = [_make_row(results, table, row) for row in rows]
        tables.append(Table(f"Worst-case imbalance factors ω/T, {place}", columns, table_rows))
    for kind in KINDS:
        paper = results.values.column(table, kind).items()
        points_of_paper = [(float(head.removesuffix(" ms")), value) for head, value in paper]
        series.append(Series.of_points(f"{kind}, paper", points_of_paper, dashed=True))
    return Content([Lines(table, series, "computation (ms)", "ω/T", ticks="{:g}".format)], tables)


def _make_row(results: Results, table: str, row: Row) -> Row:
    head = f"{row['computation ms']} ms"
    cells: Row = {"comp. time": head, "instances": row["instances"]}
    joined = row[f"{JOINED} ω/T"]
    cells[JOINED] = format_cell(joined) if is_known(joined) else ""
    for kind in KINDS:
        cells[kind] = format_interval(row[f"{kind} ω/T"], row[f"{kind} ±"])
        values = [results.values.column(table, column).get(head) for column in (kind, f"{kind} ±")]
        if None not in values:
            cells[f"{kind}, paper"] = "{} ± {}".format(*values)
    return cells


def format_interval(value: object, half: object) -> str:
    """Return a value with half of its interval, with one digit of the latter; "" if unknown."""
    if not isinstance(value, int | float) or not isinstance(half, int | float) or isnan(value):
        return ""
    digits = max(-floor(log10(half)), 0) if half > 0 else 2
    return f"{value:.{digits}f} ± {half:.{digits}f}"


def find_factors(results: Results, *kinds: str) -> list[Row] | ClaimVerdict:
    """Return the rows of the first place with known factors, or why those of this machine are not.

    Times of messages through memory are not usable while other processes use the processors.
    """
    candidates = [find_factors_of(results, run, *kinds) for run in PLACED_RUNS]
    return next((rows for rows in candidates if not isinstance(rows, ClaimVerdict)), candidates[0])


def find_factors_of(results: Results, run: str, *kinds: str) -> list[Row] | ClaimVerdict:
    """Return the rows by computation time, or why the factors of some kinds are unknown.

    highest arrival: the end of the interval. disturbance: how much of the computation's time other
    processes had, if it was more than 1 %.
    """
    rows = sorted(results.rows.get(run, ()), key=lambda row: float(row["computation ms"]))
    if not rows:
        return ClaimVerdict(NOT_REPRODUCED, f"{run} was not measured")
    if not all(is_known(row["arrival ω/T"]) for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, NO_TIMES)
    if not all(is_known(row[f"{kind} ω/T"]) for kind in kinds for row in rows):
        return ClaimVerdict(NOT_REPRODUCED, TIMER)
    share = min(row["processor share"] for row in rows)
    text = f"; other processes had {format_share(1 - share)} of the processors"
    added = {"disturbance": text * (share < MOST_SHARE)}
    return [row | added | {"highest": row["arrival ω/T"] + row["arrival ±"]} for row in rows]


def find_joined_factors(results: Results) -> list[Row] | ClaimVerdict:
    """Return the rows of two nodes, if they have usable message times, beside the paper's range.

    Messages through memory take far less than those of the paper's networks, and factors are
    relative to this time. The paper's instances have 16 and 32 computations, so that successive
    instances are joined.
    """
    runs = {"arrival on the cluster": "two nodes", "arrival": "messages through memory"}
    paper = [results.values.column(t, "computation").values() for t in ("Table 6", "Table 7")]
    limits = {"smallest": min(map(min, paper)), "largest": max(map(max, paper))}
    rows: list[Row] | ClaimVerdict = []
    for run, title in runs.items():
        rows = find_factors_of(results, run, JOINED)
        if not isinstance(rows, ClaimVerdict):
            return [row | limits | {"network": title} for row in rows]
    return rows


def find_instances(results: Results) -> list[Row]:
    """Return the single instances of the first place that has some."""
    tables = [results.rows.get(f"{run} instances", []) for run in PLACED_RUNS]
    return next(filter(None, tables), [])


# ---- Section 6: algorithms under imbalanced arrivals


def find_times(results: Results, run: str, operation: str, size: int) -> Times:
    """Return the mean times of the algorithms by MAX_IF, in ascending order."""
    times: Times = {}
    rows = results.select(run, operation=operation, bytes=size)
    for row in sorted(rows, key=lambda row: int(row["MAX_IF"])):
        times.setdefault(row["MAX_IF"], {})[row["algorithm"]] = row["mean ms"]
    return times


def find_change(results: Results, run: str, operation: str, size: int) -> list[Row]:
    """Return the fastest algorithm of balanced arrivals, and its time over the best late one."""
    times = find_times(results, run, operation, size)
    first, last = min(times), max(times)
    best = min(times[first], key=times[first].__getitem__)
    ratio = times[last][best] / min(times[last].values())
    return [{"algorithm": best, "first": first, "last": last, "ratio": ratio}]


def list_leads(results: Results, run: str, operation: str, size: int, name: str) -> list[Row]:
    """Return an algorithm's time, and the fastest other one, for each MAX_IF."""
    rows: list[Row] = []
    for factor, times in find_times(results, run, operation, size).items():
        rival = min(ms for algorithm, ms in times.items() if algorithm != name)
        rows.append(
            {"MAX_IF": factor, "ms": times[name], "fastest": min(times, key=times.__getitem__)}
            | {"ratio": rival / times[name], "lead": rival - times[name]}
        )
    return rows


def compare_spreads(
    results: Results, operation: str, factor: int, exception: str, exception_size: int, *runs: str
) -> list[Row]:
    """Return the slowest over the fastest algorithm at a MAX_IF, beside that of the exception.

    The paper gives no number. Times are similar if they differ by less than half as much as those
    of the exception, which is one run with one size.
    """
    ratios = {}
    for run in runs:
        for size in sorted({row["bytes"] for row in results.select(run, operation=operation)}):
            times = find_times(results, run, operation, size)[factor].values()
            ratios[run, size] = max(times) / min(times)
    exceptional = ratios.pop((exception, exception_size))
    return [
        {"run": run, "bytes": size, "ratio": ratio, "exceptional": exceptional}
        for (run, size), ratio in ratios.items()
    ]


# ---- Section 7: native, the paper's routine, and auto

FACTORS = {"Figure 12": 1, "Table 9": 1, "Figure 13": 100}  # MAX_IF
MACHINES = ("LEMIEUX", "UC-TG", "AVIDD-T", "AURORA")
INTERVALS = {"native / robust": "native / robust 95 %", "auto / robust": "robust 95 %"}
NO_ROWS = "the quick report has no setting of this exhibit"


def select_settings(results: Results, exhibit: str) -> list[Row]:
    """Return the settings of an exhibit; Table 10 has the computation of the largest MAX_IF."""
    rows = results.rows["robust"]
    if exhibit in FACTORS:
        rows = [row for row in rows if row["MAX_IF"] == FACTORS[exhibit]]
    if exhibit.startswith("Table"):
        rows = [row for row in rows if row["bytes"] == LARGE]
    if exhibit == "Table 10":
        largest = max((row["MAX_IF"] for row in rows), default=0)
        times = {row["computation ms"] for row in rows if row["MAX_IF"] == largest}
        rows = [row for row in rows if row["computation ms"] in times]
    return rows


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
        for row in results.rows["robust"]
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
    native = {c: f"{r['native s']:.3g} s ± {r['native ±']:.1g}" for c, r in both.items()}
    return [
        {"program": name, "implem.": "NATIVE"} | native,
        *_rows_of(both, ROBUST, "ROBUST", "robust algorithm"),
        *_rows_of(both, AUTO, AUTO, "algorithm"),
    ]


def _rows_of(both: dict[str, Row], selector: str, title: str, algorithm: str) -> list[Row]:
    """Return the rows of a selector's run: times, speed-ups and its algorithm."""
    times = {c: f"{row[f'{selector} s']:.3g} s" for c, row in both.items()}
    speedups = {c: f"{100 * (row[f'native / {selector}'] - 1):.0f} %" for c, row in both.items()}
    return [
        {"program": "", "implem.": title} | times,
        {"program": "", "implem.": "speed-up"} | speedups,
        {"program": "", "implem.": "algorithm", "comm.": both["comm."][algorithm], "total": ""},
    ]


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
