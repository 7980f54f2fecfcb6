"""Tables of a trace in notebooks, in the words of the report, such as `trace.show.callsites()`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.reports.notebook_table import NotebookTable
    from mpiprof.trace import Trace

MOST = 20  # rows


class NotebookTables:
    """The tables of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        names = ", ".join(name for name in vars(NotebookTables) if not name.startswith("_"))
        return f"<tables of {str(self._trace.path)!r}: {names}>"

    def callsites(self, most: int = MOST) -> NotebookTable:
        """Call sites of collectives with most waiting: times, late rank and cause."""
        return self._tabulate("callsites", self._trace.findings(), most)

    def messages(self, most: int = MOST) -> NotebookTable:
        """Call sites of messages with most time."""
        return self._tabulate("messages", self._trace.findings(), most)

    def pairs(self, most: int = MOST) -> NotebookTable:
        """Pairs of ranks that wait most for messages."""
        return self._tabulate("pairs", most)

    def _tabulate(self, name: str, *arguments: Any) -> NotebookTable:
        # The module imports much that `mpiprof.open` does not need.
        reports = import_module("mpiprof.reports.notebook_table")
        table: NotebookTable = getattr(reports, f"tabulate_{name}")(self._trace, *arguments)
        return table
