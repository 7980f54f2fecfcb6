"""Calls of one rank on windows and files are recorded by call site."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.causes.findings import find_call_free_stretch
from mpiprof.core.generator.collectives import functions
from mpiprof.facts.operations import LOCAL_OPERATIONS, call_class, function_name
from mpiprof.reports.message_table import local_section

STEPS, LATE_NS = 20, 20_000_000  # as in local_calls.c
OTHERS = (*("win_lock", "get", "win_unlock", "file_open", "file_write_at", "file_close"),)


def test_calls_and_waiting_are_summed_by_call_site_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    program = compiled(mpi, "local_calls.c", "-g")
    called = [program, tmp_path / "data", tmp_path / "shared"]
    run_mpi(mpi, 2, prepare_run(["-q", "-o", folder], called), check=True)
    trace = mpiprof.open(folder)
    assert trace.is_complete and not trace.problems
    rows = {(row["rank"], row["operation"]): row for row in trace.local_sums.to_dict("records")}
    epochs = {0: ("win_start", "put", "win_complete"), 1: ("win_post", "win_wait")}
    expected = {(rank, name): STEPS for rank, names in epochs.items() for name in names}
    expected |= {(0, name): 1 for name in OTHERS}
    assert {key: rows[key]["calls"] for key in expected if key in rows} == expected
    assert not {name for _, name in rows} & {"finalize", "barrier"}
    moved = {
        (row["rank"], row["operation"]): (row["sent"], row["received"])
        for row in trace.local_sums.to_dict("records")
        if trace.tables.communicators[row["communicator"]].origin == "file"
    }
    assert moved == {
        (0, "file_iwrite_at"): (12, 0),
        (0, "file_iread_all"): (0, 4),
        (1, "file_read_at"): (0, 8),
        (1, "file_iread_all"): (0, 4),
    }
    waited = sum(rows[0, name]["total_ns"] for name in ("win_start", "win_complete"))
    assert waited >= 0.9 * STEPS * LATE_NS
    assert str(rows[0, "win_start"]["site"]).startswith("local_calls.c:")
    # An interval with such calls is no stretch without calls.
    assert find_call_free_stretch(trace) is None
    title, table = local_section(trace, 20)
    assert title == "Other MPI functions by time" and "MPI_Win_" in table


def test_calls_of_mpi_4_1_are_recorded_on_2_ranks(mpich: Mpi, tmp_path: Path) -> None:
    program = compiled(mpich, "local_calls_4_1.c", "-g")
    words = prepare_run(["-q", "-o", tmp_path / "t"], [program])
    done = run_mpi(mpich, 2, words, check=True)
    trace = mpiprof.open(tmp_path / "t")
    sums = trace.local_sums[trace.local_sums["rank"] == 0]
    buffers = [f.operation for f in functions("4.1") if "_buffer" in f.name or "Buffer_" in f.name]
    assert len(set(buffers)) == 12
    assert dict(zip(sums["operation"], sums["calls"], strict=True)) == dict.fromkeys(buffers, 1)
    # Rank 0 waits in the flush or, if it was late itself, in MPI_Bsend.
    flushes = sums[sums["operation"].isin(["buffer_flush", "comm_flush_buffer"])]
    bsends = trace.message_sums[trace.message_sums["operation"] == "bsend"]
    assert flushes["total_ns"].sum() + bsends["total_ns"].sum() >= LATE_NS
    (ledger,) = trace.ledgers(0)
    assert int(ledger.segments["polls"].sum()) == int(done.stdout)
    messages = trace.messages[trace.messages["complete"] & trace.messages["received"]]
    operation = trace.message_calls["operation"].to_numpy()[messages["call"].to_numpy()]
    assert Counter(operation[messages["rank"] == 0]) == {
        "request_get_status_all": 2,
        "request_get_status_any": 2,
        "request_get_status_some": 1,
        "waitall": 6,
    }


def test_every_local_operation_has_a_class_and_a_name() -> None:
    assert function_name("win_lock_all") == "MPI_Win_lock_all"
    classes = np.unique([call_class(name) for name in LOCAL_OPERATIONS]).tolist()
    assert classes == ["files", "one_sided", "other", "point_to_point"]
    assert call_class("win_fence") == call_class("iallreduce") == "collective"
    assert call_class("waitall") == "completion" and call_class("recv") == "point_to_point"
