"""The Trace: what a trace folder holds, and what is derived from it when it is asked for."""

from __future__ import annotations

import html
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from mpiprof.errors import TraceError, UsageError
from mpiprof.nearest import nearest
from mpiprof.trace.batch import Batch
from mpiprof.trace.match import BATCH
from mpiprof.trace.records import Records
from mpiprof.trace.sites import matches, place
from mpiprof.trace.types import Float, Int

if TYPE_CHECKING:
    import pandas as pd

    Table: TypeAlias = pd.DataFrame

SHOWN_PROBLEMS = 8
HELD = 1 << 20  # calls: 40 MB as batches
Item = TypeVar("Item")
Result = TypeVar("Result")
Sites: TypeAlias = int | str | Sequence[int | str]  # call sites: numbers or names, one or several


def several(callsites: Sites) -> tuple[int | str, ...]:
    """Return some call sites, where one may have been given alone."""
    alone = isinstance(callsites, int | str | np.integer)
    return (callsites,) if alone else tuple(callsites)  # type: ignore[return-value, arg-type]


class Workers(Protocol):
    """Processes, here or elsewhere, that can open the same folder."""

    def threads(self) -> int:
        """Return how many items they work on at a time."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Call a function of each item, and yield what it gives in the order of the items."""


class Trace(Records):
    """A trace folder and its derived tables, each computed once; `mpiprof.open` gives one.

    Columns are identifiers with units; the functions in mpiprof.analysis that derive the tables
    list them. TraceError where these functions (mpiprof.analysis.derived.DERIVED) were not given.
    One that is given as `shapes` says at once what their shapes are to be. workers: those that
    pass over the partitions of a data set.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        derived: Mapping[str, Callable[..., Any]] | None = None,
        workers: Workers | None = None,
    ) -> None:
        super().__init__(path)
        self.workers = workers
        self._derived = dict(derived or {})
        self._known: dict[Any, Any] = {}
        self._held: list[Batch] | None = None
        self._reading = threading.RLock()
        full = [c for chunks in self.logs.threads.values() for c in chunks if not c.live]
        self._is_long = sum(chunk.log.layout.records for chunk in full) > HELD
        if "shapes" in self._derived:
            self.tables.shapes = self._derived["shapes"](self)

    def batches(
        self,
        local_times: bool = False,
        batch: int = BATCH,
        before: bool = False,
        since_ns: int | None = None,
    ) -> Iterator[Batch]:
        """As Records.batches, which says what they are; those of a short trace are read once."""
        if self._held is not None and not local_times:
            return iter(self._held)
        if local_times or batch != BATCH or since_ns is not None or self._is_long:
            return super().batches(local_times, batch, before, since_ns)
        with self._reading:  # who comes meanwhile waits rather than reading it all as well
            if self._held is not None:
                return iter(self._held)
            read = super().batches(before=True)
            held: list[Batch] = []
            calls = 0
            for one in read:
                held.append(one)
                calls += one.arrival.size
                if calls > HELD:
                    self._is_long = True
                    return itertools.chain(held, read)
            self._held = held
        return iter(held)

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
        """Return a derived table by name, computed once; texts in `arguments` name call sites."""
        arguments = tuple(self._numbered(argument) for argument in arguments)
        key = (name, *arguments)
        if key not in self._known:
            if name not in self._derived:
                raise TraceError(f"{name}: not available here; use mpiprof.open")
            self._known[key] = self._derived[name](self, *arguments)
        return self._known[key]

    def _numbered(self, argument: Any) -> Any:
        """Return an argument with the numbers of call sites in place of their names."""
        if isinstance(argument, list | tuple):
            return tuple(self._numbered(one) for one in argument)
        if isinstance(argument, str):
            return self.callsite(argument)
        return int(argument) if isinstance(argument, np.integer) else argument

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

    def callsite(self, named: int | str) -> int:
        """Return the number of a call site that is named as on the command line, or by its number.

        Of several that a name fits, the one that costs most waiting; UsageError where none.
        """
        if not isinstance(named, str):
            return int(named)
        table = self.callsites.sort_values("total_wait_ns", ascending=False, kind="stable")
        for row in table.to_dict("records"):
            if matches(row["operation"], row["sites"], named):
                return int(row["callsite"])
        known = dict.fromkeys(place(sites[0]) for sites in table["sites"] if len(sites))
        some = nearest(named, known) if known else "none was recorded"
        raise UsageError(f"{named}: no such call site; {some}")

    def causes(self, callsite: int | str) -> Any:
        """Why the processes arrive at a call site at different times: an analysis.causes.Causes."""
        return self.derive("causes", callsite)

    def conclusions(self, callsite: int | str) -> list[Any]:
        """What is wrong at a call site, the costliest first: analysis.findings.Finding."""
        found: list[Any] = self.derive("conclusions", callsite)
        return found

    def phases(self, callsite: int | str) -> Table:
        """One row a phase of a call site, between changes of its imbalance; see analysis."""
        return self._table("phases", callsite)

    def findings(self, gains: Sequence[Any] = ()) -> list[Any]:
        """What is worth doing, the costliest first: a list of analysis.findings.Finding."""
        found: list[Any] = self.derive("findings", tuple(gains))
        return found

    @property
    def wrong(self) -> list[Any]:
        """The first instances whose members do not call the same: analysis.disagreement's."""
        found: list[Any] = self.derive("wrong")
        return found

    @property
    def plot(self) -> Any:
        """Pictures, a line each, such as `trace.plot.arrivals("md.py:93")`; see notebook.Plots."""
        return self.derive("plot")

    def matrix(self, callsite: int | str) -> tuple[Int, Int]:
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
    def totals(self) -> dict[str, Any]:
        """Time in all calls, and of it waiting, over all ranks: `elapsed` and `wait`.

        Each with `value`, and `low` and `high`, between which it lies where it is estimated; ns.
        """
        found: dict[str, Any] = self.derive("totals")
        return found

    @property
    def aggregate(self) -> tuple[Any, dict[Any, int]]:
        """The sums of one pass (analysis.aggregate.Aggregate), and each call site's number."""
        found: tuple[Any, dict[Any, int]] = self.derive("aggregate")
        return found

    def samples(self, callsites: Sites) -> dict[int, Any]:
        """Instances of some call sites, by one pass: analysis.sample.Sample by number."""
        found: dict[int, Any] = self.derive("samples", several(callsites))
        return found

    def series(self, callsites: Sites) -> dict[int, Table]:
        """One row an instance, thinned where there are very many, of some call sites by number."""
        found: dict[int, Table] = self.derive("series", several(callsites))
        return found

    def waiting_for(self, callsites: Sites = ()) -> Any:
        """Who waits for whom at some call sites, at all without: an analysis.whom.Whom."""
        return self.derive("waiting_for", several(callsites))

    def matrix_ranks(self, callsite: int | str) -> Int:
        """World ranks of the columns of `matrix`: int64, ascending."""
        found: Int = self.derive("matrix_ranks", callsite)
        return found
