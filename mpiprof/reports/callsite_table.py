"""The table of call sites as text, Markdown and legend; its columns are in metrics/columns.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpiprof.interface.ascii_fallback import replace_unwritable
from mpiprof.interface.terminal_colour import remove_colour
from mpiprof.metrics import columns
from mpiprof.reports.table import Column, render

Rows = Sequence[Mapping[Any, Any]]


def text(callsites: Any) -> str:
    """Return the table for a terminal; times are means over instances, total wait the sum."""
    return render(*callsite_columns(callsites))


def callsite_columns(callsites: Any) -> list[Column]:
    """Return the columns of the table for a terminal or for Markdown."""
    return view_columns(callsites, columns.TERMINAL)


def view_columns(table: Any, view: str, permanent: str = "") -> list[Column]:
    """Return the columns of a view; a narrow terminal does not omit the column `permanent`."""
    rows = table.to_dict("records")
    return [
        replace(_cells(column, rows), drop=0 if column.name == permanent else column.priority)
        for column in columns.shown(view, rows)
    ]


def metric_columns(rows: Rows, *names: str) -> list[Column]:
    """Return columns for another table; its rows have the values of these columns."""
    return [_cells(columns.find(name), rows) for name in names]


def _cells(column: columns.Column, rows: Rows) -> Column:
    cells = [column.text(row) for row in rows]
    is_shrinkable = column.quantity == "sites"
    return Column(column.heading, cells, column.is_text, is_shrinkable)


def legend(table: str) -> str:
    """Return the meanings of the headings that occur in a table; "ω/T" explains T."""
    heads = re.split(r" {2,}| *\| *", remove_colour(table).split("\n", 1)[0])
    headings = {part for head in heads for part in (head, head.rpartition("/")[2])}
    return " ".join(
        f"{column.heading}: {column.meaning}."
        for column in columns.COLUMNS
        if column.legend and headings & {column.heading, replace_unwritable(column.heading)}
    )
