"""The trace folder of a program that is about to start: its name, and whether it can be made."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.launch import job
from mpiprof.launch.program import Program

NAME_LENGTH = 180  # of the program's name in a folder name, which may have 255 bytes
COMPONENT_LENGTH = 255
PATH_LENGTH = 4000  # the recorder's limit is 4096 bytes, including the name of a file in the folder
RANK_BYTES = 2 << 16  # initial size of a rank's log


def trace_name_prefix(program: Program) -> str:
    """Return the prefix of this program's trace folders."""
    return "mpiprof-" + re.sub(r"[^A-Za-z0-9._+-]", "_", program.name)[:NAME_LENGTH]


def make_dated_name(program: Program) -> str:
    """Return a name for a trace folder that starts now, which does not exist yet."""
    while True:
        name = f"{trace_name_prefix(program)}-{time.strftime('%Y%m%d-%H%M%S')}"
        if not os.path.lexists(name):
            return name
        time.sleep(0.2)


def make_job_trace_name(program: Program, environment: Mapping[str, str]) -> str:
    """Return a folder name that all processes of a job (or of its node) compute on their own."""
    is_mpmd = (job.count_mpmd_parts(environment) or 1) > 1  # each part has a different program
    base = "mpiprof" if is_mpmd else trace_name_prefix(program)
    return f"{base}-job-{job.make_job_id(environment)}"


def check_creatable(folder: Path, ranks: int) -> None:
    """Raise MpiprofError unless a trace of so many ranks can be started in a folder."""
    existing, refusal = folder.absolute(), f"no trace can be written to {folder}"
    if len(os.fsencode(existing)) > PATH_LENGTH:
        raise MpiprofError(f"{folder}: the path of the trace folder is too long")
    while not os.path.lexists(existing):
        if len(os.fsencode(existing.name)) > COMPONENT_LENGTH:
            raise MpiprofError(f"{folder}: the name of the folder is too long")
        existing = existing.parent
    if not existing.is_dir():
        raise MpiprofError(f"{refusal}: {existing} is not a folder")
    if folder.is_symlink():
        raise MpiprofError(f"{refusal}: it is a link: name the folder itself")
    try:
        probe = existing / f".mpiprof-{os.uname().nodename}-{os.getpid()}"
        probe.touch(0o600, exist_ok=False)
        owner = probe.stat().st_uid  # on some file systems the owner is another user
        probe.unlink()
        disk = os.statvfs(existing)
    except OSError as error:
        raise MpiprofError(f"{refusal}: {existing}: {error.strerror}") from error
    if existing == folder.absolute() and existing.stat().st_uid not in (owner, os.geteuid()):
        raise MpiprofError(f"{refusal}: it belongs to another user")
    # Network file systems may report no size.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < ranks * RANK_BYTES:
        raise MpiprofError(f"{refusal}: the disk is full")


def check_no_earlier_trace(
    folder: Path, environment: Mapping[str, str], *, partial: bool = False
) -> None:
    """Raise UsageError if a folder already has an earlier trace."""
    # Other processes of the same job may have started to write into it. So files newer than the
    # launcher belong to the job, unless the folder names another job, which may have ended just
    # before. Rank 0 checks for older files; every rank checks if rank 0 may run bare. All ranks
    # that know the job's name check for another job, on all nodes, because prterun may hang if one
    # rank leaves while others start.
    may_run_bare = partial or (job.count_mpmd_parts(environment) or 1) > 1
    rank = job.find_rank(environment)
    knows_job = rank == 0 or job.find_job_name(environment) is not None
    of_other_job = knows_job and _belongs_to_other_job(folder, environment)
    if (rank or 0) > 0 and not may_run_bare and not of_other_job:
        return
    launch_time = _parent_start_time() if rank is not None else None
    for pattern in ("meta.json", "rank-*.log", "node-*.log", "*.pack"):
        for path in folder.glob(pattern):
            if of_other_job or launch_time is None or path.stat().st_mtime < launch_time:
                remedy = "replace it with --force" if rank is None else "remove it"
                remedy = f"name another folder with -o, or {remedy}"
                raise UsageError(f"{folder} already holds a trace: {remedy}")


def _belongs_to_other_job(folder: Path, environment: Mapping[str, str]) -> bool:
    from mpiprof.interface.untrusted_files import read_file  # ranks import little

    try:
        return read_file(folder / ".job") != os.fsencode(job.make_job_id(environment))
    except (OSError, ValueError):
        return False


def _parent_start_time() -> float:
    """Return when the parent process started, in seconds since the epoch."""
    parent = job.read_process(os.getppid())
    if parent is None:
        return time.time()
    boot_time = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot_time + int(parent.start_ticks) / os.sysconf("SC_CLK_TCK") - 0.1
