"""Texts in the pictures of a job that hangs: captions, states of ranks, calls and needs."""

from __future__ import annotations

from mpiprof.hang.blocked_ranks import MessageLink
from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.rank_state import Position
from mpiprof.hang.wait_graph import Link
from mpiprof.interface.format_units import format_time
from mpiprof.reports.site_labels import describe_site
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

WAIT_GRAPH = (
    "An arrow leads from a waiting rank to the rank that it waits for. Arrows in the accent "
    "colour are the fault: a circle of them never ends. Other ranks in one call share a box."
)
STRIP = (
    "A cell is a rank, in the order of ranks. Filled in the accent colour: other ranks wait "
    "for it. Hatched: in an MPI call. Grey: outside MPI. Dashed: unknown."
)
MOMENTS = (
    "Each row is a rank; time runs to the last change on the left of the break, and has no "
    "scale after it. Hatched: still in the call. Messages that ended are not drawn."
)
STATES = {
    "late": "that others wait for",
    "waiting": "in an MPI call",
    "running": "outside MPI",
    "ended": "ended",
    "unknown": "in an unknown state",
}


def describe_call(trace: Trace, position: Position) -> str:
    """Return the call that a rank is in, or its last call, with its place in the source."""
    call = position.current
    if position.finished:
        return "has called MPI_Finalize"
    if call is None:
        return "has called no collective yet"
    doing = "outside MPI, after" if call.exit_ns else "in"
    return f"{doing} {call.operation}, {describe_site(trace, call.site)}"


def describe_since(trace: Trace, position: Position) -> str:
    """Return the time of a rank's last known change, from the start of the run."""
    call = position.current
    if call is None:
        return "since the start"
    verb = "left it" if call.exit_ns else "entered it"
    since = (call.exit_ns or call.enter_ns) - int(trace.run_start_ns)
    return f"{verb} {format_time(float(since))} after the start"


def edge_texts(link: Link) -> tuple[str, str]:
    """Return what a rank needs from the awaited rank, in two short texts."""
    if isinstance(link.call, Call):
        return f"needs rank {link.waits_for} to arrive", f"in {link.call.operation}"
    assert isinstance(link, MessageLink)
    message = link.need.message
    tag = "any tag" if message.tag < 0 else f"tag {message.tag}"
    if not message.received:
        return f"needs rank {link.waits_for} to receive", tag
    other = link.others[0] if link.others else None
    note = f"{tag}, never sent"
    if other is not None and other.tag != message.tag:
        note = f"{tag}; sent was tag {other.tag}"
    elif other is not None:
        note = f"{tag}, sent elsewhere"
    return "needs a message", note


def label_call(call: Call | MessageWait) -> str:
    """Return a call with the peer and the tag of its first message."""
    if isinstance(call, MessageWait) and call.messages:
        message = call.messages[0]
        way = "from" if message.received else "to"
        peer = "any rank" if message.peer < 0 else f"rank {message.peer}"
        tag = "" if message.tag < 0 else f", tag {message.tag}"
        return f"{call.operation} {way} {peer}{tag}"
    return call.operation
