"""Converts ticks of an archive's clock to nanoseconds, rounded to the nearest."""

from __future__ import annotations

import numpy as np

from mpiprof.formats.otf2.definitions import Definitions
from mpiprof.formats.otf2.library import NEVER
from mpiprof.trace.types import Array, Int

SECOND = 10**9
EXACT = (1 << 64) // SECOND  # ticks per second up to which a second's ticks times 10^9 fit
LATEST = 1 << 60  # ns; later times count from the archive's begin


class Ticks:
    """The clock of an archive."""

    def __init__(self, definitions: Definitions) -> None:
        self.resolution = definitions.resolution or SECOND
        late = definitions.offset > LATEST // SECOND * self.resolution
        self.origin = definitions.offset if late else 0

    def spans(self, ticks: Array) -> Int:
        """Convert numbers of ticks (uint64) to ns (int64)."""
        if self.resolution == SECOND:
            return ticks.astype(np.int64)
        if self.resolution > EXACT:
            scaled = np.rint(ticks.astype(np.longdouble) * SECOND / self.resolution)
            return np.asarray(scaled, np.int64)
        whole, rest = np.divmod(ticks, np.uint64(self.resolution))
        rest = (rest * np.uint64(SECOND) + np.uint64(self.resolution // 2)) // np.uint64(
            self.resolution
        )
        found: Int = (whole * np.uint64(SECOND) + rest).astype(np.int64)
        return found

    def times(self, ticks: Array) -> Int:
        """Convert times (uint64 ticks) to ns, with 0 for NEVER."""
        never = ticks == NEVER
        since = np.maximum(ticks, np.uint64(self.origin)) - np.uint64(self.origin)
        return self.spans(np.where(never, 0, since))

    def time(self, ticks: int) -> int:
        """Return one time in ns."""
        return int(self.times(np.array([ticks], np.uint64))[0])
