"""The processors of the ranks, and the calls without one: sentences, and rows of the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mpiprof.causes.processor_sets import Overload, find_overload, read_thread_setting
from mpiprof.causes.single_event import MIN_EXCESS_NS, SingleEvent
from mpiprof.interface.format_units import format_count, format_runs, format_time
from mpiprof.reports.site_labels import describe_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label
from mpiprof.trace.stalled_calls import StalledCall

MAX_NODES = 2  # in the line of the report
MIN_SHARE = 0.01  # of the run, for a sentence
MAX_SENTENCES, MAX_ROWS = 3, 100
LOCATION = ("file", "line", "function")


def processor_fact(trace: Trace) -> str:
    """Return the processors, the quota and the number of threads of the ranks by node, or ""."""
    nodes = list(_group_by_node(trace).values())
    texts: dict[str, list[str]] = {}
    for ranks in nodes:
        if text := _describe_node(ranks):
            texts.setdefault(text, []).append(next(iter(ranks.values()))["host"])
    parts = []
    for text, hosts in list(texts.items())[:MAX_NODES]:
        of = "" if len(nodes) == 1 else f" of {hosts[0]}"
        of += f" and {len(hosts) - 1} more nodes" if len(hosts) > 1 else ""
        parts.append(text.replace("@", of))
    more = len(texts) - MAX_NODES
    return "; ".join([*parts, *([f"{more} other kinds of nodes"] if more > 0 else [])])


def overload_sentence(trace: Trace) -> str:
    """Return a sentence on ranks whose threads exceed their processors, "" without any."""
    found = find_overload(trace.tables.processes)
    return "" if found is None else _describe_overload(trace, found)


def processors_as_data(trace: Trace) -> list[dict[str, Any]]:
    """Return the processors of each rank in the schema of the JSON report."""
    start_ns = int(trace.run_start_ns)
    return [
        {
            "rank": rank,
            "host": process["host"],
            "processors": process["processors"],
            "changes": [
                {
                    "at_ns": change.at_ns + trace.clock_of(rank).offset_at(change.at_ns) - start_ns,
                    "processors": sorted(change.processors),
                }
                for change in trace.tables.affinities.get(rank, ())
            ],
            "node_processors": process["node_processors"] or None,
            "quota": process["quota"] or None,
            "threads_at_start": process["threads"] or None,
            "environment": process["environment"],
        }
        for rank, process in sorted(trace.tables.processes.items())
    ]


def _group_by_node(trace: Trace) -> dict[str, dict[int, Mapping[str, Any]]]:
    nodes: dict[str, dict[int, Mapping[str, Any]]] = {}
    for rank, process in sorted(trace.tables.processes.items()):
        nodes.setdefault(process["node"], {})[rank] = process
    return nodes


def _describe_node(ranks: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the processors of a node's ranks, with "@" in place of the node's name."""
    affinities = [frozenset(process["processors"]) for process in ranks.values()]
    if not all(affinities):
        return ""
    union = frozenset().union(*affinities)
    known = max(process["node_processors"] for process in ranks.values())
    processors = f"processors {format_runs(sorted(union), 4)}"
    processors += f" of {known}" if known > len(union) else ""
    share = ""
    if len(ranks) > 1:
        own = sum(map(len, affinities)) == len(union)
        share = ", each on its own" if own else ", which they share"
    plural = "s" * (len(ranks) != 1)
    text = f"{format_count(len(ranks))} rank{plural}@ on {processors}{share}"
    quotas = [process["quota"] for process in ranks.values() if process["quota"]]
    if quotas:
        some = f"{format_count(len(quotas))} of them " if len(quotas) < len(ranks) else ""
        text += f", {some}with a quota of {min(quotas):.3g} processor{'s' * (min(quotas) != 1)}"
    settings = {read_thread_setting(process)[1] for process in ranks.values()} - {""}
    return text + (f", {' or '.join(sorted(settings))}" if settings else "")


def _describe_overload(trace: Trace, found: Overload) -> str:
    ranks = f"{format_count(found.ranks)} rank{'s' * (found.ranks != 1)}"
    where = f" of {found.node}" if trace.node_count > 1 else ""
    processors = f"{found.processors:.3g} processor{'s' * (found.processors != 1)}"
    limit, remedy = "may run on", "start fewer ranks on a node"
    if found.is_quota:
        limit = f"{'has' if found.ranks == 1 else 'have'} a quota of"
        remedy = f"raise the quota{', or start fewer ranks' * (found.ranks > 1)}"
    if found.setting:
        threads = f"up to {format_count(found.threads)} threads ({found.setting})"
        return (
            f"{ranks}{where} {limit} {processors}, but start {threads}: {remedy}, or start fewer "
            "threads."
        )
    return f"{ranks}{where} {limit} {processors}: {remedy}."


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
        yield _stalled_sentence(trace, call)
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
            "operation": _operation_of_call(trace, call),
            **{name: site_as_data(trace, _site_of_call(trace, call))[name] for name in LOCATION},
        }
        for call in list_stalled_calls(trace)[:MAX_ROWS]
    ]


def _since_start(trace: Trace, call: StalledCall) -> int:
    offset = trace.clock_of(call.rank).offset_at(call.enter_ns)
    return call.enter_ns + offset - int(trace.run_start_ns)


def _operation_of_call(trace: Trace, call: StalledCall) -> str | None:
    return trace.tables.shapes[call.shape].operation if call.shape >= 0 else None


def _site_of_call(trace: Trace, call: StalledCall) -> int:
    return trace.tables.shapes[call.shape].site if call.shape >= 0 else -1


def _stalled_sentence(trace: Trace, call: StalledCall) -> str:
    where = "a call"
    if call.shape >= 0:
        label = locate_label(describe_site(trace, _site_of_call(trace, call)))
        where = f"{_operation_of_call(trace, call)} {label}"
    if call.queue_ns < 0:
        why = "it was stopped, or the node was busy"
    elif call.asleep_ns >= call.queue_ns:
        why = "it was stopped, because its other calls keep the processor while they wait"
    else:
        why = "it was ready to run, but the node was busy"
    begin, lasted = format_time(float(_since_start(trace, call))), format_time(float(call.off_ns))
    return f"At {begin}, rank {call.rank} was off the processor for {lasted} inside {where}: {why}."
