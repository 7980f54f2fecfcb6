"""Sums over a span of time: calls, time and wait of each operation and of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.trace.types import Float

from . import row_layout
from .sums import sum_events
from .tiles import SUMS
from .window import Request, ResolvedRequest, Timeline, choose_level

BINS = 256  # minimum bins within the span, about; its ends are summed exactly


def sum_span(timeline: Timeline, request: Request, resolved: ResolvedRequest) -> dict[str, Any]:
    """Return the sums over the span of a request, coloured by operation.

    from, to: ns after the begin. rank_time: ns of all shown ranks together. operations (by time)
    and rows (by wait) are sorted, the largest first. They have name, count (calls that begin in the
    span), inside (ns in collectives) and wait (ns of waiting therein). A row also has its number of
    ranks.
    """
    begin, end = timeline.clip_request(request)
    level = choose_level(end - begin, BINS)
    first, last = -(-begin >> level), end >> level
    if first < last:
        parts = [
            timeline.compute_sums(resolved.tiles, resolved, request.colour, level, first, last).sum(
                2
            )
        ]
        ends = [(begin, first << level), (last << level, end)]
    else:
        parts, ends = [], [(begin, end)]
    parts += [_sum_exactly(timeline, resolved, a, b) for a, b in ends if a < b]
    count, inside, wait = np.sum(parts, axis=0)

    def sort_sums(names: list[str], axis: int, by: Float) -> list[dict[str, Any]]:
        counts, times, waits = (array.sum(axis).tolist() for array in (count, inside, wait))
        sums = []
        for i in np.argsort(-by.sum(axis), kind="stable").tolist():
            row = {"name": names[i], "count": round(counts[i]), "inside": times[i]}
            sums.append(row | {"wait": waits[i], "at": i})
        return sums

    ranks = resolved.rows.ranks
    rows = sort_sums([row_layout.label_ranks(r) for r in ranks], 1, wait)
    return {
        "from": begin,
        "to": end,
        "rank_time": (end - begin) * sum(len(r) for r in ranks),
        "operations": [o for o in sort_sums(resolved.states.names, 0, inside) if o["inside"] > 0],
        "rows": [row | {"ranks": len(ranks[row["at"]])} for row in rows],
    }


def _sum_exactly(timeline: Timeline, resolved: ResolvedRequest, begin: int, end: int) -> Float:
    """Return SUMS x rows x states of a span, computed call by call."""
    a, b = begin + timeline.events.begin_ns, end + timeline.events.begin_ns
    size = len(resolved.rows.ranks), len(resolved.states.names)
    total = np.zeros((len(SUMS), *size))
    for segments, ranks in timeline.events.read_pieces(a, b, resolved.rows.of_rank >= 0):
        state = resolved.segment_states(segments)
        total += sum_events(segments, resolved.rows.of_rank[ranks], state, (a, b), size)[:, :, 0]
    return total
