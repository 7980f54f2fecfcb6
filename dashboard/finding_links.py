"""Links from a finding to the page of its call site, which states the finding and links back."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.causes.finding import MIN_CAUSE_SHARE, Finding, find_causes_at
from mpiprof.interface.format_units import shorten_text
from mpiprof.reports.site_labels import make_callsite_key
from mpiprof.reports.words import finding_sentences
from mpiprof.reports.words.finding_sentences import saving_sentence

from .trace_data import TraceData
from .url_state import PageState, change_filters

MAX_CAUSES = 3
MAX_FILTERED = 64  # ranks of a finding in an address


def link_to_callsite(state: PageState, finding: Finding) -> str:
    """Return the address of the call site with most of a finding's waiting, or of all of them."""
    main = finding.main_callsite
    return state.link_to("/callsites", callsite=None if main is None else make_callsite_key(main))


def link_to_timeline(data: TraceData, state: PageState, finding: Finding) -> str:
    """Return the address of the timeline at the costliest delay of a finding.

    Several late ranks are filtered. Returns the whole run if no single delay is known.
    """
    shared = state.without_page_keys()
    if len(finding.ranks) > 1:
        ranks = ", ".join(map(str, finding.ranks[:MAX_FILTERED]))
        shared = change_filters(shared, {"ranks": ranks})
    findings = data.derive("findings")
    if finding not in findings:
        return shared.link_to("/timeline")
    work = data.derive("blamed_work")
    work = work[work["finding"] == findings.index(finding)]
    if not len(work):
        return shared.link_to("/timeline")
    delay = work.loc[work["cost_ns"].idxmax()]
    begin, end = (int(delay[name]) - data.trace.calls_start_ns for name in ("begin_ns", "end_ns"))
    length = max(end - begin, 1)
    window = {"from": max(begin - length, 0), "to": end + 2 * length}
    return shared.link_to("/timeline", **window)


def find_causes(
    data: TraceData, callsite: int | tuple[str, int], min_share: float = MIN_CAUSE_SHARE
) -> list[Finding]:
    """Return the findings that blame ranks for at least a share of the waiting at a call site."""
    if data.trace.record == "summary":
        return []
    return find_causes_at(data.derive("findings"), callsite, min_share)[:MAX_CAUSES]


def list_causes(data: TraceData, state: PageState, causes: list[Finding]) -> list[Component]:
    """Return the sentences of findings at a call site, with links back to the list of findings."""
    findings = data.derive("findings") if causes else []
    return [_make_line(data, state, finding, findings.index(finding) + 1) for finding in causes]


def _make_line(data: TraceData, state: PageState, finding: Finding, number: int) -> Component:
    parts = (
        f"{finding_sentences.problem_clause(data.trace, finding)}.",
        saving_sentence(data.trace, finding),
    )
    text: list[Any] = [shorten_text(" ".join(part for part in parts if part)), " "]
    link = dcc.Link("All findings", href=state.link_to("/"))
    return html.P(
        [html.B(f"Finding {number}, in the whole run: "), *text, link], className="finding-line"
    )
