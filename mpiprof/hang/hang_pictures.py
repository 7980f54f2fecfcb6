"""Pictures of a job that hangs: wait-for graph, strip of the ranks, and last calls of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from mpiprof.hang import job_verdict
from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.rank_state import Instances, Position, Positions
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.wait_graph import build_wait_graph
from mpiprof.hang.words import picture_text, verdict_text
from mpiprof.interface import svg
from mpiprof.interface.format_units import format_count, format_runs
from mpiprof.interface.svg import DataPicture, TableRow
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.reports.pictures import last_moments, wait_graph
from mpiprof.reports.pictures.last_moments import RankRow, Span
from mpiprof.reports.pictures.wait_graph import WaitEdge, WaitNode
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

MAX_NAMED, MAX_GROUPS = 8, 4
MAX_ROWS = 6
LAST_CALLS = 8  # of the first named rank: they determine the window
STRIP_WIDTH = 1200.0
# Ranks up to which a row has so many cells, and their height in px.
STRIP_ROWS = ((64, 64, 26.0), (1024, 128, 14.0), (1 << 62, 256, 6.0))
MAX_CELLS = 8192
HOST_GAP, NUMBER_WIDTH = 8.0, 19.0
MAX_HOST_LABELS = 16


@dataclass(frozen=True)
class RankCell:
    """A rank in the strip: state is late, waiting, running, ended or unknown.

    colour: name of the colour of the operation that a waiting rank is in.
    """

    rank: int
    host: str
    state: str
    colour: str = "q3"
    note: str = ""


def list_cells(cells: Sequence[RankCell]) -> list[TableRow]:
    """Return the data of the picture: host, state and call of each rank."""
    rows = [(cell.rank, cell.host, cell.state, cell.note) for cell in cells]
    return [("rank", "host", "state", "note"), *rows]


def draw_rank_strip(cells: Sequence[RankCell], label: str) -> str:
    """Return the strip; above MAX_CELLS ranks, a cell shows the worst of several ranks."""
    shown = _merge_cells(cells)
    columns, height = next((n, h) for limit, n, h in STRIP_ROWS if len(shown) <= limit)
    rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
    columns = min(columns, max(len(shown), 1))
    hosts = [len(list(run)) for _, run in groupby(rows[0] if rows else [], lambda c: c.host)]
    is_grouped = len(rows) == 1 and 1 < len(hosts) <= MAX_HOST_LABELS
    gaps = HOST_GAP * (len(hosts) - 1) if is_grouped else 0.0
    pitch = min((STRIP_WIDTH - gaps) / columns, 60.0)
    parts: list[str] = []
    for number, row in enumerate(rows):
        y, x, host = 18 + number * (height + 2), 0.0, ""
        for cell in row:
            if cell.host != host:
                x += HOST_GAP if host and is_grouped else 0.0
                host = cell.host
                if is_grouped or not parts:
                    parts.append(svg.make_text(x, 12, f"{host[:24]}, from rank {cell.rank}"))
            parts.append(_draw_cell(cell, x, y, pitch, height))
            x += pitch
    return svg.make_picture(STRIP_WIDTH, 20 + len(rows) * (height + 2), label, parts)


def _draw_cell(cell: RankCell, x: float, y: float, pitch: float, height: float) -> str:
    width = pitch - (2 if pitch > 8 else 1)
    grounds = {
        "late": svg.fill("late"),
        "waiting": svg.hatch(cell.colour, height),
        "running": svg.fill("q2"),
        "ended": svg.fill("q1"),
    }
    ground = grounds.get(cell.state, f'{svg.stroke("ink3")} stroke-dasharray="2 2"')
    box = svg.make_rectangle(x, y, width, height, ground, note=cell.note)
    if cell.state != "late" or pitch < NUMBER_WIDTH:
        return box
    number = svg.make_text(
        x + width / 2, y + height / 2 + 4, str(cell.rank), "surface", anchor="middle", bold=True
    )
    return box + number


def _merge_cells(cells: Sequence[RankCell]) -> Sequence[RankCell]:
    step = -(-len(cells) // MAX_CELLS) if cells else 1
    if step == 1:
        return cells
    order = ("late", "unknown", "waiting", "running", "ended")
    return [
        min(cells[i : i + step], key=lambda cell: order.index(cell.state))
        for i in range(0, len(cells), step)
    ]


def draw_hang(
    trace: Trace, positions: Positions, pending: Instances, verdict: HangVerdict
) -> DataPicture | None:
    """Return the picture of the ranks that wait for each other, or None if no rank waits."""
    nodes, edges = make_graph(trace, positions, pending, verdict)
    label = f"Ranks that wait: {verdict_text.verdict_title(verdict).lower()}"
    svg = wait_graph.draw_wait_graph(nodes, edges, label)
    title = "Ranks that wait for each other" if verdict.cycle else "Awaited ranks"
    values = wait_graph.list_values(nodes, edges)
    return DataPicture(svg, values, title, picture_text.WAIT_GRAPH) if svg else None


def describe_fault(trace: Trace) -> tuple[str, DataPicture | None]:
    """Return the fault of a trace's job as text and as a picture; "" and None without a fault."""
    verdict, positions, pending = job_verdict.observe_job(trace)
    text = verdict_text.describe_fault(trace, verdict, positions)
    return text, draw_hang(trace, positions, pending, verdict) if text and positions else None


def make_graph(
    trace: Trace, positions: Positions, pending: Instances, verdict: HangVerdict
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
        WaitEdge(node_of[link.rank], node_of[link.waits_for], *picture_text.edge_texts(link), True)
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


def _is_late(verdict: HangVerdict, ranks: Sequence[int], is_awaited: bool) -> bool:
    if verdict.disagreement is not None:
        return bool(set(ranks) & set(verdict.odd_ranks))
    return is_awaited


def _named_ranks(verdict: HangVerdict) -> list[list[int]]:
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
    facts = picture_text.describe_since(trace, first)
    if len(ranks) > 1:
        title = f"{format_count(len(ranks))} ranks: {format_runs(list(ranks), 3)}"
    else:
        title = f"Rank {ranks[0]}"
        facts = f"{trace.tables.processes.get(ranks[0], {}).get('host') or '?'} · {facts}"
    return WaitNode(title, picture_text.describe_call(trace, first), facts, is_named, is_late)


def awaited_ranks(verdict: HangVerdict) -> set[int]:
    """Return the ranks that the verdict names, and those that other ranks wait for in a circle."""
    links = {link.rank for link in verdict.cycle}
    ends = {link.waits_for for link in verdict.chain if link.waits_for >= 0}
    named = {*verdict.odd_ranks} or links or ends
    return named or set(verdict.pending.missing if verdict.pending else ())


def draw_strip(trace: Trace, positions: Positions, verdict: HangVerdict) -> DataPicture:
    """Return the strip of all ranks with their states."""
    late = awaited_ranks(verdict)
    cells = [_make_cell(trace, position, position.rank in late) for position in positions]
    counts = {state: sum(cell.state == state for cell in cells) for state in picture_text.STATES}
    label = ", ".join(f"{n} {picture_text.STATES[state]}" for state, n in counts.items() if n)
    svg = draw_rank_strip(cells, f"Ranks: {label}")
    return DataPicture(svg, list_cells(cells), "Every rank", picture_text.STRIP)


def _make_cell(trace: Trace, position: Position, is_late: bool) -> RankCell:
    call = position.current
    state = {"finished": "ended", "inside": "waiting", "outside": "running"}.get(
        position.state, "unknown"
    )
    colour = "q3" if call is None else name_operation_colour(call.operation)
    host = str(trace.tables.processes.get(position.rank, {}).get("host") or "?")
    note = f"rank {position.rank}: {picture_text.describe_call(trace, position)}"
    return RankCell(position.rank, host, "late" if is_late else state, colour, note)


def draw_moments(trace: Trace, positions: Positions, verdict: HangVerdict) -> DataPicture | None:
    """Return the last calls of the named ranks and of their neighbours, None without calls."""
    late = awaited_ranks(verdict)
    shown = choose_rows(positions, sorted(late))
    spans = {rank: _list_spans(positions[rank]) for rank in shown}
    every = [span for of in spans.values() for span in of]
    if not every:
        return None
    end = max(max(span.enter_ns, span.exit_ns or 0.0) for span in every)
    first = min(shown, key=lambda rank: (rank not in late, rank))
    begin = min((span.enter_ns for span in spans[first][-LAST_CALLS:]), default=end)
    rows = [
        RankRow(
            f"rank {rank}",
            spans[rank],
            rank in late,
            "" if _has_open(spans[rank]) else picture_text.describe_call(trace, positions[rank]),
        )
        for rank in shown
    ]
    label = "Last calls of some ranks"
    svg = last_moments.draw_last_moments(rows, begin, max(end, begin + 1), label)
    values = last_moments.list_values(rows)
    return DataPicture(svg, values, "The last moments", picture_text.MOMENTS)


def choose_rows(positions: Positions, named: Sequence[int]) -> list[int]:
    """Return up to MAX_ROWS ranks: the named ones, then their neighbours, then the first ones."""
    chosen = list(named[:MAX_ROWS])
    around = [rank + step for rank in named[:MAX_ROWS] for step in (-1, 1)]
    for rank in (*around, *range(min(len(positions), MAX_ROWS))):
        if len(chosen) < min(MAX_ROWS, len(positions)) and 0 <= rank < len(positions):
            chosen += [] if rank in chosen else [rank]
    return sorted(chosen)


def _has_open(spans: Sequence[Span]) -> bool:
    return any(span.exit_ns is None for span in spans)


def _list_spans(position: Position) -> list[Span]:
    every: list[Call | MessageWait] = [*position.recent, *position.open, *position.waits]
    calls = {(call.enter_ns, call.operation): call for call in every}
    return [
        Span(
            float(call.enter_ns),
            float(call.exit_ns) if call.exit_ns else None,
            name_operation_colour(call.operation),
            picture_text.label_call(call),
        )
        for _, call in sorted(calls.items())
    ]
