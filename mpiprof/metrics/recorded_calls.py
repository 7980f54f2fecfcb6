"""The recorded calls of all ranks, of collectives and on messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.time_order import put_in_order
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int


def _take_message_calls(trace: Trace, names: Sequence[str]) -> list[Array]:
    """Return columns of the logged calls on messages; of a window, without those around it."""
    calls = trace.message_calls
    columns = [calls[name].to_numpy() for name in names]
    if isinstance(trace, TraceWindow):
        is_here = trace.covers(calls["enter_ns"].to_numpy())
        columns = [column[is_here] for column in columns]
    return columns


def read_recorded_calls(trace: Trace) -> list[Int]:
    """Return rank, enter_ns, exit_ns and site of all recorded calls, by rank and time."""
    columns: list[Int] = trace.derive("recorded_calls")
    return columns


def make_recorded_calls(trace: Trace) -> list[Int]:
    """Return the columns of read_recorded_calls."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    names = {
        "call_rank": "rank",
        "enter_ns": "enter_ns",
        "exit_ns": "exit_ns",
        "site_id": "site_id",
    }
    of_messages = _take_message_calls(trace, list(names.values()))
    closed = of_messages[2] > 0  # by exit_ns
    joined: list[Any] = []
    for name, values in zip(names, of_messages, strict=True):
        column = np.concatenate([getattr(collective, name), values[closed]])
        joined.append(column if name.endswith("_ns") else column.astype(np.int32))
    return list(put_in_order(joined, trace.ranks))
