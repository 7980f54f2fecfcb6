"""Figures, tables and findings of a trace in notebooks, such as `trace.plot.arrivals("md.py:93")`.

The pictures are those of `view`. Those with a zoom are made with Plotly and need the extra
`dashboard`; the others are SVG. A call site is named as on the command line (by file and line,
function or operation) or by number. Without a call site, the pictures of a call site show the one
with most wait.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.errors import UsageError
from mpiprof.interface.installation import import_dashboard
from mpiprof.interface.tokens import resolve_colours
from mpiprof.reports.words import captions

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from mpiprof.reports.notebook_table import NotebookTable
    from mpiprof.trace import Trace

Site = int | str | None
# Captions of the pictures that are made with Plotly, by their method. The caption of `functions`
# depends on the ranks.
NOTES = {
    "arrivals": captions.ARRIVALS_PAGE,
    "instance": captions.INSTANCE_PAGE,
    "algorithms": captions.ALGORITHM_TIMES,
    "whom": captions.MESSAGES_PAGE,
    "messages": captions.MESSAGES_PAGE,
    "timeline": captions.TIMELINE_CELLS,
}
NOTE_WIDTH, NOTE_SIZE, NOTE_LINE, NOTE_GAP = 110, 11, 15, 18  # characters, and px
MOST_ROWS = 20  # of a table
DEFAULT_HEIGHT = 450  # px of a figure of Plotly


class NotebookPicture:
    """A server-made picture in light colours; notebooks show it, `save` writes it as SVG.

    note: how to read it, below the picture. width: in px, for pictures of a fixed size.
    """

    def __init__(self, svg: str, note: str = "", width: float = 0.0) -> None:
        if width:
            svg = re.sub(r'width="\d+" height="\d+"', f'width="{width:.0f}"', svg, count=1)
        self.svg, self.note = resolve_colours(svg), note

    def __repr__(self) -> str:
        label = re.search(r'aria-label="([^"]*)"', self.svg)
        return f"<picture: {label[1] if label else ''}>"

    def _repr_svg_(self) -> str:
        """Return the picture as SVG."""
        return self.svg

    def _repr_html_(self) -> str:
        """Return the picture with its note as HTML, on a light ground in any theme."""
        style = resolve_colours(
            "background:var(--surface);color:var(--ink3);font:12px var(--font);padding:8px;"
            "max-width:1232px"
        )
        note = f"<div>{escape(self.note)}</div>" if self.note else ""
        return f'<div style="{style}">{self.svg}{note}</div>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")


class Plots:
    """The figures of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        names = ", ".join(name for name in vars(Plots) if not name.startswith("_"))
        return f"<pictures of {str(self._trace.path)!r}: {names}>"

    def verdict(self) -> NotebookPicture:
        """One instance of the worst call site, which proves the verdict."""
        proofs = import_module("mpiprof.reports.overview.proof")
        proof = None
        if self._trace.record != "summary":
            proof = proofs.find_proof(self._trace, self._verdict.worst, self._trace.instances)
        if proof is None:
            raise UsageError("no instance proves the verdict: see trace.findings()")
        return self._show(proof.draw(), f"{proof.title}. {proof.how_to_read}")

    def time(self) -> NotebookPicture:
        """Time of the run by category, mean of all ranks."""
        sums = import_module("mpiprof.reports.overview.time_sums")
        division = import_module("mpiprof.account.division").divide_time(self._trace)
        parts = sums.list_time_parts(self._trace, division, self._trace.ranks)
        blamed = sums.find_blamed_time(self._trace, self._verdict.worst)
        drawing = import_module("mpiprof.reports.pictures.time_split")
        return self._show(drawing.draw_split(parts, blamed), sums.how_to_read(parts, blamed))

    def ranks(self, site: Site = None) -> NotebookPicture:
        """Mean lateness of each rank at a call site."""
        if self._trace.record == "summary":
            raise UsageError("a summary has no arrivals: record events to see late ranks")
        rows = import_module("mpiprof.reports.overview.finding_rows")
        callsite, findings = self._callsite_number(site), self._trace.findings()
        drawn = rows.draw_lateness(self._trace.rank_totals, callsite, findings)
        return self._show(drawn, captions.FINDINGS_TABLE, 480)

    def stages(self, site: Site = None) -> NotebookPicture:
        """Stages at which the lateness of a call site's late rank begins."""
        callsite = self._callsite_number(site)
        late = import_module("mpiprof.causes.arrival_statistics").find_late_rank(
            self._trace, callsite
        )
        if late is None or not late.knows_stages:
            raise UsageError("no rank is late consistently here, so no stage can be named")
        drawing = import_module("mpiprof.reports.callsite_stages")
        drawn = drawing.draw_late_rank(
            self._trace, callsite, late, self._trace.arrival_statistics(callsite)
        )
        return self._show(drawn.svg, f"{drawing.describe_stages(late)}. {drawn.how_to_read}")

    def compare(
        self, other: Trace | str | os.PathLike[str], measure: str = "waiting"
    ) -> NotebookPicture:
        """Waiting, or "time" in the call, at each call site in this trace (A) and another (B)."""
        if isinstance(other, str | os.PathLike):
            import mpiprof

            other = mpiprof.open(other)
        charts = import_module("mpiprof.reports.changes_chart")
        if measure not in charts.MEASURES:
            raise UsageError(f"{measure}: no such measure; known: {', '.join(charts.MEASURES)}")
        compared = import_module("mpiprof.causes.compare").compare([self._trace], [other])
        difference = import_module("mpiprof.causes.compare_verdict").judge_difference(compared)
        find = import_module("mpiprof.reports.words.compare_sentences").incomparable_sentence
        if reason := find(difference, [self._trace], [other]):
            raise UsageError(reason)
        table = charts.name_places(compared)
        chart = charts.draw_changes(table, [self._trace], [other], measure)
        if chart.picture is None:
            raise UsageError("no call site has known times in both traces")
        return self._show(chart.picture.svg, chart.picture.how_to_read)

    def hang(self) -> NotebookPicture:
        """Ranks that wait for each other in a job that hangs."""
        fault, drawn = import_module("mpiprof.hang.hang_pictures").describe_fault(self._trace)
        if drawn is None:
            raise UsageError(fault or "no fault is visible: the job ended, or it still runs")
        return self._show(drawn.svg, f"{fault} {drawn.how_to_read}")

    def whom(self, site: Site = None) -> go.Figure:
        """Waits of each rank for each other rank, at all call sites or at one."""
        return self._draw("whom", *([] if site is None else [(self._callsite_number(site),)]))

    def messages(self, quantity: str = "bytes") -> go.Figure:
        """Messages between ranks: "bytes", "messages" (their number) or "wait"."""
        quantities = import_module("mpiprof.reports.pictures.pair_matrix").QUANTITIES
        if quantity not in quantities:
            raise UsageError(f"{quantity}: no such quantity; known: {', '.join(quantities)}")
        return self._draw("messages", quantity)

    def arrivals(self, site: Site = None) -> go.Figure:
        """Imbalance and arrival of each rank in each instance of a call site."""
        return self._draw("arrivals", self._callsite_number(site))

    def instance(self, site: Site = None, number: int | None = None) -> go.Figure:
        """Arrivals and waits in one instance, below a histogram of all.

        The default is the instance with most waiting.
        """
        callsite = self._callsite_number(site)
        state = import_dashboard("url_state").PageState()
        rows = import_dashboard("filtered_tables").filtered_instances(self._data, callsite, state)
        find_worst = import_module("mpiprof.account.instance_series").find_worst_instance
        at = find_worst(rows) if number is None else number
        if not 0 <= at < len(rows):
            raise UsageError(
                f"instance {at}: the call site has {len(rows)} instances, counted from 0"
            )
        return self._draw("instance", callsite, rows.iloc[at].to_dict())

    def algorithms(self, site: Site = None) -> go.Figure:
        """Comparison of all algorithms at a call site, simulated under its recorded arrivals."""
        return self._draw("algorithms", self._callsite_number(site))

    def functions(self, site: Site = None) -> go.Figure:
        """Functions between collectives, late ranks against others, at all call sites or at one."""
        callsite = None if site is None else self._callsite_number(site)
        figure = self._draw("functions", callsite)
        if not figure.data:
            return figure
        samples, state = import_dashboard("sampled_functions"), import_dashboard("url_state")
        choice = samples.find_choice(self._data, state.PageState(), callsite)
        return _explain(figure, samples.describe_boxes(choice))

    def timeline(self, begin_ns: int = 0, end_ns: int = 0) -> go.Figure:
        """State of each rank over time, between two times of the run or over the whole run."""
        return self._draw("timeline", begin_ns, end_ns)

    @cached_property
    def _verdict(self) -> Any:
        verdict = import_module("mpiprof.causes.findings")
        return verdict.make_verdict(self._trace, self._trace.derive("findings"))

    def _show(self, svg: str, note: str, width: float = 0.0) -> NotebookPicture:
        return NotebookPicture(svg, note, width)

    @cached_property
    def _data(self) -> Any:
        return _data_of(self._trace)

    def _callsite_number(self, site: Site) -> int:
        if site is not None:
            return self._trace.callsite(site)
        hot = self._trace.hot
        return hot[0] if hot else self._trace.callsite(0)

    def _draw(self, name: str, *arguments: Any) -> go.Figure:
        make = getattr(import_dashboard("trace_figures"), f"draw_{name}")
        figure = make(self._data, import_dashboard("url_state").PageState(), *arguments)
        figure.update_layout(template=import_dashboard("theme").make_template(dark=False))
        return _explain(figure, NOTES[name]) if name in NOTES else figure


class NotebookTables:
    """The tables of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        names = ", ".join(name for name in vars(NotebookTables) if not name.startswith("_"))
        return f"<tables of {str(self._trace.path)!r}: {names}>"

    def callsites(self, most: int = MOST_ROWS) -> NotebookTable:
        """Call sites of collectives with most waiting: times, late rank and cause."""
        return self._tabulate("callsites", self._trace.findings(), most)

    def messages(self, most: int = MOST_ROWS) -> NotebookTable:
        """Call sites of messages with most time."""
        return self._tabulate("messages", self._trace.findings(), most)

    def pairs(self, most: int = MOST_ROWS) -> NotebookTable:
        """Pairs of ranks that wait most for messages."""
        return self._tabulate("pairs", most)

    def _tabulate(self, name: str, *arguments: Any) -> NotebookTable:
        # The module imports much that `mpiprof.open` does not need.
        reports = import_module("mpiprof.reports.notebook_table")
        table: NotebookTable = getattr(reports, f"tabulate_{name}")(self._trace, *arguments)
        return table


def _explain(figure: go.Figure, note: str) -> go.Figure:
    """Return a figure with the explanation of its page above it, without clicks on the page."""
    sentences = re.split(r"(?<=\.) ", note)
    of_picture = [line for line in sentences if not re.search("click|drag", line, re.IGNORECASE)]
    lines = textwrap.wrap(" ".join(of_picture), NOTE_WIDTH)
    top = NOTE_LINE * len(lines) + NOTE_GAP
    before = figure.layout.margin.t
    before = NOTE_GAP if before is None else before
    height = (figure.layout.height or DEFAULT_HEIGHT) + top
    figure.update_layout(height=height, margin={"t": before + top})
    place = {"xref": "container", "yref": "container", "x": 0.01, "y": 1, "yanchor": "top"}
    pad = {"t": NOTE_GAP}
    font = {"size": NOTE_SIZE}
    return figure.update_layout(
        title={"text": "<br>".join(lines), "font": font, "pad": pad, **place}
    )


def _data_of(trace: Trace) -> Any:
    return import_dashboard("trace_data").TraceData(trace.path.name, trace.path, trace)


def list_findings(trace: Trace, gains: Sequence[Any] = ()) -> list[Any]:
    """Return the findings of a trace in a list that a notebook shows as a table."""
    from mpiprof.reports import notebook_table  # imports much that `mpiprof.open` does not need

    return notebook_table.list_findings(trace, gains)
