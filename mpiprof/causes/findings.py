"""Findings of each call site and of the whole run in the order of the time they save; the verdict.

The verdict states the time lost, its cause, the possible gain, and time without calls. Only this
module draws conclusions. Reports, pages, comparisons and JSON put these findings into words and add
none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.segments import records_each_call
from mpiprof.causes.cause import FoundCause, Saving
from mpiprof.causes.delay_findings import find_delay_findings
from mpiprof.causes.finding import (
    MIN_CERTAINTY,
    NEGLIGIBLE_SHARE,
    CallsiteEvidence,
    Finding,
    make_finding,
)
from mpiprof.causes.place import describe_call
from mpiprof.causes.single_event import SingleEvent
from mpiprof.trace.trace import Trace

NOTABLE_SHARE = 0.01  # minimum share of all wait, or of the run time, for a finding
UNCERTAIN_WEIGHT = 0.1  # of the time saved by an uncertain finding, in the order of findings
NEGLIGIBLE_WEIGHT = 1e-3  # the same of a negligible finding, which follows all others
COST_WEIGHT = 0.1  # of the waiting per rank, if less time is saved
MIN_STRETCH_SHARE = 0.2  # of the run time, from which a stretch without calls is reported


@dataclass(frozen=True)
class Gain:
    """Gain from another algorithm at a call site, as simulated or replayed by the caller.

    algorithm: with its parameters. saved_ns: time of all ranks over all instances, within error_ns.
    how: "simulated" or "replayed".
    """

    callsite: int
    algorithm: str
    saved_ns: float
    error_ns: float
    how: str


def find_findings(trace: Trace, gains: Sequence[Gain] = ()) -> list[Finding]:
    """Return the findings of the hot call sites that matter, in their order."""
    findings = [finding for callsite in trace.hot for finding in _other_findings(trace, callsite)]
    if trace.record != "summary":
        findings = [*find_delay_findings(trace), *findings]
    min_cost_ns = NOTABLE_SHARE * sum(finding.cost_ns for finding in findings)
    findings += [_gain_finding(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    costly = [
        finding
        for finding in findings
        if finding.cost_ns > min_cost_ns or finding.cause == "algorithm"
    ]
    return sort_findings(costly, trace.run_ns)


def find_conclusions(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site in their order. Their costs are at most its wait."""
    row: Any = trace.callsites.loc[callsite]
    if not row["total_wait_ns"] > 0:
        return []
    other_findings = _other_findings(trace, callsite)
    return sort_findings([*find_delay_findings(trace, callsite), *other_findings], trace.run_ns)


def _other_findings(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site that delays do not show: a barrier, inexact clocks."""
    row: Any = trace.callsites.loc[callsite]
    if not row["total_wait_ns"] > 0:
        return []
    if _is_hidden_by_clocks(trace, row):
        return [_clock_finding(trace, row)]
    # Without a record of each call, a replay without the barrier lacks other dependences.
    is_known = records_each_call(trace) and not _accesses_shared_data(trace)
    if row["operation"] != "barrier" or not is_known:
        return []
    return list(_barrier_findings(trace, callsite, _describe_callsite(row)))


def _accesses_shared_data(trace: Trace) -> bool:
    """Return whether a program uses windows or files of MPI, whose accesses barriers may order.

    Calls of one rank are known by their time only, not by their place, so all barriers count.
    """
    operations = {shape.operation for shape in trace.tables.shapes}
    spent = trace.spent[["one_sided", "files"]].to_numpy(np.float64)
    return any(name.startswith(("win_", "file_")) for name in operations) or bool((spent > 0).any())


def _is_hidden_by_clocks(trace: Trace, row: Any) -> bool:
    """Return whether arrivals at a call site differ by less than the error of the clocks."""
    return bool(trace.clock_error_ns > 0 and not row["worst_imbalance_ns"] > trace.clock_error_ns)


def _clock_finding(trace: Trace, row: Any) -> Finding:
    explained = replace(_describe_callsite(row), clock_error_ns=trace.clock_error_ns)
    cost = float(row["total_wait_ns"])
    finding = _make_finding(trace, "clock", cost, int(row["callsite"]), explained)
    return replace(finding, certainty=0.0)


def sort_findings(findings: Sequence[Finding], run_ns: float) -> list[Finding]:
    """Sort findings by run time saved.

    A repair that saves nothing alone may be a part of one that does, so the waiting counts a
    little. An uncertain finding follows certain ones unless it saves far more.
    """

    def weigh(finding: Finding) -> float:
        weight = 1.0 if finding.certainty >= MIN_CERTAINTY else UNCERTAIN_WEIGHT
        time = max(finding.saved_ns * finding.weight, COST_WEIGHT * finding.share * run_ns)
        return time * (weight if finding.share >= NEGLIGIBLE_SHARE else NEGLIGIBLE_WEIGHT)

    return sorted(findings, key=lambda finding: (not finding.is_first, -weigh(finding)))


def _make_finding(
    trace: Trace, cause: str, cost: float, callsite: int, evidence: CallsiteEvidence
) -> Finding:
    """Return a finding that saves the mean time of the ranks of its call site."""
    saved_ns = cost / evidence.size
    return make_finding(
        trace, cause, cost, callsites=(callsite,), saved_ns=saved_ns, evidence=evidence
    )


def _describe_callsite(row: Any) -> CallsiteEvidence:
    """Return the common evidence of all findings of a call site."""
    names = "bytes", "worst_imbalance_ns", "worst_factor"
    size, worst_ns, factor = (None if pd.isna(row[name]) else float(row[name]) for name in names)
    return CallsiteEvidence(
        instances=int(row["instances"]),
        size=int(row["size"]),
        bytes=size,
        worst_imbalance_ns=worst_ns,
        worst_factor=factor,
    )


def _barrier_findings(trace: Trace, callsite: int, facts: CallsiteEvidence) -> Iterator[Finding]:
    """Yield the cost of a barrier, if the run would end earlier without it.

    A rank that was stopped in the barrier would have been stopped in another call.
    """
    saving: Saving = trace.derive("saving_without", callsite)
    keys = {key for key, number in trace.aggregate[1].items() if number == callsite}
    calls = [describe_call(trace, site) for key in keys for site in key.sites]
    events: list[FoundCause] = [
        fact
        for fact in trace.derive("facts")
        if isinstance(fact.cause, SingleEvent)
        and fact.cause.places[0].inside
        and fact.cause.places[0].before in calls
    ]
    saved_ns = saving.run_ns - sum(event.saving.run_ns for event in events)
    if saved_ns >= NOTABLE_SHARE * float(trace.run_ns):
        waiting_ns = saving.waiting_ns - sum(event.saving.waiting_ns for event in events)
        finding = _make_finding(trace, "barrier", max(waiting_ns, 0.0), callsite, facts)
        yield replace(finding, saved_ns=saved_ns)


def _gain_finding(trace: Trace, gain: Gain) -> Finding:
    row: Any = trace.callsites.loc[gain.callsite]
    evidence = replace(
        _describe_callsite(row), error_ns=gain.error_ns, how=gain.how, ran=str(row["algorithm"])
    )
    finding = _make_finding(trace, "algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(finding, algorithm=gain.algorithm)


@dataclass(frozen=True)
class Verdict:
    """Losses of a run and their main cause.

    - worst: the first finding that matters. cause: its cause, or "none" if nothing can be gained.
    - beside: if that finding is certain, an uncertain finding that costs more.
    - others: all further findings on waiting that are not negligible.
    - waiting, collective: shares of all ranks' run time; waiting is NaN if it is unknown.
    - waiting_for_messages: a part of waiting; the rest of it is a part of collective.
    - gain: the largest gain from another algorithm, or None.
    """

    cause: str
    worst: Finding | None
    beside: Finding | None
    waiting: float
    waiting_for_messages: float
    collective: float
    gain: Finding | None
    others: tuple[Finding, ...] = ()

    @property
    def collective_without_waiting(self) -> float:
        """Share of all ranks' run time in collectives but not waiting."""
        return max(self.collective - (self.waiting - self.waiting_for_messages), 0.0)


def make_verdict(trace: Trace, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict from the findings of a trace, which are in their order."""
    times = trace.run_times
    process_ns = max(times.whole_ns, 1.0)
    waiting, inside = times.total_wait.value / process_ns, times.collective.value / process_ns
    for_messages = 0.0 if math.isnan(times.message_wait_ns) else times.message_wait_ns / process_ns
    gain = next((finding for finding in findings if finding.cause == "algorithm"), None)
    worst = next(
        (finding for finding in findings if finding.share >= NEGLIGIBLE_SHARE or finding is gain),
        None,
    )
    beside = None
    if worst is not None and worst.certainty >= MIN_CERTAINTY:
        costlier = (finding for finding in findings if finding.cost_ns > worst.cost_ns)
        beside = next((finding for finding in costlier if finding.certainty < MIN_CERTAINTY), None)
    cause = worst.cause if worst else "none"
    further_findings = tuple(
        finding
        for finding in findings
        if finding is not worst and finding is not beside and finding.is_delay
    )
    costly = sum(finding.share for finding in further_findings) >= NEGLIGIBLE_SHARE
    further_findings = further_findings if worst is not None and costly else ()
    return Verdict(cause, worst, beside, waiting, for_messages, inside, gain, further_findings)


@dataclass(frozen=True)
class CallFreeStretch:
    """Begin and end in ns after the start of the run, and the share of the run time."""

    begin_ns: int
    end_ns: int
    share: float


def find_call_free_stretch(trace: Trace) -> CallFreeStretch | None:
    """Return the longest stretch without any MPI call on any rank, None if short or unknown.

    Source: the recorded intervals between calls that contain no call of `Trace.local_sums`. Runs
    that do not fit in memory have no result.
    """
    if trace.record == "summary" or trace.sampling_interval > 1 or not fits_in_memory(trace):
        return None
    table = trace.intervals[trace.intervals["untracked_ns"] <= 0]
    begin, end = (table[name].to_numpy(np.int64) for name in ("begin_ns", "end_ns"))
    if not len(table) or table["thread"].nunique() > 1:
        return None
    time = np.concatenate([begin, end])
    change = np.repeat([1, -1], len(begin))
    order = np.lexsort((change, time))  # at the same time, ends come first
    outside = np.cumsum(change[order])
    first = np.flatnonzero(outside == trace.ranks)
    if not len(first):
        return None
    # The number changes at the next event, so a stretch ends there.
    time = time[order]
    longest = first[np.argmax(time[first + 1] - time[first])]
    began, ended = (int(time[at]) - trace.run_start_ns for at in (longest, longest + 1))
    share = (ended - began) / max(float(trace.run_ns), 1.0)
    return CallFreeStretch(began, ended, share) if share >= MIN_STRETCH_SHARE else None
