"""The definition of waits for messages, written for clarity: no order of passes, no arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

from mpiprof.account.message_waits import MIN_RENDEZVOUS_BYTES
from mpiprof.trace.trace import Trace

Row: TypeAlias = dict[str, Any]


def define_waits(trace: Trace) -> list[tuple[int, ...]]:
    """Return call, message, rank, awaited rank, begin and end of each wait."""
    calls, messages = (table.to_dict("records") for table in (trace.message_calls, trace.messages))
    synchronous = {
        (of.communicator, of.peer, of.site) for of in trace.tables.shapes if "ssend" in of.operation
    }
    able: list[Row] = []
    for row, m in enumerate(messages):
        call = calls[m["call"]]
        peer = m["source"] if m["received"] else m["destination"]
        place = m["communicator"], peer, m["site_id"]
        is_large = m["bytes"] >= MIN_RENDEZVOUS_BYTES or place in synchronous
        if not m["complete"] or not (m["received"] or is_large) or call["exit_ns"] == 0:
            continue
        if not 0 <= peer < trace.ranks or peer == m["rank"] or m["partner"] < 0:
            continue
        posted = messages[m["partner"]]["posted_ns"]
        if posted <= call["exit_ns"] + trace.clock_error_ns:
            able.append({"row": row, "peer": peer, "call": m["call"], "posted": posted})
    waits: list[tuple[int, ...]] = []
    for number, call in enumerate(calls):
        mine = [m for m in able if m["call"] == number]
        if not mine:
            continue
        last = max(mine, key=lambda m: (m["posted"], m["row"]))
        until = min(last["posted"], call["exit_ns"])
        if until > call["enter_ns"] + trace.clock_error_ns:
            times = call["enter_ns"], until
            waits.append((number, last["row"], call["rank"], last["peer"], *times))
    return waits
