"""Findings of each call site and of the whole run as data, in the order of the time they save.

Only this module draws conclusions. Reports, pages, comparisons and JSON put these findings into
words and add none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.work_segments import records_each_call
from mpiprof.causes.removal import Saving
from mpiprof.diagnosis.delay_findings import find_delay_findings
from mpiprof.diagnosis.evidence import CallsiteEvidence
from mpiprof.diagnosis.finding import MIN_CERTAINTY, NEGLIGIBLE_SHARE, Finding, make_finding
from mpiprof.trace.trace import Trace

NOTABLE_SHARE = 0.01  # minimum share of all wait, or of the run time, for a finding
UNCERTAIN_WEIGHT = 0.1  # of the time saved by an uncertain finding, in the order of findings
NEGLIGIBLE_WEIGHT = 1e-3  # the same of a negligible finding, which follows all others
COST_WEIGHT = 0.1  # of the waiting per rank, if less time is saved


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
    least = NOTABLE_SHARE * sum(finding.cost_ns for finding in findings)
    findings += [_gain_finding(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    costly = [one for one in findings if one.cost_ns > least or one.cause == "algorithm"]
    return sort_findings(costly, trace.run_ns)


def find_conclusions(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site in their order. Their costs are at most its wait."""
    row: Any = trace.callsites.loc[callsite]
    if not row["total_wait_ns"] > 0:
        return []
    others = _other_findings(trace, callsite)
    return sort_findings([*find_delay_findings(trace, callsite), *others], trace.run_ns)


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
    """Yield the cost of a barrier, if the run would end earlier without it."""
    saving: Saving = trace.derive("saving_without", callsite)
    if saving.run_ns >= NOTABLE_SHARE * float(trace.run_ns):
        finding = _make_finding(trace, "barrier", saving.waiting_ns, callsite, facts)
        yield replace(finding, saved_ns=saving.run_ns)


def _gain_finding(trace: Trace, gain: Gain) -> Finding:
    row: Any = trace.callsites.loc[gain.callsite]
    evidence = replace(
        _describe_callsite(row), error_ns=gain.error_ns, how=gain.how, ran=str(row["algorithm"])
    )
    finding = _make_finding(trace, "algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(finding, algorithm=gain.algorithm)
