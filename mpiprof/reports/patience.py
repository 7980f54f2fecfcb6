"""How long something is pending before it is taken for a hang: as `--watch` has told, or as usual.

What `--watch` has said of a job in a terminal `status` says as well, however short its limit was.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from mpiprof.analysis.patience import USUAL, Patience
from mpiprof.output import mode_in, replace_file

TOLD = ".watch"  # in a trace folder while `--watch` takes its job for hung: its limit
TIMES = 2  # the usual time at that place: a limit is as the user wants it


def of_limit(limit_s: float) -> Patience:
    """Return the patience of a limit in seconds."""
    return Patience(min(USUAL.ns, int(limit_s * 1e9)), TIMES)


def of_folder(folder: Path) -> Patience:
    """Return the patience with which a trace's job is judged."""
    try:
        return of_limit(float(json.loads((folder / TOLD).read_text())["limit_s"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return USUAL


def keep(folder: Path, limit_s: float) -> None:
    """Note that `--watch` says of a job that it hangs."""
    with contextlib.suppress(OSError):
        replace_file(folder / TOLD, json.dumps({"limit_s": limit_s}), mode_in(folder))


def forget(folder: Path) -> None:
    """Note that it goes on after all."""
    with contextlib.suppress(OSError):
        (folder / TOLD).unlink(missing_ok=True)
