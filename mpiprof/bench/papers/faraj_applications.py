"""Faraj et al. 2008, Section 7.4: four programs with an adaptive all-to-all (Tables 11 and 12)."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.bench.harness.figures import Lines, Series
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    Claim,
    Content,
    Exhibit,
    Results,
    Table,
    Verdict,
    judge_share,
)
from mpiprof.bench.papers.faraj_adaptive import OLD_NATIVE
from mpiprof.bench.papers.faraj_programs import find_places
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.studies.apps import WHOLE
from mpiprof.operations import AUTO, ROBUST

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
    rows = results.rows["message sizes"]
    series, shown = [], []
    for name in PROBLEMS:
        mine = [row for row in rows if row["program"] == name]
        paper = [results.values.find("Table 11", name, row["cluster"]) for row in mine]
        sizes = [row["processes"] for row in mine]
        series.append(Series(name, sizes, [row["KB"] for row in mine]))
        series.append(Series(f"{name}, paper", sizes, paper, dashed=True))
        shown += [row | {"paper KB": value} for row, value in zip(mine, paper, strict=True)]
    figure = Lines("Messages of the all-to-all", series, "processes", "KB", ticks="{:.0f}".format)
    return Content([figure], [Table("Message sizes", tuple(shown[0]), shown)])


def check_sizes(results: Results) -> Verdict:
    """Judge that the paper's sizes follow from the problem sizes."""
    rows = results.rows["message sizes"]
    paper = [results.values.find("Table 11", row["program"], row["cluster"]) for row in rows]
    right = sum(row["KB"] == value for row, value in zip(rows, paper, strict=True))
    return judge_share(right, len(rows), "sizes of four programs on four clusters are the paper's")


# ---- Table 12


def show_table_12(results: Results) -> Content:
    """Return the table with the paper's rows and columns, measured and of the paper."""
    tables = []
    for place, rows in find_places(results):
        shown = []
        for program, replaced in STAND_INS.items():
            mine = {r["routine"]: r for r in rows if r["program"] == program}
            if ROUTINE in mine:
                shown += _make_rows(replaced, mine[ROUTINE], mine[WHOLE])
        if shown:
            tables.append(Table(f"Measured on {place}", tuple(shown[0]), shown))
    tables.append(_make_paper_table(results))
    return Content(tables=tables)


def _make_rows(name: str, inside: Row, whole: Row) -> list[Row]:
    both = {"comm.": inside, "total": whole}
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
    for name in PROBLEMS:
        for implementation in ("NATIVE", "ROBUST"):
            row: Row = {"program": name, "implem.": implementation}
            for cluster in CLUSTERS:
                for kind, short in (("communication", "comm."), ("total", "total")):
                    head, column = f"{name} {implementation}", f"{cluster} {kind}"
                    seconds = results.values.find("Table 12", head, column)
                    row[f"{cluster} {short}"] = f"{seconds:g} s"
            rows.append(row)
    return Table("The paper's times", tuple(rows[0]), rows)


def state_gain(results: Results, routine: str) -> Verdict:
    """Return the times of native over robust with the library of today, probes included."""
    rows = _find_rows(results, routine)
    ratios = ", ".join(f"{STAND_INS[r['program']]} {r['native / robust']:.3g}" for r in rows)
    here = f"with the library of this machine, native over robust is {ratios}"
    return Verdict(NOT_REPRODUCIBLE, f"{OLD_NATIVE}; {here if rows else NO_PROGRAM}")


def check_auto(results: Results) -> Verdict:
    """Judge that the all-to-all takes no longer under auto than under the paper's routine.

    The difference of two native runs must not count against auto.
    """
    rows = _find_rows(results, ROUTINE)
    right = sum(row["auto s"] <= row["robust s"] + row["native ±"] for row in rows)
    text = "programs have auto as fast as robust, within the difference of two native runs"
    return _judge_programs(rows, right, text)


def _find_rows(results: Results, routine: str) -> list[Row]:
    """Return the rows of the programs that call the all-to-all after the last probe of robust."""
    probes = int(results.values.find("ROBUST", "probes", "instances"))
    calls = {r["program"]: r["instances"] for r in results.select("apps", routine=ROUTINE)}
    long = {name for name in STAND_INS if calls.get(name, 0) > probes}
    return [row for row in results.select("apps", routine=routine) if row["program"] in long]


def _judge_programs(rows: Sequence[Row], right: int, reason: str) -> Verdict:
    if not rows:
        return Verdict(NOT_REPRODUCED, NO_PROGRAM)
    return judge_share(right, len(rows), f"{reason}, of those that call it after the last probe")


EXHIBITS = (
    Exhibit(
        "Table 11",
        "Section 7.4",
        "Message sizes of four programs by number of processes.",
        ("message sizes",),
        show_table_11,
        (Claim("A message has the problem's bytes over the squared processes.", check_sizes),),
    ),
    Exhibit(
        "Table 12",
        "Section 7.4",
        "Times of four samples with native algorithms, ROBUST and `auto`, beside the paper's.",
        ("apps",),
        show_table_12,
        (
            Claim("ROBUST shortens communication.", lambda r: state_gain(r, ROUTINE)),
            Claim("It shortens programs.", lambda r: state_gain(r, WHOLE)),
            Claim("`auto` is not behind it (a claim of this project).", check_auto),
        ),
        optional_runs=("apps on the cluster",),
    ),
)
