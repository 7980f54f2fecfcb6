"""The table of call sites as text, Markdown and legend; its columns are in account/columns.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpiprof.account import columns
from mpiprof.causes.finding import Finding
from mpiprof.interface.ascii_fallback import replace_unwritable
from mpiprof.interface.terminal_colour import remove_colour
from mpiprof.reports.site_labels import make_callsite_key
from mpiprof.reports.table import TableColumn, render
from mpiprof.reports.words.callsite_sentences import name_causes

Rows = Sequence[Mapping[Any, Any]]


def text(callsites: Any, findings: Sequence[Finding] = ()) -> str:
    """Return the table for a terminal; times are means over instances, total wait the sum."""
    return render(*callsite_columns(callsites, findings))


def callsite_columns(callsites: Any, findings: Sequence[Finding] = ()) -> list[TableColumn]:
    """Return the columns of the table for a terminal or for Markdown."""
    return with_cause(view_columns(callsites, columns.TERMINAL), callsites, findings)


def with_cause(
    shown: list[TableColumn], table: Any, findings: Sequence[Finding]
) -> list[TableColumn]:
    """Return the columns, followed by that of the causes if findings name any of them.

    table: rows of `Trace.callsites` or `Trace.message_callsites`.
    """
    named = name_causes(findings)
    if "callsite" in table:
        keys = [make_callsite_key(int(number)) for number in table["callsite"]]
    else:
        pairs = zip(table["operation"], table["site_id"], strict=True)
        keys = [make_callsite_key((str(operation), int(site))) for operation, site in pairs]
    causes = [named.get(key, "") for key in keys]
    column = TableColumn("cause", causes, left=True, style="late")
    return [*shown, column] if any(causes) else shown


def view_columns(table: Any, view: str, permanent: str = "") -> list[TableColumn]:
    """Return the columns of a view; a narrow terminal does not omit the column `permanent`."""
    rows = table.to_dict("records")
    return [
        replace(_cells(column, rows), drop=0 if column.name == permanent else column.priority)
        for column in columns.shown(view, rows)
    ]


def metric_columns(rows: Rows, *names: str) -> list[TableColumn]:
    """Return columns for another table; its rows have the values of these columns."""
    return [_cells(columns.find(name), rows) for name in names]


def _cells(column: columns.Column, rows: Rows) -> TableColumn:
    cells = [column.text(row) for row in rows]
    is_shrinkable = column.quantity == "sites"
    return TableColumn(column.heading, cells, column.is_text, is_shrinkable)


def legend(table: str) -> str:
    """Return the meanings of the headings that occur in a table; "ω/T" explains T."""
    heads = re.split(r" {2,}| *\| *", remove_colour(table).split("\n", 1)[0])
    headings = {part for head in heads for part in (head, head.rpartition("/")[2])}
    return " ".join(
        f"{column.heading}: {column.meaning}."
        for column in columns.COLUMNS
        if column.legend and headings & {column.heading, replace_unwritable(column.heading)}
    )
