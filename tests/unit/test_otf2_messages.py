"""Messages in OTF2 archives: written and read back equal, and as Score-P writes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from otf2.enums import CollectiveOp, RegionRole
from support.dataset_traces import messaging
from support.export_trace import export
from support.message_traces import MessageTrace, call, part, sums
from support.neighbours import make_ring
from support.otf2_archive import NO_ROOT, Archive, read_events, sizes_in_order
from support.program import Program

import mpiprof
from mpiprof.trace import Trace
from mpiprof.trace.messages import COMPLETE, UNKNOWN_PEER, UNSURE, WILDCARD
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

MS = 1_000_000
TABLES = ("message_sums", "message_calls", "messages", "events", "callsites")


def again(trace: Path, folder: Path) -> Trace:
    """Return a trace that has been an archive."""
    done = export(trace, "--to", "otf2", "-o", folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    return mpiprof.open(folder / "traces.otf2")


def check_same(found: Trace, known: Trace) -> None:
    """Compare the tables; numbers of call sites may differ, and sums may have another order."""
    for name in TABLES:
        a, b = (getattr(trace, name) for trace in (found, known))
        if "site_id" in b:
            a, b = (with_sites(t, trace) for t, trace in ((a, found), (b, known)))
        if name == "message_sums":
            keys = ["rank", "operation", "where", "communicator", "peer"]
            a, b = (t.sort_values(keys, ignore_index=True) for t in (a, b))
        pd.testing.assert_frame_equal(a, b, check_categorical=False)


def with_sites(table: pd.DataFrame, trace: Trace) -> pd.DataFrame:
    """Return a table with the frames of call sites in place of their numbers."""
    texts = [json.dumps(frames, sort_keys=True) for frames in trace.tables.sites] + [""]
    table = table.assign(where=[texts[site] for site in table["site_id"]])
    return table.drop(columns="site_id")


@pytest.mark.heavy
def test_messages_come_back_the_same(tmp_path: Path) -> None:
    known = mpiprof.open(messaging(tmp_path / "trace"))
    assert len(known.messages) > 300 and (known.messages["partner"] < 0).any()
    check_same(again(tmp_path / "trace", tmp_path / "archive"), known)


def test_a_wait_for_messages_and_a_collective_comes_back_the_same(tmp_path: Path) -> None:
    program = Program(3)
    for step in range(4):
        started = program.start("iallreduce")
        program.halo(make_ring(3), np.array([0, step, 0]) * MS, 100_000)
        program.wait(started, own_ns=np.array([0, MS, 0]))
    trace = program.write(tmp_path / "trace")
    check_same(again(trace, tmp_path / "archive"), mpiprof.open(trace))


def unusual(folder: Path) -> Trace:
    """Write messages that have no events in OTF2, or only on one side."""
    trace = MessageTrace(3)
    sends = [trace.shape(0, "isend", peer, 5) for peer in (1, 2)]
    wait, probe = trace.shape(0, "waitall", None, 7), trace.shape(1, "probe", 0, 8)
    recv, anywhere = trace.shape(1, "recv", 0, 9), trace.shape(1, "recv", None, 9)
    irecv, test = trace.shape(2, "irecv", 0, 10), trace.shape(2, "testsome", None, 11)
    start = trace.shape(2, "recv_init", 0, 12)
    trace.add_chunk(
        0,
        call(sends[0], 2000, 2500, part(SENT_PART, sends[0], 0, 3, 99, 2000, 0)),
        call(
            wait,
            3000,
            4000,
            part(SENT_PART, sends[0], 0, 3, 99, 2000),
            part(SENT_PART, sends[1], 0, 3, 50, 2600),
            part(SENT_PART, sends[1], 1, 3, 51, 2700),
            part(SENT_PART, sends[0], 0, 5, 7, 2800),
        ),
        thread=0,
    )
    trace.add_chunk(0, sums(sends[0], 4, 900, 396, 0, 500), thread=1)
    trace.add_chunk(
        1,
        call(probe, 2100, 2900, part(RECEIVED_PART, probe, 0, 3, 99, 2100)),
        call(recv, 3000, 3100, part(RECEIVED_PART, recv, 0, 3, 99, 3000)),
        call(
            anywhere,
            3200,
            3300,
            part(
                RECEIVED_PART,
                anywhere,
                0,
                -1,
                -1,
                3200,
                UNSURE | WILDCARD | UNKNOWN_PEER | COMPLETE,
            ),
        ),
        call(probe, 3400, 3500, part(RECEIVED_PART, probe, 0, 5, 7, 3400)),  # receive not logged
        call(recv, 9000, 0, part(RECEIVED_PART, recv, 1, 3, -1, 0, 0)),
    )
    trace.add_chunk(
        2,
        call(
            test,
            3000,
            3500,
            part(RECEIVED_PART, irecv, 0, 3, -1, 1500, 0),
            part(RECEIVED_PART, start, 1, 3, 51, 1600),
        ),
        call(test, 3600, 4200, part(RECEIVED_PART, irecv, 0, 3, 50, 1500)),
        call(test, 4300, 4400),
    )
    return trace.write(folder)


def test_messages_outside_the_format_come_back_the_same(tmp_path: Path) -> None:
    known = unusual(tmp_path / "trace")
    found = again(tmp_path / "trace", tmp_path / "archive")
    assert (known.messages["partner"] >= 0).sum() > 5
    for name in ("message_sums", "message_calls", "messages"):
        a, b = (with_sites(getattr(trace, name), trace) for trace in (found, known))
        pd.testing.assert_frame_equal(a, b)


# ---- the events that other tools read


def print_events(anchor: Path) -> list[tuple[str, int, dict[str, str]]]:
    """Return kind, location and fields of each event that otf2-print prints."""
    done = subprocess.run(["otf2-print", anchor], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    events = []
    for line in done.stdout.splitlines():
        if match := re.match(r"(MPI_\w+|ENTER|LEAVE)\s+(\d+)\s+(\d+)\s*(.*)", line):
            fields = dict(re.findall(r"(\w+): ([^,]+)", match[4]))
            events.append((match[1], int(match[2]), fields))
    return events


@pytest.mark.heavy
@pytest.mark.parametrize("make", [messaging, unusual])
def test_sends_and_receives_match_in_order(tmp_path: Path, make: Any) -> None:
    """As tools match them: the n-th send with the receive that was posted as the n-th."""
    if shutil.which("otf2-print") is None:
        pytest.skip("otf2-print is not installed (Debian: otf2-tools)")
    make(tmp_path / "trace")
    known = again(tmp_path / "trace", tmp_path / "archive")
    anchor = tmp_path / "archive" / "traces.otf2"
    sent, received = sizes_in_order(anchor)
    assert sent == received
    pairs = {tuple(sorted(p)) for p in known.messages["partner"].items() if p[1] >= 0}
    assert sum(map(len, sent.values())) > 0 and len(pairs) > 0
    printed = print_events(anchor)
    counts = {k: sum(e[0] == k for e in printed) for k in (
        "MPI_SEND", "MPI_ISEND", "MPI_ISEND_COMPLETE", "MPI_IRECV_REQUEST", "MPI_RECV", "MPI_IRECV"
    )}  # fmt: skip
    assert counts["MPI_SEND"] + counts["MPI_ISEND"] == counts["MPI_RECV"] + counts["MPI_IRECV"]
    assert counts["MPI_IRECV_REQUEST"] == counts["MPI_IRECV"] > 0
    assert counts["MPI_ISEND_COMPLETE"] == counts["MPI_ISEND"] > 0


def test_a_request_is_open_from_its_start_to_its_end(tmp_path: Path) -> None:
    unusual(tmp_path / "trace")
    assert export(tmp_path / "trace", "--to", "otf2", "-o", tmp_path / "archive").returncode == 0
    open_: set[Any] = set()
    for rank, event in read_events(tmp_path / "archive" / "traces.otf2"):
        kind = type(event).__name__
        key = (rank, getattr(event, "request_id", None))
        if kind in ("MpiIsend", "MpiIrecvRequest"):
            assert key not in open_
            open_.add(key)
        elif kind == "MpiRequestTest":
            assert key in open_
        elif kind in ("MpiIsendComplete", "MpiIrecv"):
            open_.remove(key)
    assert not open_


# ---- archives of Score-P


def score_p(folder: Path) -> Path:
    """Write a ring exchange of 3 ranks with requests, then a blocking message from 0 to 2."""
    with Archive(folder, 3) as archive:
        role = RegionRole.POINT2POINT
        names = ("Irecv", "Isend", "Waitall", "Send", "Recv")
        regions = {name: archive.region(f"MPI_{name}", role) for name in names}
        for rank in range(3):
            events, left, right = archive.events(rank), (rank - 1) % 3, (rank + 1) % 3
            archive.collective(rank, "MPI_Init", 5, 10, CollectiveOp.CREATE_HANDLE, NO_ROOT, 0, 0)
            events.enter(20, archive.main)
            events.enter(100 + rank, regions["Irecv"])
            events.mpi_irecv_request(105, 70)
            events.leave(110, regions["Irecv"])
            events.enter(120, regions["Isend"])
            events.mpi_isend(121, right, archive.world, 17, 400, 71)
            events.leave(130, regions["Isend"])
            events.enter(200, regions["Waitall"])
            events.mpi_irecv(900, left, archive.world, 17, 400, 70)
            events.mpi_isend_complete(900, 71)
            events.leave(910 + rank, regions["Waitall"])
            if rank == 0:
                events.enter(1000, regions["Send"])
                events.mpi_send(1001, 2, archive.world, 1, 8)
                events.leave(1020, regions["Send"])
            if rank == 2:
                events.enter(950, regions["Recv"])
                events.mpi_recv(1030, 0, archive.world, 1, 8)
                events.leave(1031, regions["Recv"])
            events.leave(5000, archive.main)
    return archive.anchor


def test_messages_of_score_p(tmp_path: Path) -> None:
    trace = mpiprof.open(score_p(tmp_path / "scorep"))
    calls = trace.message_calls
    assert calls["operation"].tolist() == [
        *("irecv", "isend", "waitall", "send"),
        *("irecv", "isend", "waitall"),
        *("irecv", "isend", "waitall", "recv"),
    ]
    assert calls["peer"].tolist() == [2, 1, -1, 2, 0, 2, -1, 1, 0, -1, 0]
    assert calls["messages"].tolist() == [1, 1, 2, 1, 1, 1, 2, 1, 1, 2, 1]
    assert calls["enter_ns"].tolist()[:4] == [100, 120, 200, 1000]
    assert calls["exit_ns"].tolist()[:4] == [110, 130, 910, 1020]
    assert set(calls["site"]) == {"solve.c:12 solve"}
    messages = trace.messages.set_index("call")
    waits = trace.messages[trace.messages["call"].isin([2, 6, 9])]
    assert waits["received"].tolist() == [True, False] * 3
    assert waits["source"].tolist() == [2, 0, 0, 1, 1, 2]
    assert waits["destination"].tolist() == [0, 1, 1, 2, 2, 0]
    assert waits["posted_ns"].tolist() == [100, 120, 101, 120, 102, 120]
    assert set(waits["bytes"]) == {400} and set(waits["tag"]) == {17}
    assert waits["complete"].all() and set(waits["number"]) == {0}
    assert (trace.messages["partner"] >= 0).all()
    assert messages["destination"][3] == 2 and messages["source"][10] == 0
    assert messages["number"][3] == messages["number"][10] == 0
    assert trace.is_complete


def test_sums_of_score_p(tmp_path: Path) -> None:
    sums_ = mpiprof.open(score_p(tmp_path / "scorep")).message_sums
    of_zero = sums_[sums_["rank"] == 0].set_index("operation")
    assert of_zero["calls"].to_dict() == {"irecv": 1, "isend": 1, "waitall": 1, "send": 1}
    assert of_zero["total_ns"].to_dict() == {"irecv": 10, "isend": 10, "waitall": 710, "send": 20}
    assert of_zero["sent"].to_dict() == {"irecv": 0, "isend": 400, "waitall": 0, "send": 8}
    assert of_zero["received"].to_dict() == {"irecv": 400, "isend": 0, "waitall": 0, "send": 0}
    assert sums_["longest_ns"].max() == 712
