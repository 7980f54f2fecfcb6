"""Time limit after which a pending operation counts as a hang: from `--watch`, or the default.

If `--watch` has reported a hang in a terminal, `status` reports it too, however short the limit.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from mpiprof.hang.hang_threshold import USUAL, Patience
from mpiprof.interface.output_files import mode_in, replace_file

TOLD = ".watch"  # file with the limit, in the trace folder while `--watch` reports a hang
TIMES = 2  # multiple of the usual time at the call site that must pass as well


def of_limit(limit_s: float) -> Patience:
    """Return the hang limit for a limit in seconds."""
    return Patience(min(USUAL.ns, int(limit_s * 1e9)), TIMES)


def of_folder(folder: Path) -> Patience:
    """Return the hang limit for a trace's job."""
    try:
        return of_limit(float(json.loads((folder / TOLD).read_text())["limit_s"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return USUAL


def keep(folder: Path, limit_s: float) -> None:
    """Store that `--watch` reports the job as hung."""
    with contextlib.suppress(OSError):
        replace_file(folder / TOLD, json.dumps({"limit_s": limit_s}), mode_in(folder))


def forget(folder: Path) -> None:
    """Remove the stored limit because the job continues."""
    with contextlib.suppress(OSError):
        (folder / TOLD).unlink(missing_ok=True)
