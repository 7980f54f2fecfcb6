"""Logs of a running job: all passes of a report read the same records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mpiprof.trace.files import PlainFile
from mpiprof.trace.log import LogFile
from mpiprof.trace.types import CALL, Array, Problems
from mpiprof.trace.writer import RECORD_TYPE, make_chunks, make_head_chunk


def write_calls(path: Path, calls: int) -> None:
    """Write the log of a running process with some calls, of which the last one is open."""
    records = np.zeros(calls, RECORD_TYPE)
    records["kind"], records["enter_ns"] = CALL, np.arange(1, calls + 1)
    records["exit_ns"][:-1] = records["enter_ns"][:-1] + 1
    path.write_bytes(make_head_chunk() + make_chunks(records, 0, 0, 0, window=True))


def open_live(path: Path) -> LogFile:
    return LogFile(PlainFile(path), Problems(), live=True)


def read_calls(log: LogFile) -> Array:
    """Return the calls as two readers find them: by record, and by chunk."""
    records = log.read([(1, 0, log.layout.capacity)])
    (chunk,) = (block[0].copy() for block in log.read_intact([1]) if len(block))
    assert chunk.tobytes() == records.tobytes()
    calls: Array = records[records["kind"] == CALL]
    return calls


def test_records_that_a_process_adds_after_a_read_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "rank-000000.log"
    write_calls(path, 5)
    log = open_live(path)
    assert len(read_calls(log)) == 5
    write_calls(path, 9)
    assert len(read_calls(log)) == 5
    assert len(read_calls(open_live(path))) == 9


def test_a_log_that_is_opened_shows_what_is_written_until_its_first_read(tmp_path: Path) -> None:
    path = tmp_path / "rank-000000.log"
    write_calls(path, 5)
    log = open_live(path)
    write_calls(path, 9)
    assert len(read_calls(log)) == 9
