"""One column of the table of call sites: name, unit, meaning, format and computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.account.callsite_sums import CallsiteSums, SummarySums
from mpiprof.account.instance_rows import Rows
from mpiprof.account.message_callsite_sums import MessageCallsiteSums
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_factor,
    format_share,
    format_size,
    format_time,
)
from mpiprof.trace.sites import places
from mpiprof.trace.types import Float

Row = Mapping[Any, Any]

# Tables for people. Markdown has the columns of the terminal. The grid shows call sites of
# collectives and of messages; reports have a table of messages of their own.
TERMINAL, PAGE, GRID, MESSAGES = "terminal", "page", "grid", "messages"
EVERYWHERE = (TERMINAL, PAGE, GRID)


@dataclass(frozen=True)
class Quantity:
    """A sort of value: its unit in data, and its text in tables for people."""

    unit: str
    format: Callable[[Any], str]


# The browser formats a number by its function of the same name (dashAgGridFunctions.js).
QUANTITIES = {
    "duration": Quantity("ns", format_time),
    "size": Quantity("bytes", format_size),
    "factor": Quantity("", format_factor),
    "share": Quantity("", format_share),
    "count": Quantity("", format_count),
    "counted": Quantity("", format_count),  # ~ marks an estimate from the recorded instances
    "rank": Quantity("", str),
    "text": Quantity("", str),
    "sites": Quantity("", places),
    "algorithms": Quantity("", str),  # numbers of instances: "native 37, kang 3"
    "picture": Quantity("", str),  # values over the run
}
TEXTS = ("text", "sites", "algorithms")


@dataclass(frozen=True)
class Column:
    """A column of the table of call sites."""

    name: str  # key in JSON, --sort, --fail-on and exported tables; names of times end in `_ns`
    quantity: str  # key of QUANTITIES
    meaning: str  # short text for legends and tooltips
    details: str = ""  # replaces `meaning` in the reference
    heading: str = ""  # in tables for people
    views: tuple[str, ...] = ()  # the tables for people that show the column
    # 0 for the most important columns. A narrow terminal omits the highest priority first. The grid
    # of the dashboard shows the lowest first.
    priority: int = 0
    width: int = 85  # in the grid, in pixels
    legend: bool = False  # whether the legend below a table explains the heading
    needed: Callable[[Sequence[Row]], bool] | None = None  # tables show the column only if true
    cell: Callable[[Row], str] | None = None  # text of a row; by default the quantity's format
    instance: Callable[[Rows], Float] | None = None  # value of each instance; NaN if undefined
    is_mean: bool = False  # a call site's value is the mean of known values of complete instances
    # Value at each call site, from sums over the recorded instances. The dashboard computes columns
    # without it from the data that pass its filters.
    recorded: Callable[[CallsiteSums], Any] | None = None
    summary: Callable[[SummarySums], Any] | None = None  # the same for a summary; by default NaN
    # Value at each call site of messages, which lack the column without it.
    messages: Callable[[MessageCallsiteSums], Any] | None = None

    @property
    def is_text(self) -> bool:
        """Return whether the values are texts, which tables align to the left."""
        return self.quantity in TEXTS

    def text(self, row: Row) -> str:
        """Return the text of a row in tables for people, "" if its call site lacks the column."""
        if self.name not in row:
            return ""
        if self.cell is not None:
            return self.cell(row)
        return QUANTITIES[self.quantity].format(row[self.name])

    def informs(self, rows: Sequence[Row]) -> bool:
        """Return whether a table of these rows shows the column: a picture, or any known cell."""
        if self.needed is not None:
            return self.needed(rows)
        if self.quantity == "picture" or not rows:
            return True
        return any(self.text(row) not in ("", UNKNOWN) for row in rows)


def mean(
    name: str, quantity: str, meaning: str, instance: Callable[[Rows], Float], **further_fields: Any
) -> Column:
    """Return a column with the mean over complete instances in which the value is known."""
    functions: dict[str, Any] = {"instance": instance, "recorded": lambda sums: sums.mean(name)}
    return Column(name, quantity, meaning, is_mean=True, **functions, **further_fields)
