"""A task for workers: sums of call sites, with the first worker killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from mpiprof.account import aggregate


def summed(marker: str, *arguments: Any) -> Any:
    """Return the sums of a batch; the first caller, which creates the marker, kills its process."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return aggregate.sum_batch(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    return None
