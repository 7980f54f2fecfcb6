"""Selects the trace of a verb if the user names none."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from pathlib import Path

from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.nearest_name import MIN_SIMILARITY
from mpiprof.interface.shell_hints import quote_word

OTF2 = ".otf2"  # anchor file of an archive, which stands for the archive's folder


def choose_trace(name: Path | None) -> Path:
    """Return the named trace folder, or the newest one below the current folder."""
    if name is not None:
        if not name.exists():
            origin = f"seen from {Path.cwd()}"
            remedy = _suggest_name(name) or ": name a trace folder, as `run` prints it"
            raise UsageError(f"{name}: no such trace folder ({origin}){remedy}")
        if not name.is_dir() and name.suffix != OTF2:
            if _start_time(name.parent):
                raise UsageError(f"{name}: not a folder: pass the trace folder {name.parent}")
            remedy = "record a trace with `python -m mpiprof run`, and name its folder"
            raise UsageError(f"{name}: not a trace folder: {remedy}")
        return name
    traces = [path for path in Path().glob("mpiprof-*") if path.is_dir() and _start_time(path)]
    if not traces:
        for folder in (Path.cwd(), *Path().glob("mpiprof-*")):
            if not os.access(folder, os.R_OK):
                raise TraceError(f"{folder}: cannot be read: {os.strerror(errno.EACCES)}")
        remedy = "name a trace, or record one with `python -m mpiprof run app.py`"
        raise TraceError(f"no trace in {Path.cwd()}: {remedy}")
    return max(traces, key=_start_time)


def _suggest_name(name: Path) -> str:
    """Return a suggestion if a trace beside the missing folder has nearly its name, else ""."""
    with contextlib.suppress(OSError):
        siblings = [p.name for p in name.parent.iterdir() if p.is_dir() and _start_time(p)]
        close = difflib.get_close_matches(name.name, siblings, 1, MIN_SIMILARITY)
        return f"; did you mean {quote_word(name.parent / close[0])}?" if close else ""
    return ""


def _start_time(folder: Path) -> float:
    """Return when a trace was started, or 0 for a folder without a trace."""
    names = ("meta.json", "rank-*.tables", "node-*.tables", "rank-*.log", "node-*.log", "*.pack")
    times = [path.stat().st_mtime for name in names for path in folder.glob(name)]
    return times[0] if times else 0.0
