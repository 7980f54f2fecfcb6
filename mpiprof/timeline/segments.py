"""Every segment of every rank in order of time, in one file: what the timeline is drawn from.

A segment is a stretch of time inside an MPI call: a blocking collective; of a nonblocking or
started one the call, and its share of the Wait that completed it. Segments stand rank by rank, in
blocks of BLOCK, with the times of each block in memory: any window of time is a few reads.
Instances are numbered as the rows of `trace.instances`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mpiprof.store import cache
from mpiprof.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

NAME = "timeline"
BLOCK = 128
PIECE = 1 << 20  # segments in memory at a time
OPEN, COMPLETION = 1, 2  # flags; what is open has not ended when the trace does
Progress = Callable[[float], None]

SEGMENT = np.dtype(
    [
        ("enter", "<i8"),  # ns on the joint clock
        ("exit", "<i8"),
        ("wait", "<f4"),  # ns from `enter` on in which only another rank was missing
        ("flags", "<u4"),
        ("shape", "<i4"),
        ("instance", "<i4"),
    ]
)
INSTANCE = np.dtype(
    [
        ("first_arrival", "<i8"),  # ns on the joint clock, as the next two
        ("last_arrival", "<i8"),  # -1 where somebody is absent
        ("last_exit", "<i8"),  # -1 while one is open
        ("sequence", "<i8"),
        ("start", "<i8"),
        ("communicator", "<i4"),
        ("callsite", "<i4"),
        ("algorithm", "<i4"),
        ("first_rank", "<i4"),
        ("last_rank", "<i4"),
        ("choice", "<i4"),  # index into CHOICES
        ("number", "<i4"),  # among those of its call site, by first arrival
        ("wait", "<f8"),  # summed over ranks; NaN unless complete, as the next
        ("worst_imbalance", "<f8"),
        ("worst_factor", "<f8"),
        ("bytes", "<f8"),
    ]
)
BLOCKS = np.dtype([("enter", "<i8"), ("exit", "<i8"), ("at", "<i8"), ("rank", "<i4"), ("n", "<i4")])


class Events:
    """The segments and instances of a trace, read where they are asked for."""

    def __init__(self, entry: cache.Entry, trace: Trace) -> None:
        self.entry = entry
        self.ranks = trace.ranks
        self.shapes = len(trace.tables.shapes)
        self.blocks = entry.array("blocks", BLOCKS)
        self.lateness = entry.array("lateness", "<f8")
        self.calls = entry.array("calls", "<i8")  # segments of each shape
        self.instances = entry.count("instances")
        self.meta = entry.meta
        b = self.blocks
        good = len(self.lateness) == self.ranks and len(self.calls) == max(self.shapes, 1)
        good = good and (
            not len(b)
            or (
                b["rank"].min() >= 0
                and b["rank"].max() < self.ranks
                and b["n"].min() > 0
                and b["n"].max() <= BLOCK
                and b["at"].min() >= 0
                and int((b["at"] + b["n"]).max()) <= entry.count("segments")
            )
        )
        if not good or not {"begin_ns", "end_ns", "segments", "algorithms"} <= set(self.meta):
            raise cache.DamagedError("blocks that cannot be")
        self.begin_ns, self.end_ns = int(self.meta["begin_ns"]), int(self.meta["end_ns"])

    def _hit(self, t0: int, t1: int, ranks: Bool | None) -> Int:
        b = self.blocks
        hit = (b["enter"] < t1) & (b["exit"] >= t0)
        if ranks is not None:
            hit &= ranks[b["rank"]]
        return np.flatnonzero(hit)

    def estimate(self, t0: int, t1: int, ranks: Bool | None = None) -> int:
        """Return an upper bound of the segments in a window; `ranks` says which of them count."""
        return int(self.blocks["n"][self._hit(t0, t1, ranks)].sum())

    def pieces(self, t0: int, t1: int, ranks: Bool | None = None) -> Iterator[tuple[Array, Int]]:
        """Yield all segments with a part in t0 <= t < t1, at most PIECE at a time, with ranks."""
        hit = self._hit(t0, t1, ranks)
        for first in range(0, len(hit), PIECE // BLOCK):
            yield self._read(self.blocks[hit[first : first + PIECE // BLOCK]], t0, t1)

    def window(self, t0: int, t1: int, ranks: Bool | None = None) -> tuple[Array, Int]:
        """Return all of `pieces`; see `estimate` for how many that may be."""
        found = [(np.zeros(0, SEGMENT), np.zeros(0, np.int64)), *self.pieces(t0, t1, ranks)]
        return np.concatenate([s for s, _ in found]), np.concatenate([r for _, r in found])

    def _read(self, blocks: Array, t0: int, t1: int) -> tuple[Array, Int]:
        ends = blocks["at"] + blocks["n"]
        new = np.flatnonzero(np.concatenate([[True], blocks["at"][1:] != ends[:-1]]))
        lasts = np.concatenate([new[1:], [len(blocks)]]) - 1
        spans = zip(blocks["at"][new].tolist(), ends[lasts].tolist(), strict=True)
        found = self.entry.read_all("segments", list(spans), SEGMENT)
        ranks = np.repeat(blocks["rank"].astype(np.int64), blocks["n"])
        inside = (found["enter"] < t1) & ((found["exit"] > t0) | (found["enter"] >= t0))
        if not inside.all():
            found, ranks = found[inside], ranks[inside]
        bad = (found["shape"] < 0) | (found["shape"] >= self.shapes)
        if bad.any() or (found["exit"] < found["enter"]).any():
            raise cache.DamagedError("segments that cannot be")
        return found, ranks

    def instance(self, first: int, last: int) -> Array:
        """Return instances first .. last - 1, as far as there are any."""
        first, last = max(first, 0), max(min(last, self.instances), 0)
        return self.entry.read("instances", min(first, last), last, INSTANCE)

    def members(self, number: int) -> tuple[Array, Int]:
        """Return the segments of an instance, and their ranks."""
        row = self.instance(number, number + 1)[0]
        begin = int(row["first_arrival"])
        end = int(row["last_exit"]) if row["last_exit"] >= begin else self.end_ns
        found, ranks = self.window(begin, max(end, begin) + 1)
        of = found["instance"] == number
        return found[of], ranks[of]
