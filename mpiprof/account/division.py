"""Division of the run's time: work, waiting, transfers, and time without a record.

The sums are those of the ledgers of all threads (account/ledger.py), and of their waits. They
are exact: the parts sum to the time of all threads. MPI_Finalize counts as a collective.

Traces without a record of each call have the sums that the recorder makes of all calls by call
site. There, work is the time outside of these sums, and waits are estimates if the trace is a
sample.

A transfer is the time in a call after all awaited ranks have come:

    rank 5   work | recv ── wait ── | transfer | work ...
    rank 6   work ─────────── send ↑ posted

The expected time of a transfer is at most EXPECTED_FACTOR times the median of its kind: the calls
on messages at one call site with as much data (transfers.py), or the instances of one call site of
collectives. Beyond that, the time above the median is unexplained. It belongs to the call or to its
link, never to the work of a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.ledger import CALLS, LIVES, WORK
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.one_sided_waits import ONE_SIDED_STATES
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.transfers import EXPECTED_FACTOR, sum_unexplained_messages
from mpiprof.facts.operations import LOCAL_OPERATIONS, MESSAGE_OPERATIONS
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float


@dataclass(frozen=True)
class Division:
    """Times of some ranks in ns, summed over their threads.

    work_ns: outside MPI. collective_ns, message_ns, local_ns: in collectives, in calls on messages,
    and in calls on windows, files etc. unrecorded_ns: before the first and after the last record
    of a rank, and of ranks whose records are lost. ..._wait_ns: waits in these calls.
    ..._unexplained_ns: transfers beyond the expected time. filtered_ns: in collectives that do not
    pass a filter.
    """

    work_ns: float
    collective_ns: float
    message_ns: float
    local_ns: float
    unrecorded_ns: float
    collective_wait_ns: float
    message_wait_ns: float
    window_wait_ns: float
    collective_unexplained_ns: float
    message_unexplained_ns: float
    filtered_ns: float = 0.0

    @property
    def whole_ns(self) -> float:
        """Return the sum of all parts."""
        calls_ns = self.collective_ns + self.message_ns + self.local_ns
        return self.work_ns + calls_ns + self.unrecorded_ns

    @property
    def parts(self) -> dict[str, float]:
        """Return the time by part; the parts sum to `whole_ns`."""
        collectives = self.collective_ns - self.collective_wait_ns - self.filtered_ns
        messages = self.message_ns - self.message_wait_ns
        return {
            "unrecorded": self.unrecorded_ns,
            "work": self.work_ns,
            "other_calls": self.local_ns - self.window_wait_ns,
            "messages": messages - self.message_unexplained_ns,
            "message_wait": self.message_wait_ns,
            "window_wait": self.window_wait_ns,
            "collectives": collectives - self.collective_unexplained_ns,
            "collective_wait": self.collective_wait_ns,
            "unexplained": self.message_unexplained_ns + self.collective_unexplained_ns,
            "filtered": self.filtered_ns,
        }


COLUMNS = [field.name for field in fields(Division) if field.name != "filtered_ns"]


def divide_time(trace: Trace, ranks: Sequence[int] | None = None) -> Division:
    """Return the division of the time of some ranks, by default of all."""
    table: pd.DataFrame = trace.derive("rank_times")
    if ranks is not None:
        table = table.loc[list(ranks)]
    return Division(*table[COLUMNS].sum().tolist())


def make_rank_times(trace: Trace) -> pd.DataFrame:
    """Return the time of each rank by COLUMNS, in ns."""
    sums: dict[str, pd.DataFrame] | None = trace.derive("ledger_sums")
    times = _sum_tables(trace) if sums is None else _sum_ledgers(trace, sums)
    is_message = _find_waits(trace, windows=False), times["message_ns"]
    is_window = _find_waits(trace, windows=True), times["local_ns"]
    times["message_wait_ns"], times["window_wait_ns"] = (
        np.minimum(waits, limit) for waits, limit in (is_message, is_window)
    )
    waits = np.minimum(_find_collective_waits(trace), times["collective_ns"])
    times["collective_wait_ns"] = waits
    transfer_ns = times["message_ns"] - times["message_wait_ns"]
    times["message_unexplained_ns"] = np.minimum(sum_unexplained_messages(trace), transfer_ns)
    transfer_ns = times["collective_ns"] - waits
    share = min(
        float(sum_unexplained_collectives(trace).sum()) / max(float(transfer_ns.sum()), 1.0), 1.0
    )
    times["collective_unexplained_ns"] = share * transfer_ns
    return pd.DataFrame({name: times[name] for name in COLUMNS})


def _sum_ledgers(trace: Trace, sums: dict[str, pd.DataFrame]) -> dict[str, Float]:
    """Return the times of each rank from the ledgers of its threads."""
    classes = _classify_shapes(trace)
    calls, work, lives = sums[CALLS], sums[WORK], sums[LIVES]
    of_call = classes[calls["shape"].to_numpy(np.int64)]
    times = {
        name: _sum_by_rank(trace, calls[of_call == name], "total_ns")
        for name in ("collective_ns", "message_ns", "local_ns")
    }
    times["work_ns"] = _sum_by_rank(trace, work, "total_ns")
    # Ledgers end when MPI_Finalize begins.
    totals = trace.rank_totals
    finalize_ns = _sum_by_rank(trace, totals[totals["operation"] == "finalize"], "elapsed_ns")
    times["collective_ns"] = times["collective_ns"] + finalize_ns
    first_threads = lives.drop_duplicates("rank")
    life_ns = _sum_by_rank(trace, first_threads, "life_ns") + finalize_ns
    times["unrecorded_ns"] = np.maximum(trace.duration_ns - life_ns, 0.0)
    return times


def _sum_tables(trace: Trace) -> dict[str, Float]:
    """Return the times of each rank from the sums of all calls by call site."""
    if trace.record == "summary":
        elapsed = _sum_by_rank(trace, trace.summary, "total_ns")
    else:
        elapsed = _sum_by_rank(trace, trace.rank_totals, "elapsed_ns")
    in_messages = np.asarray(trace.point_to_point, np.float64)
    local = np.zeros(trace.ranks)
    if trace.derive("coverage") is None:  # the sums are of the whole run
        # `point_to_point` ends with the last collective, and older traces have no sums.
        in_messages = np.maximum(in_messages, _sum_by_rank(trace, trace.message_sums, "total_ns"))
        local = _sum_by_rank(trace, trace.local_sums, "total_ns")
    of_rank = np.full(trace.ranks, trace.process_time_ns / max(trace.ranks, 1))
    lost = np.zeros(trace.ranks)
    lost[sorted(trace.ranks_without_records)] = trace.duration_ns
    times = {"unrecorded_ns": np.minimum(lost, of_rank)}
    unassigned_ns = of_rank - times["unrecorded_ns"]
    columns = ("collective_ns", elapsed), ("message_ns", in_messages), ("local_ns", local)
    for name, values in columns:
        times[name] = np.minimum(values, unassigned_ns)
        unassigned_ns = unassigned_ns - times[name]
    return times | {"work_ns": unassigned_ns}


def _classify_shapes(trace: Trace) -> Array:
    """Return the column of the time in the calls of each shape."""
    columns = dict.fromkeys(MESSAGE_OPERATIONS, "message_ns")
    columns |= dict.fromkeys(LOCAL_OPERATIONS, "local_ns")
    operations = [shape.operation for shape in trace.tables.shapes]
    return np.array([columns.get(name, "collective_ns") for name in operations], object)


def _find_collective_waits(trace: Trace) -> Float:
    """Return the waiting of each rank in collectives.

    A summary has the waiting of each call site, which is divided among the ranks by their time.
    """
    if trace.record != "summary":
        return _sum_by_rank(trace, trace.rank_totals, "total_wait_ns")
    elapsed = _sum_by_rank(trace, trace.summary, "total_ns")
    waits = np.nan_to_num(trace.callsites["total_wait_ns"].to_numpy(np.float64))
    return elapsed * (float(waits.sum()) / max(float(elapsed.sum()), 1.0))


def _find_waits(trace: Trace, *, windows: bool) -> Float:
    """Return the waiting of each rank on windows, or for messages."""
    waits = find_located_waits(trace)
    chosen: Any = waits[waits["state"].isin(ONE_SIDED_STATES) == windows]
    return _sum_by_rank(trace, chosen, "wait_ns")


def _sum_by_rank(trace: Trace, table: pd.DataFrame, name: str) -> Float:
    ranks = table["rank"].to_numpy(np.int64)
    sums = np.bincount(ranks, table[name].to_numpy(np.float64), trace.ranks)
    return np.asarray(sums[: trace.ranks], np.float64)


def sum_unexplained_collectives(trace: Trace) -> Float:
    """Return the unexplained time of all ranks at each call site of collectives."""
    if trace.record == "summary":
        return np.zeros(len(trace.callsites))
    sums, keys = trace.aggregate
    excess: Float = sums.quantiles.sum_excess("transfer", EXPECTED_FACTOR, len(keys))
    return excess * callsite_scales(trace)
