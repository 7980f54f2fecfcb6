"""Converts ticks of an archive's clock to nanoseconds, rounded to the nearest."""

from __future__ import annotations

import numpy as np

from mpiprof.formats.otf2.definitions import Definitions
from mpiprof.formats.otf2.library import NEVER
from mpiprof.trace.types import Array, Int

NS_PER_SECOND = 10**9
# Ticks per second up to which a second's ticks times 10^9 fit into 64 bits.
EXACT_BELOW = (1 << 64) // NS_PER_SECOND
LATEST_NS = 1 << 60  # ns; later times count from the archive's begin


class ArchiveClock:
    """The clock of an archive."""

    def __init__(self, definitions: Definitions) -> None:
        self.resolution = definitions.resolution or NS_PER_SECOND
        late = definitions.offset > LATEST_NS // NS_PER_SECOND * self.resolution
        self.origin = definitions.offset if late else 0

    def spans_to_ns(self, ticks: Array) -> Int:
        """Convert numbers of ticks (uint64) to ns (int64)."""
        if self.resolution == NS_PER_SECOND:
            return ticks.astype(np.int64)
        if self.resolution > EXACT_BELOW:
            scaled = np.rint(ticks.astype(np.longdouble) * NS_PER_SECOND / self.resolution)
            return np.asarray(scaled, np.int64)
        second, resolution = np.uint64(NS_PER_SECOND), np.uint64(self.resolution)
        whole, part = np.divmod(ticks, resolution)
        part = (part * second + resolution // np.uint64(2)) // resolution
        found: Int = (whole * second + part).astype(np.int64)
        return found

    def times_to_ns(self, ticks: Array) -> Int:
        """Convert times (uint64 ticks) to ns, with 0 for NEVER."""
        never = ticks == NEVER
        since = np.maximum(ticks, np.uint64(self.origin)) - np.uint64(self.origin)
        return self.spans_to_ns(np.where(never, 0, since))

    def time_to_ns(self, ticks: int) -> int:
        """Return one time in ns."""
        return int(self.times_to_ns(np.array([ticks], np.uint64))[0])
