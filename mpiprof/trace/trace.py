"""Trace: the records of a trace folder, and tables derived from them on demand."""

from __future__ import annotations

import html
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.trace.batch import Batch
from mpiprof.trace.chunks import count_capacity
from mpiprof.trace.match import BATCH_RECORDS
from mpiprof.trace.memory_limit import memory_limit_bytes
from mpiprof.trace.records import Records
from mpiprof.trace.sites import format_site, matches_pattern
from mpiprof.trace.types import Float, Int

if TYPE_CHECKING:
    import pandas as pd

    Table: TypeAlias = pd.DataFrame

SHOWN_PROBLEMS = 8
# Memory for cached batches: a share of the memory that this process may use, and bytes.
MAX_CACHE_SHARE, MAX_CACHED_BYTES = 1 / 16, 3e8
BYTES_PER_CALL = 68  # in batches
Item = TypeVar("Item")
Result = TypeVar("Result")
Sites: TypeAlias = int | str | Sequence[int | str]  # one or several call sites, as numbers or names


def as_tuple(callsites: Sites) -> tuple[int | str, ...]:
    """Return the call sites as a tuple; a single one may be given alone."""
    alone = isinstance(callsites, int | str | np.integer)
    return (callsites,) if alone else tuple(callsites)  # type: ignore[return-value, arg-type]


def max_cached_calls() -> int:
    """Return the maximum number of calls of a trace whose batches are cached."""
    return int(min(MAX_CACHE_SHARE * memory_limit_bytes(), MAX_CACHED_BYTES) / BYTES_PER_CALL)


def _derived(name: str, description: str) -> Any:
    """Return a property that is the derived table of this name."""

    def derive(trace: Trace) -> Any:
        return trace.derive(name)

    return property(derive, doc=description)


class WorkerPool(Protocol):
    """Processes, here or elsewhere, that can open the same folder."""

    def threads(self) -> int:
        """Return the number of items processed at a time."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Apply a function to each item, and yield the results in the order of the items."""


class _DerivedTable:
    """A derived table, once a thread that holds the lock has computed it."""

    def __init__(self) -> None:
        self.lock, self.is_known = threading.RLock(), False
        self.value: Any = None


class Trace(Records):
    """A trace folder and its derived tables, each computed once; `mpiprof.open` returns one.

    Columns are identifiers with units; the deriving functions in mpiprof.account and
    mpiprof.causes list them. derived: these functions (causes.lazy_tables.DERIVED); a table
    without its function raises TraceError. The function called `shapes` is applied at once and
    replaces the shapes. workers: workers for passes over the partitions of a data set.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        derived: Mapping[str, Callable[..., Any]] | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        super().__init__(path)
        self.workers = workers
        self.parallel = 1  # processes for passes over windows
        self._derived = dict(derived or {})
        self._known: dict[Any, _DerivedTable] = {}
        self._cached: list[Batch] | None = None
        self.meetings: dict[int, Batch | None] = {}  # at which windows begin, by this time
        self._reading = threading.RLock()
        # The last chunk of a thread may be nearly empty.
        full = (c for chunks in self.logs.threads.values() for c in chunks[:-1] if not c.live)
        self._is_long = count_capacity(full) > max_cached_calls()
        if "shapes" in self._derived:
            self.tables.shapes = self._derived["shapes"](self)

    def batches(
        self,
        local_times: bool = False,
        batch: int = BATCH_RECORDS,
        before: bool = False,
        since_ns: int | None = None,
        until_ns: int | None = None,
    ) -> Iterator[Batch]:
        """Yield batches as Records.batches does; the batches are cached if they are not too many.

        Several analyses pass over all batches, and reading takes longer than most of them.
        """
        is_part = since_ns is not None or until_ns is not None
        is_special = batch != BATCH_RECORDS or is_part or self._is_long
        if local_times or (is_special and self._cached is None):
            return super().batches(local_times, batch, before, since_ns, until_ns)
        # A concurrent caller waits instead of reading everything as well.
        with self._reading:
            if self._cached is None:
                read = super().batches(before=True)
                batches: list[Batch] = []
                calls, most = 0, max_cached_calls()
                for instances in read:
                    batches.append(instances)
                    calls += instances.arrival_ns.size
                    if calls > most:
                        self._is_long = True
                        return itertools.chain(batches, read)
                self._cached = batches
            return iter(self._cached)

    def __repr__(self) -> str:
        return f"<Trace {str(self.path)!r}: {', '.join(self._describe_facts().values())}>"

    def _repr_html_(self) -> str:
        rows = {"trace": str(self.path), **self._describe_facts()}
        facts = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        lines = self.problems[:SHOWN_PROBLEMS]
        if len(self.problems) > SHOWN_PROBLEMS:
            lines.append(f"and {len(self.problems) - SHOWN_PROBLEMS} more: .problems")
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<table>{facts}</table>" + (f"<ul>{items}</ul>" if items else "")

    def _describe_facts(self) -> dict[str, str]:
        """Return facts about the trace, without reading its logs."""
        ranks, nodes = self.ranks, self.node_count
        where = f"{ranks} rank{'s' * (ranks > 1)} on {nodes} node{'s' * (nodes > 1)}"
        state = "complete" if self.is_complete else f"incomplete ({len(self.problems)} problems)"
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
        arguments = tuple(self._resolve_callsites(argument) for argument in arguments)
        table = self._known.setdefault((name, *arguments), _DerivedTable())
        # A concurrent caller waits instead of computing the table as well.
        with table.lock:
            if not table.is_known:
                if name not in self._derived:
                    raise TraceError(f"{name}: not available here; use mpiprof.open")
                table.value = self._derived[name](self, *arguments)
                table.is_known = True
        return table.value

    def release(self, *names: str) -> None:
        """Forget derived tables, which are computed again when they are needed."""
        for name in names:
            self._known.pop((name,), None)

    def _resolve_callsites(self, argument: Any) -> Any:
        """Return an argument with call site names replaced by numbers."""
        if isinstance(argument, list | tuple):
            return tuple(self._resolve_callsites(item) for item in argument)
        if isinstance(argument, str):
            return self.callsite(argument)
        return int(argument) if isinstance(argument, np.integer) else argument

    processes: Table = _derived(
        "processes", "One row per rank: rank, host, node, pid, started_ns, ended_ns, end_reason."
    )
    events: Table = _derived(
        "events", "One row per call: rank, operation, site, communicator, sequence, enter_ns, ..."
    )
    instances: Table = _derived(
        "instances", "One row per instance: first and last rank, imbalance, wait; see metrics."
    )
    callsites: Table = _derived(
        "callsites", "One row per call site: means over its complete instances; see metrics."
    )
    summary: Table = _derived(
        "summary", "Counts, times and bytes per rank and shape, from summed-up calls; see metrics."
    )
    statistics: Table = _derived(
        "statistics", "Arrivals per call site from the recorder's own sums; see metrics."
    )
    selection: dict[str, Table] = _derived(
        "selection", "Trials and choices of `--switch auto`: a table for each kind of entry."
    )
    hot: list[int] = _derived("hot", "Call sites with the most wait, in descending order.")
    wrong: list[Any] = _derived(
        "wrong", "First instances with different calls among their members (account.disagreement)."
    )
    plot: Any = _derived(
        "plot", 'Figures, one call each, such as `trace.plot.arrivals("md.py:93")`; see Plots.'
    )
    show: Any = _derived(
        "show", "Tables in the words of the report, such as `trace.show.callsites()`; see Tables."
    )
    message_sums: Table = _derived(
        "message_sums", "One row per rank, call site and peer: sums of all calls on messages."
    )
    local_sums: Table = _derived(
        "local_sums",
        "One row per rank and call site: sums of calls of one rank on windows, files, etc.",
    )
    message_calls: Table = _derived(
        "message_calls", "One row per logged call on messages: times, call site, peer."
    )
    message_callsites: Table = _derived(
        "message_callsites", "One row per call site of messages: calls, bytes, time, wait."
    )
    message_matrix: Table = _derived(
        "message_matrix", "One row per pair of ranks: messages, bytes, and the wait between them."
    )
    message_waits: Table = _derived(
        "message_waits", "One row per call that waits for a message: awaited rank, state, wait."
    )
    messages: Table = _derived(
        "messages", "One row per message of a logged call: source, destination, tag, number, ..."
    )
    delays: Table = _derived(
        "delays", "One row per rank and pair of call sites: work, and the waiting that it causes."
    )
    intervals: Table = _derived(
        "intervals", "One row per long interval between two calls of a rank: times and counters."
    )
    spent: Table = _derived(
        "spent", "One row per rank: ns in unrecorded calls, by class; see metrics."
    )
    rank_totals: Table = _derived(
        "rank_totals", "One row per call site, communicator and member: time, wait, lateness."
    )
    efficiencies: Table = _derived(
        "efficiencies", "POP efficiencies: one row for the run, one per phase; see metrics."
    )
    point_to_point: Float = _derived(
        "point_to_point", "Ns in point-to-point and completion calls: float64, one value per rank."
    )
    summed_up: Table = _derived(
        "summed_up",
        "One row per call site: totals of the calls after the logs reached their limit.",
    )
    run_times: Any = _derived(
        "run_times",
        """Times of all ranks in ns: `collective`, `collective_wait`, `message_wait_ns`.

        `total_wait` is the waiting in collectives and for messages. Estimates have `value`, and
        their bounds `low` and `high`.
        """,
    )
    aggregate: tuple[Any, dict[Any, int]] = _derived(
        "aggregate",
        "The sums of one pass (account.aggregate.Aggregate), and each call site's number.",
    )

    # Derived tables of some call sites

    def callsite(self, named: int | str) -> int:
        """Return the number of a call site given by number, or by name as on the command line.

        If several call sites match, the one with most wait is returned; UsageError if none does.
        """
        if not isinstance(named, str):
            return int(named)
        table = self.callsites.sort_values("total_wait_ns", ascending=False, kind="stable")
        for row in table.to_dict("records"):
            if matches_pattern(row["operation"], row["sites"], named):
                return int(row["callsite"])
        known = dict.fromkeys(format_site(sites[0]) for sites in table["sites"] if len(sites))
        some = suggest_names(named, known) if known else "none was recorded"
        raise UsageError(f"{named}: no such call site; {some}")

    def arrival_statistics(self, callsite: int | str) -> Any:
        """Return the spread of the arrivals at a call site, as causes.arrival_statistics."""
        return self.derive("arrival_statistics", callsite)

    def conclusions(self, callsite: int | str) -> list[Any]:
        """Return the findings at a call site by descending cost, as causes.findings.Finding."""
        conclusions: list[Any] = self.derive("conclusions", callsite)
        return conclusions

    def ledgers(self, rank: int) -> list[Any]:
        """Return the time of each thread of a rank in segments, as account.ledger.ThreadLedger."""
        ledgers: list[Any] = self.derive("ledgers", rank)
        return ledgers

    def phases(self, callsite: int | str) -> Table:
        """Return one row per phase of a call site, between changes of its imbalance."""
        phases: Table = self.derive("phases", callsite)
        return phases

    def findings(self, gains: Sequence[Any] = ()) -> list[Any]:
        """Return all worthwhile findings by descending cost, as causes.findings.Finding."""
        findings: list[Any] = self.derive("findings", tuple(gains))
        return findings

    def matrix(self, callsite: int | str) -> tuple[Int, Int]:
        """Return arrivals and exits of a call site: int64 ns, instances x ranks of a communicator.

        An absent rank has arrival -1; an open or absent one has exit 0.
        """
        matrix: tuple[Int, Int] = self.derive("matrix", callsite)
        return matrix

    def matrix_ranks(self, callsite: int | str) -> Int:
        """Return the world ranks of the columns of `matrix`: int64, ascending."""
        ranks: Int = self.derive("matrix_ranks", callsite)
        return ranks

    def samples(self, callsites: Sites) -> dict[int, Any]:
        """Return samples of some call sites from one pass: causes.sampling.Sample by number."""
        samples: dict[int, Any] = self.derive("samples", as_tuple(callsites))
        return samples

    def series(self, callsites: Sites) -> dict[int, Table]:
        """Return one row per instance, thinned if there are very many, by call site number."""
        series: dict[int, Table] = self.derive("series", as_tuple(callsites))
        return series

    def waiting_for(self, callsites: Sites = ()) -> Any:
        """Return the wait matrix at some or all call sites, as account.rank_pairs.WaitMatrix."""
        return self.derive("waiting_for", as_tuple(callsites))
