"""Removes a trace that a new recording replaces (`run --force`), and nothing else."""

from __future__ import annotations

import fnmatch
import os
import shutil
import time
from pathlib import Path

from mpiprof.errors import MpiprofError, TraceError, UsageError
from mpiprof.hang.processes import find_alive
from mpiprof.trace.records import Records

TRACE_FILES = (
    ".job",
    "meta.json",
    *(f"{name}-*.{ending}" for name in ("rank", "node") for ending in ("log", "tables")),
    "trace.pack",
    ".trace.pack.*",
    "selection.jsonl",
    "switches.txt",
    "on-hang.txt",
    ".watch*",
    ".first-end",
)
CACHE_FOLDER = "cache"
RECENT_S = 120  # a job without calls for so long has ended


def check_removable(folder: Path) -> None:
    """Raise UsageError unless a folder is absent, empty, or has an ended trace and nothing else."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise _refusal(folder, "it is a link or a file: remove it, or name another folder with -o")
    if folder.stat().st_uid != os.geteuid():
        raise _refusal(folder, "it belongs to another user: name another folder with -o")
    try:
        entries = sorted(folder.iterdir())
        foreign = next((path for path in entries if not _is_trace_entry(path)), None)
    except OSError as error:
        raise _refusal(folder, f"{error.strerror}: name another folder with -o") from None
    if foreign is not None:
        why = f"it contains {foreign.name}, which is not a file of a trace"
        raise _refusal(folder, f"{why}: move that file elsewhere")
    if not entries:
        return
    try:
        trace = Records(folder)
    except TraceError as error:
        raise _refusal(folder, f"it contains no readable trace ({error})") from None
    _refuse_running(folder, trace)


def remove(folder: Path) -> None:
    """Remove a folder that `check_removable` has accepted; raises MpiprofError if that fails."""
    if not os.path.lexists(folder):
        return
    path = folder.absolute()
    aside = path.with_name(f".{path.name}-replaced-{os.getpid()}")
    try:
        # A crash leaves either the whole trace, or a part under a hidden name.
        path.rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        why = f"{error.strerror}: name another folder with -o"
        raise MpiprofError(f"--force cannot remove {folder}: {why}") from None


def _is_trace_entry(path: Path) -> bool:
    """Return whether the recorder or a verb creates such an entry in a trace folder."""
    if path.name == CACHE_FOLDER and path.is_dir() and not path.is_symlink():
        return all(_is_file(entry, ("*.cache", ".*.part")) for entry in path.iterdir())
    return _is_file(path, TRACE_FILES)


def _is_file(path: Path, patterns: tuple[str, ...]) -> bool:
    matches = any(fnmatch.fnmatchcase(path.name, pattern) for pattern in patterns)
    return matches and path.is_file() and not path.is_symlink()


def _refuse_running(folder: Path, trace: Records) -> None:
    """Raise UsageError if a process of the trace's job runs, or may run on another machine."""
    written = max(path.lstat().st_mtime for path in folder.iterdir())
    ended, living = trace.tables.ends, find_alive(trace)
    for rank, process in sorted(trace.tables.processes.items()):
        if living.get(rank) and (rank not in ended or time.time() - written < RECENT_S):
            raise _refusal(folder, f"its job is running (rank {rank} is process {process['pid']})")
        if rank not in living and rank not in ended:
            why = f"its job may be running: rank {rank} on {process['host']} has not ended"
            remedy = "remove the folder yourself, or name another folder with -o"
            raise _refusal(folder, f"{why}: {remedy}")


def _refusal(folder: Path, why: str) -> UsageError:
    return UsageError(f"--force does not replace {folder}: {why}")
