"""Compress a trace in its folder: 3 to 6 bytes per event instead of 32, without loss.

  python -m mpiprof pack [TRACE]

Logs and tables become one file, trace.pack, beside meta.json. Every verb reads a packed trace as
before. A job that is still running cannot be packed. Without TRACE, the newest trace in this folder
is packed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.errors import TraceError
from mpiprof.interface.format_units import format_size
from mpiprof.interface.progress import show_progress
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    from mpiprof.trace.files import PlainFile
    from mpiprof.trace.records import Records

REMEDY = "pack it after the job has ended"
MIN_AGE_S = 120  # a job on another machine counts as ended if its files are unchanged for this time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a trace folder")


def run(args: argparse.Namespace) -> int:
    """Pack the trace and print the sizes."""
    from mpiprof.formats import pack_writer
    from mpiprof.hang import first_end, hang_threshold
    from mpiprof.trace import pack
    from mpiprof.trace.default_trace import choose_trace
    from mpiprof.trace.records import Records

    folder = choose_trace(args.trace)
    trace = Records(folder)
    # The verdict on a job that did not end depends on these.
    evidence = (first_end.FILE, hang_threshold.LIMIT_FILE)
    files = pack_writer.find_files(folder, evidence)
    packed = folder / pack.FILE_NAME
    if packed.exists():
        names = {member.name for member in pack.Pack(packed).members}
        pack_writer.remove([f for f in files if f.name in names])  # left by a killed `pack`
        print(f"{packed}: already packed, {format_size(packed.stat().st_size)}")
        return 0
    initial_states = [file_state(file) for file in files]
    refuse_running(trace, initial_states)
    total = sum(size for size, _ in initial_states)
    threads = sum(len(trace.thread_chunks(rank)) for rank in range(trace.ranks))
    with show_progress("packing", total) as step:
        pack_writer.write(folder, files, threads, step)
    if initial_states != [file_state(file) for file in files]:
        packed.unlink()
        raise TraceError(f"{folder}: the job has written to it during packing: {REMEDY}")
    pack_writer.remove(files)
    packed_size = format_size(packed.stat().st_size)
    print(f"{packed}: {packed_size} in place of {format_size(total)} in {len(files)} files")
    print(f"next: {format_command('report', folder)}")
    return 0


def file_state(file: PlainFile) -> tuple[int, int]:
    """Return the size and modification time of a file, which change on every write."""
    status = file.path.stat()
    return status.st_size, status.st_mtime_ns


def refuse_running(trace: Records, states: list[tuple[int, int]]) -> None:
    """Raise TraceError if the job may still write; `states` has the state of each file."""
    from mpiprof.hang.processes import find_alive

    recent = any(time.time_ns() - at < MIN_AGE_S * 10**9 for _, at in states)
    ended, living = trace.tables.ends, find_alive(trace)
    for rank in sorted(r for r, lives in living.items() if lives and (recent or r not in ended)):
        pid = trace.tables.processes[rank]["pid"]
        raise TraceError(f"{trace.path}: rank {rank} is running (process {pid}): {REMEDY}")
    recorded_ranks = trace.tables.processes.keys()
    if recent and any(r not in ended and r not in living for r in recorded_ranks):
        raise TraceError(
            f"{trace.path}: its job may still run on another machine, because not all ranks have "
            f"ended and the last write was less than {MIN_AGE_S} s ago: {REMEDY}"
        )
