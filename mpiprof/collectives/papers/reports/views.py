"""Draws exhibits whose figures and tables are data: the field `show` of an exhibit.

cases, paper, let, where: the rows, as in a rule (claim_rules.py).
table, columns: a template of the title of a table, with a table for each text, and its columns
    unless it has all: their names, or a column or a template for each name.
figure: lines over the column `x`. `lines` has the columns `y` and `half` of each line and a
    template of its name, for each value of the column `by`. `panels` is a template of the title,
    with a panel for each text in the order of the column `sort`. `title` and `columns` are of all
    panels.
note, missing: a note, and the only note if there are no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpiprof.collectives.papers.harness.figures import Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.claim_rules import (
    ClaimRule,
    MakeCases,
    format_text,
    select_cases,
)
from mpiprof.collectives.papers.reports.exhibits import Content, Results, Table
from mpiprof.interface.format_units import format_round_size

Entry = Mapping[str, Any]
TICKS = {"size": format_round_size, "count": "{:.0f}".format}


def show_view(results: Results, view: Entry, query: ClaimRule, make_cases: MakeCases) -> Content:
    """Return the figure, table and note of a view."""
    rows, _ = select_cases(results, query, list(make_cases(results)))
    if not rows:
        return Content(notes=[view["missing"]])
    figures = [_draw(rows, view["figure"])] if "figure" in view else []
    tables = [
        _make_table(title, group, view.get("columns"))
        for title, group in _group_rows(rows, view.get("table", "")).items()
        if title
    ]
    return Content(figures, tables, [view["note"]] if "note" in view else [])


def _make_table(title: str, rows: Sequence[Row], columns: Any) -> Table:
    if not isinstance(columns, Mapping):
        return Table(title, columns or tuple(rows[0]), rows)
    cells = [
        {name: format_text(c, row) if "{" in c else row[c] for name, c in columns.items()}
        for row in rows
    ]
    return Table(title, tuple(columns), cells)


def _draw(rows: Sequence[Row], figure: Entry) -> Lines | Panels:
    ordered = sorted(rows, key=lambda row: row[figure["sort"]]) if "sort" in figure else rows
    (x, y), ticks = figure["axes"], TICKS[figure["ticks"]]
    panels = [
        Lines(title, _make_lines(group, figure), x, y, ticks=ticks)
        for title, group in _group_rows(ordered, figure["panels"]).items()
    ]
    return Panels(figure["title"], panels, figure["columns"]) if "title" in figure else panels[0]


def _make_lines(rows: Sequence[Row], figure: Entry) -> list[Series]:
    series = []
    for group in _group_rows(rows, f"{{{figure['by']}}}" if "by" in figure else "").values():
        for line in figure["lines"]:
            columns = [figure["x"], *(line[key] for key in ("y", "half") if key in line)]
            points = ([row[column] for row in group] for column in columns)
            name, dashed = format_text(line["name"], group[0]), line.get("dashed", False)
            series.append(Series(name, *points, dashed=dashed))
    return series


def _group_rows(rows: Sequence[Row], template: str) -> dict[str, list[Row]]:
    """Return the rows by the text of a template."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(format_text(template, row), []).append(row)
    return groups
