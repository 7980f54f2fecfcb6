"""The Trace: what a trace folder holds, and what is derived from it when it is asked for."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mpiprof.errors import TraceError
from mpiprof.trace.records import Records
from mpiprof.trace.types import Float, Int

if TYPE_CHECKING:
    import pandas as pd

    Table: TypeAlias = pd.DataFrame

SHOWN_PROBLEMS = 8


class Trace(Records):
    """A trace folder and its derived tables, each computed once; `mpiprof.open` gives one.

    Columns are identifiers with units; the functions in mpiprof.analysis that derive the tables
    list them. TraceError where these functions (mpiprof.analysis.DERIVED) were not given.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        derived: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__(path)
        self._derived = dict(derived or {})
        self._known: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<Trace {str(self.path)!r}: {', '.join(self._facts().values())}>"

    def _repr_html_(self) -> str:
        rows = {"trace": str(self.path), **self._facts()}
        told = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        problems = self.problems[:SHOWN_PROBLEMS]
        left = len(self.problems) - len(problems)
        lines = [*problems, *([f"and {left} more: .problems"] if left else [])]
        noted = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<table>{told}</table>" + (f"<ul>{noted}</ul>" if noted else "")

    def _facts(self) -> dict[str, str]:
        """Return what the trace is, without reading its logs."""
        ranks, nodes = self.ranks, self.nodes
        where = f"{ranks} rank{'s' * (ranks > 1)} on {nodes} node{'s' * (nodes > 1)}"
        state = "complete" if self.complete else f"incomplete ({len(self.problems)} problems)"
        return {
            "program": self.program,
            "ranks": where,
            "MPI": " ".join(self.mpi.split()),
            "recorded": self.record,
            "state": state,
        }

    # Derived tables

    def derive(self, name: str, *arguments: Any) -> Any:
        """Return a derived table by name, computed once."""
        key = (name, *arguments)
        if key not in self._known:
            if name not in self._derived:
                raise TraceError(f"{name}: not available here; use mpiprof.open")
            self._known[key] = self._derived[name](self, *arguments)
        return self._known[key]

    def _table(self, name: str, *arguments: Any) -> Table:
        found: Table = self.derive(name, *arguments)
        return found

    @property
    def processes(self) -> Table:
        """One row a rank: rank, host, node, pid, started_ns, ended_ns, end_reason."""
        return self._table("processes")

    @property
    def events(self) -> Table:
        """One row a call: rank, operation, site, communicator, sequence, enter_ns, exit_ns, ..."""
        return self._table("events")

    @property
    def instances(self) -> Table:
        """One row an instance: who came first and last, imbalance, waiting; see analysis."""
        return self._table("instances")

    @property
    def callsites(self) -> Table:
        """One row a call site: means over its complete instances; see analysis."""
        return self._table("callsites")

    @property
    def summary(self) -> Table:
        """Counts, times and bytes per rank and shape of what was summed up; see analysis."""
        return self._table("summary")

    @property
    def statistics(self) -> Table:
        """Arrivals per call site as the recorder summed them up itself; see analysis."""
        return self._table("statistics")

    @property
    def selection(self) -> dict[str, Table]:
        """What `--switch auto` tried and chose: a table for each kind of note; see analysis."""
        found: dict[str, Table] = self.derive("selection")
        return found

    @property
    def hot(self) -> list[int]:
        """The call sites that cost most waiting, the costliest first."""
        found: list[int] = self.derive("hot")
        return found

    def causes(self, callsite: int) -> Any:
        """Why the processes arrive at a call site at different times: an analysis.causes.Causes."""
        return self.derive("causes", callsite)

    def conclusions(self, callsite: int) -> list[Any]:
        """What is wrong at a call site, the costliest first: analysis.findings.Finding."""
        found: list[Any] = self.derive("conclusions", callsite)
        return found

    def phases(self, callsite: int) -> Table:
        """One row a phase of a call site, between changes of its imbalance; see analysis."""
        return self._table("phases", callsite)

    def findings(self, gains: Sequence[Any] = ()) -> list[Any]:
        """What is worth doing, the costliest first: a list of analysis.findings.Finding."""
        found: list[Any] = self.derive("findings", tuple(gains))
        return found

    def matrix(self, callsite: int) -> tuple[Int, Int]:
        """Arrivals and exits of a call site: int64 ns, instances x ranks of the communicator.

        An absent rank has arrival -1; an open or absent one exit 0.
        """
        found: tuple[Int, Int] = self.derive("matrix", callsite)
        return found

    @property
    def spent(self) -> Table:
        """One row a rank: ns in calls without a record, by class; see analysis."""
        return self._table("spent")

    @property
    def rank_totals(self) -> Table:
        """One row a call site, communicator and member: time, waiting, lateness; see analysis."""
        return self._table("rank_totals")

    @property
    def point_to_point(self) -> Float:
        """Ns in point-to-point and completion calls: float64, one for each rank."""
        found: Float = self.derive("point_to_point")
        return found

    @property
    def summed_up(self) -> Table:
        """One row a call site: what was summed up after the logs reached their limit."""
        return self._table("summed_up")

    @property
    def aggregate(self) -> tuple[Any, dict[Any, int]]:
        """The sums of one pass (analysis.callsites.Aggregate), and each call site's number."""
        found: tuple[Any, dict[Any, int]] = self.derive("aggregate")
        return found

    def samples(self, callsites: tuple[int, ...]) -> dict[int, Any]:
        """Instances of some call sites, by one pass: analysis.sample.Sample by call site."""
        found: dict[int, Any] = self.derive("samples", callsites)
        return found

    def series(self, callsites: tuple[int, ...]) -> dict[int, Table]:
        """One row an instance, thinned where there are very many, for each of some call sites."""
        found: dict[int, Table] = self.derive("series", callsites)
        return found

    def matrix_ranks(self, callsite: int) -> Int:
        """World ranks of the columns of `matrix`: int64, ascending."""
        found: Int = self.derive("matrix_ranks", callsite)
        return found
