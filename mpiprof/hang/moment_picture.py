"""Strip of the ranks of a job by state, and the last calls of the ranks that a verdict names."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.rank_state import Position, Positions
from mpiprof.hang.verdict import Verdict
from mpiprof.hang.wait_picture import describe_call
from mpiprof.reports.pictures import last_moments, rank_strip
from mpiprof.reports.pictures.last_moments import RankRow, Span
from mpiprof.reports.pictures.rank_strip import RankCell
from mpiprof.reports.pictures.svg import DataPicture
from mpiprof.reports.tokens import name_operation_colour
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

MAX_ROWS = 6
LAST_CALLS = 8  # of the first named rank: they determine the window
STRIP_HOW_TO_READ = (
    "A cell is a rank, in the order of ranks. Filled in the accent colour: other ranks wait "
    "for it. Hatched: in an MPI call. Grey: outside MPI. Dashed: unknown."
)
MOMENTS_HOW_TO_READ = (
    "Each row is a rank; time runs to the last change on the left of the break, and has no "
    "scale after it. Hatched: still in the call. Messages that ended are not drawn."
)


def awaited_ranks(verdict: Verdict) -> set[int]:
    """Return the ranks that the verdict names, and those that other ranks wait for in a circle."""
    links = {link.rank for link in verdict.cycle}
    ends = {link.waits_for for link in verdict.chain if link.waits_for >= 0}
    named = {*verdict.odd_ranks} or links or ends
    return named or set(verdict.pending.missing if verdict.pending else ())


def draw_strip(trace: Trace, positions: Positions, verdict: Verdict) -> DataPicture:
    """Return the strip of all ranks with their states."""
    late = awaited_ranks(verdict)
    cells = [_make_cell(trace, position, position.rank in late) for position in positions]
    counts = {state: sum(cell.state == state for cell in cells) for state in STATE_TEXTS}
    label = ", ".join(f"{n} {STATE_TEXTS[state]}" for state, n in counts.items() if n)
    svg = rank_strip.draw_rank_strip(cells, f"Ranks: {label}")
    return DataPicture(svg, rank_strip.list_values(cells), "Every rank", STRIP_HOW_TO_READ)


STATE_TEXTS = {
    "late": "that others wait for",
    "waiting": "in an MPI call",
    "running": "outside MPI",
    "ended": "ended",
    "unknown": "in an unknown state",
}


def _make_cell(trace: Trace, position: Position, is_late: bool) -> RankCell:
    call = position.current
    state = {"finished": "ended", "inside": "waiting", "outside": "running"}.get(
        position.state, "unknown"
    )
    colour = "q3" if call is None else name_operation_colour(call.operation)
    host = str(trace.tables.processes.get(position.rank, {}).get("host") or "?")
    note = f"rank {position.rank}: {describe_call(trace, position)}"
    return RankCell(position.rank, host, "late" if is_late else state, colour, note)


def draw_moments(trace: Trace, positions: Positions, verdict: Verdict) -> DataPicture | None:
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
            "" if _has_open(spans[rank]) else describe_call(trace, positions[rank]),
        )
        for rank in shown
    ]
    label = "Last calls of some ranks"
    svg = last_moments.draw_last_moments(rows, begin, max(end, begin + 1), label)
    values = last_moments.list_values(rows)
    return DataPicture(svg, values, "The last moments", MOMENTS_HOW_TO_READ)


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
            _label_call(call),
        )
        for _, call in sorted(calls.items())
    ]


def _label_call(call: Call | MessageWait) -> str:
    if isinstance(call, MessageWait) and call.messages:
        message = call.messages[0]
        way = "from" if message.received else "to"
        peer = "any rank" if message.peer < 0 else f"rank {message.peer}"
        tag = "" if message.tag < 0 else f", tag {message.tag}"
        return f"{call.operation} {way} {peer}{tag}"
    return call.operation
