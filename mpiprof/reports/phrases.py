"""Figures as text: cost of waiting, spread of arrivals, certainty of clocks and traces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mpiprof.diagnosis.arrival_statistics import ArrivalStatistics
from mpiprof.interface.format_units import (
    between,
    format_count,
    format_estimate,
    format_factor,
    format_ordinal,
    format_share,
    format_size,
    format_time,
)
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.columns import wait_limits
from mpiprof.metrics.message_waits import sum_unknown_waits
from mpiprof.metrics.variance_components import Estimate
from mpiprof.reports.site_labels import routine_at
from mpiprof.trace import Trace

NOTABLE = 0.005  # minimum share of a spread; a smaller share is reported as 0 %
MIN_UNKNOWN_SHARE = 0.005  # minimum share of all ranks' time in unknown waits
MAX_PROBLEM = 100  # characters of a problem in a sentence


def cost_sentence(row: dict[str, Any], total_ns: float) -> str:
    """Return the cost of the waiting at one call site, and the spread of its arrivals."""
    limits = wait_limits(row)
    bounds = f" ({limits})" if limits else ""
    text = f"{routine_at(row)} costs {format_time(row['total_wait_ns'])}{bounds} of waiting"
    if total_ns > 0:
        text += f", {format_share(row['total_wait_ns'] / total_ns)} of all ranks' time"
    return f"{text}. {_spread_clause(row)}".rstrip()


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


def instance_counts(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return the instances of both compared call sites, as `count` and `other_count`."""
    return {
        f"{side}count": format_estimate(row[f"{side}total_instances"], row[f"{side}instances"])
        for side in ("", "other_")
    }


def _spread_clause(row: dict[str, Any]) -> str:
    spread, ratio = row["worst_imbalance_ns"], row["worst_factor"]
    if math.isnan(spread):
        return ""
    text = f"The last process comes {format_time(spread)} after the first"
    text += ", on average" if row["instances"] > 1 else ""
    if not math.isnan(ratio):
        message = row["message_bytes"]
        size = f"of {format_size(message)}" if message > 0 else "without data"
        text += f", the time of {format_factor(ratio)} messages {size}"
    return text + "."


def arrival_sentences(statistics: ArrivalStatistics) -> list[str]:
    """Return sentences about why the arrivals at a call site differ."""
    parts = []
    if not math.isnan(statistics.inherited.value):
        shares = (statistics.inherited, statistics.outside, statistics.point_to_point)
        before, outside, messages = map(_format_estimate, shares)
        parts.append(
            f"Of the spread of the arrivals (its variance) {before} came in with the exits from "
            f"the collective before; {outside} arose since then outside MPI collectives and "
            f"{messages} in point-to-point messages."
        )
    if statistics.compensated.value >= NOTABLE:
        share = _format_estimate(statistics.compensated)
        parts.append(f"Ranks make up for {share} of it before they arrive.")
    if not math.isnan(statistics.random.value):
        nodes = (
            f", {_format_estimate(statistics.by_node)} by node" if len(statistics.nodes) > 1 else ""
        )
        fixed = f"{_format_estimate(statistics.by_rank)} is systematic by rank{nodes}"
        changing = f"{_format_estimate(statistics.random)} changes from instance to instance"
        parts.append(f"{fixed}, {changing}.")
    if statistics.instances < statistics.complete_instances:
        instances, total = (
            format_count(statistics.instances),
            format_count(statistics.complete_instances),
        )
        parts.append(f"This is from {instances} of {total} instances.")
    return parts


def period_sentence(phases: pd.DataFrame) -> str:
    """Return which instances of a call site differ periodically, or "" if none do."""
    if not len(phases) or not phases["period"].iloc[0]:
        return ""
    period, offset = int(phases["period"].iloc[0]), int(phases["period_offset"].iloc[0])
    spread = format_time(float(phases["period_worst_imbalance_ns"].mean()))
    numbers = ", ".join(str(offset + i * period) for i in range(3))
    subject = f"Every {format_ordinal(period)} instance ({numbers}, ...)"
    return f"{subject} is different: it spreads over {spread}."


def _format_estimate(estimate: Estimate) -> str:
    """Return a share with its confidence interval, in percent."""
    value, low, high = (
        f"{100 * v + 0.0:.0f}".replace("-0", "0") if abs(100 * v) < 1 else f"{100 * v:.0f}"
        for v in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} %" if low in (high, "nan") else f"{value} % ({low} to {high})"


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
