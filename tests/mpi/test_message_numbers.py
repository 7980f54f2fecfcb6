"""A message has the same number on both sides, or its receiver marks the number as uncertain.

All on 2 ranks. The messages of a case have different sizes, which show a wrong partner.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support.compilation import compiled
from support.mpis import Mpi

import mpiprof
from mpi.test_messages import recorded, with_operation

# As in messages_numbers.c.
COPIES, STARTS, PARTITIONED_BYTES, TAG, LONGEST = 100, 2, 20, 5, 1000


def case(mpi: Mpi, name: str, folder: Path) -> mpiprof.Trace:
    """Record one case of messages_numbers.c and return its trace."""
    program = compiled(mpi, "messages_numbers.c", "-pthread")
    recorded(mpi, 2, [program, name], folder / "trace", "all")
    trace = mpiprof.open(folder / "trace")
    assert trace.is_complete
    assert trace.problems == []
    assert (trace.message_calls["exit_ns"] != 0).all()
    return trace


def receives(trace: mpiprof.Trace) -> pd.DataFrame:
    """Return the received messages of rank 0 by time, with the bytes of their partners."""
    messages = with_operation(trace)
    found = messages[messages["received"] & messages["complete"] & (messages["rank"] == 0)]
    return found.assign(partner_bytes=messages["bytes"].reindex(found["partner"]).to_numpy())


@pytest.mark.parametrize(
    ("name", "sure"),
    [
        ("freed", [False]),
        ("truncated", [True, False]),
        ("opposite_waits", [False, False, True]),
        ("blocking_beside", [False, False, True]),
        ("earlier_receive", [True, True]),
        ("cancelled", [False, True]),
        ("cancelled_alone", [False, False, True]),
        ("cancelled_first", [False, False]),
    ],
)
def test_doubtful_numbers_are_marked(name: str, sure: list[bool], mpi: Mpi, tmp_path: Path) -> None:
    found = receives(case(mpi, name, tmp_path))
    if name == "truncated" and mpi.name == "mpich":  # MPI_Recv returns MPI_SUCCESS
        sure = [True, True, True]
    assert found["sure"].tolist() == sure
    certain = found[found["partner"] >= 0]
    assert certain["partner_bytes"].tolist() == certain["bytes"].tolist()
    assert len(certain) == sum(sure)


def test_a_receive_that_is_cancelled_too_late(mpi: Mpi, tmp_path: Path) -> None:
    found = receives(case(mpi, "cancelled_late", tmp_path))
    found = found[found["operation"] != "probe"]
    assert found["bytes"].tolist() == found["partner_bytes"].tolist() == [1, 2]
    assert found["sure"].all()


def test_calls_on_the_null_process_have_no_message(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "null_process", tmp_path)
    messages = with_operation(trace)
    columns = ["operation", "rank", "source", "destination", "bytes", "sure"]
    assert sorted(messages[columns].to_numpy().tolist()) == [
        ["recv", 0, 1, 0, 1, True],
        ["recv", 1, 0, 1, 1, True],
        ["send", 1, 1, 0, 1, True],
        ["sendrecv_replace", 0, 0, 1, 1, True],
    ]
    calls = trace.message_calls
    assert calls["messages"].sum() == len(messages)
    assert len(calls) == 8  # also those without a message


def test_tags_of_one_class_that_cross(mpi: Mpi, tmp_path: Path) -> None:
    found = receives(case(mpi, "crossed_tags", tmp_path))
    assert found["bytes"].tolist() == [2, 4, 1, 3, 5, 6]
    paired = found[found["partner"] >= 0]
    assert paired["partner_bytes"].tolist() == paired["bytes"].tolist()
    assert paired["bytes"].tolist() == [5, 6]  # both sides have counted the same messages again


def test_restarted_receive_from_any_source(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "persistent", tmp_path)
    sums = trace.message_sums
    rows = sums[sums["operation"] == "recv_init"]
    assert rows[["peer", "calls", "received"]].to_numpy().tolist() == [[-1, STARTS, 0], [1, 0, 3]]
    assert receives(trace)["partner_bytes"].tolist() == [1, 2]


def test_equivalent_communicators_at_once(mpi: Mpi, tmp_path: Path) -> None:
    found = receives(case(mpi, "equivalent", tmp_path))
    assert len(found) == 2 * COPIES
    assert (found["partner_bytes"] == found["bytes"]).all()


@pytest.mark.parametrize("name", ["cancelled_send", "cancelled_short_send"])
def test_messages_after_a_cancelled_send(name: str, mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, name, tmp_path)
    found = receives(trace)
    assert found["bytes"].tolist()[-2:] == [2, 3]
    assert (found["partner"] == -1).all()
    messages = trace.messages
    sent = messages[~messages["received"] & (messages["bytes"] > 1)]
    assert len(sent) > 0
    assert not sent["sure"].any()


def test_threads_that_send_with_one_tag_at_once(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "overlapping", tmp_path)
    messages = with_operation(trace)
    sends = messages[~messages["received"] & (messages["rank"] == 1) & (messages["tag"] == TAG)]
    assert sends.set_index("bytes")["sure"].to_dict() == {1: False, 2: False, 3: True}
    found = receives(trace)
    paired = found[(found["partner"] >= 0) & (found["tag"] == TAG)]
    assert paired[["bytes", "partner_bytes"]].to_numpy().tolist() == [[3, 3]]


def test_messages_whose_status_the_program_ignores(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "ignored_status", tmp_path)
    found = receives(trace)
    assert found["sure"].all()
    assert found["bytes"].tolist() == found["partner_bytes"].tolist() == [1, 2, 3, 4, 5]
    sums = trace.message_sums
    rows = sums[(sums["operation"] == "irecv") & (sums["rank"] == 0) & (sums["peer"] == 1)]
    assert rows["received"].sum() == 1 + 2 + 2 * LONGEST


def test_partitioned_messages_have_a_peer_and_bytes(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "partitioned", tmp_path)
    sums = trace.message_sums
    rows = sums[sums["operation"].isin(["psend_init", "precv_init"])]
    size = STARTS * PARTITIONED_BYTES
    assert sorted(rows[["rank", "peer", "calls", "sent", "received"]].to_numpy().tolist()) == [
        [0, 1, STARTS, 0, size],
        [1, 0, STARTS, size, 0],
    ]
    messages = with_operation(trace)
    waited = messages[messages["operation"] == "wait"]
    columns = ["source", "destination", "tag", "bytes", "complete", "sure"]
    assert waited[columns].to_numpy().tolist() == (
        [[1, 0, 5, PARTITIONED_BYTES, True, True]] * 2 * STARTS
    )
