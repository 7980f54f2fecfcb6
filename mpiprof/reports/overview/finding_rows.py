"""Findings as ranked rows: saving, title, small picture, place, reason and number of instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.causes.finding import Finding, HabitEvidence, is_blamed
from mpiprof.interface.format_units import UNKNOWN, format_count, format_time
from mpiprof.reports.overview.proof import mark_blamed
from mpiprof.reports.pictures import row_pictures
from mpiprof.reports.site_labels import format_wait_site, make_callsite_key
from mpiprof.reports.words import finding_sentences
from mpiprof.reports.words.answer_facts import describe_reason
from mpiprof.reports.words.finding_sentences import describe_saving
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

MAX_FINDINGS = 9
HEADS = ("", "would save", "what", "who is late", "where", "why", "instances", "")


@dataclass(frozen=True)
class FindingRow:
    """A row. bar, picture: SVG; picture is "" if nothing can be drawn. icon: name of an icon.

    callsite: key of the call site with most of the waiting.
    """

    number: int
    is_first: bool
    bar: str
    saved: str
    share: str
    title: str
    lateness: str
    picture: str
    callsite: int | str | None
    operation: str
    place: str
    icon: str
    reason: str
    instances: str
    text: str


def make_rows(
    trace: Trace, findings: Sequence[Finding], totals: pd.DataFrame | None
) -> list[FindingRow]:
    """Return the rows in the order of the findings. totals: `rank_totals`, None in a summary."""
    largest = max([1.0, *(finding.saved_ns for finding in findings)])
    return [
        _make_row(trace, finding, number, largest, totals)
        for number, finding in enumerate(findings, 1)
    ]


def describe_savings(trace: Trace, findings: Sequence[Finding]) -> str:
    """Return the note beside the heading: the order, and the run time that savings refer to.

    Savings do not add up: ranks may hide the delays of others.
    """
    run = format_time(float(trace.run_ns))
    alone = "each alone, " if len(findings) > 1 else ""
    return f"largest saving first; {alone}of the {run} that the run takes"


def _make_row(
    trace: Trace, finding: Finding, number: int, largest: float, totals: pd.DataFrame | None
) -> FindingRow:
    first = number == 1 and is_blamed(finding)
    icon, reason, _ = describe_reason(finding)
    saving = describe_saving(trace, finding)
    main = finding.main_callsite
    site = UNKNOWN if main is None else format_wait_site(trace, main)
    operation, _, place = site.partition(" at ")
    late_ns, counted = 0.0, UNKNOWN
    if isinstance(finding.evidence, HabitEvidence):
        habit = finding.evidence
        late_ns = habit.varies[0] if habit.varies else habit.late_ns
        counted = f"{format_count(habit.late_instances)} of {format_count(habit.instances)}"
    return FindingRow(
        number,
        first,
        row_pictures.draw_saving(finding.saved_ns / largest, first=first),
        saving.text,
        saving.share,
        finding_sentences.finding_title(trace, finding),
        f"by {format_time(late_ns)}" if late_ns else "",
        _draw_finding(trace, finding, totals),
        None if main is None else make_callsite_key(main),
        operation,
        place,
        icon,
        reason,
        counted,
        finding_sentences.finding_text(trace, finding),
    )


def _draw_finding(trace: Trace, finding: Finding, totals: pd.DataFrame | None) -> str:
    """Return the mean lateness of the ranks at the call site, or the algorithms' times.

    For messages, return the waiting that each rank causes there, or "" if it is unknown.
    """
    main = finding.main_callsite
    if isinstance(main, tuple):
        known = trace.derive("rank_waits")(main)
        if known is None:
            return ""
        blamed = mark_blamed(trace, finding)
        return row_pictures.draw_lateness_bars(known[0], blamed, "Waiting caused by each rank")
    if not finding.callsites or totals is None:
        return ""
    callsite = finding.callsites[0]
    if finding.cause == "algorithm":
        row: Any = trace.callsites.loc[callsite]
        total = float(row["total_elapsed_ns"])
        left = max(1.0 - finding.cost_ns / max(total, 1.0), 0.0)
        return row_pictures.draw_two_bars(left, str(finding.algorithm))
    return draw_lateness(totals, callsite, [finding])


def draw_lateness(totals: pd.DataFrame, callsite: int, findings: Sequence[Finding]) -> str:
    """Return the mean lateness of the ranks at a call site, ranks that findings blame in accent."""
    here = [one for one in findings if is_blamed(one) and callsite in one.callsites]
    ranks, late_ns = mean_lateness(totals, callsite)
    blamed = {rank for finding in here[:1] for rank in finding.ranks}
    return row_pictures.draw_lateness_bars(late_ns, np.isin(ranks, list(blamed)))


def mean_lateness(totals: pd.DataFrame, callsite: int) -> tuple[Any, Float]:
    """Return the members of a call site, and their mean lateness beyond the earliest mean."""
    rows = totals[(totals["callsite"] == callsite).to_numpy()]
    sums = rows.groupby("rank")[["lateness_ns", "instances"]].sum()
    mean = (sums["lateness_ns"] / sums["instances"].clip(lower=1)).to_numpy(np.float64)
    return sums.index.to_numpy(np.int64), mean - mean.min(initial=math.inf) if len(mean) else mean
