"""What tests have workers do: sums of call sites, but the first who is asked is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from mpiprof.analysis import aggregate


def summed(marker: str, *arguments: Any) -> Any:
    """Return the sums of a batch; kill this process where the marker is not there yet."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return aggregate.summed(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    return None
