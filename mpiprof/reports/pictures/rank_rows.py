"""Rows of a picture of ranks: runs of ranks, and a lens for the late rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.interface.tokens import SIZE
from mpiprof.trace.types import Float, Int

MAX_ROWS = 256
HEIGHT_PX = 330  # of all rows together
LENS_PX = float(SIZE["lens_row"])  # least height of the late rank's row
MAX_HOSTS, RANK_TICKS = 12, 9  # labels of the axis


def run_starts(count: int, max_runs: int) -> Int:
    """Return the first index of each of at most `max_runs` runs of `count` items.

    Item i is in run i * runs // count, as in `account.arrival_pattern`.
    """
    runs = min(max_runs, count)
    return -(-np.arange(runs) * count // max(runs, 1))


@dataclass(frozen=True)
class RankRows:
    """Rows from top to bottom.

    starts: index of the first member of each row. edges: borders of the rows in px from the top.
    late_row: row of the late rank alone, or None.
    """

    members: Int
    starts: Int
    edges: Float
    late_row: int | None

    @property
    def centres(self) -> Float:
        """Return the centre of each row in px from the top."""
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2)

    @property
    def counts(self) -> Int:
        """Return the number of ranks of each row."""
        return np.diff(self.starts, append=len(self.members))

    def find_row(self, y: float) -> int:
        """Return the row at y px from the top."""
        at = int(np.searchsorted(self.edges, y, "right")) - 1
        return min(max(at, 0), len(self.starts) - 1)

    def ranks_of(self, row: int) -> Int:
        """Return the ranks of a row."""
        start = int(self.starts[row])
        return self.members[start : start + int(self.counts[row])]

    def rows_of(self, ranks: Int) -> Int:
        """Return the row of each rank, which must be a member."""
        at = np.searchsorted(self.members, ranks)
        return np.asarray(np.searchsorted(self.starts, at, "right") - 1)


def make_rank_rows(members: Int, late_rank: int | None, max_rows: int = MAX_ROWS) -> RankRows:
    """Return at most `max_rows` rows of equal height; the late rank has a row of its own.

    members: world ranks, ascending. The late rank's row has at least LENS_PX.
    """
    count = len(members)
    starts = run_starts(count, max_rows)
    late_row = None
    at = int(np.searchsorted(members, -1 if late_rank is None else late_rank))
    if late_rank is not None and at < count and members[at] == late_rank:
        starts = np.unique([*starts.tolist(), at, *([at + 1] if at + 1 < count else [])])
        late_row = int(np.searchsorted(starts, at))
    heights = np.full(len(starts), HEIGHT_PX / max(len(starts), 1))
    if late_row is not None and len(starts) > 1 and heights[late_row] < LENS_PX:
        heights[:] = (HEIGHT_PX - LENS_PX) / (len(starts) - 1)
        heights[late_row] = LENS_PX
    return RankRows(members, starts, np.concatenate([[0.0], np.cumsum(heights)]), late_row)


def make_row_ticks(rows: RankRows, hosts: list[str]) -> tuple[list[float], list[str]]:
    """Return positions and labels of the axis: hosts if there are a few, else some ranks.

    hosts: host of each member. The late rank's label replaces labels that it would cover.
    """
    centres = rows.centres
    row_hosts = [hosts[start] for start in rows.starts.tolist()]
    names = list(dict.fromkeys(row_hosts))
    labels: list[tuple[float, str]] = []
    if 1 < len(names) <= MAX_HOSTS:
        for name in names:
            of = [c for c, host in zip(centres.tolist(), row_hosts, strict=True) if host == name]
            labels.append((float(np.mean(of)), name[:12]))
    else:
        at = np.unique(np.linspace(0, len(centres) - 1, min(RANK_TICKS, len(centres))).astype(int))
        labels = [(float(centres[i]), f"rank {rows.members[rows.starts[i]]}") for i in at.tolist()]
    if rows.late_row is not None:
        late = float(centres[rows.late_row])
        labels = [label for label in labels if abs(label[0] - late) > LENS_PX]
        labels.append((late, f"<b>rank {rows.ranks_of(rows.late_row)[0]}</b>"))
    labels.sort()
    return [y for y, _ in labels], [text for _, text in labels]
