"""Programs under `auto` (Faraj et al. 2008, Table 12) and their arrivals (Tables 1 to 5).

Each program runs natively, under `--switch auto`, and natively again, because the machine drifts.
The programs of Table 12 also run under `--switch robust`, the paper's routine. In a quick run the
other programs run once, natively. `native s`, `auto s` and `robust s` are for the whole run from
MPI_Init to MPI_Finalize, and the mean over ranks of the time in its collectives, waiting included
as in the paper. `algorithm` is the most frequent one in the last third of the instances. The
imbalance factors are of the first run: of all routines (Table 4), and of routines with at least a
tenth of the time in collectives (Table 5). In Figure 2 all programs have equal weight.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mpiprof
from mpiprof.account.aggregate import RANGE_NAMES
from mpiprof.account.callsites import average_factors, factor_distribution, join_by_routine
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import Bars
from mpiprof.collectives.papers.harness.intervals import IntervalEstimate, estimate_quotient
from mpiprof.collectives.papers.harness.message_times import (
    CALIBRATION_S,
    Start,
    calibrate_ranks,
    describe_messages,
    run_quietly,
    tabulate_messages,
)
from mpiprof.collectives.papers.harness.processors import RankProcessors, count_usable_processors
from mpiprof.collectives.papers.harness.runner import publish_report
from mpiprof.collectives.papers.harness.study import (
    REQUIRED_RANKS,
    Report,
    Row,
    Setup,
    at_least,
    list_columns,
)
from mpiprof.collectives.papers.studies.app_programs import APPS, StudyProgram, find_words
from mpiprof.errors import UsageError
from mpiprof.facts.operations import AUTO, MANAGEMENT_COLLECTIVES, ROBUST
from mpiprof.interface.format_units import format_rough_time, format_share
from mpiprof.interface.progress import Progress
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import verb_command
from mpiprof.trace import Trace
from mpiprof.trace.machine import find_fault

TITLE = "Programs under auto"
LEAST = 0.97  # native's time over auto's: at most 3 % slower
LAST = 3  # the last third of the instances
SINGLE_WIDTH = 0.2  # assumed width of a time's interval relative to it, if there is one run
FIGURE = "Worst-case factors, programs of equal weight (Figure 2)"
SIZES = {"small": "≤ 1000 B", "large": "> 1000 B"}
WHOLE, ALL = "(whole run)", "(all collectives)"
FACTORS = ("δ/T", "ω/T")
PARTS = tuple(APPS)  # names for --only


@dataclass(frozen=True)
class Run:
    """Measurements of one run of a program: seconds and imbalance factors by routine."""

    seconds: dict[str, float]
    instances: dict[str, int]
    factors: dict[str, tuple[float, float]]
    algorithms: dict[str, str]
    ranges: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fault: str = ""  # why message times, and so factors, are unusable; "" if usable
    collectives: Sequence[Row] = ()
    followed: Sequence[Row] = ()  # instances of the routine that Figure 3 shows


def samples_folder() -> Path:
    """Return the folder of the samples; raises UsageError if it does not exist."""
    for folder in (Path(mpiprof.__file__).parent.parent / "samples", Path("samples")):
        if (folder / "ft.py").is_file():
            return folder.absolute()
    fact = "samples/ is missing from the current folder"
    raise UsageError(f"{fact}: run this command in a checkout of mpiprof")


# ---- running


def run(options: Options, start: Start, ranks: int, place: str, mpi: Mpi) -> None:
    """Run the programs, and print and write the results."""
    samples = samples_folder()
    chosen = options.only or PARTS
    modes = {name: APPS[name].list_modes(quick=options.quick) for name in chosen}
    took = CALIBRATION_S + sum(APPS[name].seconds * len(modes[name]) for name in chosen)
    full = f"{format_rough_time(took)}, on 16 nodes at 100 Mbit/s"
    times = "two minutes" if options.quick else full
    print(f"{TITLE}: {', '.join(chosen)}, on {ranks} ranks.")
    for order in dict.fromkeys(modes.values()):
        names = ", ".join(name for name in chosen if modes[name] == order)
        print(f"Runs in the order {', '.join(order)}: {names}.")
    words = {n: find_words(APPS[n], samples, mpi, quick=options.quick) for n in chosen}
    for name, (_, why) in words.items():
        if why:
            print(f"{name}: {why}.")
    print(f"This will take about {times}.", flush=True)
    progress = Progress(1 + sum(map(len, modes.values())), shown=True)
    rows, first = [], {}
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as folder:
        machine = options.machine or calibrate_ranks(start, Path(folder))
        table = json.loads(machine.read_text())
        print(describe_messages(table, find_fault(table)), flush=True)
        progress.advance()
        for name in chosen:
            app = APPS[name]
            several = []
            for mode in modes[name]:
                # Runs under auto get no table, because auto's own findings are measured.
                how: dict[str, Any] = {"machine": machine} if mode == "native" else {"switch": mode}
                several.append(record_run(start, words[name][0], followed=app.followed, **how))
                progress.advance()
            first[name] = several[0]
            judged = ranks == REQUIRED_RANKS and not options.quick
            rows += rows_of(name, several, app, judged=judged)
    os.environ["MPIPROF_STUDY_PLACE"] = place
    shares = equal_shares([measured.ranges for measured in first.values()])
    text = _shares_text(shares) if shares else without_figure(list(first.values()))
    notes = [f"Asked on {REQUIRED_RANKS} nodes at 100 Mbit/s.", text]
    figures = [Bars(FIGURE, RANGE_NAMES, shares, "of the instances", format_share)] * bool(shares)
    setup = make_setup(ranks, options, first.values())
    tables = {
        "messages": tabulate_messages(table),
        "programs": tabulate_programs({n: samples / APPS[n].words.split()[0] for n in chosen}),
        "collectives": join_programs({n: r.collectives for n, r in first.items()}),
        "distribution": tabulate_distribution(shares),
        "instances": join_programs({n: r.followed for n, r in first.items()}),
    }
    tables = {name: table for name, table in tables.items() if table}
    report = Report(list_columns(rows), rows, notes, figures, tables=tables)
    publish_report(report, TITLE, setup, show_conditions=True)


def make_setup(ranks: int, options: Options, runs: Iterable[Run]) -> Setup:
    """Return the conditions of the programs: all nodes are on this machine."""
    fault = next((run.fault for run in runs if run.fault), "")
    source = f"from {options.machine}" if options.machine else "measured by `calibrate`"
    return Setup(
        ranks,
        options,
        processors=RankProcessors(ranks, count_usable_processors()),
        computation="that of the programs",
        times_source=f"refused, {fault}" if fault else source,
    )


def record_run(
    start: Start,
    argv: Sequence[str],
    switch: str | None = None,
    machine: Path | None = None,
    followed: str = "",
) -> Run:
    """Record a program on the ranks that `start` starts; raises MpiprofError if it fails."""
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as name:
        trace, words = Path(name, "trace"), verb_command("run", "-q")
        words += ["--switch", switch] if switch else []
        words += ["--machine", str(machine.absolute())] if machine else []
        title = Path(argv[0]).name + (f" --switch {switch}" if switch else "")
        run_quietly(start, [*words, "-o", str(trace), "--", *argv], Path(name), title)
        return measure_run(mpiprof.open(trace), followed)


def measure_run(trace: Trace, followed: str = "") -> Run:
    """Return the measurements of a trace: all collectives, each major routine, the whole run."""
    table = trace.callsites
    # No algorithm changes the cost of these collectives.
    table = table[~table["operation"].isin(MANAGEMENT_COLLECTIVES)]
    overall, elapsed_ns = average_factors(table), float(table["total_elapsed_ns"].sum())
    seconds = {WHOLE: trace.duration_ns / 1e9, ALL: elapsed_ns / trace.ranks / 1e9}
    instances = {ALL: int(table["instances"].sum())}
    factors = {ALL: (overall["average_factor"], overall["worst_factor"])}
    joined = join_by_routine(table)
    for row in joined.to_dict("records"):
        name = str(row["operation"])
        # Another run of the program, in which the routine is major, is compared with this time.
        seconds[name] = float(row["total_elapsed_ns"]) / trace.ranks / 1e9
        if row["major"]:
            instances[name] = int(row["count"])
            factors[name] = (float(row["average_factor"]), float(row["worst_factor"]))
    distribution = factor_distribution(trace)
    ranges = {text: distribution[f"{name}_count"].tolist() for name, text in SIZES.items()}
    tables = tabulate_collectives(table), tabulate_instances(trace.instances, followed)
    algorithms = algorithms_of(trace)
    return Run(seconds, instances, factors, algorithms, ranges, trace.machine_fault, *tables)


def algorithms_of(trace: Trace) -> dict[str, str]:
    """Return the most frequent algorithm in the last third of each routine's instances."""
    algorithms = {}
    for operation, part in trace.instances.groupby("operation", observed=True):
        last = part["algorithm"].astype(str)[-max(len(part) // LAST, 1) :]
        algorithms[str(operation)] = Counter(last).most_common(1)[0][0]
    return algorithms


def equal_shares(runs: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, list[float]]:
    """Return each range's share of instances by message size, the mean over programs with it."""
    shares = {}
    for size in SIZES.values():
        counts = np.array([run[size] for run in runs if sum(run.get(size, ()))], np.float64)
        if len(counts):
            shares[size] = (counts / counts.sum(1, keepdims=True)).mean(0).tolist()
    return shares


def without_figure(runs: Sequence[Run]) -> str:
    """Return why some programs' runs have no Figure 2."""
    why = next((f"message times are not usable, {run.fault}" for run in runs if run.fault), "")
    return f"No factors, so no Figure 2: {why or 'no message was timed'}."


def _shares_text(shares: Mapping[str, Sequence[float]]) -> str:
    lines = [FIGURE, f"{'ω/T':10}" + "".join(f"{size:>12}" for size in shares)]
    for name, *several in zip(RANGE_NAMES, *shares.values(), strict=True):
        lines.append(f"{name:10}" + "".join(f"{format_share(share):>12}" for share in several))
    return "\n".join(lines)


# ---- the table


def rows_of(name: str, runs: Sequence[Run], app: StudyProgram, *, judged: bool) -> list[Row]:
    """Return a program's rows: the whole run, all collectives, and the major routines."""
    first = runs[0]
    # Table 12 shows the all-to-all even if it has less than a tenth of the time.
    compared = ("alltoall",) * app.robust
    titles = dict.fromkeys((WHOLE, *first.factors, *compared))
    rows = [row_of(name, routine, (routine,), runs) for routine in titles]
    if len(runs) == 1:
        return rows
    # The difference of the two native runs must not count in favour of auto or against it.
    slower = max(first.seconds[WHOLE], runs[-1].seconds[WHOLE])
    rows[0] |= at_least(LEAST, "not slower").judge(slower / float(rows[0]["auto s"]))
    if app.asked:
        row = row_of(name, " + ".join(app.routines), app.routines, runs)
        rows.append(row | at_least(app.asked).judge(float(row["native / auto"])))
    if not judged:
        for row in rows:
            row |= {"asked": f"({row['asked']})", "holds": ""} if "asked" in row else {}
    return rows


def row_of(name: str, title: str, parts: Sequence[str], runs: Sequence[Run]) -> Row:
    """Return the row of one routine, or of several together. runs: as in App.list_modes."""
    first = runs[0]
    sums = [sum(r.seconds.get(part, 0.0) for part in parts) for r in runs]
    before, after = sums[0], sums[-1]
    native = IntervalEstimate((before + after) / 2, min(before, after), max(before, after))
    if len(runs) == 1:
        native = IntervalEstimate(before, width=SINGLE_WIDTH * before)
    average, worst = first.factors.get(title, (np.nan, np.nan))
    row: Row = {
        "program": name,
        "routine": title,
        "instances": first.instances.get(title, ""),
        "native s": native,
        "native ±": native.margin if len(runs) > 1 else "",
    }
    selected = [
        _list_columns(name, native, IntervalEstimate(seconds, width=native.width), run, title)
        for name, seconds, run in zip((AUTO, ROBUST), sums[1:-1], runs[1:-1], strict=False)
    ]
    auto, robust = (*selected, {}, {})[:2]
    return row | auto | {"δ/T": average, "ω/T": worst} | robust


def _list_columns(
    selector: str, native: IntervalEstimate, time: IntervalEstimate, run: Run, title: str
) -> Row:
    """Return the columns of the run under a selector; one run is as uncertain as native ones."""
    algorithm = "algorithm" if selector == AUTO else f"{selector} algorithm"
    ratio = estimate_quotient(native, time)
    columns: Row = {f"{selector} s": time, f"native / {selector}": ratio}
    return columns | {algorithm: run.algorithms.get(title, "")}


def tabulate_programs(files: Mapping[str, Path]) -> list[Row]:
    """Return the number of lines of each program."""
    lines = {name: len(file.read_text().splitlines()) for name, file in files.items()}
    return [{"program": name, "lines": count} for name, count in lines.items()]


def tabulate_collectives(callsites: pd.DataFrame) -> list[Row]:
    """Return a row per routine: calls, bytes of messages by call site, share of time, factors."""
    rows = []
    for row in join_by_routine(callsites).to_dict("records"):
        sizes = callsites.loc[callsites["operation"] == row["operation"], "message_bytes"]
        tabulated: Row = {"routine": str(row["operation"]), "calls": int(row["count"])}
        tabulated |= {"message bytes": float(row["message_bytes"])}
        tabulated |= {"least bytes": float(sizes.min()), "most bytes": float(sizes.max())}
        tabulated |= {"share of time": float(row["elapsed_share"])}
        factors = float(row["average_factor"]), float(row["worst_factor"])
        rows.append(tabulated | dict(zip(FACTORS, factors, strict=True)))
    return rows


def tabulate_instances(instances: pd.DataFrame, operation: str) -> list[Row]:
    """Return both factors of each complete instance of a routine; [] without message times."""
    complete = instances[(instances["operation"] == operation) & instances["complete"]]
    pairs = complete[["average_factor", "worst_factor"]].to_numpy(np.float64)
    if np.isnan(pairs).any():
        return []
    return [
        {"routine": operation, "instance": number, **dict(zip(FACTORS, pair, strict=True))}
        for number, pair in enumerate(pairs.tolist(), 1)
    ]


def tabulate_distribution(shares: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the share of instances of each size and range of worst-case factors."""
    return [
        {"messages": size, "ω/T": name, "share": share}
        for size, several in shares.items()
        for name, share in zip(RANGE_NAMES, several, strict=True)
    ]


def join_programs(several: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return the rows of all programs, with the program as the first column."""
    return [{"program": name, **row} for name, rows in several.items() for row in rows]
