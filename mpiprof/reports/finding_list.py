"""Findings as a list that a notebook shows as a table, in the words of all reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.diagnosis.finding import CAUSES, Finding
from mpiprof.diagnosis.findings import find_findings
from mpiprof.interface.format_units import format_ranks, format_share, format_time
from mpiprof.reports import sentences
from mpiprof.reports.notebook_table import make_html_table
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.table import Column
from mpiprof.reports.tokens import use_colour
from mpiprof.trace import Trace

HEADS = ("cost", "of all", "finding", "ranks", "call site", "why", "advice")
MAX_LISTED = 50


class FindingList(list[Finding]):
    """The findings of a trace by descending cost; a notebook shows them as a table."""

    def __init__(self, trace: Trace, findings: Sequence[Finding]) -> None:
        super().__init__(findings)
        self._trace = trace

    def _repr_html_(self) -> str:
        """Return the table as HTML; the text of the trace is escaped."""
        if not self:
            return f'<p style="color:{use_colour("good")}">No finding: nothing is to be gained.</p>'
        cells = zip(*map(self._make_cells, self[:MAX_LISTED]), strict=True)
        columns = [Column(head, of, left=True) for head, of in zip(HEADS, cells, strict=True)]
        more = len(self) - MAX_LISTED
        rest = f"<p>and {more} more findings</p>" if more > 0 else ""
        return make_html_table(columns) + rest

    def _make_cells(self, finding: Finding) -> list[str]:
        first = finding.callsites[0] if finding.callsites else None
        ranks = format_ranks(finding.ranks[:8]) if finding.ranks else "–"
        return [
            format_time(float(finding.cost_ns)),
            format_share(finding.share),
            sentences.finding_title(self._trace, finding),
            ranks,
            "–" if first is None else format_callsite(self._trace, first),
            CAUSES.get(finding.cause, finding.cause),
            sentences.advise(self._trace, finding),
        ]


def list_findings(trace: Trace, gains: Sequence[Any] = ()) -> FindingList:
    """Return the findings of a trace, as `find_findings` does, in a list for notebooks."""
    return FindingList(trace, find_findings(trace, tuple(gains)))
