"""Look-ups in the table of columns.

`Trace.callsites`, the report in all its formats, the grid of the dashboard, --sort, --fail-on,
exported instances and the reference page read the table through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpiprof.metrics.column import GRID, PAGE, TERMINAL, Column, Row
from mpiprof.metrics.column_table import COLUMNS
from mpiprof.metrics.instance_rows import Rows
from mpiprof.trace.types import Float

__all__ = ["COLUMNS", "GRID", "PAGE", "TERMINAL", "Column"]


def find(name: str) -> Column:
    """Return a column by its name; raises KeyError if there is none."""
    return {column.name: column for column in COLUMNS}[name]


def recorded() -> list[Column]:
    """Return the columns that are computed from a trace: those of `Trace.callsites` and JSON."""
    return [column for column in COLUMNS if column.recorded is not None]


def numbers() -> tuple[str, ...]:
    """Return the names of the columns with numbers, for --sort and --fail-on."""
    return tuple(column.name for column in recorded() if not column.is_text)


def texts() -> tuple[str, ...]:
    """Return the names of the columns with texts, for --sort and --fail-on."""
    return tuple(column.name for column in recorded() if column.quantity == "text")


def of_view(view: str) -> list[Column]:
    """Return the columns that a table for people shows, in the order of the table."""
    return [column for column in COLUMNS if view in column.views]


def of_instances(*, means: bool = False) -> dict[str, Callable[[Rows], Float]]:
    """Return the value of each instance by column; `means`: only where call sites have its mean."""
    return {
        column.name: column.instance
        for column in COLUMNS
        if column.instance is not None and (column.is_mean or not means)
    }


def shown(view: str, rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a view that tell something about some rows."""
    return [column for column in of_view(view) if column.informs(rows)]


def quantity_of(name: str) -> str:
    """Return the quantity of a column, or "number" if it has none.

    A column of another table has the quantity of its namesake in COLUMNS, after the prefix `run.`
    or `other_`, or the quantity that its suffix states.
    """
    base = name.removeprefix("run.").removeprefix("other_")
    known = {column.name: column.quantity for column in COLUMNS}
    if base in known:
        return known[base]
    if base.endswith(("_share", "_change", "_p")):
        return "share"
    return "duration" if base.endswith("_ns") else "number"
