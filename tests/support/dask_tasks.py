"""Tasks for workers: sums of call sites with the first worker killed, and page faults."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.account import aggregate


def sum_batch(marker: str, *arguments: Any) -> Any:
    """Return the sums of a batch; the first caller, which creates the marker, kills its process."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return aggregate.sum_batch(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def count_page_faults(pages: int) -> int:
    """Return the page faults of the last of several arrays, allocated one after another."""
    before = 0
    for _ in range(20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(pages * 4096, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
