"""Sentences on a trace: its start, clocks, shares of its time, losses and unknown waiting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.coverage import LOST_REASON, Coverage
from mpiprof.account.message_waits import sum_unknown_waits
from mpiprof.account.run_times import incomplete_times
from mpiprof.account.variance_components import Estimate
from mpiprof.causes.finding import NEGLIGIBLE_SHARE
from mpiprof.facts.library_algorithms import mpi_name
from mpiprof.interface.format_units import (
    between,
    format_count,
    format_ranks,
    format_share,
    format_time,
    lower_first,
)
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace

MIN_UNKNOWN_SHARE = 0.005  # minimum share of all ranks' time in unknown waits
MAX_PROBLEM = 100  # characters of a problem in a sentence
CALIBRATE_HINT = "`calibrate -o FILE` measures them, for `report --machine FILE`"


def started(trace: Trace) -> str:
    """Return the date and time at which the run started, or "" if they are unknown."""
    time = str(trace.meta.get("started") or "").replace("T", " ").rstrip("Z")
    return f"{time} UTC" if time else ""


def share_in_words(share: float) -> str:
    """Return a share in words ("Two thirds", "Nearly all") or in percent."""
    if share >= 0.95:
        return "Nearly all"
    for value, phrase in ((0.75, "Three quarters"), (2 / 3, "Two thirds"), (0.5, "Half")):
        if abs(share - value) <= 0.03:
            return phrase
    return format_share(share)


def share_bounds(trace: Trace, time: Estimate) -> str:
    """Return the bounds of a time as shares of all ranks' time, or "" if it is exact or unknown."""
    whole = trace.run_times.whole_ns or math.nan
    return between(time.low / whole, time.high / whole, format_share)


def clock_sentence(error_ns: float, nodes: int, *, partial: bool) -> str:
    """Return how far the clocks of different nodes can be trusted."""
    if nodes <= 1:
        return "one node, one clock: times of different ranks compare exactly"
    if partial:
        return "not synchronised (--partial): times of different nodes don't compare"
    if math.isnan(error_ns) or error_ns < 0:
        return f"error between the {nodes} nodes unknown: their times don't compare"
    bound = f"error at most ±{format_time(error_ns)}"
    return f"{nodes} nodes, {bound}: smaller differences mean nothing"


def incompleteness_lines(trace: Any, *, dropped: bool = True) -> list[str]:
    """Return a line for each missing part of a trace, or an empty list if it is complete.

    dropped: whether to state the number of dropped records.
    """
    lines = []
    if dropped and trace.dropped_records:
        count = format_count(trace.dropped_records)
        lines.append(f"{count} records were dropped: the figures lack these calls")
    if not trace.is_sound:
        lines.append("INCOMPLETE: not every process ended in MPI_Finalize, or files are cut")
    problems = list_problems(trace)
    lines += problems[:5]
    if len(problems) > 5:
        lines.append(f"and {len(problems) - 5} more problems of this kind")
    return lines


def describe_defects(traces: Sequence[Trace]) -> list[str]:
    """Return one line for each defect of the traces, or an empty list if all are complete."""
    lines = []
    for trace in traces:
        if not trace.is_complete:
            lines += [f"{trace.path}: {line}" for line in incompleteness_lines(trace)]
    return lines


def list_problems(trace: Any) -> list[str]:
    """Return the problems of a trace without its notes, which are reported separately."""
    notes = {*trace.notes, trace.dropped_note}
    return [str(problem) for problem in trace.problems if problem not in notes]


def loss_sentence(trace: Any) -> str:
    """Return what a trace has lost, the effect and the remedy; "" if it has lost nothing."""
    problems = [problem[:MAX_PROBLEM] for problem in list_problems(trace)]
    lost = trace.logs.is_damaged or trace.logs.truncated or trace.tables.truncated
    if problems and not trace.meta and trace.is_sound:
        return (
            f"Trace is incomplete: {problems[0]}. The program's name and command, the date and the "
            "message times are unknown; waiting is not affected. Copy meta.json again, or rerun."
        )
    if problems and (lost or not trace.meta or len(trace.tables.processes) < trace.ranks):
        rest = len(problems) - 2
        more = f"; and {rest} more problem{'s' * (rest > 1)}" if rest > 0 else ""
        return (
            f"Trace is incomplete: {'; '.join(problems[:2])}{more}. Waiting in the lost calls is "
            "unknown. Copy the trace again, or rerun with -o on a file system of all nodes."
        )
    if trace.dropped_records:
        return (
            f"Trace is incomplete: {format_count(trace.dropped_records)} records were dropped. "
            "The figures lack these calls. Record less, with --sample or --record ring."
        )
    return ""


def state_sentence(trace: Any) -> str:
    """Return what the trace of an ended job lacks, the effect and the remedy; "" if nothing."""
    if lost := loss_sentence(trace):
        return lost
    if not trace.is_finalised:
        ended = sum(end["reason"] == "finalize" for end in trace.tables.ends.values())
        others = f"{format_count(trace.ranks - ended)} of {format_count(trace.ranks)}"
        return (
            f"The job ended without MPI_Finalize on {others} ranks. Their last calls may have no "
            "end. `status` reports what each rank did last."
        )
    if not trace.tables.shapes:
        return (
            "No MPI call was recorded, so there is no waiting to show. Check that the program "
            "calls MPI, and that no option switches the recorder off; `doctor` tests it."
        )
    if trace.record == "summary":
        return (
            "This trace has only totals, so arrivals and waiting are unknown. Record without "
            "--record summary."
        )
    return ""


def message_record(trace: Trace) -> str:
    """Return the share of the run whose message calls are all recorded, or "" if it is the whole.

    The text is also empty if the share is unknown.
    """
    share, count = trace.complete_share, len(trace.complete_windows or ())
    if share is None or share >= 1:
        return ""
    recorded = f"Message calls are recorded completely for {format_share(share)} of the run"
    if not count:
        return recorded
    windows = f"{format_count(count)} window{'s' * (count != 1)}"
    return f"{recorded}, in {windows}; sums of waiting for messages are scaled from there"


def unknown_message_waits(trace: Trace) -> str:
    """Return the time of calls that may have waited for unrecorded calls, or "" if it is little.

    The text is also empty if the run has complete windows, from which the waiting is scaled.
    """
    if trace.complete_windows or not fits_in_memory(trace):
        return ""
    unknown_ns = sum_unknown_waits(trace)
    if unknown_ns < MIN_UNKNOWN_SHARE * max(trace.process_time_ns, 1):
        return ""
    share = format_share(unknown_ns / trace.process_time_ns)
    return (
        f"The waiting in calls that took {share} of all ranks' time is unknown, because the record "
        "lacks the other call of their messages. Record with --messages auto, the default"
    )


def waiting_verb(trace: Trace) -> str:
    """Return "is waiting", or another verb if ranks may have waited notably longer."""
    is_bound = bool(trace.ranks_without_records) or _share_of_time(trace) >= NEGLIGIBLE_SHARE
    return "is known to be waiting" if is_bound else "is waiting"


def describe_lost_ranks(trace: Trace) -> str:
    """Return the ranks without records, as a part of a sentence on waiting."""
    lost = sorted(trace.ranks_without_records)
    return f"{format_ranks(lost)}, whose calls are lost"


def unknown_waiting_sentence(trace: Trace) -> str:
    """Return the time in calls whose waiting is unknown, and where most of it is, otherwise ""."""
    times, share = incomplete_times(trace), _share_of_time(trace)
    if share < NEGLIGIBLE_SHARE:
        return ""
    worst = int(times.argmax())
    part = lower_first(share_in_words(float(times[worst] / times.sum())))
    site = format_callsite(trace, worst)
    return (
        f"A further {format_share(share)} is in collectives of which not all ranks' calls are in "
        f"the trace, {part} of it {site}: how much of that is waiting is not known."
    )


def _share_of_time(trace: Trace) -> float:
    return float(incomplete_times(trace).sum()) / max(float(trace.process_time_ns), 1.0)


def sampling_text(every: int) -> str:
    """Return the basis of the numbers if one instance in `every` was recorded."""
    return (
        f"one instance in {every}: sums are estimated from these, and lie with 95 % confidence "
        "between the two values given; so are counts with ~, but findings count and number the "
        "recorded instances alone"
    )


def coverage_text(coverage: Coverage) -> str:
    """Return which part of a run the trace contains."""
    of = format_count(coverage.instances)
    of += f" of {format_count(coverage.total)}" if coverage.total else ""
    part = f"{coverage_time(coverage)}, {of} instances ({coverage.reason})"
    but = {"--limit": ", but for what was summed up later", LOST_REASON: ""}
    exclusion = but.get(coverage.reason, ", but for the totals of all")
    return f"{part}; all figures here are of this part{exclusion}"


def coverage_time(coverage: Coverage) -> str:
    """Return how much of a run's time the trace contains, and from which end."""
    end = "last" if coverage.reason == "--record ring" else "first"
    return f"the {end} {format_time(coverage.recorded_ns)}"


def summary_text(observed: int, instances: int) -> str:
    """Return what a trace recorded as summary contains."""
    if not observed:
        return "as summary: counts, times and sizes; no arrivals, so no waiting"
    if observed == instances:
        return "as summary: no single instances"
    arrivals = f"arrivals of {format_count(observed)} of {format_count(instances)} instances"
    return f"as summary: {arrivals} are known; waiting is of all, from these"


def message_time_source(trace: Trace) -> str:
    """Return the source of T, the denominator of the factors."""
    machine = trace.machine_table
    if not machine:
        return f"unknown, so no factors: {CALIBRATE_HINT}"
    calibrated = machine.get("source") == "calibrate"
    source = "measured by calibrate" if calibrated else "sketched at start"
    source += "" if trace.given_machine is None else " (--machine)"
    link = machine.get("between") or machine.get("within") or {}
    alpha = link.get("alpha_ns")
    if trace.machine_fault:
        remedy = f"with a core for each rank {CALIBRATE_HINT}"
        return f"not usable ({source}), so no factors: {trace.machine_fault}; {remedy}"
    return source if alpha is None else f"{source}; {format_time(alpha)} for an empty message"


def list_facts(trace: Trace) -> list[str]:
    """Return the facts behind the program's name; they need no pass over the trace."""
    facts = [count_ranks(trace), mpi_name(trace.mpi), started(trace)]
    facts.append(format_time(float(trace.run_ns)))
    if trace.node_count > 1 and 0 < trace.clock_error_ns < float("inf"):
        facts.append(f"clocks agree within {format_time(float(trace.clock_error_ns))}")
    if trace.sampling_interval > 1:
        facts.append(f"sampled: one instance in {trace.sampling_interval}")
    if record := message_record(trace):
        facts.append(record[0].lower() + record[1:])
    return [fact for fact in facts if fact]


def count_ranks(trace: Trace) -> str:
    """Return the numbers of ranks and nodes as text."""
    ranks, nodes = trace.ranks, trace.node_count
    return f"{format_count(ranks)} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}"


def list_limitations(trace: Trace) -> Iterator[str]:
    """Yield a sentence for each reason why calls of the job are unknown."""
    if trace.record == "summary":
        fact = "the trace has no single calls, only the ranks that have ended"
        yield f"Recorded as summary: {fact}."
    if not trace.meta:
        yield loss_sentence(trace)
    if trace.lost_ranks:
        lost = f"Records of {format_ranks(sorted(trace.lost_ranks))} are missing"
        yield f"{lost} (full disk or truncated logs), so later calls are unknown."
    if trace.tables.limits:
        yield "Logs have reached their limit (--limit), so later calls are unknown."
    if trace.wrapped_chunks:
        fact = "the last calls of each rank are available, and the arrivals of all ranks"
        yield f"Recorded as a ring: {fact}."
