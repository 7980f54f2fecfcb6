"""Work of blamed ranks in a window, by which they delay other ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mpiprof.timeline.window import Request, ResolvedRequest, Timeline

MAX_CAUSES = 600  # of a window, the longest first
MIN_PIXELS = 1.5  # length of the shortest mark


def order_blamed_ranks(ranks_of: Sequence[Sequence[int]], work: pd.DataFrame) -> list[int]:
    """Return the ranks of the findings that blame work; of each finding, the costliest first.

    ranks_of: of each finding. work: `Trace.derive("blamed_work")`.
    """
    ranks: dict[int, None] = {}
    for number in sorted(set(work["finding"].tolist())):
        cost_ns = work[work["finding"] == number].groupby("rank")["cost_ns"].sum()
        ranks |= dict.fromkeys(sorted(ranks_of[number], key=lambda rank: -cost_ns.get(rank, 0.0)))
    return list(ranks)


def list_causes(
    timeline: Timeline, request: Request, shown: ResolvedRequest, work: pd.DataFrame
) -> list[list[float]]:
    """Return [rank, begin, end, finding, waiting caused] of the longest blamed work in a window.

    work: `Trace.derive("blamed_work")`. Times are in ns after the begin. Ranks without a row are
    left out.
    """
    base = timeline.events.begin_ns
    begin, end = (base + ns for ns in timeline.clip_request(request))
    rank, first, last = (work[name].to_numpy(np.int64) for name in ("rank", "begin_ns", "end_ns"))
    length, rows = last - first, shown.rows.of_rank
    good = (last > begin) & (first < end)
    good &= length >= MIN_PIXELS * (end - begin) / request.pixels
    good &= rows[np.clip(rank, 0, len(rows) - 1)] >= 0
    chosen = np.flatnonzero(good)
    longest = np.sort(chosen[np.argsort(-length[chosen], kind="stable")[:MAX_CAUSES]])
    columns = (
        *(rank[longest], first[longest] - base, last[longest] - base),
        *(work[name].to_numpy()[longest] for name in ("finding", "cost_ns")),
    )
    return [list(row) for row in zip(*(of.tolist() for of in columns), strict=True)]
