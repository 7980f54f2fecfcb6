"""Time limit after which a pending operation counts as a hang: from `--watch`, or the default.

If `--watch` has reported a hang in a terminal, `status` reports it too, however short the limit.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from mpiprof.hang.hang_threshold import DEFAULT_THRESHOLD, HangThreshold
from mpiprof.interface.output_files import file_mode_in, replace_file

LIMIT_FILE = ".watch"  # file with the limit, in the trace folder while `--watch` reports a hang
USUAL_FACTOR = 2  # multiple of the usual time at the call site that must pass as well


def make_threshold(limit_s: float) -> HangThreshold:
    """Return the hang limit for a limit in seconds."""
    return HangThreshold(min(DEFAULT_THRESHOLD.ns, int(limit_s * 1e9)), USUAL_FACTOR)


def read_threshold(folder: Path) -> HangThreshold:
    """Return the hang limit for a trace's job."""
    try:
        return make_threshold(float(json.loads((folder / LIMIT_FILE).read_text())["limit_s"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return DEFAULT_THRESHOLD


def store_limit(folder: Path, limit_s: float) -> None:
    """Store that `--watch` reports the job as hung."""
    with contextlib.suppress(OSError):
        replace_file(folder / LIMIT_FILE, json.dumps({"limit_s": limit_s}), file_mode_in(folder))


def remove_limit(folder: Path) -> None:
    """Remove the stored limit because the job continues."""
    with contextlib.suppress(OSError):
        (folder / LIMIT_FILE).unlink(missing_ok=True)
