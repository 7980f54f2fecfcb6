"""The columns of exported tables in order, with their meaning; times are int64 ns.

All times are on the clock of rank 0's node, from one unspecified origin. `started_ns` in the file's
metadata is the time when the first rank entered MPI.
"""

from __future__ import annotations

from mpiprof.account import columns

CALL_COLUMNS = {  # columns of a data set: one row per instance and member of its communicator
    "sequence": "number of the operation on its communicator, the same on all of its ranks",
    "start": "n-th start of a persistent operation; missing where the block has none",
    "rank": "world rank; its row is there also where it did not call",
    "arrival_ns": "when the rank called; 0 where it did not",
    "begin_ns": "when it entered the call that could wait; missing where that is the arrival",
    "finish_ns": "when it left that call; 0 while open, or where it did not call",
    "elapsed_ns": "time inside; missing where that is finish less arrival",
    "shape": "row of the table of shapes, -1 where the rank did not call",
    "sent": "bytes sent, -1 or missing where they are the shape's",
    "received": "bytes received, -1 or missing where they are the shape's",
    "choice": "state of the selector: 0 or missing none, 1 observe, 2 probe, 3 chosen",
    "before_enter_ns": "when the rank entered its record before; -1 without",
    "before_exit_ns": "when it left that; 0 while open, -1 without",
    "before_shape": "shape of the record before, -1 without",
    "before_sequence": "sequence number of the record before, -1 without",
    "outside_ns": "time in point-to-point and completion calls since the record before",
}
EVENT_COLUMNS = {
    "rank": "world rank that called",
    "thread": "thread of that rank, from 0 in order of their first call",
    "operation": "collective without MPI_, such as allreduce, iallreduce or allreduce_init",
    "site": "call site, as file:line function",
    "communicator": "identity of the communicator, the same on all of its ranks",
    "sequence": "number of the operation on its communicator, the same on all of its ranks",
    "start": "n-th start of a persistent operation; 0 for calls",
    "enter_ns": "when the rank called",
    "exit_ns": "when it returned; missing while open, and of a start, which is not timed",
    "completion_enter_ns": "when the Wait or Test that completed it was called; missing without",
    "completion_exit_ns": "when that returned",
    "bytes": "bytes that the rank sends; missing where unknown",
    "received": "bytes that the rank receives; missing where unknown",
    "root": "world rank of the root; missing without",
    "algorithm": "what it ran on: native, native:ring if the library's own is known, or ours",
    "flags": "peculiarities of the call, separated by blanks",
    "outside_ns": "time in point-to-point and completion calls since the rank's record before",
    "choice": "state of the selector that chose the algorithm: observe, probe, chosen, or empty",
}
INSTANCE_COLUMNS = {  # before the columns of account/columns.py
    "communicator": EVENT_COLUMNS["communicator"],
    "sequence": EVENT_COLUMNS["sequence"],
    "start": EVENT_COLUMNS["start"],
    "operation": EVENT_COLUMNS["operation"],
    "algorithm": "what it ran on; several are joined by +",
    "callsite": "number of the call site, as in the report's JSON and in Python",
    "sites": "call sites of its ranks, separated by |",
    "size": "ranks that take part",
    "complete": "whether all of them came and left",
    "first_arrival_ns": "when the first rank called",
    "last_arrival_ns": "when the last rank called; missing while one has not",
    "first_rank": "world rank that called first",
    "last_rank": "world rank that called last",
    "last_exit_ns": "when the last rank returned",
}
CALL_SUM_COLUMNS = {
    "rank": "world rank that called",
    "operation": "call without MPI_, such as send, irecv or waitall",
    "site": EVENT_COLUMNS["site"],
    "site_id": "row of the table of sites, -1 without",
    "communicator": "row of the table of communicators",
    "peer": "world rank of the sender or receiver; -1 without",
    "calls": "number of calls",
    "total_ns": "time in these calls",
    "longest_ns": "time in the longest of them",
    "sent": "bytes sent",
    "received": "bytes received; the size of the buffer where the status was ignored",
}
MESSAGE_COLUMNS = {  # tables of messages and local calls in a data set, by name
    "message_sums": CALL_SUM_COLUMNS,
    "local_sums": CALL_SUM_COLUMNS,
    "message_calls": {
        "rank": "world rank that called",
        "thread": EVENT_COLUMNS["thread"],
        "operation": "call without MPI_, such as send, irecv or waitall",
        "site": EVENT_COLUMNS["site"],
        "site_id": "row of the table of sites, -1 without",
        "communicator": "row of the table of communicators",
        "peer": "world rank of the sender or receiver; -1 without",
        "enter_ns": "when the rank called",
        "exit_ns": "when it returned; 0 while open",
        "messages": "number of messages that the call sends, receives or completes",
        "epoch": "number of a MPI_Win_post or MPI_Win_start on its window, else 0",
        "lock": "type of a lock: 1 exclusive, 2 shared; 0 in other calls",
        "polls": "number of calls in vain in the row, which begins with the first of them",
        "polled_ns": "begin of the call that found something, or end of the row; 0 without polls",
    },
    "messages": {
        "call": "row of the table of message calls",
        "rank": "world rank of that call",
        "received": "whether the rank receives the message; otherwise it sends it",
        "communicator": "row of the table of communicators",
        "source": "world rank of the sender, -1 if unknown",
        "destination": "world rank of the receiver, -1 if unknown",
        "tag": "tag of the message",
        "number": "equal on both sides of a message, and different for others of its tag and ranks",
        "bytes": "bytes of the message, -1 if unknown",
        "posted_ns": "when the message was posted",
        "site_id": "row of the table of sites for the call that posted it, -1 without",
        "complete": "whether the message was complete when the call returned",
        "sure": "whether its number is certain",
        "any_source": "whether the rank receives it from any source",
        "partner": "row of the same message as its other rank sees it, -1 without",
    },
}


INTERVAL_COLUMNS = {
    "rank": "world rank that made both calls",
    "thread": EVENT_COLUMNS["thread"],
    "begin_ns": "end of the call before",
    "end_ns": "begin of the call after",
    "before_operation": "call before, without MPI_; empty if it is unknown, as at the start",
    "before_site": "call site of the call before",
    "before_site_id": "row of the table of sites, -1 without",
    "after_operation": "call after, without MPI_",
    "after_site": "call site of the call after",
    "after_site_id": "row of the table of sites, -1 without",
    "gap_ns": "time before begin_ns that the counters of the thread include; -1 without counters",
    "processor_ns": "time on a processor, -1 if unknown, as all counters",
    "queue_ns": "time in which the thread could run, but had no processor",
    "voluntary": "voluntary context switches",
    "involuntary": "involuntary context switches",
    "instructions": "instructions in user space",
    "cycles": "cycles in user space",
    "minor_faults": "page faults without input",
    "major_faults": "page faults with input",
    "untracked_ns": "time in calls of MPI that are rows of local_sums",
    "gc_ns": "pauses of Python's garbage collector",
    "first_processor": "processor at the first reading of the counters",
    "last_processor": "processor at the last reading of the counters",
    "other_threads_ns": "processor time of the other threads of the process",
    "pressure_since_ns": "previous reading of the columns below; -1 without, as for most rows",
    "throttled_ns": "time since then in which the quota of the control group stopped its threads",
    "processor_pressure_ns": "time since then in which a process waited for a processor",
    "io_pressure_ns": "time since then in which a process waited for input or output",
    "memory_pressure_ns": "time since then in which a process waited for memory",
}
PAIR_COLUMNS = {
    "source": "world rank of the sender",
    "destination": "world rank of the receiver",
    "messages": "number of messages",
    "bytes": "bytes sent",
    "wait_ns": "time in which the receiver waited for the sender",
    "send_wait_ns": "time in which the sender waited for the receiver",
}
# Tables of the logs of messages: in a data set, and exported if they have rows.
LOG_TABLES = {**MESSAGE_COLUMNS, "intervals": INTERVAL_COLUMNS}
EXPORTED_TABLES = {**LOG_TABLES, "message_matrix": PAIR_COLUMNS}


def of_instances() -> dict[str, str]:
    """Return the columns of the table of instances, with their meaning."""
    metrics = {c.name: c.details or c.meaning for c in columns.COLUMNS if c.instance is not None}
    return {**INSTANCE_COLUMNS, **metrics, "choice": EVENT_COLUMNS["choice"]}
