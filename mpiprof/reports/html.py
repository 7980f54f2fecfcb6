"""A trace as one self-contained page: no script, no network, no other file.

The page stays far below 5 MB for any trace: pictures have a fixed number of cells, and only the
costliest call sites are listed. All text from a trace is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, cast

import numpy as np

from mpiprof import __version__
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.interface.format_units import format_count, format_share, format_size, format_time
from mpiprof.metrics import columns, raster_data
from mpiprof.metrics.aggregate import RANGE_NAMES
from mpiprof.metrics.pair_matrix import make_pair_matrix
from mpiprof.metrics.raster_data import Site, TimeShares
from mpiprof.metrics.run_times import lacks_complete_instances
from mpiprof.reports import (
    callsite_table,
    charts,
    colours,
    conclusion,
    efficiency_table,
    message_table,
    phrases,
    sentences,
    text,
)
from mpiprof.reports.site_labels import format_site, routine_at
from mpiprof.reports.table import Column
from mpiprof.trace import Trace

MAX_LISTED, MAX_DRAWN = 50, 12  # maximum call sites in the table, and with pictures
ROWS, SITE_ROWS = 256, 96  # maximum rank rows in the timeline and in a call site's picture
COLUMNS, SITE_COLUMNS = 1000, 250
MAX_TEXT, MAX_LONG_TEXT = 300, 2000  # maximum characters of a name and of a paragraph

OUTSIDE = "#c3cad2"  # fainter than time in collectives
STYLE = """
:root { color-scheme: light dark; --ink: #1f2730; --faint: #5d6875; --ground: #fff;
  --card: #f6f7f9; --line: #d9dee4; --accent: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe4ea; --faint: #9aa5b1; --ground: #171b20;
  --card: #1f252c; --line: #343c46; --accent: #56b4e9 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; padding: 24px 16px 60px; max-width: 1180px; overflow-wrap: anywhere }
h1 { font-size: 24px; margin: 0 } h2 { font-size: 19px; margin: 40px 0 10px }
.wrong { font-weight: bold; border-left: 4px solid #d55e00; padding-left: 12px }
h3 { font-size: 16px; margin: 32px 0 6px }
a { color: var(--accent) } .faint { color: var(--faint) } p, li { max-width: 62em }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 16px;
  margin: 12px 0 }
dt { color: var(--faint) } dd { margin: 0 }
table { border-collapse: collapse; width: 100%; font-size: 14px }
th { color: var(--faint); font-weight: normal; text-align: right; vertical-align: bottom }
td { text-align: right; white-space: nowrap } th, td { padding: 4px 8px }
tr { border-bottom: 1px solid var(--line) } th.l, td.l { text-align: left; white-space: normal }
.scroll { overflow-x: auto }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } text { fill: var(--ink) }
.grid { stroke: var(--line); fill: none } .ground { fill: var(--card) }
.row { display: flex; flex-wrap: wrap; gap: 12px 32px } figure { margin: 8px 0; max-width: 100% }
figcaption { color: var(--faint); font-size: 13px } nav { margin: 8px 0 }
nav a { margin-right: 16px } li { margin: 6px 0 }
"""


def make_page(trace: Trace, wrong: str, step: Callable[[int], None], predicted: str = "") -> str:
    """Return the page.

    wrong: line about a job that hangs or has died, "" for any other job. step: called with the
    number of records read, in total twice their number. predicted: text about predicted run times.
    """
    callsites = trace.callsites.sort_values("total_wait_ns", ascending=False, kind="stable")
    if trace.record == "summary":
        callsites = callsites.sort_values("total_elapsed_ns", ascending=False, kind="stable")
    rows = cast(list[dict[str, Any]], callsites.head(MAX_LISTED).to_dict("records"))
    shares = raster_data.compute_time_shares(trace, COLUMNS, ROWS, step)
    chosen = [int(row["callsite"]) for row in rows] if trace.record != "summary" else []
    sites = raster_data.make_sites(trace, chosen, SITE_COLUMNS, SITE_ROWS, step)
    title, facts = text.fact_rows(trace)
    messages = _messages_section(trace)
    parts = [
        f"<h1>{escape(title)}</h1>",
        *[f'<p class="wrong">{_shorten(wrong, MAX_LONG_TEXT)}</p>'] * bool(wrong),
        *[f"<p>{_shorten(predicted, MAX_LONG_TEXT)}</p>"] * bool(predicted),
        '<nav><a href="#findings">Verdict</a><a href="#time">Time</a>'
        '<a href="#timeline">Timeline</a><a href="#sites">Call sites</a>'
        + '<a href="#messages">Messages</a>' * (len(messages) > 0)
        + "</nav>",
        "<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{_shorten(value)}</dd>" for n, value in facts),
        "</dl>",
        *_findings_section(trace),
        *_time_section(trace, shares),
        *_efficiency_section(trace),
        *_timeline_section(trace, shares),
        *_callsites_section(trace, rows, sites),
        *(part for row in rows[:MAX_DRAWN] for part in _callsite_section(trace, row, sites)),
        *messages,
        f'<p class="faint">Made by mpiprof {escape(__version__)}.</p>',
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(trace.program)} · mpiprof</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _shorten(content: str, limit: int = MAX_TEXT) -> str:
    return escape(content if len(content) <= limit else content[: limit - 1] + "…")


def _make_list(kind: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_shorten(line, MAX_LONG_TEXT)}</li>" for line in lines)
    return f"<{kind}>{items}</{kind}>" if items else ""


def _time_section(trace: Trace, shares: TimeShares) -> list[str]:
    times = trace.run_times
    inside, waiting, total = times.collective.value, times.collective_wait.value, times.whole_ns
    # Time of shares ends with the last collective, and older traces have no message sums.
    between = max(float(shares.point_to_point_ns), float(trace.message_sums["total_ns"].sum()))
    messages = min(between, max(total - inside, 0.0))
    waited = min(float(trace.message_waits["wait_ns"].sum()), messages)
    parts = [
        ("outside MPI collectives", max(total - inside - messages, 0.0), OUTSIDE),
        ("point-to-point and completion calls", messages - waited, colours.MESSAGES),
        *[("waiting for others in these calls", waited, colours.MESSAGE_WAITING)] * (waited > 0),
    ]
    if trace.record == "summary":
        parts = [parts[0], ("collectives", inside, colours.WORK)]
    elif lacks_complete_instances(trace):
        parts.append(("collectives; of it waiting: not known", inside, colours.WORK))
    else:
        parts += [
            ("collectives' own work", max(inside - waiting, 0.0), colours.WORK),
            ("waiting for others in collectives", waiting, colours.WAITING),
        ]
    bar = charts.stacked_bar(parts, format_time)
    return ['<h2 id="time">Where the time of all ranks went</h2>', f"<figure>{bar}</figure>"]


def _efficiency_section(trace: Trace) -> list[str]:
    """Return the table of efficiencies by phase, or nothing if the run has a single phase."""
    phases = efficiency_table.phase_columns(trace)
    if not phases:
        return []
    return [
        f"<h2>{_shorten(efficiency_table.phase_title(trace))}</h2>",
        _make_table(phases),
        f'<p class="faint">{escape(efficiency_table.LEGEND)}</p>',
    ]


def _make_table(made: Sequence[Column]) -> str:
    sides = [' class="l"' * column.left for column in made]
    heads = zip(sides, (column.head for column in made), strict=True)
    head = "".join(f"<th{side}>{escape(text)}</th>" for side, text in heads)
    body = ""
    for row in zip(*(column.cells for column in made), strict=True):
        cells = zip(sides, row, strict=True)
        body += f"<tr>{''.join(f'<td{side}>{_shorten(text)}</td>' for side, text in cells)}</tr>"
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _messages_section(trace: Trace) -> list[str]:
    """Return the table of call sites of messages, and matrices; nothing without messages."""
    rows = message_table.reported_callsites(trace)
    if not len(rows):
        return []
    made = message_table.message_columns(rows.head(MAX_LISTED))
    legend = callsite_table.legend("  ".join(column.head for column in made))
    return [
        f'<h2 id="messages">{message_table.section_title(len(rows), MAX_LISTED)}</h2>',
        _make_table(made),
        f'<p class="faint">{escape(legend)}</p>',
        '<div class="row">',
        *(
            f"<figure><figcaption>{caption}</figcaption>{drawn}</figure>"
            for caption, drawn in _draw_pairs(trace)
        ),
        "</div>",
    ]


def _draw_pairs(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield caption and picture of each matrix of messages, rank by rank, that is not empty."""
    matrix = make_pair_matrix(trace, trace.message_matrix, ROWS)
    last = len(matrix.ranks) - 1

    def across(column: float) -> str:
        return f"rank {matrix.ranks[min(int(column), last)][int(column >= last)]}"

    for cells, caption, unit in (
        (matrix.bytes, "Bytes from each rank (down) to each rank (across)", format_size),
        (matrix.wait_ns, "Waiting of each rank (down) for each rank (across)", format_time),
    ):
        if cells.any():
            shown = np.where(cells > 0, cells, np.nan)
            yield caption, charts.heat_map(shown, trace.ranks, across, unit, "per pair of ranks")


def _findings_section(trace: Trace) -> list[str]:
    findings = trace.findings()
    if not len(trace.callsites) and not findings:
        return []
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    head = [f"<p>{escape(line)}</p>" for line in lines]
    texts = [sentences.finding_text(trace, finding) for finding in findings[:10]]
    return ['<h2 id="findings">Verdict</h2>', *head, _make_list("ol", texts)]


def _timeline_section(trace: Trace, shares: TimeShares) -> list[str]:
    head = '<h2 id="timeline">Timeline</h2>'
    if not shares.cells.any():
        return [head, "<p>No call was recorded with its time.</p>"]
    parts = shares.cells, shares.waiting, shares.operations
    drawn = charts.timeline_chart(*parts, trace.ranks, trace.duration_ns, format_time)
    pale = "pale is waiting for other ranks"
    if lacks_complete_instances(trace):
        pale = "the waiting time in an operation is not known"
    note = (
        "Ranks from top to bottom, time from left to right. Each rank's row is filled by the share "
        f"of time in each operation; {pale}. Empty places are outside collectives. Point at a "
        "place for its shares."
    )
    return [head, f"<figure>{drawn}<figcaption>{note}</figcaption></figure>"]


def _callsites_section(
    trace: Trace, rows: Sequence[dict[str, Any]], sites: dict[int, Site]
) -> list[str]:
    if not rows:
        return ['<h2 id="sites">Call sites</h2>', "<p>No collective operation was recorded.</p>"]
    omitted = len(trace.callsites) - len(rows)
    selected = columns.shown(columns.PAGE, rows)
    head = "".join(f"<th{_side(column)}>{column.heading}</th>" for column in selected)
    body = ""
    for i, row in enumerate(rows):
        site = sites.get(int(row["callsite"]))
        body += f"<tr>{''.join(_cell(column, i, row, site) for column in selected)}</tr>"
    note = ""
    if omitted > 0:
        note = f"<p>{format_count(omitted)} more call sites are left out; `report` lists them.</p>"
    table = f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
    meanings = callsite_table.legend("  ".join(column.heading for column in selected))
    legend = f'<p class="faint">{escape(meanings)}</p>'
    return ['<h2 id="sites">Call sites by total waiting time</h2>', table, legend, note]


def _side(column: columns.Column) -> str:
    return ' class="l"' if column.is_text else ""


def _cell(column: columns.Column, number: int, row: dict[str, Any], site: Site | None) -> str:
    if column.quantity == "picture":
        if site is None or site.instances < 2:
            return "<td></td>"
        return f"<td>{charts.sparkline(site.worst_imbalance, column.heading)}</td>"
    text = _shorten(column.text(row))
    if column.quantity == "sites" and number < MAX_DRAWN and site:
        text = f'<a href="#site-{row["callsite"]}">{text}</a>'
    return f"<td{_side(column)}>{text}</td>"


def _callsite_section(trace: Trace, row: dict[str, Any], sites: dict[int, Site]) -> list[str]:
    """Return the section of a call site: its cost as text, then its pictures."""
    site = sites.get(int(row["callsite"]))
    if site is None:
        return []
    title = routine_at(row)
    parts = [f'<h3 id="site-{row["callsite"]}">{_shorten(title)}</h3>']
    if len(row["sites"]) > 1:
        locations = ", ".join(format_site(location) for location in row["sites"][:8])
        parts.append(f'<p class="faint">Ranks call it from {_shorten(locations)}.</p>')
    parts.append(f'<p class="faint">Ran on: {_shorten(row["algorithms"])}.</p>')
    if row["total_wait_ns"] > 0:
        cost = phrases.cost_sentence(row, trace.process_time_ns)
        parts.append(f"<p>{_shorten(cost, MAX_LONG_TEXT)}</p>")
    if row["callsite"] in trace.hot:
        parts.append(_make_list("ol", conclusion.callsite_problems(trace, row)))
        why = phrases.cause_sentences(trace.causes(int(row["callsite"])))
        parts.append(_make_list("ul", why))
    return [*parts, '<div class="row">', *_site_pictures(trace, site), "</div>"]


def _site_pictures(trace: Trace, site: Site) -> list[str]:
    def across(column: float) -> str:
        """Return the instance at which a column begins; the axis ends at the last instance."""
        columns = site.lateness.shape[1]
        last = column >= columns - 1 > 0
        return f"instance {site.instances - 1 if last else int(column * site.instances // columns)}"

    late = np.where(np.isnan(site.late), -1.0, site.late)
    latest = [int(r) for r in np.argsort(-late, kind="stable")[:8] if late[r] >= 0]
    ranks_per_row = -(-trace.ranks // len(site.lateness))
    joined = f"; a row is the latest of up to {ranks_per_row} ranks" if ranks_per_row > 1 else ""
    title = "after the first arrival"
    drawn = charts.heat_map(site.lateness, trace.ranks, across, format_time, title)
    pictures = [(drawn, f"How late each rank comes, from instance to instance{joined}")]
    if site.instances > 1:
        drawn = charts.line_chart(site.worst_imbalance, across, format_time, "ω over instances")
        pictures.append((drawn, "ω, the last arrival after the first, over instances"))
    ranks = []
    for r in latest:
        share = format_share(site.last[r] / site.instances)
        ranks.append((f"rank {r}", float(late[r]), f"{format_time(late[r])}, last in {share}"))
    drawn = charts.bar_chart(ranks, colours.RED, "latest ranks")
    pictures.append((drawn, "The latest ranks: mean lateness"))
    if site.instances > 1 and site.ranges.sum():
        spread = [
            (name, float(n), format_share(n / site.ranges.sum()))
            for name, n in zip(RANGE_NAMES, site.ranges.tolist(), strict=True)
        ]
        drawn = charts.bar_chart(spread, colours.BLUE, "distribution of ω/T")
        pictures.append((drawn, "Instances by ω/T; below 1 the arrivals are balanced"))
    return [
        f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"
        for picture, caption in pictures
    ]
