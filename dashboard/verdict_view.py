"""The answer of the overview: share lost, who, where, why, saving, command, and its picture."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.finding import MIN_CERTAINTY, Finding
from mpiprof.diagnosis.verdict import Verdict, make_verdict
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_ranks, format_share, format_time
from mpiprof.interface.shell_hints import format_command, quote_word, switch_value
from mpiprof.metrics.rank_totals import read_instance
from mpiprof.reports import conclusion, delay_sentences, phrases, sentences
from mpiprof.reports.pictures import icons, instance_arrivals
from mpiprof.reports.site_labels import format_callsite, format_site, site_pattern

from . import components, filtered_tables
from .picture import Picture
from .trace_data import TraceData
from .url_state import PageState, change_filters

RANKS_FIRST = re.compile(r"[Rr]anks? \d[\d,\- ]*(?:and \d+ more)?")
WIDTHS = {"wide": (760.0, 290.0), "narrow": (366.0, 230.0)}  # by class: of the picture in px
LARGE_SHARE = 0.5  # of the 90th percentile of the spreads; smaller ones are not typical of a delay
NOT_BLAMED = ("noise", "clock", "algorithm", "barrier", "none")


def is_blamed(finding: Finding) -> bool:
    """Return whether a finding blames ranks with certainty, so that they get the accent."""
    certain = finding.certainty >= MIN_CERTAINTY
    return bool(finding.ranks) and certain and finding.cause not in NOT_BLAMED


def name_blamed(finding: Finding) -> str:
    """Return the name of the blamed ranks: of their node if they are all of its ranks."""
    return str(finding.evidence.get("host") or "") or format_ranks(finding.ranks)


def find_verdict(data: TraceData) -> Verdict:
    """Return the verdict on the run; the simulation of algorithms is not a part of it."""
    return make_verdict(data.trace, data.derive("findings"))


def make_answer(data: TraceData, state: PageState) -> Component | None:
    """Return the share lost, the sentence, the facts and the command; None if nothing was recorded.

    The frame reports a trace without calls.
    """
    verdict = find_verdict(data)
    lines = conclusion.verdict_lines(data.trace, verdict)
    if verdict.worst is None:
        return _make_plain_answer(data, verdict, lines)
    finding = verdict.worst
    blamed = is_blamed(finding)
    rest = lines[2:] if verdict.beside is not None else lines[3:]
    command, advice = _make_command(data, finding), _make_advice(data, verdict)
    return html.Div(
        [
            _make_share(data, verdict, late=blamed),
            html.P(_mark_names(data, finding), className="sentence"),
            _make_facts(data, finding),
            html.Div(
                [_make_button(finding, state), html.P(advice, className="note")], className="act"
            ),
            components.show_command(command),
            *[html.P(line, className="note") for line in rest],
        ],
        className="answer",
    )


def _make_plain_answer(data: TraceData, verdict: Verdict, lines: Sequence[str]) -> Component | None:
    """Return the answer without a finding: nothing to gain, or a trace that cannot show causes."""
    # A trace that lacks calls does not show that nothing is to be gained.
    unknown = math.isnan(verdict.waiting) or bool(phrases.state_sentence(data.trace))
    if not len(data.callsites) and not len(data.trace.message_waits):
        return None
    if unknown:
        share = [] if math.isnan(verdict.waiting) else [_make_share(data, verdict, late=False)]
        said = [html.P(line, className="sentence") for line in lines[len(share) :]]
        return html.Div([*share, *said], className="answer")
    good = html.B("Nothing to gain here. ", className="good")
    text = [html.P([good, lines[0]], className="sentence")]
    return html.Div([*text, *[html.P(line) for line in lines[1:]]], className="answer")


def _make_share(data: TraceData, verdict: Verdict, *, late: bool) -> Component:
    run_ns = float(data.trace.run_ns)
    amount = f"{format_time(verdict.waiting * run_ns)} of {format_time(run_ns)}"
    return html.Div(
        [
            html.B(format_share(verdict.waiting), className="late" if late else ""),
            html.Span(f" of this run is waiting: {amount}"),
        ],
        className="share",
    )


def _mark_names(data: TraceData, finding: Finding) -> list[Any]:
    """Return the problem as text with the ranks in accent and the call sites in bold."""
    text = f"{sentences.problem_clause(data.trace, finding)}."
    names = [re.escape(format_callsite(data.trace, one)) for one in finding.callsites[:3]]
    sites = re.compile("|".join(sorted(names, key=len, reverse=True)) or "$^")
    parts: list[Any] = []
    found = RANKS_FIRST.match(text)
    if found:
        parts.append(html.B(found[0].rstrip(), className="late" if is_blamed(finding) else ""))
        text = " " + text[found.end() :].lstrip()
    at = 0
    for match in sites.finditer(text):
        parts += [text[at : match.start()], html.B(match[0])]
        at = match.end()
    return [*parts, text[at:]]


def _make_facts(data: TraceData, finding: Finding) -> Component:
    """Return who, where, why and the saving, each with a second line."""
    facts = [_describe_ranks(data, finding), _describe_place(data, finding)]
    icon, why, more = describe_reason(finding)
    facts.append(("Why", [Picture(icons.draw_icon(icon)), html.B(why)], more))
    if finding.saved_ns > 0 and finding.cause != "noise":
        share = format_share(finding.saved_ns / max(float(data.trace.run_ns), 1.0))
        saved = html.B(format_time(finding.saved_ns), className="late" * is_blamed(finding))
        facts.append(("Would save", [saved], f"{share} of the run"))
    rows = [
        html.Div([html.Dt(name), html.Dd(value), html.Dd(more, className="more")])
        for name, value, more in facts
    ]
    return html.Dl(rows, className="who")


def _describe_ranks(data: TraceData, finding: Finding) -> tuple[str, list[Any], str]:
    if not finding.ranks or not is_blamed(finding):
        return "Who", [html.B("no rank in particular")], ""
    if len(finding.ranks) == 1:
        where = data.describe_location(finding.ranks[0])
        return "Who", [html.B(f"rank {finding.ranks[0]}")], filtered_tables.shorten_text(where)
    of_host = format_ranks(finding.ranks) if finding.evidence.get("host") else ""
    return "Who", [html.B(name_blamed(finding))], of_host


def _describe_place(data: TraceData, finding: Finding) -> tuple[str, list[Any], str]:
    location = (finding.evidence.get("work") or [None])[0]
    if location is None or location["share"] < delay_sentences.MAIN_SHARE:
        place = format_callsite(data.trace, finding.callsites[0]) if finding.callsites else "–"
        operation, _, site = place.partition(" at ")
        return "Where", [html.B(site or operation)], operation if site else ""
    before, after = location["before"], location["after"]
    name = "Happens inside" if location["inside"] else "Begins after"
    first = format_site(before) if before.get("operation") else "the start of the run"
    more = f"before {after['operation']} at {format_site(after)}" if after.get("operation") else ""
    return name, [html.B(first)], "" if location["inside"] else more


def describe_reason(finding: Finding) -> tuple[str, str, str]:
    """Return the icon, the reason and its share or source, as short texts."""
    if finding.cause == "algorithm":
        return "algorithm", "algorithm", str(finding.evidence["how"])
    if finding.cause in ("barrier", "clock"):
        return (
            finding.cause,
            {"barrier": "barrier", "clock": "clocks too far apart"}[finding.cause],
            "",
        )
    if not delay_sentences.is_delay(finding) or finding.cause == "noise":
        return "unknown", "no pattern", ""
    found = finding.evidence.get("reason")
    if finding.cause == "inside":
        return "algorithm", "inside the collective", ""
    if found is None:
        return "processor", "works longer", "no counters show why"
    if found["reason"] is None:
        return "processor", "works longer", "the counters do not show why"
    text = delay_sentences.REASONS[found["reason"]].partition(":")[0].partition(",")[0]
    icon = "processor" if "work" in text or "processor," in text else "paused"
    return icon, text, f"{format_share(found['shares'][found['reason']])} of the delay"


def _make_button(finding: Finding, state: PageState) -> Component:
    """Return the page's primary button: the late ranks in the timeline, or the call site."""
    if is_blamed(finding):
        name = format_ranks(finding.ranks) if len(finding.ranks) < 4 else "these ranks"
        ranks = ", ".join(map(str, finding.ranks[:64]))
        chosen = change_filters(state.without_page_keys(), {"ranks": ranks})
        target = chosen if len(finding.ranks) > 1 else state.without_page_keys()
        href = "/timeline" + target.format_query()
        return dcc.Link(f"Show {name} in the timeline", href=href, className="primary")
    if finding.callsites:
        href = state.link_to("/callsites", callsite=finding.callsites[0])
        return dcc.Link("Show the call site", href=href, className="primary")
    return dcc.Link("Show the timeline", href=state.link_to("/timeline"), className="primary")


def _make_advice(data: TraceData, verdict: Verdict) -> str:
    finding = verdict.worst
    assert finding is not None
    load = finding.cause in conclusion.LOAD_CAUSES
    no_help = " No algorithm would help: it is the load." if load else ""
    if finding.cause == "algorithm":
        return "Run it with this algorithm:"
    return f"{sentences.advise(data.trace, finding)}{no_help}"


def _make_command(data: TraceData, finding: Finding) -> str:
    """Return the command to type next: try the algorithm, or compare with the next run."""
    if finding.cause == "algorithm":
        row: Any = data.trace.callsites.loc[finding.callsites[0]]
        rule = switch_value(site_pattern(row["sites"]), finding.algorithm)
        return format_command("run", "--switch", rule, "PROGRAM")
    return f"{format_command('compare', data.path)} --to {quote_word('AFTER')}"


def make_picture(data: TraceData, state: PageState) -> Component | None:
    """Return the picture that proves the answer: one instance of the worst call site."""
    finding = find_verdict(data).worst
    if finding is None or data.trace.record == "summary":
        return None
    chosen = choose_instance(data, finding)
    if chosen is None:
        return None
    row, number, count = chosen
    try:
        instance = read_arrivals(data, finding, row)
    except MpiprofError:
        return None
    site = format_callsite(data.trace, int(row["callsite"]))
    ranks = "a row is a rank" if len(instance.ranks) <= instance_arrivals.MAX_ROWS else ""
    ranks = ranks or "a row is the latest of several ranks"
    title = f"{site}, instance {number} of {count}; {ranks}, from the median of the others"
    href = state.link_to("/callsites", callsite=int(row["callsite"]), instance=number)
    pictures = [
        Picture(instance_arrivals.draw_arrivals(instance, *size), className=f"picture {name}")
        for name, size in WIDTHS.items()
    ]
    head = html.Figcaption(dcc.Link(title, href=href))
    return html.Figure([head, *pictures, components.picture_menu()], className="proof")


def choose_instance(data: TraceData, finding: Finding) -> tuple[Any, int, int] | None:
    """Return a typical instance in which a blamed rank is last, its number, and their count.

    It has the median spread among those of large spread, because a rank with occasional delays is
    sometimes last by chance. It is at the first call site of the finding that has any. Without
    blamed ranks it is the instance with the largest spread.
    """
    table: Any = data.instances
    for callsite in finding.callsites:
        rows = table[(table["callsite"] == callsite).to_numpy()].reset_index(drop=True)
        rows = rows.assign(number=np.arange(len(rows)))
        good = rows[rows["complete"].to_numpy(np.bool_) & (rows["size"] > 1).to_numpy()]
        if not len(good):
            continue
        spread = "worst_imbalance_ns"
        mine = good[good["last_rank"].isin(finding.ranks).to_numpy()]
        if len(mine) and is_blamed(finding):
            large = mine[mine[spread] >= LARGE_SHARE * mine[spread].quantile(0.9)]
            row = large.sort_values(spread, kind="stable").iloc[len(large) // 2]
        else:
            row = good.loc[good[spread].idxmax()]
        return row, int(row["number"]), len(rows)
    return None


def read_arrivals(
    data: TraceData, finding: Finding, row: Any
) -> instance_arrivals.InstanceArrivals:
    """Return the times of one instance; `row`: of `Trace.instances`."""
    since = int(row["first_arrival_ns"])
    found = read_instance(
        data.trace, str(row["communicator"]), int(row["sequence"]), int(row["start"]), since
    )
    order = np.argsort(found.ranks)
    ranks = found.ranks[order]
    late = np.isin(ranks, finding.ranks) if is_blamed(finding) else np.zeros(len(ranks), np.bool_)
    nodes = [data.host_of(int(rank)) for rank in ranks]
    names = nodes if len(set(nodes)) > 1 else []
    return instance_arrivals.InstanceArrivals(
        ranks,
        found.arrival[order],
        found.wait[order],
        found.finish[order],
        late,
        names,
        str(row["operation"]),
    )
