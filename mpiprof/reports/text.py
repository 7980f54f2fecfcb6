"""The report for a terminal: facts of the run, then the tables of Faraj et al."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpiprof.account.callsites import average_factors, factor_distribution, join_by_routine
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.variance_components import Estimate
from mpiprof.facts.library_algorithms import mpi_name
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_estimate,
    format_factor,
    format_share,
    format_size,
    format_time,
)
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports import spawned_jobs
from mpiprof.reports.callsite_table import metric_columns
from mpiprof.reports.efficiency_table import efficiency_fact
from mpiprof.reports.json import plain_number
from mpiprof.reports.message_table import message_facts
from mpiprof.reports.site_labels import (
    exact_pattern,
    explain_address,
    lacks_line,
    list_callsites,
    site_arguments,
)
from mpiprof.reports.table import TableColumn, render, render_bar, terminal_width, wrap_paragraph
from mpiprof.reports.words import captions, trace_sentences
from mpiprof.reports.words.processor_sentences import processor_fact
from mpiprof.reports.words.trace_sentences import (
    coverage_text,
    message_time_source,
    sampling_text,
    summary_text,
)
from mpiprof.trace import Trace

SUMMED_TITLE = "Summed up after the logs had reached their limit"
MIN_ROWS = 5  # of facts of a run
NARROW = 80  # terminal width below which facts have no columns
# Columns of the table of ranks, and their headings.
RANK_COLUMNS = {
    "collective_ns": "collectives",
    "collective_wait_ns": "of it waiting",
    "point_to_point_ns": "point-to-point",
    "completion_ns": "completion",
    "message_wait_ns": "waiting in both",
    "one_sided_ns": "one-sided",
    "files_ns": "files",
}


def fact_lines(trace: Trace, *, dropped: bool = True) -> str:
    """Return the program, its run time, the shares of collectives and waiting, and their error.

    dropped: whether to state the number of dropped records, with which `report` begins.
    """
    title, rows = fact_rows(trace, dropped=dropped)
    return "\n".join([title, format_facts(rows)])


def format_facts(rows: Sequence[tuple[str, str]]) -> str:
    """Return pairs of name and value as lines."""
    if terminal_width() < NARROW:
        return "\n".join(wrap_paragraph(f"{name}: {text}", 2, 4) for name, text in rows)
    return "\n".join(wrap_paragraph(f"{name:<14}  {text}", 2, 18) for name, text in rows)


def fact_rows(trace: Trace, *, dropped: bool = True) -> tuple[str, list[tuple[str, str]]]:
    """Return the facts of a run: a title, and pairs of name and value."""
    return run_title(trace), run_rows(trace, dropped=dropped) + note_rows(trace)


def run_title(trace: Trace) -> str:
    """Return the program, its number of ranks, its MPI library and its start."""
    nodes = f"{trace.node_count} node" + ("s" if trace.node_count != 1 else "")
    started = trace_sentences.started(trace)
    title = f"{trace.program} · {trace.ranks} rank{'s' * (trace.ranks != 1)} on {nodes}"
    return f"{title} · {mpi_name(trace.mpi)}" + (f" · {started}" if started else "")


def run_rows(trace: Trace, *, dropped: bool = True) -> list[tuple[str, str]]:
    """Return MIN_ROWS or more pairs of name and value on the run, without the recorder's notes."""
    times = trace.run_times
    waiting = times.collective_wait.value
    whose = "all ranks"
    if trace.thread_count != trace.ranks:
        whose = f"all {format_count(trace.thread_count)} threads"
    waited = "not known"
    if not math.isnan(waiting):
        share = time_and_share(waiting, times.whole_ns)
        bounds = _share_bounds(trace, times.collective_wait)
        waited = f"{share} of {whose}' time, for those not there yet{bounds}"
    inside = f"{time_and_share(times.collective.value, times.whole_ns)} of {whose}' time"
    partial = bool((trace.meta.get("options") or {}).get("partial"))
    error_ns = float(trace.clock_error_ns)
    clocks = trace_sentences.clock_sentence(error_ns, trace.node_count, partial=partial)
    until = "MPI_Finalize" if trace.is_finalised else "the last that is known of any rank"
    rows = [
        ("trace", str(trace.path)),
        ("run time", f"{format_time(trace.run_ns)} from MPI_Init to {until}"),
        ("in collectives", f"{inside}{_share_bounds(trace, times.collective)}"),
        ("of it waiting", waited),
        ("clocks", clocks),
        ("message times", message_time_source(trace)),
    ]
    if processors := processor_fact(trace):
        rows.append(("processors", processors))
    if efficiency := efficiency_fact(trace):
        rows[4:4] = [("efficiency", efficiency)]
    in_messages = message_facts(trace)
    if in_messages:
        rows[4:4] = [("in messages", in_messages)]
    coverage = trace.derive("coverage")
    if coverage is not None:
        rows[2:2] = [("recorded", coverage_text(coverage))]
    if trace.record == "summary":
        observed = int(trace.callsites["complete_instances"].sum())
        rows[3:4] = [rows[3]] if observed else []
        rows.append(("recorded", summary_text(observed, int(trace.callsites["instances"].sum()))))
    if trace.sampling_interval > 1:
        rows.append(("sampled", sampling_text(trace.sampling_interval)))
    if record := trace_sentences.message_record(trace):
        rows.append(("messages", record))
    if unknown := trace_sentences.unknown_message_waits(trace):
        rows.append(("messages", unknown))
    lines = trace_sentences.incompleteness_lines(trace, dropped=dropped)
    rows += [("attention", line) for line in lines]
    rows += [("spawned", line) for line in spawned_jobs.describe_spawned(trace)]
    return rows


def note_rows(trace: Trace) -> list[tuple[str, str]]:
    """Return pairs of name and value on what the recorder noted."""
    return [("note", note) for note in recorder_notes(trace)]


def _share_bounds(trace: Trace, time: Estimate) -> str:
    bounds = trace_sentences.share_bounds(trace, time)
    return f"; between {bounds.replace(' to ', ' and ')}" if bounds else ""


def time_and_share(time_ns: float, whole: float) -> str:
    """Return a time and its share of another time."""
    return f"{format_percent(time_ns, whole)} ({format_time(time_ns)})"


def format_percent(part: float, whole: float) -> str:
    """Return the share of another time, in percent."""
    return format_share(part / whole if whole > 0 else float("nan"))


def recorder_notes(trace: Trace) -> list[str]:
    """Return the first messages of the recorder."""
    return trace.notes[:5]


def totals_table(trace: Trace) -> str:
    """Return the table of calls summed up beyond the logs' limit, or "" if there are none."""
    rows = trace.summed_up.to_dict("records")
    columns = [
        *metric_columns(rows, "operation", "sites"),
        TableColumn("calls", [format_count(row["calls"]) for row in rows]),
        TableColumn("bytes", [format_size(row["bytes"]) for row in rows]),
        TableColumn("time", [format_time(row["total_ns"]) for row in rows]),
        TableColumn("longest", [format_time(row["longest_ns"]) for row in rows]),
    ]
    return render(*columns) if rows else ""


def factor_heading(callsites: Any) -> str:
    """Return the heading of `factor_table`; without message times there are no factors."""
    has_factors = callsites["worst_factor"].notna().any()
    return "Imbalance factors, means over instances" if has_factors else "Time by operation"


def factor_table(callsites: Any) -> str:
    """Return both factors' means: of all operations, then of each major one (Tables 4 and 5)."""
    joined = join_by_routine(callsites)
    overall: dict[Any, Any] = {**average_factors(callsites)}
    overall |= {"operation": "all operations", "elapsed_share": 1.0}
    overall |= {name: int(joined[name].sum()) for name in ("count", "recorded")}
    rows = [overall, *joined[joined["major"]].to_dict("records")]
    return render(
        *metric_columns(rows, "operation"),
        TableColumn("instances", [format_estimate(row["count"], row["recorded"]) for row in rows]),
        TableColumn("average δ/T", [format_factor(row["average_factor"]) for row in rows]),
        TableColumn("worst ω/T", [format_factor(row["worst_factor"]) for row in rows]),
        TableColumn("of time in collectives", [format_share(row["elapsed_share"]) for row in rows]),
    )


def distribution_table(trace: Trace) -> str:
    """Return the distribution of worst-case factors (Faraj et al., Figure 2), or "" if unknown."""
    distribution = factor_distribution(trace)
    if not distribution[["small_count", "large_count"]].to_numpy().sum():
        return ""
    columns = [TableColumn("ω/T", [str(name) for name in distribution["range"]], left=True)]
    for name, head in (("small", "≤ 1000 B"), ("large", "> 1000 B")):
        shares = distribution[name].tolist()
        columns.append(TableColumn(head, [format_share(value) for value in shares]))
        if int(distribution[name + "_count"].sum()):
            columns.append(
                TableColumn("", [render_bar(value).ljust(20) for value in shares], left=True)
            )
    return render(*columns)


def routine_table(trace: Trace, callsites: Any) -> str:
    """Return counts, message sizes and times per routine (Faraj et al., Tables 2 and 3).

    Times are per rank. Sizes are of the messages with time T.
    """
    rows = join_by_routine(callsites).to_dict("records")
    groups = dict(list(callsites.groupby("operation")))
    whole = float(trace.process_time_ns)
    return render(
        *metric_columns(rows, "operation"),
        TableColumn("msg size", [format_size_range(groups[row["operation"]]) for row in rows]),
        TableColumn("dyn. count", [format_estimate(row["count"], row["recorded"]) for row in rows]),
        TableColumn("call sites", [format_count(row["callsites"]) for row in rows], drop=1),
        TableColumn("comm. time", [format_time(r["total_elapsed_ns"] / trace.ranks) for r in rows]),
        TableColumn("of run", [format_percent(row["total_elapsed_ns"], whole) for row in rows]),
        TableColumn("waiting", [waiting_per_rank(trace, groups[r["operation"]]) for r in rows]),
        *metric_columns(rows, "average_factor", "worst_factor"),
    )


def waiting_per_rank(trace: Trace, callsites: Any) -> str:
    """Return the waiting time per rank of a routine's call sites, if any is known."""
    if callsites["wait_ns"].isna().all():
        return UNKNOWN
    return format_time(callsites["total_wait_ns"].sum() / trace.ranks)


def format_size_range(callsites: Any) -> str:
    """Return the message sizes (per destination) of a routine's call sites, * for averages."""
    sized_callsites = callsites[callsites["message_bytes"].notna()]
    if not len(sized_callsites):
        return UNKNOWN
    sizes = sized_callsites["message_bytes"]
    low, high = float(sizes.min()), float(sizes.max())
    # The trace has only the sum of a rank's messages, so their size is always an average.
    summed = sized_callsites["operation"].str.contains("alltoall[vw]")
    average = bool((summed | (sized_callsites["bytes_min"] < sized_callsites["bytes_max"])).any())
    text = format_size(low) if low == high else f"{format_size(low)} - {format_size(high)}"
    return text + ("*" if average else "")


def next_command(trace_name: Sequence[Path], trace: Trace, messages: Any) -> str:
    """Return the next command to type, which shows the call site with most wait.

    trace_name: the trace as the user named it, if given. messages: the reported call sites of
    messages.
    """
    known = [table[table["total_wait_ns"] > 0] for table in (trace.callsites, messages)]
    rows = [row for table in known for row in table.to_dict("records")]
    if rows:
        worst = max(rows, key=lambda row: row["total_wait_ns"])
        pattern = exact_pattern(worst, list_callsites(trace))
        if pattern:
            line = format_command("report", *trace_name, *site_arguments(pattern))
            how = "over its instances" if "instances" in worst else "by pairs of ranks"
            return f"next: {line}   (that call site {how})"
    line = format_command("report", *trace_name, "--by", "routine")
    return f"next: {line}   (counts, sizes and times)"


def explain_addresses(trace: Trace) -> list[str]:
    """Return why call sites have addresses instead of line numbers, each reason once."""
    sites = [site for row in list_callsites(trace) for site in row["sites"] if lacks_line(site)]
    return list(dict.fromkeys(map(explain_address, sites)))


def _rank_rows(trace: Trace) -> list[dict[Any, Any]]:
    """Return a row per rank with `rank` and the columns of RANK_COLUMNS; unknown values are NaN."""
    table = trace.spent.rename(columns=lambda name: f"{name}_ns").set_index("rank_ns")
    if trace.record == "summary" or trace.wrapped_chunks:
        # The other columns also cover the whole run.
        table["collective_ns"] = trace.summary.groupby("rank")["total_ns"].sum()
        table["collective_wait_ns"] = table["message_wait_ns"] = math.nan
    else:
        sums = trace.rank_totals.groupby("rank")[["elapsed_ns", "total_wait_ns"]].sum()
        table["collective_ns"], wait = sums["elapsed_ns"], sums["total_wait_ns"]
        table["collective_wait_ns"] = wait.reindex(table.index).fillna(0)
        table["message_wait_ns"] = math.nan
        if not math.isnan(trace.run_times.message_wait_ns):
            waits = find_located_waits(trace).groupby("rank")["wait_ns"].sum()
            table["message_wait_ns"] = waits.reindex(table.index).fillna(0)
    table["collective_ns"] = table["collective_ns"].fillna(0)
    return table[list(RANK_COLUMNS)].rename_axis("rank").reset_index().to_dict("records")


def rank_times_as_data(trace: Trace) -> list[dict[Any, Any]]:
    """Return for each rank its time in MPI, by the columns of RANK_COLUMNS, as data."""
    return [{name: plain_number(value) for name, value in row.items()} for row in _rank_rows(trace)]


def rank_time_table(trace: Trace, most: int) -> str:
    """Return a table of the ranks with most time in MPI calls, the largest first."""
    rows = _rank_rows(trace)
    rows.sort(key=lambda row: -sum(v for n, v in row.items() if n.endswith("_ns") and v == v))
    limit_note = f", the first {most} of {format_count(len(rows))}" if len(rows) > most else ""
    rows = rows[:most]
    columns = [TableColumn("rank", [str(row["rank"]) for row in rows])]
    for name, head in RANK_COLUMNS.items():
        columns.append(TableColumn(head, [format_time(row[name]) for row in rows]))
    table = render(*columns)
    return f"Ranks by time in MPI{limit_note}\n{table}\n{captions.RANK_TIMES_LEGEND}"
