"""Faraj et al. 2008, Section 7: the routine ROBUST, the library's routine, and `auto`.

All rows come from `bench robust`, where `--switch robust` is the paper's routine. The gains of
ROBUST are over the MPI libraries of four machines, which do not exist any more. Libraries of today
have some of its algorithms, so that a report shows the ratios here but does not judge these claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mpiprof.bench.harness.figures import Lines, Panels, Series
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
from mpiprof.interface.format_units import format_round_size

RUN = "robust"
TABLE_BYTES = 64 << 10
Check = Callable[..., Verdict]
BALANCED, IMBALANCED = 1, 100  # MAX_IF of Figures 12 and 13
MACHINES = ("LEMIEUX", "UC-TG", "AVIDD-T", "AURORA")
NO_ROWS = "the quick report has no setting of this exhibit"
OLD_NATIVE = "NATIVE is the MPI libraries of machines that do not exist any more"


# ---- rows


def rows_at(results: Results, most: int | None = None, *, table: bool = False) -> list[Row]:
    """Return the settings with some MAX_IF; table: only for the size of Tables 9 and 10."""
    rows = results.rows[RUN]
    return [
        row
        for row in rows
        if (most is None or row["MAX_IF"] == most) and (not table or row["bytes"] == TABLE_BYTES)
    ]


def _table_9(results: Results) -> list[Row]:
    return rows_at(results, BALANCED, table=True)


def _table_10(results: Results) -> list[Row]:
    """Return the settings with the computation time of the largest MAX_IF."""
    rows = rows_at(results, table=True)
    most = max((row["MAX_IF"] for row in rows), default=0)
    times = {row["computation ms"] for row in rows if row["MAX_IF"] == most}
    return [row for row in rows if row["computation ms"] in times]


# ---- figures and tables

SHOWN = ("native", "robust", "auto", "best")
SIZE_COLUMNS = ("bytes", "computation ms", *(f"{name} ms" for name in SHOWN), "native / robust")


def show_sizes(results: Results, most: int) -> Content:
    """Return the times of native, robust and auto over the size, for each computation time."""
    rows = rows_at(results, most)
    if not rows:
        return Content(notes=[NO_ROWS])
    panels = []
    for computation in sorted({row["computation ms"] for row in rows}):
        mine = [row for row in rows if row["computation ms"] == computation]
        lines = [
            Series(name, [r["bytes"] for r in mine], [r[f"{name} ms"] for r in mine])
            for name in SHOWN
        ]
        title = f"{computation} ms of computation"
        panels.append(Lines(title, lines, "size", "ms", ticks=format_round_size))
    return Content([Panels(f"MAX_IF {most}", panels, 2)], [Table("Times", SIZE_COLUMNS, rows)])


def show_table(results: Results, exhibit: str, label: str, unit: str, rows: list[Row]) -> Content:
    """Return the times of both routines and of auto over a label, and the paper's speed-ups."""
    columns = (
        *("native ms", "robust ms", "auto ms", "native / robust", "native / auto"),
        *("robust algorithm", "algorithm", "robust probes", "probes"),
    )
    shown = []
    for row in rows:
        head = unit.format(row[label])
        paper = results.values.column(exhibit, head)
        speedups = {f"{m} %": paper.get(f"{m} speed-up", "") for m in MACHINES}
        shown.append({label: row[label]} | {c: row[c] for c in columns} | speedups)
    if not shown:
        return Content(notes=[NO_ROWS])
    note = "The columns of machines are the paper's speed-ups of ROBUST over NATIVE in percent."
    return Content(tables=[Table(exhibit, tuple(shown[0]), shown)], notes=[note])


def show_routine(results: Results) -> Content:
    """Return the choice and the probes of both routines in each setting."""
    columns = (
        *("bytes", "computation ms", "MAX_IF"),
        *("robust algorithm", "robust probes", "algorithm", "probes", "best"),
    )
    rows = [{column: row[column] for column in columns} for row in results.rows[RUN]]
    return Content(tables=[Table("Choices", columns, rows)])


# ---- claims


def check_probes(results: Results) -> Verdict:
    """Judge that the routine probes as often as in the paper."""
    expected = int(results.values.find("ROBUST", "probes", "instances"))
    rows = results.rows[RUN]
    right = sum(row["robust probes"] == expected for row in rows)
    return judge_share(right, len(rows), f"settings have {expected} probes under robust")


def _judge(rows: Sequence[Row], right: Callable[[Row], bool], reason: str) -> Verdict:
    if not rows:
        return Verdict(NOT_REPRODUCED, NO_ROWS)
    return judge_share(sum(map(right, rows)), len(rows), reason)


def check_not_slower(results: Results, choose: Callable[[Results], list[Row]]) -> Verdict:
    """Judge that robust is not surely slower than today's native after its probes.

    Native is one of the eight algorithms, so this does not depend on the library.
    """
    reason = "settings have robust not surely slower than native (95 %); native over robust: "
    column = "native / robust"
    return _judge(
        choose(results),
        lambda row: _find_limits(row, column, f"{column} 95 %")[1] >= 1,
        reason + _list_ratios(choose(results), column),
    )


def state_gain(results: Results, choose: Callable[[Results], list[Row]]) -> Verdict:
    """Return the times of native over robust with the library of today."""
    found = _list_ratios(choose(results), "native / robust")
    here = f"with the library of this machine, native over robust is {found}"
    return Verdict(NOT_REPRODUCIBLE, f"{OLD_NATIVE}; {here if found else NO_ROWS}")


def check_rival(results: Results, choose: Callable[[Results], list[Row]]) -> Verdict:
    """Judge that auto is not surely behind robust after probing."""
    rows = choose(results)
    ratios = ", ".join(f"{row['auto / robust']:.3g}" for row in rows)
    reason = f"settings have auto not surely behind robust (95 %); auto over robust: {ratios}"
    return _judge(
        rows, lambda row: _find_limits(row, "auto / robust", "robust 95 %")[0] <= 1, reason
    )


def _find_limits(row: Row, column: str, interval: str) -> tuple[float, float]:
    """Return the limits of the interval of a ratio, twice the ratio if it is exact."""
    low, _, high = str(row[interval]).partition(" to ")
    return (float(low), float(high)) if high else (row[column], row[column])


def _list_ratios(rows: Sequence[Row], column: str) -> str:
    """Return the ratios, each with its interval."""
    texts = []
    for row in rows:
        interval = str(row[f"{column} 95 %"])
        texts.append(f"{row[column]:.3g}" + f" ({interval})" * bool(interval))
    return ", ".join(texts)


def check_fewer_probes(results: Results) -> Verdict:
    """Judge that auto probes less often than robust."""
    rows = results.rows[RUN]
    right = sum(count_probes(row["probes"]) < count_probes(row["robust probes"]) for row in rows)
    return judge_share(right, len(rows), "settings have fewer probes under auto than under robust")


def count_probes(text: object) -> int:
    """Return the number of probes in all phases, such as "12+4"; 0 if unknown."""
    words = str(text).split("+")
    return sum(int(word) for word in words) if all(word.isdigit() for word in words) else 0


# ---- exhibits


def _claims(text: str, check: Check, choose: Callable[[Results], list[Row]]) -> tuple[Claim, ...]:
    rival = "`auto` is not behind ROBUST after probing (a claim of this project)."
    return (
        Claim(text, partial(check, choose=choose)),
        Claim(rival, partial(check_rival, choose=choose)),
    )


def _compare_sizes(name: str, most: int, condition: str, claim: str, check: Check) -> Exhibit:
    """Return a figure of times over the size under imbalance up to some MAX_IF."""
    return Exhibit(
        name,
        "Section 7.3",
        f"NATIVE, ROBUST and `auto` over the size, {condition}.",
        (RUN,),
        partial(show_sizes, most=most),
        _claims(claim, check, partial(rows_at, most=most)),
    )


EXHIBITS = (
    Exhibit(
        "ROBUST",
        "Section 7",
        "The routine that probes eight algorithms ten times each, as `--switch robust`.",
        (RUN,),
        show_routine,
        (
            Claim("The routine probes in 80 instances.", check_probes),
            Claim("`auto` probes less often (a claim of this project).", check_fewer_probes),
        ),
    ),
    _compare_sizes(
        "Figure 12",
        BALANCED,
        "without imposed imbalance",
        "ROBUST is never slower than NATIVE.",
        check_not_slower,
    ),
    Exhibit(
        "Table 9",
        "Section 7.3",
        "NATIVE, ROBUST and `auto` for 64 KB over computation times.",
        (RUN,),
        lambda r: show_table(r, "Table 9", "computation ms", "{} ms", _table_9(r)),
        _claims("ROBUST is faster after every computation time.", state_gain, _table_9),
    ),
    _compare_sizes(
        "Figure 13", IMBALANCED, f"with MAX_IF {IMBALANCED}", "ROBUST is faster.", state_gain
    ),
    Exhibit(
        "Table 10",
        "Section 7.3",
        "NATIVE, ROBUST and `auto` for 64 KB over the imbalance. The paper's speed-ups of UC-TG at "
        "MAX_IF 10 and 50 contradict its times.",
        (RUN,),
        lambda r: show_table(r, "Table 10", "MAX_IF", "MAX_IF {}", _table_10(r)),
        _claims("ROBUST is faster at every imbalance.", state_gain, _table_10),
    ),
)
