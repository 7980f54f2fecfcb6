"""Preparation of a long trace's timeline in a process of its own, beside the tables of the pages.

The process writes the cache entries that the dashboard then reads. Its standard input is one line
of JSON, the job. Its standard output has one line of JSON for each report of progress, and one for
an error. When the input ends, because the user cancels or the dashboard has ended, the process
removes its unfinished files and ends at its next report of progress.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.formats import cache, cached_trace
from mpiprof.trace import Trace

from .build import build_first_tiles, find_events, open_or_build
from .segments import Events, Progress
from .window import MissingTiles, Timeline

# Calls of a trace from which on it is prepared in a process. A thread prepares fewer calls in
# about the time in which a process imports its modules.
MIN_CALLS = 1 << 20
CALLS_SHARE = 0.75  # of the time of a preparation, for the calls; the rest is for the tiles
POLL_S = 0.1  # maximum time until the user's cancel reaches the process
INPUT, OUTPUT, ERRORS = 0, 1, 2
READ_BYTES = 1 << 16


class _StoppedError(Exception):
    """Raised in the process when its input has ended."""


def open_events(trace: Trace, key: str, progress: Progress) -> Events:
    """Return the segments of a trace from its cache, prepared before if the cache lacks them.

    A process also builds the tiles with which the timeline opens.

    Raises MpiprofError, OSError or cache.DamagedError as a preparation in this process does.
    """
    events = find_events(trace, key)
    if events is None and _has_process(trace):
        _run_process(_describe_job(trace, key), progress)
    return events or open_or_build(trace, key, progress)


def build_tiles(timeline: Timeline, need: MissingTiles, progress: Progress) -> None:
    """Build tiles in the cache; raises the errors of `open_events`."""
    if not _has_process(timeline.trace):
        timeline.build_tiles(need, progress)
        return
    job = _describe_job(timeline.trace, timeline.key)
    job |= {"name": need.name, "row_of": need.row_of.tolist(), "class_of": need.class_of.tolist()}
    _run_process(job, progress)
    entry = cache.find(timeline.trace.path, need.name, timeline.key)
    if entry is None:  # the trace has grown since the timeline was opened
        timeline.build_tiles(need, progress)
    else:
        entry.close()


def _has_process(trace: Trace) -> bool:
    """Return whether a process prepares the trace; workers are connected to this process only."""
    return trace.record_capacity >= MIN_CALLS and trace.workers is None


def _describe_job(trace: Trace, key: str) -> dict[str, Any]:
    return {"path": str(trace.path.resolve()), "key": key, "machine": trace.given_machine}


# In the dashboard


def _run_process(job: dict[str, Any], progress: Progress) -> None:
    """Run a job in a process, forward its progress, and raise its error.

    An exception that `progress` raises ends the process.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    pipe = subprocess.PIPE
    # In a session of its own the process gets no interrupt of the terminal, only the end of input.
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, bufsize=0, start_new_session=True
    )
    assert process.stdin is not None and process.stdout is not None
    # Leaving the block closes the input and waits for the end of the process.
    with process:
        with contextlib.suppress(BrokenPipeError):  # the exit code tells more
            _write_all(process.stdin.fileno(), json.dumps(job).encode() + b"\n")
        for message in _read_messages(process.stdout.fileno(), progress):
            if "error" in message:
                raise _make_error(message)
            progress(message["progress"])
    if process.returncode:
        fact = f"the process that prepares the timeline ended with code {process.returncode}"
        if process.returncode < 0:
            fact = f"signal {-process.returncode} ended the process that prepares the timeline"
        remedy = "check the free memory and the messages of `view`, and reload the page"
        raise MpiprofError(f"{fact}, so there is no timeline: {remedy}")


def _read_messages(output: int, progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield the messages of the process, and report the last progress again while it works."""
    share, pending = 0.0, b""
    while True:
        if not select.select([output], [], [], POLL_S)[0]:
            progress(share)
            continue
        part = os.read(output, READ_BYTES)
        if not part:
            return
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            message = json.loads(line)
            share = message.get("progress", share)
            yield message


def _make_error(message: dict[str, Any]) -> Exception:
    """Return the exception whose class and arguments the process has sent."""
    error_types: dict[str, type[Exception]] = {"damaged": cache.DamagedError, "system": OSError}
    return error_types.get(message["error"], MpiprofError)(*message["arguments"])


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


# In the process


def main() -> None:
    """Run the job that standard input describes."""
    # Output of other code must not mix with the messages.
    output = os.dup(OUTPUT)
    os.dup2(ERRORS, OUTPUT)

    def send(**message: Any) -> None:
        try:
            _write_all(output, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise _StoppedError from None

    def report(share: float) -> None:
        if select.select([INPUT], [], [], 0)[0]:
            raise _StoppedError
        send(progress=share)

    with contextlib.suppress(_StoppedError):
        job = _read_job()
        try:
            _run_job(job, report)
        except MpiprofError as error:
            send(error="mpiprof", arguments=[str(error)])
        except cache.DamagedError as error:
            send(error="damaged", arguments=[str(error)])
        except OSError as error:
            name = None if error.filename is None else str(error.filename)
            has_number = error.errno is not None
            details = [error.errno, error.strerror, name] if has_number else [str(error)]
            send(error="system", arguments=details)


def _read_job() -> dict[str, Any]:
    """Return the job; raises _StoppedError if the input ends before."""
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(INPUT, READ_BYTES)
        if not part:
            raise _StoppedError
        text += part
    job: dict[str, Any] = json.loads(text)
    return job


def _run_job(job: dict[str, Any], progress: Progress) -> None:
    """Write the entries of a job, unless the trace has grown since the job was described."""
    progress(0.0)
    trace = cached_trace.open_trace(Path(job["path"]), machine=job["machine"])
    if cached_trace.cache_key(trace) != job["key"]:
        return
    if "name" in job:
        timeline = Timeline(trace, open_or_build(trace, job["key"]), job["key"])
        row_of, class_of = (np.array(job[name], np.int64) for name in ("row_of", "class_of"))
        timeline.build_tiles(MissingTiles(job["name"], row_of, class_of), progress)
        return
    events = open_or_build(trace, job["key"], lambda share: progress(CALLS_SHARE * share))
    # The first picture needs its tiles at once. Another process would import and open again.
    build_first_tiles(
        Timeline(trace, events, job["key"]),
        lambda share: progress(CALLS_SHARE + (1 - CALLS_SHARE) * share),
    )
