"""A table of a report as an object that notebooks show, in the words of all reports."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from mpiprof.account import columns
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs
from mpiprof.causes.finding import CAUSES, Finding
from mpiprof.causes.findings import find_findings
from mpiprof.interface.format_units import format_count, format_ranks, format_share, format_time
from mpiprof.interface.tokens import LIGHT, use_colour
from mpiprof.reports import callsite_table, message_table
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.table import TableColumn, render
from mpiprof.reports.words import finding_sentences, message_sentences
from mpiprof.trace import Trace

HEADS = ("cost", "of all", "finding", "ranks", "call site", "why", "advice")
MAX_LISTED = 50


class NotebookTable:
    """Columns with a title and a note; notebooks show a table, and `print` writes text."""

    def __init__(self, title: str, columns: Sequence[TableColumn], note: str = "") -> None:
        self.title, self.note = title, note
        self.columns = [column for column in columns if any(column.cells)]

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.title, render(*self.columns), self.note)))

    def _repr_html_(self) -> str:
        """Return the table as HTML; the text of the trace is escaped."""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<p><b>{escape(self.title)}</b></p>{make_html_table(self.columns)}{note}"


def make_html_table(columns: Sequence[TableColumn]) -> str:
    """Return columns as an HTML table; those of the style "late" are in accent."""
    sides = ["left" if column.left else "right" for column in columns]
    heads = "".join(
        f'<th style="text-align:{side}">{escape(column.head)}</th>'
        for side, column in zip(sides, columns, strict=True)
    )
    styles = [
        f"text-align:{side}" + f";color:{LIGHT['late-text']}" * (column.style == "late")
        for side, column in zip(sides, columns, strict=True)
    ]
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}">{escape(cell)}</td>'
            for style, cell in zip(styles, row, strict=True)
        )
        + "</tr>"
        for row in zip(*(column.cells for column in columns), strict=True)
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def tabulate_callsites(trace: Trace, findings: Sequence[Finding], most: int) -> NotebookTable:
    """Return the call sites of collectives with most waiting, with the cause of their waiting."""
    order = ["total_wait_ns", "total_elapsed_ns"]
    rows = trace.callsites.sort_values(order, ascending=False, kind="stable").head(most)
    shown = callsite_table.view_columns(rows, columns.PAGE)
    table = callsite_table.with_cause(shown, rows, findings)
    note = callsite_table.legend("  ".join(column.head for column in shown))
    title = _name_table("Call sites of collectives by waiting", len(trace.callsites), most)
    return NotebookTable(title, table, note)


def tabulate_messages(trace: Trace, findings: Sequence[Finding], most: int) -> NotebookTable:
    """Return the call sites of messages with most time, with the cause of their waiting."""
    every = trace.message_callsites
    shown = message_table.message_columns(every.head(most), findings)
    note = callsite_table.legend("  ".join(column.head for column in shown))
    return NotebookTable(message_table.section_title(len(every), most), shown, note)


def tabulate_pairs(trace: Trace, most: int) -> NotebookTable:
    """Return the pairs of ranks that wait most for messages."""
    pairs = list_waiting_pairs(find_located_waits(trace))
    whole = max(float(pairs["wait_ns"].sum()), 1.0)
    rows = [row for _, row in pairs.head(most).iterrows()]
    table = [
        TableColumn("waits", [f"rank {row['rank']}" for row in rows], left=True),
        TableColumn("for", [f"rank {row['awaited']}" for row in rows], left=True),
        TableColumn("waiting", [format_time(float(row["wait_ns"])) for row in rows]),
        TableColumn("of all", [format_share(float(row["wait_ns"]) / whole) for row in rows]),
        TableColumn("longest", [format_time(float(row["longest_ns"])) for row in rows]),
        TableColumn(
            "call site", [message_sentences.format_pair_site(trace, row) for row in rows], True
        ),
    ]
    title = _name_table("Pairs of ranks that wait for messages", len(pairs), most)
    return NotebookTable(title, table, message_sentences.headline_text(trace, pairs))


def _name_table(title: str, count: int, most: int) -> str:
    return f"{title}, the first {most} of {format_count(count)}" if count > most else title


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
        columns = [TableColumn(head, of, left=True) for head, of in zip(HEADS, cells, strict=True)]
        more = len(self) - MAX_LISTED
        rest = f"<p>and {more} more findings</p>" if more > 0 else ""
        return make_html_table(columns) + rest

    def _make_cells(self, finding: Finding) -> list[str]:
        first = finding.callsites[0] if finding.callsites else None
        ranks = format_ranks(finding.ranks[:8]) if finding.ranks else "–"
        return [
            format_time(float(finding.cost_ns)),
            format_share(finding.share),
            finding_sentences.finding_title(self._trace, finding),
            ranks,
            "–" if first is None else format_callsite(self._trace, first),
            CAUSES.get(finding.cause, finding.cause),
            finding_sentences.advise(self._trace, finding),
        ]


def list_findings(trace: Trace, gains: Sequence[Any] = ()) -> FindingList:
    """Return the findings of a trace, as `find_findings` does, in a list for notebooks."""
    return FindingList(trace, find_findings(trace, tuple(gains)))
