"""Measures the page faults of arrays."""

from __future__ import annotations

import resource

import numpy as np


def faults(pages: int) -> int:
    """Return the page faults of the last of several arrays, allocated one after another."""
    before = 0
    for _ in range(20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(pages * 4096, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
