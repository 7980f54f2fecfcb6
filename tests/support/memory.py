"""What memory costs a process."""

from __future__ import annotations

import resource

import numpy as np


def faults(pages: int) -> int:
    """Return the page faults of the last of some arrays, one after the other, of so many pages."""
    before = 0
    for _ in range(20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(pages * 4096, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
