"""Calls of which a rank had no processor for most of the time: sentences, and rows of the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mpiprof.causes.single_event import MIN_EXCESS_NS, SingleEvent
from mpiprof.interface.format_units import format_time
from mpiprof.reports.site_labels import describe_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label
from mpiprof.trace.stalled_calls import StalledCall

MIN_SHARE = 0.01  # of the run, for a sentence
MAX_SENTENCES, MAX_ROWS = 3, 100
LOCATION = ("file", "line", "function")


def list_stalled_calls(trace: Trace) -> list[StalledCall]:
    """Return the stalled calls, the longest time off the processor first."""
    return sorted(trace.tables.stalled_calls, key=lambda call: -call.off_ns)


def stalled_sentences(trace: Trace, events: Sequence[SingleEvent] = ()) -> Iterator[str]:
    """Yield sentences on the stalled calls that took a notable part of the run.

    Operating systems disturb all programs for a shorter time. events: stated by other sentences.
    """
    least_ns = max(MIN_SHARE * float(trace.run_ns), MIN_EXCESS_NS)
    calls = [
        call
        for call in list_stalled_calls(trace)
        if call.off_ns >= least_ns and not any(_is_event(trace, call, event) for event in events)
    ]
    for call in sorted(calls[:MAX_SENTENCES], key=lambda call: _since_start(trace, call)):
        yield _sentence(trace, call)
    if more := len(calls) - MAX_SENTENCES:
        yield from [f"The JSON report lists {more} further stalled calls."] if more > 0 else []


def _is_event(trace: Trace, call: StalledCall, event: SingleEvent) -> bool:
    """Return whether an event is a stalled call: the same rank, and most of the same time."""
    begin_ns = _since_start(trace, call)
    end_ns = begin_ns + call.exit_ns - call.enter_ns
    shared_ns = max(
        min(end_ns, time_ns + event.length_ns) - max(begin_ns, time_ns)
        for time_ns in event.times_ns
    )
    return call.rank in event.ranks and 2 * shared_ns >= call.exit_ns - call.enter_ns


def explain_calls(trace: Trace, busy_ns: float) -> bool:
    """Return whether stalled calls explain most of the time that ranks spent in calls."""
    # All ranks of the communicator are in the call until the stalled rank continues.
    return 2 * trace.ranks * sum(call.off_ns for call in trace.tables.stalled_calls) >= busy_ns


def stalled_as_data(trace: Trace) -> list[dict[str, Any]]:
    """Return the stalled calls in the schema of the JSON report."""
    return [
        {
            "rank": call.rank,
            "begin_ns": _since_start(trace, call),
            "duration_ns": call.exit_ns - call.enter_ns,
            "asleep_ns": call.asleep_ns,
            "queue_ns": None if call.queue_ns < 0 else call.queue_ns,
            "operation": _operation(trace, call),
            **{name: site_as_data(trace, _site(trace, call))[name] for name in LOCATION},
        }
        for call in list_stalled_calls(trace)[:MAX_ROWS]
    ]


def _since_start(trace: Trace, call: StalledCall) -> int:
    offset = trace.clock_of(call.rank).offset_at(call.enter_ns)
    return call.enter_ns + offset - int(trace.run_start_ns)


def _operation(trace: Trace, call: StalledCall) -> str | None:
    return trace.tables.shapes[call.shape].operation if call.shape >= 0 else None


def _site(trace: Trace, call: StalledCall) -> int:
    return trace.tables.shapes[call.shape].site if call.shape >= 0 else -1


def _sentence(trace: Trace, call: StalledCall) -> str:
    where = "a call"
    if call.shape >= 0:
        label = locate_label(describe_site(trace, _site(trace, call)))
        where = f"{_operation(trace, call)} {label}"
    if call.queue_ns < 0:
        why = "it was stopped, or the node was busy"
    elif call.asleep_ns >= call.queue_ns:
        why = "it was stopped, because its other calls keep the processor while they wait"
    else:
        why = "it was ready to run, but the node was busy"
    begin, lasted = format_time(float(_since_start(trace, call))), format_time(float(call.off_ns))
    return f"At {begin}, rank {call.rank} was off the processor for {lasted} inside {where}: {why}."
