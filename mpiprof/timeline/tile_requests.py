"""Requests with the tiles that they need, and the tiles of a timeline's first picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.timeline.row_layout import COLOURS, SORTS
from mpiprof.timeline.segments import Progress
from mpiprof.timeline.window import MAX_PIXELS, MissingTiles, Request, ResolvedRequest, Timeline

TILE_SETS = 2  # of all ranks, and of the ranks that rows show


def resolve_with_tiles(
    timeline: Timeline, wanted: Request, build: Callable[[MissingTiles], None]
) -> ResolvedRequest:
    """Return a resolved request; `build` builds missing tiles before.

    Raises MpiprofError if the cache lacks tiles after they have been built.
    """
    for _ in range(TILE_SETS):
        resolved = timeline.resolve(wanted)
        if not isinstance(resolved, MissingTiles):
            return resolved
        build(resolved)
    resolved = timeline.resolve(wanted)
    if isinstance(resolved, MissingTiles):
        raise MpiprofError("the cache of the trace cannot be written: check the free disk space")
    return resolved


def build_first_tiles(timeline: Timeline, progress: Progress) -> None:
    """Build the tiles of the whole run of all ranks, with which a timeline opens."""
    ranks = np.arange(timeline.trace.ranks, dtype=np.int64)
    wanted = Request(0, timeline.length_ns, MAX_PIXELS, COLOURS[0], SORTS[0], frozenset(), ranks)
    done = 0

    def build(need: MissingTiles) -> None:
        nonlocal done
        timeline.build_tiles(need, lambda share: progress((done + share) / TILE_SETS))
        done += 1

    resolve_with_tiles(timeline, wanted, build)
    progress(1.0)
