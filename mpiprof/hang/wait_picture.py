"""Nodes and edges of the picture of a hang, from the positions of the ranks and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpiprof.hang import verdict_text
from mpiprof.hang.blocked_ranks import MessageLink
from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.rank_state import Instances, Position, Positions
from mpiprof.hang.verdict import Verdict
from mpiprof.hang.wait_graph import Link, build_wait_graph
from mpiprof.interface.format_units import format_count, format_runs, format_time
from mpiprof.reports.pictures import wait_graph
from mpiprof.reports.pictures.svg import DataPicture
from mpiprof.reports.pictures.wait_graph import WaitEdge, WaitNode
from mpiprof.reports.site_labels import describe_site
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

MAX_NAMED, MAX_GROUPS = 8, 4
HOW_TO_READ = (
    "An arrow leads from a waiting rank to the rank that it waits for. Arrows in the accent "
    "colour are the fault: a circle of them never ends. Other ranks in one call share a box."
)


def draw_hang(
    trace: Trace, positions: Positions, pending: Instances, verdict: Verdict
) -> DataPicture | None:
    """Return the picture of the ranks that wait for each other, or None if no rank waits."""
    nodes, edges = make_graph(trace, positions, pending, verdict)
    label = f"Ranks that wait: {verdict_text.verdict_title(verdict).lower()}"
    svg = wait_graph.draw_wait_graph(nodes, edges, label)
    title = "Ranks that wait for each other" if verdict.cycle else "Awaited ranks"
    values = wait_graph.list_values(nodes, edges)
    return DataPicture(svg, values, title, HOW_TO_READ) if svg else None


def describe_fault(trace: Trace) -> tuple[str, DataPicture | None]:
    """Return the fault of a trace's job as text and as a picture; "" and None without a fault."""
    verdict, positions, pending = verdict_text.observe_job(trace)
    text = verdict_text.describe_fault(trace, verdict, positions)
    return text, draw_hang(trace, positions, pending, verdict) if text and positions else None


def make_graph(
    trace: Trace, positions: Positions, pending: Instances, verdict: Verdict
) -> tuple[list[WaitNode], list[WaitEdge]]:
    """Return the named ranks as nodes, groups of the waiting ranks, and who waits for whom."""
    links = [*verdict.cycle, *verdict.chain][:MAX_NAMED]
    members = [[link.rank] for link in links]
    if verdict.chain:
        members.append([links[-1].waits_for])
    if not members:
        members = _named_ranks(verdict)
    node_of = {rank: i for i, ranks in enumerate(members) for rank in ranks}
    targets = {node_of[link.waits_for] for link in links if link.waits_for in node_of}
    awaited = build_wait_graph(positions, pending)
    if verdict.pending is not None and members:
        # An instance may lack no rank, because a call of MPI_Finalize counts as its arrival.
        for rank in verdict.pending.arrived:
            awaited.setdefault(rank, set(members[-1]))
    groups = _group_waiting(positions, awaited, node_of)
    targets |= {node for _, node, _ in groups if 0 <= node < len(members)}
    nodes = [
        _make_node(trace, positions, ranks, True, _is_late(verdict, ranks, i in targets))
        for i, ranks in enumerate(members)
    ]
    edges = [
        WaitEdge(node_of[link.rank], node_of[link.waits_for], *_edge_texts(link), True)
        for link in links
        if link.waits_for in node_of
    ]
    if verdict.disagreement is not None and len(members) > 1:
        edges += [WaitEdge(i, i + 1, "cannot match") for i in range(len(members) - 1)]
    members += [ranks for ranks, _, _ in groups[:MAX_GROUPS]]
    for ranks, target, needs in groups[:MAX_GROUPS]:
        nodes.append(_make_node(trace, positions, ranks, False, False))
        if 0 <= target < len(members):
            who = format_runs(members[target], 2)
            count = f"{format_count(len(ranks))} wait" if len(ranks) > 1 else "waits"
            text = f"{count} for rank{'s' * (len(members[target]) > 1)} {who}"
            edges.append(WaitEdge(len(nodes) - 1, target, text, needs, False))
    omitted = sum(len(ranks) for ranks, _, _ in groups[MAX_GROUPS:])
    if omitted:
        nodes.append(WaitNode(f"{format_count(omitted)} more ranks", "in other calls", ""))
    return nodes, edges


def _is_late(verdict: Verdict, ranks: Sequence[int], is_awaited: bool) -> bool:
    if verdict.disagreement is not None:
        return bool(set(ranks) & set(verdict.odd_ranks))
    return is_awaited


def _named_ranks(verdict: Verdict) -> list[list[int]]:
    """Return the ranks that a verdict without links names, as one list per node."""
    if verdict.disagreement is not None:
        return [list(side.ranks) for side in verdict.disagreement.sides[:MAX_NAMED]]
    named = verdict.odd_ranks or verdict.may_still_arrive
    if not named and verdict.pending is not None:
        named = tuple(verdict.pending.missing)
    return [list(named)] if named else []


def _group_waiting(
    positions: Positions, awaited: Mapping[int, set[int]], node_of: Mapping[int, int]
) -> list[tuple[list[int], int, str]]:
    """Return groups of ranks beside the named ones: ranks, node that they wait for (-1), note.

    The groups become nodes after the named ones, in the order of the list.
    """
    groups: dict[tuple[str, int, int, str], list[int]] = {}
    peers: dict[int, set[int]] = {}
    for position in positions:
        rank, call = position.rank, position.current
        if rank in node_of or position.finished or call is None or call.exit_ns:
            continue
        needs, peers[rank] = f"to arrive in {call.operation}", set(awaited.get(rank, ()))
        if isinstance(call, MessageWait):
            needs = "to send a message" if call.operation == "recv" else "for a message"
            peers[rank] = peers[rank] or {message.peer for message in call.messages}
        ahead = sorted({node_of[peer] for peer in peers[rank] if peer in node_of})
        key = (call.operation, call.site, ahead[0] if ahead else -1, needs)
        groups.setdefault(key, []).append(rank)
    found = sorted(groups.items(), key=lambda group: -len(group[1]))
    first = len(set(node_of.values()))
    group_of = {rank: first + i for i, (_, ranks) in enumerate(found) for rank in ranks}
    result = []
    for i, ((_, _, target, needs), ranks) in enumerate(found):
        others = {group_of[peer] for rank in ranks for peer in peers[rank] if peer in group_of}
        others.discard(first + i)  # an arrow from a group to itself shows nothing
        result.append((ranks, min(others) if target < 0 and others else target, needs))
    return result


def _make_node(
    trace: Trace, positions: Positions, ranks: Sequence[int], is_named: bool, is_late: bool
) -> WaitNode:
    first = positions[ranks[0]]
    facts = describe_since(trace, first)
    if len(ranks) > 1:
        title = f"{format_count(len(ranks))} ranks: {format_runs(list(ranks), 3)}"
    else:
        title = f"Rank {ranks[0]}"
        facts = f"{trace.tables.processes.get(ranks[0], {}).get('host') or '?'} · {facts}"
    return WaitNode(title, describe_call(trace, first), facts, is_named, is_late)


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


def _edge_texts(link: Link) -> tuple[str, str]:
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
